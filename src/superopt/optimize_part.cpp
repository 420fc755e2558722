#include "superopt/optimize_part.h"

#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <array>
#include <chrono>

#include "interpret/work.h"
#include "ir/validate.h"
#include "superopt/optimize/retile.h"
#include "superopt/optimize/thread_graphs.h"
#include "superopt/search/stabilise.h"
#include "superopt/solver/solver.h"
#include "superopt/verify/shrink.h"

namespace strata {
namespace {

constexpr int64_t kThreadsPerBlock = 128;
/// Elements of a tile along the loop: what fits the registers of a warp beside a product's results.
constexpr std::array<int64_t, 3> kLoopExtents{64, 32, 128};

/// "[2, 8], [8, 4]".
std::string input_shapes(const Graph& graph) {
  std::string text;
  for (TensorId id : graph.inputs()) text += (text.empty() ? "" : ", ") + to_string(graph.type(id).shape);
  return text;
}

/// The proofs of one program's candidates. Thread-safe.
class Prover {
 public:
  Prover(GraphPtr program, const SuperoptimizeOptions& options)
      : program_(std::move(program)),
        options_(options),
        affordable_(execution_work(*program_) <= options.largest_full_proof),
        floats_(program_, options.search.seed, stabilised(program_, options.search.seed)) {}

  /// Whether one proof at full shape takes no more than seconds.
  bool full_is_affordable() const { return affordable_; }

  /// A graph with its proof and its rounding errors, or what speaks against it: at shrunk shapes where there are some
  /// and the full ones are not asked for.
  tl::expected<Candidate, std::string> prove(const GraphPtr& graph, bool full) {
    const Target& target = *options_.search.target;
    if (auto legal = validate(*graph, target); !legal) return tl::unexpected(legal.error().message);
    GraphPtr reference = program_;
    GraphPtr candidate = graph;
    if (!full) {
      if (auto small = shrink(*program_, *graph)) {
        std::tie(reference, candidate) = *small;
      } else if (!affordable_) {
        return tl::unexpected(fmt::format("a proof at full shape takes {:.1e} operations, more than {:.0e}, and {}",
                                          execution_work(*program_), options_.largest_full_proof,
                                          small.error().message));
      }
    }
    const bool shrunk = reference != program_;
    VerifyOptions verification;
    verification.delta = options_.delta;
    verification.seed = options_.search.seed;
    auto verified = verify(*reference, *candidate, verification);
    if (!verified) return tl::unexpected(verified.error().message);
    if (verified->verdict == Verdict::Undecided) {
      if (auto refused = solve(*reference, *candidate, *verified)) return tl::unexpected(*refused);
    }
    if (verified->verdict != Verdict::Equivalent) return tl::unexpected(verified->reason);
    if (shrunk) {
      verified->argument = fmt::format("proved at shrunk shapes {}, assumed to stand for the full ones (A4); {}",
                                       input_shapes(*reference), verified->argument);
    }
    const uint64_t seed = options_.search.seed;
    auto errors =
        shrunk ? float_errors(*reference, *candidate, seed, {}, stabilised(reference, seed)) : floats_.check(*graph);
    if (!errors) return tl::unexpected(errors.error().message);
    if (!errors->acceptable) return tl::unexpected(std::string("rounding errors are out of bounds"));
    if (!errors->stable && !options_.allow_unstable) {
      return tl::unexpected(
          std::string("it overflows for inputs of magnitude 1e4 where the exact result does not (--allow-unstable)"));
    }
    return Candidate{graph, estimate_cost(*graph, target), std::move(*verified), *errors};
  }

 private:
  /// Decides with the solver what the finite fields cannot; why not, where it cannot either.
  std::optional<std::string> solve(const Graph& reference, const Graph& candidate, VerifyResult& verified) const {
    SolverOptions solving;
    solving.time_limit = options_.solver_time_limit;
    solving.seed = options_.search.seed;
    const auto solved = prove_with_solver(reference, candidate, solving);
    if (!solved) return solved.error().message;
    if (solved->verdict != Verdict::Equivalent) {
      return fmt::format("{}; the solver: {}", verified.reason, solved->reason);
    }
    verified.verdict = Verdict::Equivalent;
    verified.method = ProofMethod::Solver;
    verified.argument = solved->argument;
    verified.tests = 0;
    verified.error_bound = 0;
    return std::nullopt;
  }

