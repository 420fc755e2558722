#include <filesystem>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "emitters/program.h"
#include "hlo/order_dependence.h"
#include "lax_options.h"
#include "machine/target.h"
#include "machine_options.h"
#include "run_hlo.h"
#include "runtime/nv_jit_link.h"
#include "source.h"
#include "support/spelling.h"

namespace strata::cli {
namespace {

struct Options {
  std::string module, form, output, dump_after, only, target = "sm_90a";
  bool explain = false, no_libraries = false;
  SearchFlags search;
};

/// The texts of all kernels, one after the other.
Result<std::string> texts(const emitters::EmittedProgram& program, emitters::Form form) {
  std::string all;
  for (const emitters::ProgramStep& step : program.steps) {
    if (!step.fusion) continue;
    STRATA_TRY(const std::string text, step.fusion->text(form));
    const char* comment = form == emitters::Form::Llvm ? ";" : "//";
    all += fmt::format("{} {}\n{}\n", comment, step.fusion->name(), text);
  }
  return all;
}

nlohmann::ordered_json fill_of(const hlo::Literal& value) {
  nlohmann::ordered_json bytes = nlohmann::ordered_json::array();
  for (size_t i = 0; i < value.byte_size(); ++i) bytes.push_back(static_cast<int>(value.bytes()[i]));
  return bytes;
}

/// NAME.cubin of each fusion, and program.json: the buffers (with the entry's parameter that each holds), the fusions
/// in order with what must be copied or filled before and their kernels, and the buffers of the results. A kernel's
/// arguments are the fusion's inputs, outputs and temporaries. Libraries of the driver are enough to run it:
/// bench/gpu/emitters.py does.
Result<int> write_program(const emitters::EmittedProgram& program, const Options& options) {
  STRATA_CHECK(make_folder(options.output));
  nlohmann::ordered_json json;
  for (const emitters::ProgramBuffer& buffer : program.buffers) {
    json["buffers"].push_back({{"type", std::string(hlo::name(buffer.shape.type))},
                               {"dims", buffer.shape.dims},
                               {"minor_to_major", buffer.shape.minor_to_major},
                               {"parameter", buffer.parameter}});
  }
  for (const emitters::ProgramStep& step : program.steps) {
    if (step.lax) {
      return with_remedy(unsupported("a step is the superoptimizer's"), "add --search-seconds 0 to make kernels of it");
    }
    if (step.library) {
      return with_remedy(unsupported("a step is {}'s", library_of(step.library->work)),
                         "add --no-libraries to make a kernel of it");
    }
    if (!step.fusion) {
      return with_remedy(unsupported("step '{}' has no kernel: {}", step.interpreted ? step.interpreted->name : "",
                                     step.why_interpreted),
                         "strata run has the interpreter do it");
    }
    const emitters::Decision& decision = step.fusion->decision();
    STRATA_TRY(const std::string ptx, step.fusion->text(emitters::Form::Ptx));
    STRATA_TRY(const std::vector<char> cubin, link_ptx(ptx, options.target));
    STRATA_CHECK(write_file(options.output + "/" + step.fusion->name() + ".cubin",
                            std::string_view(cubin.data(), cubin.size())));
    const std::vector<std::string> names = step.fusion->kernel_names();
    nlohmann::ordered_json kernels = nlohmann::ordered_json::array();
    for (size_t i = 0; i < names.size(); ++i) {
      const emitters::Launch& launch = decision.launches[i];
      kernels.push_back({{"name", names[i]},
                         {"blocks", launch.blocks},
                         {"threads", launch.threads},
                         {"shared_bytes", launch.shared_bytes}});
    }
    nlohmann::ordered_json before = nlohmann::ordered_json::array();
    for (const emitters::Preparation& one : decision.preparations) {
      const char* to = one.temporary ? "to_temporary" : "to";
      if (one.kind == emitters::Preparation::Kind::Copy) {
        before.push_back({{"copy", one.input}, {to, one.output}});
      } else {
        before.push_back({{"fill", fill_of(one.value)}, {to, one.output}});
      }
    }
    json["steps"].push_back({{"fusion", step.fusion->name()},
                             {"emitter", decision.emitter},
                             {"kernels", kernels},
                             {"inputs", step.inputs},
                             {"outputs", step.outputs},
                             {"temporaries", step.temporaries},
                             {"before", before}});
  }
  json["results"] = program.results;
  STRATA_CHECK(write_file(options.output + "/program.json", json.dump(1) + "\n"));
  fmt::print("{}/program.json\n", options.output);
  return kSuccess;
}

Result<int> emit(const Options& options) {
  STRATA_TRY(const Target* target, find_target(options.target));
  if (!options.output.empty() && options.form.empty()) {
    return tl::unexpected(
        Error{ErrorCode::InvalidInput,
              fmt::format("--output {} has nothing to hold: --emit says what is written", options.output),
              "add --emit=mlir, --emit=llvm, --emit=ptx or --emit=cubin",
              {}});
  }
  if (options.form == "cubin" && options.output.empty()) {
    return with_remedy(invalid("--emit=cubin needs a folder"), "add --output DIR");
  }
  STRATA_TRY(const Source source, read_source(options.module));
  if (std::filesystem::path(options.module).extension() == ".strata") {
    return with_remedy(invalid("'{}' is a µGraph, not HLO", options.module),
                       fmt::format("strata optimize {} generates its code", options.module));
  }
  STRATA_TRY(const hlo::ModulePtr module, source.module());
  print_warnings(hlo::order_warnings(*module));
  emitters::EmitOptions emit_options;
  emit_options.target = machine_of(*target, cache_folder(options.search.cache, options.search.no_cache));
  emit_options.only = options.only;
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
  const emitters::LaxOptions lax = lax_options(options.search, cache);
  STRATA_TRY(const emitters::EmittedProgram program, emitters::emit_program(*module, emit_options, libraries, lax));
  const bool nothing_asked = options.form.empty() && options.dump_after.empty();
  if (options.explain || nothing_asked) fmt::print("{}", emitters::explain(program));
  if (options.form == "cubin") return write_program(program, options);
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
  command->add_option("--output", options->output, "file for what --emit makes, or folder for cubins");
  command->add_option("--dump-after", options->dump_after, "print the IR after this pass, or after all");
  command->add_flag(
      "--explain", options->explain,
      "print for each kernel which emitter, tile and launch, and why; without --emit it is printed anyway");
  command->add_flag("--no-libraries", options->no_libraries, "make kernels of products and convolutions too");
  command->add_option("--only", options->only, "use this emitter alone, on the module as one fusion");
  command->add_option("--target", options->target, "architecture: sm_80 or sm_90a")->capture_default_str();
  add_search_options(*command, options->search);
  command->callback([options, &action] { action = [options] { return emit(*options); }; });
}

}  // namespace strata::cli
