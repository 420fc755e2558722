#include "emitters/lax/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "emitters/fusion/pass.h"
#include "ir/text.h"
#include "runtime/compile.h"
#include "superopt/codegen/libraries.h"
#include "superopt/superoptimize.h"
#include "superopt/tune.h"

namespace strata::emitters {
namespace {

/// Times the time for a part, for each proof by the solver; and how many graphs of a part are proved.
constexpr double kSolverShare = 2;
constexpr int kCandidates = 4;

/// What became of a part: a step, or why there is none.
struct Outcome {
  std::optional<LaxStep> step;
  std::string why_not;
};

/// Whether a value lies between kernels in fewer bits than f32.
bool rounds_between_kernels(const Graph& graph) {
  return std::any_of(graph.operations().begin(), graph.operations().end(), [&](const Operation& op) {
    if (!op.body && op_def(op.kind).traits.products > 1) return true;  // a library may make a launch of each
    if (op.kind == OpKind::Transpose && graph.tensor(op.operands[0]).producer < 0) return false;
    return std::any_of(op.results.begin(), op.results.end(), [&](TensorId id) {
      const bool output = std::find(graph.outputs().begin(), graph.outputs().end(), id) != graph.outputs().end();
      return !output && size_of(graph.type(id).dtype) < size_of(DType::F32);
    });
  });
}

/// Whether any block brings sums to a common maximum.
bool rescales(const Graph& graph) {
  return std::any_of(graph.operations().begin(), graph.operations().end(), [](const Operation& op) {
    return op.kind == OpKind::AccumRescale || (op.body && rescales(*op.body));
  });
}

/// Whether an exponent depends on an input otherwise than by a product of matrices.
bool exponentiates_inputs(const Graph& program) {
  std::vector<bool> read(program.tensors().size(), false);
  for (const TensorId id : program.inputs()) read[static_cast<size_t>(id)] = true;
  for (const Operation& op : program.operations()) {
    const bool any =
        std::any_of(op.operands.begin(), op.operands.end(), [&](TensorId id) { return read[static_cast<size_t>(id)]; });
    if (op.kind == OpKind::Exp && any) return true;
    read[static_cast<size_t>(op.results[0])] = any && !multiplies_matrices(op.kind);
  }
  return false;
}

/// "block 32×4, loop 4: matmul scale … → matmul".
std::string describe(const Graph& graph) {
  std::vector<std::string> kernels;
  for (const Operation& op : graph.operations()) {
    if (!op.body) {
      const bool view = op.kind == OpKind::Transpose && graph.tensor(op.operands[0]).producer < 0;
      if (!view) kernels.emplace_back(op.name());
      continue;
    }
    std::vector<std::string> operators;
    for (const Operation& inner : op.body->operations()) {
      if (inner.kind == OpKind::InIter || inner.kind == OpKind::OutSaver) continue;
      if (!inner.body) {
        operators.emplace_back(inner.name());
        continue;
      }
      for (const Operation& last : inner.body->operations())
        if (last.kind != OpKind::InIter && last.kind != OpKind::OutSaver) operators.emplace_back(last.name());
    }
    const LaunchShape& launch = op.body->launch();
    kernels.push_back(fmt::format("block {}{}: {}", fmt::join(launch.grid, "×"),
                                  launch.loop > 1 ? fmt::format(", loop {}", launch.loop) : "",
                                  fmt::join(operators, " ")));
  }
  return fmt::format("{}", fmt::join(kernels, " → "));
}

/// By the models: kernels of what is left when libraries have what they compute sooner, and that.
struct Times {
  double all = 0;
  /// Of the kernel that computes the result, if it is element by element: what reads the result could do that too.
  double last = 0;
};
Times times_without(const hlo::Module& part, const Target& target, LibraryUse libraries) {
  LibraryCalls calls{part, {}, {}};
  if (libraries != LibraryUse::Never)
    calls = find_library_calls(prepare_for_libraries(part, target, libraries), target, libraries);
  const hlo::InstructionId result = calls.module.entry_computation().root;
  Times times;
  for (const ProgramPart& one : fuse(calls.module, target)) {
    const hlo::Computation& computation = one.module.entry_computation();
    const hlo::Instruction& root = computation.root_instruction();
    const auto call = calls.calls.find(root.name);
    if (root.opcode == hlo::Opcode::Call && call != calls.calls.end()) {
      times.all += 1e6 * library_seconds(call->second.work, target);
      continue;
    }
    times.all += one.microseconds;
    const bool elementwise = std::none_of(
        computation.instructions.begin(), computation.instructions.end(),
        [](const hlo::Instruction& it) { return it.opcode == hlo::Opcode::Reduce || it.opcode == hlo::Opcode::Dot; });
    if (elementwise && one.outputs.size() == 1 && one.outputs[0].instruction == result) times.last = one.microseconds;
  }
  return times;
}

/// Whether a kernel of the emitters reads the value.
bool is_read_by_kernel(const hlo::Computation& entry, hlo::InstructionId value) {
  return std::any_of(entry.instructions.begin(), entry.instructions.end(), [&](const hlo::Instruction& it) {
    const bool reads = std::find(it.operands.begin(), it.operands.end(), value) != it.operands.end();
    return reads && it.opcode != hlo::Opcode::Dot && it.opcode != hlo::Opcode::Convolution &&
           it.opcode != hlo::Opcode::Tuple;
  });
}

/// By input of a graph that computes the program, which of the part's inputs it is.
std::optional<std::vector<int>> inputs_of(const Graph& graph, const LaxProgram& program) {
  const std::vector<TensorId>& given = program.graph->inputs();
  std::vector<int> result;
  for (const TensorId id : graph.inputs()) {
    const std::optional<TensorId> same = program.graph->find_tensor(graph.tensor(id).name);
    const auto at = same ? std::find(given.begin(), given.end(), *same) : given.end();
    if (at == given.end()) return std::nullopt;
    result.push_back(program.inputs[static_cast<size_t>(at - given.begin())]);
  }
  return result;
}

/// Of the transpose behind a part whose result lies otherwise, by the model.
double microseconds_of_transpose(const LaxPart& part, const Target& target) {
  if (std::is_sorted(part.permutation.begin(), part.permutation.end())) return 0;
  const hlo::Shape& shape = part.module.entry_computation().root_instruction().shape;
  const double bytes = 2.0 * static_cast<double>(shape.element_count()) * hlo::byte_width(shape.type);
  return 1e6 * (target.kernel_seconds() + bytes / target.rates.copy_bandwidth);
}

class Searcher {
 public:
  Searcher(const Target& target, const LaxOptions& options, LibraryUse libraries)
      : target_(target), options_(options), libraries_(libraries) {}