  GraphPtr program_;
  const SuperoptimizeOptions& options_;
  bool affordable_;
  FloatChecker floats_;
};

/// The first `options.candidates` graphs that can be proved, in their order. Proofs run side by side. The cheapest is
/// proved at full shape too, where that is affordable.
void prove_cheapest(const GraphPtr& program, const std::vector<GraphPtr>& graphs, const SuperoptimizeOptions& options,
                    OptimizedPart& result) {
  tbb::task_arena arena(options.search.threads);
  Prover prover(program, options);
  const auto refuse = [&](const std::string& reason) {
    if (result.unproved++ == 0) result.unproved_reason = reason;
  };
  const auto wanted = static_cast<size_t>(options.candidates);
  for (size_t first = 0; first < graphs.size() && result.candidates.size() < wanted;) {
    // As many as are still wanted: with the usual luck one round is enough. Once stopped, one proof suffices.
    const bool stopped = options.search.stop.stop_requested();
    if (stopped && !result.candidates.empty()) break;
    const size_t count = stopped ? 1 : std::min(wanted - result.candidates.size(), graphs.size() - first);
    std::vector<tl::expected<Candidate, std::string>> proofs(count, tl::unexpected(std::string()));
    arena.execute([&] {
      tbb::parallel_for(size_t{0}, count, [&](size_t i) { proofs[i] = prover.prove(graphs[first + i], false); });
    });
    for (auto& proof : proofs) {
      if (proof) {
        result.candidates.push_back(std::move(*proof));
      } else {
        refuse(proof.error());
      }
    }
    first += count;
  }
  while (prover.full_is_affordable() && !result.candidates.empty()) {
    auto best = prover.prove(result.candidates.front().graph, true);
    if (best) {
      result.candidates.front() = std::move(*best);
      return;
    }
    refuse(best.error());
    result.candidates.erase(result.candidates.begin());
  }
}

/// Searches the program with maxima subtracted where it exponentiates without; also as it is, where graphs that
/// overflow are wanted too.
Result<SearchResult> search_stable(const GraphPtr& program, const SuperoptimizeOptions& options) {
  const GraphPtr stable = stabilised(program, options.search.seed);
  if (!stable) return search(program, options.search, options.progress);
  if (!options.allow_unstable) return search(stable, options.search, options.progress);
  SearchOptions half = options.search;
  half.time_limit /= 2;
  if (!half.checkpoint.empty()) half.checkpoint += ".stable";
  STRATA_TRY(SearchResult first, search(stable, half, options.progress));
  half.checkpoint = options.search.checkpoint;
  STRATA_TRY(SearchResult second, search(program, half, options.progress));
  first.graphs.insert(first.graphs.end(), second.graphs.begin(), second.graphs.end());
  std::stable_sort(first.graphs.begin(), first.graphs.end(), [&](const GraphPtr& a, const GraphPtr& b) {
    return estimate_cost(*a, *half.target).seconds < estimate_cost(*b, *half.target).seconds;
  });
  first.statistics += second.statistics;
  first.stop_reason = std::max(first.stop_reason, second.stop_reason);
  if (!second.left_out.empty()) first.left_out += (first.left_out.empty() ? "" : "; ") + second.left_out;
  return first;
}

}  // namespace

Candidate as_candidate(const GraphPtr& program, const Target& target) {
  VerifyResult itself;
  itself.verdict = Verdict::Equivalent;
  itself.error_bound = 0;
  itself.argument = "the input program itself";
  FloatErrors errors;
  errors.acceptable = true;
  errors.stable = true;
  return {program, estimate_cost(*program, target), std::move(itself), errors};
}

Result<OptimizedPart> optimize_part(const GraphPtr& program, const SuperoptimizeOptions& options) {
  auto last = std::chrono::steady_clock::now();
  const auto done = [&](std::string_view stage, const Graph& graph) {
    const auto now = std::chrono::steady_clock::now();
    if (options.stage_done) options.stage_done(stage, std::chrono::duration<double>(now - last).count(), graph);
    last = now;
  };

  // Generate: µGraphs that compute the program's expressions and pass a random test, cheapest first.
  OptimizedPart result;
  STRATA_TRY(SearchResult found, search_stable(program, options));
  result.statistics = found.statistics;
  result.stop_reason = found.stop_reason;
  if (result.stop_reason == StopReason::Interrupted && !options.search.stop.stop_requested()) {
    // The search ended by itself just as its time did.
    const bool all = found.statistics.spaces_searched == found.statistics.spaces_total;
    result.stop_reason = all ? StopReason::Exhausted : StopReason::TimeLimit;
  }
  result.left_out = found.left_out;
  if (options.search.shard_count > 1) {  // its work is in the checkpoint
    result.candidates = {as_candidate(program, *options.search.target)};
    return result;
  }
  done("search", found.graphs.empty() ? *program : *found.graphs.front());

  // Optimise: chains of elementwise operators to registers.
  std::vector<GraphPtr> graphs;
  const size_t considered = std::min(found.graphs.size(), static_cast<size_t>(4 * options.candidates));
  for (size_t i = 0; i < considered; ++i) {
    std::vector<GraphPtr> tiled;
    for (const int64_t extent : kLoopExtents) {
      const auto one = retile_loops(*found.graphs[i], extent);
      const GraphPtr& graph = one ? *one : found.graphs[i];
      const bool known = std::any_of(tiled.begin(), tiled.end(),
                                     [&](const GraphPtr& other) { return same_structure(*graph, *other); });
      if (!known) tiled.push_back(graph);
    }
    for (const GraphPtr& one : tiled) {
      STRATA_TRY(GraphPtr graph, form_thread_graphs(*one, kThreadsPerBlock));
      graphs.push_back(std::move(graph));
    }
  }
  done("thread-graphs", graphs.empty() ? *program : *graphs.front());

  // Prove: full shapes where they are cheap enough, repeated until the error bound holds, then rounding errors.
  prove_cheapest(program, graphs, options, result);
  result.candidates.push_back(as_candidate(program, *options.search.target));
  std::stable_sort(result.candidates.begin(), result.candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.cost.seconds < b.cost.seconds; });
  done("verify", *result.candidates.front().graph);
  return result;
}

}  // namespace strata
