#include "run_hlo.h"

#include <algorithm>
#include <complex>

#include "../commands.h"
#include "../emitters.h"
#include "../gpu_times.h"
#include "../machine_options.h"
#include "emitters/gpu_run.h"
#include "emitters/program.h"
#include "hlo/compare.h"
#include "hlo/compute.h"
#include "hlo/evaluate.h"
#include "hlo/npy.h"
#include "hlo/order_dependence.h"
#include "hlo/terms.h"
#include "hlo/typical_arguments.h"
#include "lax_options.h"
#include "module_report.h"
#include "runtime/device_probe.h"
#include "runtime/memory_layout.h"
#include "support/host_memory.h"
#include "support/read_file.h"

namespace strata::cli {
namespace {

using hlo::Literal;

Result<std::vector<Literal>> arguments_of(const hlo::Module& module, const ModuleRunOptions& options) {
  const hlo::Computation& entry = module.entry_computation();
  std::vector<Literal> arguments = hlo::typical_arguments(module, options.seed);
  std::map<std::string, std::string> files = options.inputs;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const hlo::Instruction& parameter = entry[entry.parameters[i]];
    const auto file = files.find(parameter.name);
    if (file == files.end()) continue;
    if (!parameter.shape.is_array()) {
      return with_remedy(invalid("input {} is a tuple, which no file holds", parameter.name),
                         "leave it out of --input: typical values are drawn for it");
    }
    STRATA_TRY(arguments[i], hlo::read_npy(file->second, parameter.shape));
    files.erase(file);
  }
  if (!files.empty()) {
    std::vector<std::string_view> names;
    for (hlo::InstructionId id : entry.parameters) names.push_back(entry[id].name);
    return with_remedy(invalid("'{}' has no parameter '{}'", entry.name, files.begin()->first),
                       fmt::format("its parameters are {}", fmt::join(names, ", ")));
  }
  return arguments;
}

double bytes_of(const hlo::Shape& shape) {
  if (shape.is_array()) return static_cast<double>(shape.element_count()) * hlo::byte_width(shape.type);
  double sum = 0;
  for (const hlo::Shape& element : shape.elements) sum += bytes_of(element);
  return sum;
}

/// Results of Fourier transforms have errors of one size in all elements.
std::optional<std::string> first_difference(const hlo::Module& module, const Literal& actual, const Literal& expected,
                                            double slack) {
  const std::vector<bool> transformed = hlo::transformed_results(module);
  const auto unit = [&](size_t i) { return transformed[i] ? hlo::Unit::Array : hlo::Unit::Element; };
  if (module.entry_computation().root_instruction().opcode != hlo::Opcode::Tuple)
    return hlo::difference(actual, expected, slack, unit(0));
  for (size_t i = 0; i < transformed.size(); ++i) {
    if (const auto found = hlo::difference(actual.elements()[i], expected.elements()[i], slack, unit(i)))
      return fmt::format("element {}: {}", i, *found);
  }
  return std::nullopt;
}

/// Arguments and the result, without which nothing runs.
Result<void> check_memory(const hlo::Computation& entry) {
  double bytes = bytes_of(entry.root_instruction().shape);
  for (hlo::InstructionId id : entry.parameters) bytes += bytes_of(entry[id].shape);
  return check_host_memory(bytes, fmt::format("running '{}'", entry.name));
}

/// The smallest, largest and mean of real numbers, and the first few of any.
std::string summary(const Literal& literal) {
  if (literal.size() == 0) return "empty";
  return hlo::visit_accumulator_type(literal.type(), [&](auto zero) {
    using T = decltype(zero);
    const std::vector<T> values = hlo::load_all<T>(literal);
    const std::vector<T> first(values.begin(), values.begin() + std::min<int64_t>(6, literal.size()));
    if constexpr (std::is_arithmetic_v<T>) {
      double sum = 0;
      for (T value : values) sum += static_cast<double>(value);
      const auto [low, high] = std::minmax_element(values.begin(), values.end());
      const double mean = sum / static_cast<double>(values.size());
      if constexpr (std::is_floating_point_v<T>) {
        return fmt::format("min {:.6g}  max {:.6g}  mean {:.6g}  first {:.6g}", *low, *high, mean,
                           fmt::join(first, " "));
      } else {
        return fmt::format("min {}  max {}  mean {:.6g}  first {}", *low, *high, mean, fmt::join(first, " "));
      }
    } else {
      std::string text = "first";
      for (T value : first) text += fmt::format(" ({:.6g}, {:.6g})", value.real(), value.imag());
      return text;
    }
  });
}

int elided_constants(const hlo::Module& module) {
  int count = 0;
  for (const hlo::Computation& computation : module.computations) {
    for (const hlo::Instruction& instruction : computation.instructions) {
      if (instruction.opcode == hlo::Opcode::Constant) count += instruction.as<hlo::ConstantAttributes>().elided;
    }
  }
  return count;
}

/// Times what results may differ by where the superoptimizer computes a part: it keeps f32 where HLO rounds to 16 bits.
constexpr double kSuperoptimizedSlack = 16;
/// The same where a library rounds operands of f32 to the 11 bits of TF32: their relative error of 2^-11, in the unit
/// of 2e-6 that f32 has here, and twice as much for what is computed from it.
constexpr double kTf32Slack = 512;

struct Emitted {
  Literal result;
  double slack = 1;  ///< what its steps may make results differ by, in times
};

bool is_tf32(const emitters::ProgramStep& step) {
  if (!step.library) return false;
  const auto* product = std::get_if<MatrixProduct>(&step.library->work);
  const auto* convolution = std::get_if<Convolution>(&step.library->work);
  return product != nullptr ? product->tf32 : convolution != nullptr && convolution->tf32;
}

double slack_of(const emitters::EmittedProgram& program, bool on_gpu) {
  double slack = 1;
  for (const emitters::ProgramStep& step : program.steps) {
    if (step.lax) slack = std::max(slack, kSuperoptimizedSlack);
    if (on_gpu && is_tf32(step)) slack = std::max(slack, kTf32Slack);
    if (!step.loop) continue;
    for (const auto& part : {step.loop->body, step.loop->condition}) {
      if (part) slack = std::max(slack, slack_of(*part, on_gpu));
    }
  }
  return slack;
}

/// Times of the steps by name, and of the whole: as a CUDA graph, where it can be one.
Result<emitters::MeasuredSteps> measured_steps(const GpuDevice& device, const GpuProgram& program,
                                               const GpuBuffers& buffers) {
  STRATA_TRY(const auto times, program.profile(buffers, kProfileRuns));
  emitters::MeasuredSteps made{device.name(), {}, 0};
  for (size_t i = 0; i + 1 < times.size(); ++i) made.steps[times[i].name] += times[i].microseconds;
  made.all = times.back().microseconds;
  if (const auto replayed = program.microseconds(std::span(&buffers, 1))) made.all = *replayed;
  return made;
}

Result<Emitted> run_on_gpu(const GpuDevice& device, const hlo::ModuleText& read, const std::vector<Literal>& arguments,
                           const ModuleRunOptions& options) {
  emitters::EmitOptions emit_options;
  const auto libraries = options.libraries ? emitters::LibraryUse::WhereFaster : emitters::LibraryUse::Never;
  STRATA_TRY(const std::string architecture, architecture_of(device));
  STRATA_TRY(const Target* target, find_target(architecture));
  emit_options.target = machine_of(*target, cache_folder(options.search.cache, options.search.no_cache));
  emit_options.solvers = emitters::Solvers::WhereFound;
  std::optional<ResultCache> cache;
  const emitters::LaxOptions lax = measured_lax_options(options.search, cache, device, emit_options, libraries);
  STRATA_TRY(emitters::EmittedProgram program,
             emitters::emit_program(*read.module, emit_options, libraries, lax, read.aliases));
  for (const std::string& note : program.notes) notice("not superoptimized: {}\n", note);
  const std::optional<double> estimated = emitters::estimated_microseconds(program);
  std::optional<emitters::EmittedProgram> reported;
  if (!options.report.empty()) reported = program;
  const double slack = slack_of(program, true);
  STRATA_TRY(const std::unique_ptr<emitters::GpuRunner> runner,
             emitters::GpuRunner::load(device, std::move(program), emit_options));
  for (const std::string& note : runner->notes()) notice("note: {}\n", note);
  STRATA_CHECK(runner->choose_algorithms(open_cache(options.search, cache)));
  STRATA_TRY(Literal result, runner->run(arguments));
  if (options.profile) STRATA_CHECK(print_profile(runner->gpu(), runner->buffers()));
  if (reported) {
    std::optional<emitters::MeasuredSteps> measured;
    if (options.profile) {
      STRATA_TRY(measured, measured_steps(device, runner->gpu(), runner->buffers()));
    }
    STRATA_CHECK(write_module_report(
        options.report, emitters::program_report_json(*reported, emit_options.target, lax.seconds, measured)));
  }
  if (options.profile && estimated) fmt::print("estimated by the model: {:.2f} µs\n", *estimated);
  return Emitted{std::move(result), slack};
}

/// By kernels, where `--device` says.
Result<Emitted> run_emitted(const hlo::ModuleText& read, const std::vector<Literal>& arguments,
                            const ModuleRunOptions& options) {
  if (options.device != "cpu") {
    Result<std::unique_ptr<GpuDevice>> device = GpuDevice::open();
    if (!device && options.device == "gpu") return tl::unexpected(device.error());
    if (options.device == "auto")
      notice("on {}\n", device ? (*device)->name() : fmt::format("the CPU: {}", device.error().message));
    if (device) return run_on_gpu(**device, read, arguments, options);
  }
  emitters::EmitOptions emit_options;
  const auto libraries = options.libraries ? emitters::LibraryUse::WhereFaster : emitters::LibraryUse::Never;
  std::optional<ResultCache> cache;
  const emitters::LaxOptions lax = lax_options(options.search, cache);
  STRATA_TRY(const emitters::EmittedProgram program,
             emitters::emit_program(*read.module, emit_options, libraries, lax));
  const auto own = std::count_if(program.steps.begin(), program.steps.end(), [](const emitters::ProgramStep& step) {
    return step.interpreted && !step.lax && !step.loop;
  });
  if (options.check && own > 0)
    notice("note: {} of {} steps are the interpreter's own: --check says nothing about them\n", own,
           program.steps.size());
  if (!options.report.empty()) {
    STRATA_CHECK(
        write_module_report(options.report, emitters::program_report_json(program, emit_options.target, lax.seconds)));
  }
  STRATA_TRY(Literal result, emitters::run_on_cpu(program, arguments));
  return Emitted{std::move(result), slack_of(program, false)};
}

}  // namespace

