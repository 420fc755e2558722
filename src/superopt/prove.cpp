#include "superopt/prove.h"

#include "interpret/work.h"
#include "ir/validate.h"
#include "superopt/codegen/generate.h"
#include "superopt/in_parallel.h"
#include "superopt/search/stabilise.h"
#include "superopt/solver/solver.h"
#include "superopt/verify/shrink.h"

namespace strata {
namespace {

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
    return Candidate{graph, scheduled_cost(*graph, target), std::move(*verified), *errors};
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

}  // namespace

void prove_cheapest(const GraphPtr& program, const std::vector<GraphPtr>& graphs, const SuperoptimizeOptions& options,
                    OptimizedPart& result) {
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
    in_parallel(options.search.threads, count, [&](size_t i) { proofs[i] = prover.prove(graphs[first + i], false); });
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

tl::expected<Candidate, std::string> prove(const GraphPtr& program, const GraphPtr& graph,
                                           const SuperoptimizeOptions& options) {
  return Prover(program, options).prove(graph, false);
}

}  // namespace strata
