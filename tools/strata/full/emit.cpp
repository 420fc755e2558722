#include <filesystem>

#include "../commands.h"
#include "../machine_options.h"
#include "../notice.h"
#include "../source.h"
#include "emitters/gpu_run.h"
#include "emitters/program_image.h"
#include "hlo/order_dependence.h"
#include "lax_options.h"
#include "machine/target.h"
#include "module_report.h"
#include "run_hlo.h"
#include "runtime/device_probe.h"
#include "runtime/gpu_device.h"
#include "runtime/memory_layout.h"
#include "runtime/nv_jit_link.h"
#include "runtime/program_folder.h"
#include "support/spelling.h"

namespace strata::cli {
namespace {

struct Options {
  std::string module, form, output, dump_after, only, target = "sm_90a", device = "none";
  bool target_given = false;
  bool explain = false, no_libraries = false;
  SearchFlags search;
};

/// The texts of all kernels, one after the other.
Result<std::string> texts(const emitters::EmittedProgram& program, emitters::Form form) {
  std::string all;
  for (const emitters::ProgramStep& step : program.steps) {
    if (!step.fusion) continue;
    const char* comment = form == emitters::Form::Llvm ? ";" : "//";
    if (const std::string& module = step.fusion->module_name(); module != step.fusion->name()) {
      all += fmt::format("{} {}: the kernels of {}\n", comment, step.fusion->name(), module);
      continue;
    }
    STRATA_TRY(const std::string text, step.fusion->text(form));
    all += fmt::format("{} {}\n{}\n", comment, step.fusion->name(), text);
  }
  return all;
}

/// The folder that `strata run` takes (runtime/program_folder.h): cubins, or PTX where they cannot be made.
Result<int> write_folder(const emitters::EmittedProgram& program, const emitters::EmitOptions& emit_options,
                         double search_seconds, const Options& options) {
  for (const emitters::ProgramStep& step : program.steps) {
    if (step.fusion || step.library || step.lax || step.loop) continue;
    return with_remedy(unsupported("step '{}' has no kernel: {}", step.interpreted->name, step.why_interpreted),
                       "strata run has the interpreter do it");
  }
  emitters::KernelLoader loader;  // cubins
  emitters::LoopLoader loops;
  const Result<std::string> linker = nv_jit_link_version();
  if (!linker && options.form.empty()) {
    notice("note: PTX in place of cubins: {}\n", linker.error().message);
    loader = [](const emitters::EmittedFusion& fusion) { return fusion.text(emitters::Form::Ptx); };
    loops = [](const emitters::LoopKernel& loop) { return loop.ptx(); };
  }
  STRATA_TRY(const emitters::EmittedImage made,
             emitters::image_of(program, emit_options, loader, nullptr, emitters::ResultMemory::Shared, loops));
  STRATA_CHECK(write_program(made.image, options.output));
  const std::string report = emitters::program_report_json(program, emit_options.target, search_seconds);
  for (const char* name : {"report.json", "report.html"})
    STRATA_CHECK(write_module_report(fmt::format("{}/{}", options.output, name), report));
  fmt::print("{}/program.json: {}\n", options.output, describe(layout_of(made.image.manifest)));
  return kSuccess;
}

Result<int> emit(const Options& options) {
  STRATA_TRY(const Target* target, find_target(options.target));
  std::unique_ptr<GpuDevice> device;
  if (options.device == "gpu") {
    STRATA_TRY(device, GpuDevice::open());
    STRATA_TRY(const std::string architecture, architecture_of(*device));
    if (options.target_given && architecture != target->name) {
      return with_remedy(invalid("this machine's {} is of {}, not {}", device->name(), architecture, options.target),
                         "leave --target or --device out");
    }
    STRATA_TRY(target, find_target(architecture));
  }
  if (options.form == "cubin" && options.output.empty()) {
    return with_remedy(invalid("--emit=cubin needs a folder"), "add --output DIR");
  }
  STRATA_TRY(const Source source, read_source(options.module));
  if (std::filesystem::path(options.module).extension() == ".strata") {
    return with_remedy(invalid("'{}' is a µGraph, not HLO", options.module),
                       fmt::format("strata optimize {} generates its code", options.module));
  }
  STRATA_TRY(const hlo::ModuleText read, parse(source));
  const hlo::ModulePtr& module = read.module;
  print_warnings(hlo::order_warnings(*module));
  emitters::EmitOptions emit_options;
  emit_options.target = machine_of(*target, cache_folder(options.search.cache, options.search.no_cache));
  emit_options.only = options.only;
  emit_options.solvers = emitters::Solvers::Assumed;
  const auto libraries = options.no_libraries ? emitters::LibraryUse::Never : emitters::LibraryUse::WhereFaster;
  bool seen = options.dump_after.empty();
  std::vector<std::string> passes;
  std::string dump;
  if (!options.dump_after.empty()) {
    emit_options.observer = [&](const std::string& pass, const std::string& text) {
      passes.push_back(pass);
      if (options.dump_after != "all" && options.dump_after != pass) return;
      seen = true;
      dump += fmt::format("// after {}\n{}\n", pass, text);
    };
  }
  std::optional<ResultCache> cache;
  const emitters::LaxOptions lax = device
                                       ? measured_lax_options(options.search, cache, *device, emit_options, libraries)
                                       : lax_options(options.search, cache);
  STRATA_TRY(const emitters::EmittedProgram program,
             emitters::emit_program(*module, emit_options, libraries, lax, read.aliases));
  const bool folder = options.form == "cubin" || (options.form.empty() && !options.output.empty());
  const bool nothing_asked = options.form.empty() && options.dump_after.empty() && !folder;
  if (options.explain || nothing_asked) fmt::print("{}", emitters::explain(program));
  if (folder && options.dump_after.empty()) return write_folder(program, emit_options, lax.seconds, options);
  std::string text;
  if (!options.form.empty() || !options.dump_after.empty()) {
    const emitters::Form form = options.form == "ptx"                                   ? emitters::Form::Ptx
                                : options.form == "llvm" || !options.dump_after.empty() ? emitters::Form::Llvm
                                                                                        : emitters::Form::Mlir;
    STRATA_TRY(text, texts(program, form));
  }
  if (!seen) {
    return with_remedy(invalid("no pass is named '{}'{}", options.dump_after, did_you_mean(options.dump_after, passes)),
                       "--dump-after=all shows all");
  }
  if (!options.dump_after.empty()) fmt::print("{}", dump);
  if (options.form.empty()) return kSuccess;
  if (options.output.empty()) {
    fmt::print("{}", text);
  } else {
    STRATA_CHECK(write_file(options.output, text));
  }
  return kSuccess;
}

}  // namespace

void add_emit(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("emit", "Generate kernels of an HLO module by the emitters");
  command->add_option("MODULE", options->module, "HLO text; - is the standard input")->required();
  command->add_option("--emit", options->form, "mlir (before any pass), llvm, ptx or cubin")
      ->check(CLI::IsMember({"mlir", "llvm", "ptx", "cubin"}));
  command->add_option("--output", options->output,
                      "file for what --emit makes; of cubins, and without --emit, a folder that strata run takes");
  command->add_option("--dump-after", options->dump_after, "print the IR after this pass, or after all");
  command->add_flag(
      "--explain", options->explain,
      "print for each kernel which emitter, tile and launch, and why; without --emit it is printed anyway");
  command->add_flag("--no-libraries", options->no_libraries, "make kernels of products and convolutions too");
  command->add_option("--only", options->only, "use this emitter alone, on the module as one fusion");
  command->add_option("--target", options->target, "architecture: sm_80 or sm_90a")->capture_default_str();
  command
      ->add_option("--device", options->device,
                   "gpu: choose by measurement on this machine's, for which it is then; none: by the models")
      ->check(CLI::IsMember({"gpu", "none"}))
      ->capture_default_str();
  add_search_options(*command, options->search);
  command->callback([options, command, &action] {
    options->target_given = command->count("--target") > 0;
    action = [options] { return emit(*options); };
  });
}

}  // namespace strata::cli