Result<void> report(const std::string& name, const Literal& literal, const std::string& output) {
  if (literal.shape().is_tuple()) {
    for (size_t i = 0; i < literal.elements().size(); ++i) {
      STRATA_CHECK(report(fmt::format("{}.{}", name, i), literal.elements()[i], output));
    }
    return {};
  }
  if (!literal.shape().is_array()) return {};
  fmt::print("{}: {}  {}\n", name, hlo::to_string_without_layout(literal.shape()), summary(literal));
  if (output.empty()) return {};
  return write_file(output + "/" + name + ".npy", hlo::npy_bytes(literal));
}

void print_warnings(const std::vector<Error>& warnings) {
  for (const Error& warning : warnings) {
    std::string text = warning.to_string();
    if (const size_t at = text.find("error: "); at != std::string::npos) text.replace(at, 7, "warning: ");
    notice("{}\n", text);
  }
}

Result<hlo::ModuleText> parse(const Source& source) {
  return hlo::parse_module_text(source.text, shown_path(source.path));
}

Result<int> run_module(const Source& source, const ModuleRunOptions& options) {
  STRATA_TRY(const hlo::ModuleText read, parse(source));
  if (options.profile && (options.device == "cpu" || options.interpret)) {
    return with_remedy(invalid("--profile times kernels on a GPU"), "use it with --device=gpu or auto");
  }
  if (options.interpret && !options.check && options.device == "gpu") {
    return with_remedy(invalid("--interpret runs nothing on a GPU"),
                       "leave one of the two out, or add --check to compare both");
  }
  if (!options.report.empty() && options.interpret && !options.check) {
    return with_remedy(invalid("--report is of kernels, and --interpret makes none"), "leave one of the two out");
  }
  const hlo::ModulePtr& module = read.module;
  const hlo::Computation& entry = module->entry_computation();
  if (const int count = elided_constants(*module); count > 0) {
    notice(
        "warning: the text leaves out the elements of {} constant{}; they are made up\n"
        "  print the module with print_large_constants (HloPrintOptions)\n",
        count, count == 1 ? "" : "s");
  }
  STRATA_CHECK(check_memory(entry));
  STRATA_TRY(const std::vector<Literal> arguments, arguments_of(*module, options));
  const bool emitted = !options.interpret || options.check;
  if (emitted) print_warnings(hlo::order_warnings(*module));
  Emitted made;
  if (emitted) {
    STRATA_TRY(made, run_emitted(read, arguments, options));
  } else {
    STRATA_TRY(made.result, hlo::evaluate(*module, arguments));
  }
  const Literal& result = made.result;
  if (!options.output.empty()) STRATA_CHECK(make_folder(options.output));
  for (size_t i = 0; i < arguments.size() && options.with_inputs && !options.output.empty(); ++i) {
    const hlo::Instruction& parameter = entry[entry.parameters[i]];
    if (!parameter.shape.is_array()) continue;
    STRATA_CHECK(write_file(options.output + "/" + parameter.name + ".npy", hlo::npy_bytes(arguments[i])));
  }
  STRATA_CHECK(report(entry.root_instruction().name, result, options.output));
  if (!options.check) return kSuccess;
  STRATA_TRY(const Literal expected, hlo::evaluate(*module, arguments));
  STRATA_TRY(const hlo::ScatterFacts facts, hlo::scatter_facts(*module, arguments));
  print_warnings(facts.broken_promises);
  const double slack =
      options.tolerance * made.slack *
      std::max(hlo::slack_of_terms(hlo::most_terms(*module)), hlo::slack_of_narrow_sums(facts.most_narrow_updates));
  const std::optional<std::string> different = first_difference(*module, result, expected, slack);
  fmt::print("{}\n", different ? "differs from the interpreter: " + *different : "agrees with the interpreter");
  return different ? kDifferent : kSuccess;
}

}  // namespace strata::cli
