#include "emitters/lax/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

#include "emitters/lax/decisions.h"
#include "emitters/lax/filled.h"
#include "emitters/lax/surroundings.h"
#include "hlo/text.h"
#include "ir/text.h"
#include "ir/views.h"
#include "runtime/compile.h"
#include "superopt/prove.h"
#include "superopt/superoptimize.h"
#include "superopt/tune.h"

namespace strata::emitters {
namespace {

/// How many graphs of a part are proved.
constexpr int kCandidates = 4;
/// Of the time: given to all parts alike; the rest goes by what they can save.
constexpr double kEqualShare = 0.25;
/// Of a part's time that it may always save: libraries are not always best.
constexpr double kLeastSaved = 0.1;
/// Of a part's time: the search with its proofs where nothing is measured after it, and where something is; of what is
/// then left, other proofs and measuring candidates. The rest is for the part both ways.
constexpr double kSearchAlone = 0.9;
constexpr double kSearchBeforeMeasuring = 0.5;
constexpr double kLateProofs = 0.3;
constexpr double kMeasuring = 0.7;
/// Work of the interpreter that makes what candidates are compared with, for a second of measuring: where the program
/// is more, its own kernels make it.
constexpr double kInterpretedPerSecond = 1e8;
/// Of a part's time: the form with longer dimensions where there is one. The form as it is has the rest.
constexpr double kFilledForm = 0.75;
/// µs, of what no model knows: a number that decisions can be stored with.
constexpr double kNoPrice = 1e12;
/// A proof of a graph of the cache that the solver must find.
constexpr double kSecondsOfKnownProof = 10;

/// Whether a value lies between kernels in fewer bits than f32.
bool rounds_between_kernels(const Graph& graph) {
  return std::any_of(graph.operations().begin(), graph.operations().end(), [&](const Operation& op) {
    if (!op.body && op_def(op.kind).traits.products > 1) return true;  // a library may make a launch of each
    if (is_transposed_input(graph, op)) return false;
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

/// Whether an exponent depends on an argument otherwise than by a product of matrices.
bool exponentiates_inputs(const Graph& program) {
  std::vector<bool> read(program.tensors().size(), false);
  for (const TensorId id : program.arguments()) read[static_cast<size_t>(id)] = true;
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
      if (!is_transposed_input(graph, op)) kernels.emplace_back(op.name());
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

/// Of the arrays that are filled up: "3×70, 70×5".
std::string own_sizes(const LaxPart& part) {
  const hlo::Computation& entry = part.module.entry_computation();
  std::vector<std::string> sizes;
  for (const hlo::InstructionId id : entry.parameters)
    sizes.push_back(fmt::format("{}", fmt::join(entry[id].shape.dims, "×")));
  return fmt::format("{}", fmt::join(sizes, ", "));
}

class Searcher {
 public:
  Searcher(const Target& target, const LaxOptions& options, LibraryUse libraries)
      : target_(target), options_(options), libraries_(libraries) {}

  /// `called`: the part, for progress. Ends with the deadline, but for what is being compiled or timed then. What a
  /// stop has cut short settles nothing.
  LaxDecision run(const LaxPart& part, const Deadline& deadline, const std::string& called) const {
    const std::string key = key_of(part);
    if (options_.stop.stop_requested()) return {std::nullopt, 0, 0, "the search was stopped", false};
    if (std::optional<LaxDecision> known = known_decision(part, key)) return *std::move(known);
    if (deadline.passed()) return {std::nullopt, 0, 0, spent(), false};
    LaxDecision decision = search(part, deadline, called);
    if (options_.stop.stop_requested()) decision.settled = false;
    if (options_.progress) options_.progress("");
    if (options_.cache != nullptr) store_decision(*options_.cache, key, options_.seconds, decision);
    return decision;
  }

  /// All that a decision depends on, but the time that it had.
  std::string key_of(const LaxPart& part) const {
    return fmt::format("{}\n{} {} libraries={} wide={} order={} filled={}\n{}", build_identity(), target_.identity(),
                       options_.microseconds ? options_.device : "by the model", libraries_ != LibraryUse::Never,
                       part.program.wide_values, fmt::join(part.permutation, ","),
                       is_filled(part) ? own_sizes(part) : "", print(*part.program.graph));
  }

 private:
  std::string spent() const { return fmt::format("the {:.3g} s for all parts were over", options_.seconds); }

  SuperoptimizeOptions options_within(const Deadline& deadline) const {
    SuperoptimizeOptions work;
    work.search.target = &target_;
    work.search.threads = options_.threads;
    work.search.time_limit = deadline.seconds_left();
    work.deadline = deadline;
    work.candidates = kCandidates;
    work.passes.libraries = libraries_ != LibraryUse::Never;
    work.cache = options_.cache;
    return work;
  }

  /// From the cache, its graph proved.
  std::optional<LaxDecision> known_decision(const LaxPart& part, const std::string& key) const {
    if (options_.cache == nullptr) return std::nullopt;
    std::optional<LaxDecision> known = find_decision(*options_.cache, key, options_.seconds, part, target_);
    if (!known || !known->step) return known;
    const Deadline deadline(kSecondsOfKnownProof, options_.stop);
    const bool proved = prove(part.program.graph, known->step->graph, options_within(deadline), deadline) &&
                        objection(*known->step->graph, part.program).empty();
    if (!proved) return std::nullopt;
    known->step->reason += "; from the cache";
    return known;
  }

  LaxDecision search(const LaxPart& part, const Deadline& deadline, const std::string& called) const {
    const bool measures = options_.measures || options_.microseconds;
    SuperoptimizeOptions work = options_within(deadline.share(measures ? kSearchBeforeMeasuring : kSearchAlone));
    if (options_.progress) {
      options_.progress("superoptimizes " + called);
      work.progress = [&](const SearchProgress& p) {
        options_.progress(fmt::format("superoptimizes {}: {} of {} spaces", called, p.statistics.spaces_searched,
                                      p.statistics.spaces_total));
      };
    }
    Result<Superoptimized> found = superoptimize(part.program.graph, work);
    if (!found) return {std::nullopt, 0, 0, found.error().message, true};
    work.deadline = deadline;
    const GraphPtr first = found->candidates.front().graph;
    const std::string against = objection(*first, part.program);
    std::erase_if(found->candidates, [&](const Candidate& c) { return !objection(*c.graph, part.program).empty(); });
    if (found->candidates.empty()) return {std::nullopt, 0, 0, "nothing else was found, and " + against, true};
    if (found->candidates.front().graph != first) {
      take_first_proved(*found, work, deadline.share(kLateProofs));
      if (const auto made = generate(*found, work); !made) return {std::nullopt, 0, 0, made.error().message, true};
    }
    if (options_.progress && measures) options_.progress("measures " + called);
    const std::string measured = measure(*found, work, deadline);
    const std::string against_fastest = objection(*found->candidates.front().graph, part.program);
    if (!against_fastest.empty())
      return {std::nullopt, 0, 0, "the fastest that was measured: " + against_fastest, true};
    if (options_.microseconds && deadline.passed()) return {std::nullopt, 0, 0, spent(), false};
    return decide(part, *found, measured);
  }

  Result<void> generate(Superoptimized& found, const SuperoptimizeOptions& work) const {
    const Candidate& best = found.candidates.front();
    Passes passes = work.passes;
    passes.grouping = false;  // a part's kernels are steps of its module; groups of these were not tried
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
  std::string measure(Superoptimized& found, const SuperoptimizeOptions& work, const Deadline& deadline) const {
    if (!options_.measures) return {};
    TuneOptions tuning;
    tuning.target = &target_;
    tuning.deadline = deadline.share(kMeasuring);
    tuning.seconds = tuning.deadline.seconds_left();
    tuning.largest_interpreted = std::min(tuning.largest_interpreted, kInterpretedPerSecond * tuning.seconds);
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

  LaxDecision decide(const LaxPart& part, const Superoptimized& found, const std::string& measured) const {
    const Candidate& best = found.candidates.front();
    LaxStep step;
    step.graph = best.graph;
    std::optional<std::vector<int>> inputs = inputs_of(*best.graph, part.program);
    if (!inputs) return {std::nullopt, 0, 0, "its µGraph has inputs that the part has not", true};
    step.inputs = *std::move(inputs);
    Result<LaunchManifest> manifest = parse_launch_manifest(launch_manifest(found.code));
    if (!manifest) return {std::nullopt, 0, 0, manifest.error().message, true};
    step.manifest = *std::move(manifest);
    step.cubin.assign(found.cubin.begin(), found.cubin.end());

    double with = best.cost.seconds * 1e6;
    double without = std::min(microseconds_of(part.module, target_, libraries_).all, kNoPrice);
    std::string how = "by the model";
    if (options_.microseconds) {
      if (found.compile_error) return {std::nullopt, 0, 0, found.compile_error->message, false};
      const Result<double> mine = options_.microseconds(part.permuted, &step);
      const Result<double> theirs = options_.microseconds(part.module, nullptr);
      if (!mine || !theirs) return {std::nullopt, 0, 0, (mine ? theirs : mine).error().message, false};
      with = *mine;
      without = *theirs;
      how = "measured";
    }
    const std::string times = fmt::format("{:.3g} µs {}; kernels and libraries take {:.3g}", with, how, without);
    const std::string what = fmt::format("{}{}", describe(*best.graph), measured);
    if (with >= without) return {std::nullopt, 0, 0, fmt::format("{} ({})", times, what), true};
    step.reason =
        fmt::format("{}; {}; proof: {}", times, what,
                    best.verification.method == ProofMethod::Solver ? "by the solver" : best.verification.argument);
    // Without its code a step is a kernel of the emitters in the end.
    return {std::move(step), with, without, {}, !found.compile_error};
  }

  const Target& target_;
  const LaxOptions& options_;
  const LibraryUse libraries_;
};

/// Parts that are searched as one.
struct Different {
  std::vector<LaxPart> parts;
  double saves = 0;  ///< µs that a step may save, of all of them
};

/// Equal parts together, and those first that can save most: what is not the libraries' products.
std::vector<Different> different_parts(const hlo::Module& module, const Target& target, LibraryUse libraries,
                                       const Searcher& searcher) {
  std::map<std::string, Different> by_key;
  for (LaxPart& part : find_lax_parts(module)) {
    Different& same = by_key[searcher.key_of(part)];
    if (same.parts.empty()) {
      const LaxTimes times = microseconds_of(part.module, target, libraries);
      const double saves = std::max(times.all - times.products, kLeastSaved * times.all);
      same.saves = std::isfinite(saves) ? saves : 0;  // of what no model knows
    } else {
      same.saves += same.saves / static_cast<double>(same.parts.size());
    }
    same.parts.push_back(std::move(part));
  }
  std::vector<Different> order;
  for (auto& [key, same] : by_key) order.push_back(std::move(same));
  std::stable_sort(order.begin(), order.end(),
                   [](const Different& a, const Different& b) { return a.saves > b.saves; });
  return order;
}

struct Chosen {
  LaxPart form;  ///< the part, its filled form or a smaller part
  LaxStep step;
};

/// Chooses for each part between its forms and what the emitters and libraries do.
class Chooser {
 public:
  Chooser(const hlo::Module& module, const Target& target, LibraryUse libraries, const Searcher& searcher)
      : module_(module), target_(target), libraries_(libraries), searcher_(searcher) {}

  /// Nothing where no form is faster; why is told in `notes`.
  std::optional<Chosen> run(const LaxPart& largest, const Deadline& deadline, const std::string& called,
                            std::vector<std::string>& notes) {
    for (const LaxPart* part = &largest; part != nullptr;
         part = part->smaller.empty() ? nullptr : &part->smaller.front()) {
      const std::optional<LaxPart> longer = filled(*part);
      const Decided of_longer = longer ? decide(*longer, deadline.share(kFilledForm), called, notes) : Decided{};
      const Decided as_it_is = decide(*part, deadline, called, notes);
      const bool fills = of_longer.microseconds < as_it_is.microseconds;
      const Decided& best = fills ? of_longer : as_it_is;
      if (best.decision == nullptr) continue;
      Chosen chosen{fills ? *longer : *part, *best.decision->step};
      chosen.step.inputs = *inputs_of(*chosen.step.graph, chosen.form.program);
      return chosen;
    }
    return std::nullopt;
  }

 private:
  struct Decided {
    const LaxDecision* decision = nullptr;  ///< none where the part is not taken
    double microseconds = std::numeric_limits<double>::infinity();
  };

  Decided decide(const LaxPart& part, const Deadline& deadline, const std::string& called,
                 std::vector<std::string>& notes) {
    const std::string key = searcher_.key_of(part);
    const auto [known, fresh] = decisions_.try_emplace(key);
    const LaxDecision& decision = known->second;
    if (fresh) known->second = searcher_.run(part, deadline, called);
    std::string why_not = decision.why_not;
    if (decision.step) {
      const double with = decision.microseconds + microseconds_around(part, key);
      if (with < decision.others) return {&decision, with};
      why_not = fmt::format("{:.3g} µs with what it costs around it; kernels and libraries take {:.3g}", with,
                            decision.others);
    }
    notes.push_back(fmt::format("{} with {} instructions before it{}: {}",
                                module_.entry_computation()[part.result].name, part.members.size() - 1,
                                is_filled(part) ? ", filled up" : "", why_not));
    return {};
  }

  double microseconds_around(const LaxPart& part, const std::string& key) {
    const Surroundings surroundings = surroundings_of(module_, part);
    const auto [known, fresh] = around_.try_emplace(key + "\n" + hlo::print(surroundings.module));
    if (fresh) known->second = emitters::microseconds_around(surroundings, target_, libraries_);
    return known->second;
  }

  const hlo::Module& module_;
  const Target& target_;
  const LibraryUse libraries_;
  const Searcher& searcher_;
  std::map<std::string, LaxDecision> decisions_;  ///< by what they depend on
  std::map<std::string, double> around_;          ///< µs, by that and the surroundings' text
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
  Chooser chooser(module, target, libraries, searcher);
  const std::vector<Different> order = different_parts(module, target, libraries, searcher);
  const Deadline whole = options.deadline.value_or(Deadline(options.seconds, options.stop));
  std::vector<LaxPart> taken;
  double left = std::accumulate(order.begin(), order.end(), 0.0,
                                [](double all, const Different& one) { return all + one.saves; });
  for (size_t next = 0; next < order.size(); ++next) {
    const bool last = next + 1 == order.size();
    const double equal = 1.0 / static_cast<double>(order.size() - next);
    const double gain = left > 0 ? std::min(order[next].saves / left, 1.0) : equal;
    const Deadline deadline = whole.share(last ? 1 : std::lerp(gain, equal, kEqualShare));
    left -= order[next].saves;
    for (const LaxPart& part : order[next].parts) {
      const std::string& name = module.entry_computation()[part.result].name;
      const std::string called = fmt::format("part {} of {} ({})", next + 1, order.size(), name);
      std::optional<Chosen> chosen = chooser.run(part, deadline, called, result.notes);
      if (!chosen) continue;
      result.steps[name] = std::move(chosen->step);
      taken.push_back(std::move(chosen->form));
    }
  }
  std::sort(taken.begin(), taken.end(), [](const LaxPart& a, const LaxPart& b) { return a.result < b.result; });
  if (!taken.empty()) result.module = with_lax_calls(module, taken);
  return result;
}

}  // namespace strata::emitters