  /// `is_read`: by a kernel of the emitters.
  Outcome run(const LaxPart& part, bool is_read) const {
    SuperoptimizeOptions work;
    work.search.target = &target_;
    work.search.threads = options_.threads;
    work.search.time_limit = options_.seconds;
    work.solver_time_limit = std::min(work.solver_time_limit, kSolverShare * options_.seconds);
    work.candidates = kCandidates;
    work.passes.libraries = libraries_ != LibraryUse::Never;
    work.cache = options_.cache;
    Result<Superoptimized> found = superoptimize(part.program.graph, work);
    if (!found) return {std::nullopt, found.error().message};
    const GraphPtr first = found->candidates.front().graph;
    const std::string against = objection(*first, part.program);
    std::erase_if(found->candidates, [&](const Candidate& c) { return !objection(*c.graph, part.program).empty(); });
    if (found->candidates.empty()) return {std::nullopt, "nothing else was found, and " + against};
    if (found->candidates.front().graph != first) {
      take_first_proved(*found, work, Deadline());
      if (const auto made = generate(*found, work); !made) return {std::nullopt, made.error().message};
    }
    const std::string measured = measure(*found, work);
    const std::string against_fastest = objection(*found->candidates.front().graph, part.program);
    if (!against_fastest.empty()) return {std::nullopt, "the fastest that was measured: " + against_fastest};
    return decide(part, is_read, *found, measured);
  }

 private:
  Result<void> generate(Superoptimized& found, const SuperoptimizeOptions& work) const {
    const Candidate& best = found.candidates.front();
    Passes passes = work.passes;
    passes.grouping = false;  // as of programs that tuning did not time
    STRATA_TRY(found.code, generate_cuda(*best.graph, target_, best.schedules, passes));
    found.compile_error.reset();
    if (auto cubin = cubin_of(found.code.source, target_, work.cache)) {
      found.cubin = *std::move(cubin);
    } else {
      found.compile_error = cubin.error();
    }
    return {};
  }

