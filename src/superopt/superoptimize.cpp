#include "superopt/superoptimize.h"

#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <chrono>

#include "interpret/work.h"
#include "ir/validate.h"
#include "runtime/compile.h"
#include "superopt/optimize/thread_graphs.h"
#include "superopt/solver/solver.h"

namespace strata {
namespace {

constexpr int64_t kThreadsPerBlock = 128;

/// Programs above this take a minute or more to prove on a CPU; they come back as given, with the reason.
constexpr double kLargestProof = 4e9;

/// A graph with its proof and its rounding errors, or what speaks against it.
tl::expected<Candidate, std::string> prove(const GraphPtr& program, const GraphPtr& graph, FloatChecker& floats,
                                           const SuperoptimizeOptions& options) {
  if (auto legal = validate(*graph, *options.search.target); !legal) return tl::unexpected(legal.error().message);
  VerifyOptions verification;
  verification.delta = options.delta;
  verification.seed = options.search.seed;
  auto verified = verify(*program, *graph, verification);
  if (!verified) return tl::unexpected(verified.error().message);
  if (verified->verdict == Verdict::Undecided) {
    SolverOptions solving;
    solving.time_limit = options.solver_time_limit;
    solving.seed = options.search.seed;
    auto solved = prove_with_solver(*program, *graph, solving);
    if (!solved) return tl::unexpected(solved.error().message);
    if (solved->verdict != Verdict::Equivalent) {
      return tl::unexpected(fmt::format("{}; the solver: {}", verified->reason, solved->reason));
    }
    verified->verdict = Verdict::Equivalent;
    verified->method = ProofMethod::Solver;
    verified->argument = solved->argument;
    verified->tests = 0;
    verified->error_bound = 0;
  }
  if (verified->verdict != Verdict::Equivalent) return tl::unexpected(verified->reason);
  auto errors = floats.check(*graph);
  if (!errors) return tl::unexpected(errors.error().message);
  if (!errors->acceptable) return tl::unexpected(std::string("rounding errors are out of bounds"));
  return Candidate{graph, estimate_cost(*graph, *options.search.target), std::move(*verified), *errors};
}

/// The first `options.candidates` graphs that can be proved, in their order. Proofs run side by side.
void prove_cheapest(const std::vector<GraphPtr>& graphs, const SuperoptimizeOptions& options, Superoptimized& result) {
  tbb::task_arena arena(options.search.threads);
  FloatChecker floats(result.program, options.search.seed);
  const auto wanted = static_cast<size_t>(options.candidates);
  for (size_t first = 0; first < graphs.size() && result.candidates.size() < wanted;) {
    // As many as are still wanted: with the usual luck one round is enough. Once stopped, one proof suffices.
    const bool stopped = options.search.stop.stop_requested();
    if (stopped && !result.candidates.empty()) break;
    const size_t count = stopped ? 1 : std::min(wanted - result.candidates.size(), graphs.size() - first);
    std::vector<tl::expected<Candidate, std::string>> proofs(count, tl::unexpected(std::string()));
    arena.execute([&] {
      tbb::parallel_for(size_t{0}, count,
                        [&](size_t i) { proofs[i] = prove(result.program, graphs[first + i], floats, options); });
    });
    for (auto& proof : proofs) {
      if (proof) {
        result.candidates.push_back(std::move(*proof));
      } else if (result.unproved++ == 0) {
        result.unproved_reason = proof.error();
      }
    }
    first += count;
  }
}

/// The input program as a candidate: its own proof needs no test.
Candidate as_candidate(const GraphPtr& program, const SuperoptimizeOptions& options) {
  VerifyResult itself;
  itself.verdict = Verdict::Equivalent;
  itself.error_bound = 0;
  itself.argument = "the input program itself";
  FloatErrors errors;
  errors.acceptable = true;
  return {program, estimate_cost(*program, *options.search.target), std::move(itself), errors};
}

}  // namespace

Result<Superoptimized> superoptimize(const GraphPtr& program, const SuperoptimizeOptions& options) {
  const Target& target = *options.search.target;
  auto last = std::chrono::steady_clock::now();
  const auto done = [&](std::string_view stage, const Graph& graph) {
    const auto now = std::chrono::steady_clock::now();
    if (options.stage_done) options.stage_done(stage, std::chrono::duration<double>(now - last).count(), graph);
    last = now;
  };

  // The program must be legal by itself: it is what everything is compared with, and the last resort.
  STRATA_CHECK(validate(*program, target));
  Superoptimized result;
  result.program = program;
  result.program_cost = estimate_cost(*program, target);

  // Generate: µGraphs that compute the program's expressions and pass a random test, cheapest first.
  STRATA_TRY(SearchResult found, search(program, options.search, options.progress));
  result.statistics = found.statistics;
  result.stop_reason = found.stop_reason;
  result.left_out = found.left_out;
  done("search", found.graphs.empty() ? *program : *found.graphs.front());

  // Optimise: chains of elementwise operators to registers.
  std::vector<GraphPtr> graphs;
  const size_t considered = std::min(found.graphs.size(), static_cast<size_t>(4 * options.candidates));
  for (size_t i = 0; i < considered; ++i) {
    STRATA_TRY(GraphPtr graph, form_thread_graphs(*found.graphs[i], kThreadsPerBlock));
    graphs.push_back(std::move(graph));
  }
  if (const double cost = execution_work(*program); cost > kLargestProof) {
    result.unproved = static_cast<int>(graphs.size());
    result.unproved_reason =
        fmt::format("a proof at full shape takes {:.1e} operations, more than {:.0e}", cost, kLargestProof);
    graphs.clear();
  }
  done("thread-graphs", graphs.empty() ? *program : *graphs.front());

  // Prove: full shapes, repeated until the error bound holds, then rounding errors.
  prove_cheapest(graphs, options, result);
  result.candidates.push_back(as_candidate(program, options));
  std::stable_sort(result.candidates.begin(), result.candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.cost.seconds < b.cost.seconds; });
  const Graph& best = *result.candidates.front().graph;
  done("verify", best);

  // Generate code and compile it; a missing compiler leaves the source.
  STRATA_TRY(result.code, generate_cuda(best, target));
  done("codegen", best);
  if (auto cubin = compile_cubin(result.code.source, target)) {
    result.cubin = std::move(*cubin);
  } else {
    result.compile_error = cubin.error();
  }
  done("compile", best);
  return result;
}

}  // namespace strata