  /// Makes the fastest the result; says how many were measured, or why none.
  std::string measure(Superoptimized& found, const SuperoptimizeOptions& work) const {
    if (options_.measure_seconds <= 0) return {};
    TuneOptions tuning;
    tuning.target = &target_;
    tuning.seconds = options_.measure_seconds;
    tuning.threads = options_.threads;
    tuning.passes = work.passes;
    tuning.cache = work.cache;
    Result<Tuning> made = tune(found, tuning);
    if (made) {
      if (const auto taken = take_chosen(found, *made, tuning, work); !taken)
        return ", not measured: " + taken.error().message;
      return fmt::format(", the fastest of {} measured", made->count(MeasureVerdict::Right));
    }
    return ", not measured: " + made.error().message;
  }

  Outcome decide(const LaxPart& part, bool is_read, const Superoptimized& found, const std::string& measured) const {
    const Candidate& best = found.candidates.front();
    LaxStep step;
    step.graph = best.graph;
    std::optional<std::vector<int>> inputs = inputs_of(*best.graph, part.program);
    if (!inputs) return {std::nullopt, "its µGraph has inputs that the part has not"};
    step.inputs = *std::move(inputs);
    Result<LaunchManifest> manifest = parse_launch_manifest(launch_manifest(found.code));
    if (!manifest) return {std::nullopt, manifest.error().message};
    step.manifest = *std::move(manifest);
    step.cubin.assign(found.cubin.begin(), found.cubin.end());

    double with = best.cost.seconds * 1e6;
    const Times others = times_without(part.module, target_, libraries_);
    double without = others.all;
    std::string how = "by the model";
    if (options_.microseconds) {
      if (found.compile_error) return {std::nullopt, found.compile_error->message};
      const Result<double> mine = options_.microseconds(part.permuted, &step);
      const Result<double> theirs = options_.microseconds(part.module, nullptr);
      if (!mine || !theirs) return {std::nullopt, (mine ? theirs : mine).error().message};
      with = *mine;
      without = *theirs;
      how = "measured";
    }
    with += microseconds_of_transpose(part, target_);
    if (is_read) without -= others.last;
    const std::string times = fmt::format("{:.3g} µs {}; kernels and libraries take {:.3g}", with, how, without);
    const std::string what = fmt::format("{}{}", describe(*best.graph), measured);
    if (with >= without) return {std::nullopt, fmt::format("{} ({})", times, what)};
    step.reason =
        fmt::format("{}; {}; proof: {}", times, what,
                    best.verification.method == ProofMethod::Solver ? "by the solver" : best.verification.argument);
    return {std::move(step), {}};
  }

  const Target& target_;
  const LaxOptions& options_;
  const LibraryUse libraries_;
};

}  // namespace

std::string objection(const Graph& graph, const LaxProgram& program) {
  if (program.wide_values && rounds_between_kernels(graph)) return "values of f32 are rounded between kernels";
  if (rescales(graph) && exponentiates_inputs(*program.graph))
    return "exponents that are read may be masked, and sums of tiles would be rescaled";
  return {};
}

LaxSearch search_lax_parts(const hlo::Module& module, const Target& target, const LaxOptions& options,
                           LibraryUse libraries) {
  LaxSearch result{module, {}, {}};
  const Searcher searcher(target, options, libraries);
  const hlo::Computation& entry = module.entry_computation();
  std::map<std::string, Outcome> known;
  std::vector<LaxPart> taken;
  for (LaxPart& largest : find_lax_parts(module)) {
    for (LaxPart* part = &largest; part != nullptr; part = part->smaller.empty() ? nullptr : &part->smaller.front()) {
      const bool is_read = is_read_by_kernel(entry, part->result);
      const std::string key = fmt::format("{}{}{}", is_read, part->program.wide_values, print(*part->program.graph));
      const auto [outcome, fresh] = known.try_emplace(key);
      if (fresh) outcome->second = searcher.run(*part, is_read);
      const std::string& name = entry[part->result].name;
      if (!outcome->second.step) {
        result.notes.push_back(fmt::format("{} with {} instructions before it: {}", name, part->members.size() - 1,
                                           outcome->second.why_not));
        continue;
      }
      LaxStep& step = result.steps[name] = *outcome->second.step;
      step.inputs = *inputs_of(*step.graph, part->program);
      LaxPart one = std::move(*part);
      taken.push_back(std::move(one));
      break;
    }
  }
  if (!taken.empty()) result.module = with_lax_calls(module, taken);
  return result;
}

}  // namespace strata::emitters
