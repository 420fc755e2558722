#include "superopt/prove.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>

#include "interpret/work.h"
#include "ir/validate.h"
#include "superopt/codegen/generate.h"
#include "superopt/decide.h"
#include "superopt/in_parallel.h"
#include "superopt/search/stabilise.h"
#include "superopt/verify/shrink.h"

namespace strata {
namespace {

/// "[2, 8], [8, 4]".
std::string input_shapes(const Graph& graph) {
  std::string text;
  for (TensorId id : graph.inputs()) text += (text.empty() ? "" : ", ") + to_string(graph.type(id).shape);
  return text;
}

std::string why_not_affordable(const Graph& program, const SuperoptimizeOptions& options) {
  return fmt::format("a proof at full shape takes {:.1e} operations, more than {:.0e}", execution_work(program),
                     options.largest_full_proof);
}

/// Notes that this many graphs were not looked at.
void leave_out(OptimizedPart& result, size_t graphs) {
  result.cut = true;
  result.left_out +=
      fmt::format("{}{} graphs that there was no time to prove", result.left_out.empty() ? "" : "; ", graphs);
}

/// The proofs of one program's candidates. Thread-safe.
class Prover {
 public:
  Prover(GraphPtr program, const SuperoptimizeOptions& options, const std::stop_token& stop)
      : program_(std::move(program)),
        options_(options),
        affordable_(execution_work(*program_) <= options.largest_full_proof),
        floats_(program_, options.search.seed, stabilised(program_, options.search.seed, stop)) {}

  /// A graph with its proof and its rounding errors, or what speaks against it: at shrunk shapes where there are some
  /// and the full ones are not asked for.
  tl::expected<Candidate, Refusal> prove(const GraphPtr& graph, bool full, const std::stop_token& stop) {
    if (stop.stop_requested()) return late();
    const Target& target = *options_.search.target;
    if (auto legal = validate(*graph, target); !legal) return refuse(legal.error());
    GraphPtr reference = program_;
    GraphPtr candidate = graph;
    if (!full) {
      if (auto small = shrink_to(options_.largest_full_proof, *program_, *graph)) {
        std::tie(reference, candidate) = *small;
      } else if (!affordable_) {
        return refuse("{}, and {}", why_not_affordable(*program_, options_), small.error().message);
      }
    }
    const bool shrunk = reference != program_;
    VerifyOptions verification;
    verification.delta = options_.delta;
    verification.seed = options_.search.seed;
    verification.stop = stop;
    SolverOptions solving;
    solving.time_limit = options_.solver_time_limit;
    solving.seed = options_.search.seed;
    solving.stop = stop;
    const auto decided = decide(*reference, *candidate, verification, solving);
    if (!decided) return refuse(decided.error());
    VerifyResult verified = decided->fields;
    if (decided->solver) {
      const SolverResult& solved = *decided->solver;
      if (solved.verdict != Verdict::Equivalent) return refuse("{}; the solver: {}", verified.reason, solved.reason);
      verified.verdict = Verdict::Equivalent;
      verified.method = ProofMethod::Solver;
      verified.argument = solved.argument;
      verified.tests = 0;
      verified.error_bound = solved.error_bound;
    } else if (decided->verdict != Verdict::Equivalent) {
      return refuse("{}", verified.reason);
    }
    if (shrunk) {
      verified.argument =
          fmt::format("proved at shrunk shapes {}, which is evidence for the full ones and no proof; {}",
                      input_shapes(*reference), verified.argument);
    }
    const uint64_t seed = options_.search.seed;
    auto errors = shrunk ? float_errors(*reference, *candidate, seed, stop, stabilised(reference, seed, stop))
                         : floats_.check(*graph, stop);
    if (!errors) return refuse(errors.error());
    if (!errors->acceptable) return refuse("rounding errors are out of bounds");
    if (!errors->stable && !options_.allow_unstable) {
      return refuse("it overflows for inputs of magnitude 1e4 where the exact result does not (--allow-unstable)");
    }
    return Candidate{graph, scheduled_cost(*graph, target), std::move(verified), *errors, {}, !shrunk};
  }

 private:
  static tl::unexpected<Refusal> late() { return tl::unexpected(Refusal{"out of time", true}); }
  template <class... Args>
  static tl::unexpected<Refusal> refuse(fmt::format_string<Args...> text, Args&&... args) {
    return tl::unexpected(Refusal{fmt::format(text, std::forward<Args>(args)...), false});
  }
  static tl::unexpected<Refusal> refuse(const Error& error) {
    if (error.code == ErrorCode::Interrupted) return late();
    return tl::unexpected(Refusal{error.message, false});
  }

  GraphPtr program_;
  const SuperoptimizeOptions& options_;
  bool affordable_;
  FloatChecker floats_;
};

/// The proofs at full shape of some candidates, each step once.
class FullProofs {
 public:
  FullProofs(std::vector<Candidate>& candidates, std::vector<size_t> order, const SuperoptimizeOptions& options,
             const Deadline& deadline)
      : candidates_(candidates), order_(std::move(order)), options_(options), deadline_(deadline) {}

  std::optional<size_t> run() {
    const std::stop_token token = deadline_.token();
    const auto round = static_cast<size_t>(std::max(1, options_.search.threads));
    for (size_t first = 0; first < order_.size(); first += round) {
      const auto rank = prove_round(first, std::min(order_.size(), first + round), token);
      if (!rank) continue;
      combine_steps(candidates_[order_[*rank]]);
      return order_[*rank];
    }
    return std::nullopt;
  }

 private:
  struct Task {
    size_t rank;  ///< of the first candidate that needs it
    std::shared_ptr<ProofStep> step;
    std::optional<tl::expected<Candidate, Refusal>> proved = {};
  };

  const std::vector<std::shared_ptr<ProofStep>>& steps(size_t rank) const { return candidates_[order_[rank]].steps; }

  /// Proves the candidates of these ranks, side by side; the first that holds. Those after it are let go, and what was
  /// shown of them is forgotten: how far they came is a matter of luck.
  std::optional<size_t> prove_round(size_t first, size_t end, const std::stop_token& token) {
    std::vector<Task> tasks;
    for (size_t rank = first; rank < end; ++rank) {
      const bool nothing_open = std::none_of(steps(rank).begin(), steps(rank).end(), [&](auto& s) { return open(*s); });
      if (nothing_open && refutation(candidates_[order_[rank]]).empty()) end = rank + 1;  // it holds as it is
      for (const auto& step : steps(rank)) {
        const bool known = std::any_of(tasks.begin(), tasks.end(), [&](const Task& task) { return task.step == step; });
        if (!known && open(*step)) tasks.push_back({rank, step});
      }
    }
    std::vector<std::stop_source> enough(end - first);
    const std::stop_callback on_deadline(token, [&] {
      for (std::stop_source& source : enough) source.request_stop();
    });
    std::mutex mutex;  // of all results
    size_t done = 0;
    const auto report = [&] {
      if (options_.stage_progress) options_.stage_progress("proofs at full shape", done, tasks.size());
    };
    if (!tasks.empty()) report();
    in_parallel(options_.search.threads, tasks.size(), [&](size_t i) {
      const std::stop_token stop = enough[tasks[i].rank - first].get_token();
      auto proved = Prover(tasks[i].step->program, options_, stop).prove(tasks[i].step->graph, true, stop);
      const std::scoped_lock lock(mutex);
      tasks[i].proved = std::move(proved);
      ++done;
      report();
      const auto holds = first_standing(tasks, first, end);
      if (!holds || waits(tasks, *holds)) return;
      for (size_t later = *holds + 1; later < end; ++later) enough[later - first].request_stop();
    });
    const auto holds = first_standing(tasks, first, end);
    for (Task& task : tasks) {
      if (!holds || task.rank <= *holds) note(*task.step, std::move(*task.proved));
    }
    return holds;
  }

  static const Task* task_of(const std::vector<Task>& tasks, const std::shared_ptr<ProofStep>& step) {
    const auto found = std::find_if(tasks.begin(), tasks.end(), [&](const Task& task) { return task.step == step; });
    return found == tasks.end() ? nullptr : &*found;
  }

  /// The first rank that nothing is known to speak against.
  std::optional<size_t> first_standing(const std::vector<Task>& tasks, size_t first, size_t end) const {
    const auto refuted = [&](const std::shared_ptr<ProofStep>& step) {
      const Task* task = task_of(tasks, step);
      return !step->refuted.empty() ||
             (task != nullptr && task->proved && !*task->proved && !task->proved->error().out_of_time);
    };
    for (size_t rank = first; rank < end; ++rank) {
      if (std::none_of(steps(rank).begin(), steps(rank).end(), refuted)) return rank;
    }
    return std::nullopt;
  }

  /// Whether steps of a candidate are still being proved.
  bool waits(const std::vector<Task>& tasks, size_t rank) const {
    return std::any_of(steps(rank).begin(), steps(rank).end(), [&](const std::shared_ptr<ProofStep>& step) {
      const Task* task = task_of(tasks, step);
      return task != nullptr && !task->proved;
    });
  }

  /// Whether there is something to prove yet.
  bool open(ProofStep& step) const {
    if (step.full_shape || step.settled) return false;
    if (execution_work(*step.program) <= options_.largest_full_proof) return true;
    step.why_shrunk = why_not_affordable(*step.program, options_);
    return false;
  }

  static void note(ProofStep& step, tl::expected<Candidate, Refusal> proved) {
    step.settled = proved || !proved.error().out_of_time;
    if (proved) {
      step.verification = std::move(proved->verification);
      step.errors = proved->errors;
      step.full_shape = proved->full_shape;
      step.why_shrunk.clear();
    } else if (step.settled) {
      step.refuted = proved.error().reason;
    } else {
      step.why_shrunk = "there was no time for a proof at full shape";
    }
  }

  std::vector<Candidate>& candidates_;
  const std::vector<size_t> order_;
  const SuperoptimizeOptions& options_;
  const Deadline& deadline_;
};

}  // namespace

void prove_cheapest(const GraphPtr& program, const std::vector<GraphPtr>& graphs, const SuperoptimizeOptions& options,
                    const Deadline& deadline, OptimizedPart& result) {
  if (graphs.empty() || deadline.passed()) {
    if (!graphs.empty()) leave_out(result, graphs.size());
    return;
  }
  const std::stop_token token = deadline.token();
  Prover prover(program, options, token);
  const auto wanted = static_cast<size_t>(options.candidates);
  size_t first = 0;
  size_t late = 0;
  while (first < graphs.size() && result.candidates.size() < wanted && !deadline.passed()) {
    // As many as are still wanted: with the usual luck one round is enough. Once stopped, one proof suffices.
    if (deadline.interrupted() && !result.candidates.empty()) break;
    const size_t still =
        deadline.interrupted() ? static_cast<size_t>(options.search.threads) : wanted - result.candidates.size();
    const size_t count = std::min(still, graphs.size() - first);
    std::vector<tl::expected<Candidate, Refusal>> proofs(count, tl::unexpected(Refusal{}));
    std::atomic<size_t> done = 0;
    in_parallel(options.search.threads, count, [&](size_t i) {
      proofs[i] = prover.prove(graphs[first + i], false, token);
      if (options.stage_progress) options.stage_progress("proofs", ++done, count);
    });
    for (auto& proof : proofs) {
      if (proof) {
        if (result.candidates.size() < wanted) result.candidates.push_back(std::move(*proof));
      } else if (proof.error().out_of_time) {
        ++late;
      } else if (result.unproved++ == 0) {
        result.unproved_reason = proof.error().reason;
      }
    }
    first += count;
  }
  if (result.candidates.size() < wanted) late += graphs.size() - first;
  if (late > 0) leave_out(result, late);
}

tl::expected<Candidate, Refusal> prove(const GraphPtr& program, const GraphPtr& graph,
                                       const SuperoptimizeOptions& options, const Deadline& deadline) {
  const std::stop_token token = deadline.token();
  return Prover(program, options, token).prove(graph, false, token);
}

std::optional<size_t> first_proved(std::vector<Candidate>& candidates, const std::vector<size_t>& order,
                                   const SuperoptimizeOptions& options, const Deadline& deadline) {
  return FullProofs(candidates, order, options, deadline).run();
}

std::string refutation(const Candidate& candidate) {
  for (const auto& step : candidate.steps) {
    if (!step->refuted.empty()) return step->refuted;
  }
  return {};
}

void combine_steps(Candidate& candidate) {
  if (candidate.steps.empty()) return;
  candidate.full_shape = true;
  VerifyResult all;
  all.verdict = Verdict::Equivalent;
  all.error_bound = 0;
  FloatErrors errors;
  errors.acceptable = true;
  errors.stable = true;
  std::vector<std::string> shrunk;
  for (const auto& step : candidate.steps) {
    all.tests += step->verification.tests;
    all.error_bound += step->verification.error_bound;
    all.argument = step->verification.argument;
    if (step->verification.method == ProofMethod::Solver) all.method = ProofMethod::Solver;
    errors.reference_own = std::max(errors.reference_own, step->errors.reference_own);
    errors.candidate_f32 = std::max(errors.candidate_f32, step->errors.candidate_f32);
    errors.candidate_own = std::max(errors.candidate_own, step->errors.candidate_own);
    errors.candidate_f64 = std::max(errors.candidate_f64, step->errors.candidate_f64);
    errors.stable = errors.stable && step->errors.stable;
    if (step->full_shape) continue;
    candidate.full_shape = false;
    shrunk.push_back(fmt::format("{}{}", step->verification.argument,
                                 step->why_shrunk.empty() ? "" : " (" + step->why_shrunk + ")"));
  }
  if (candidate.steps.size() > 1 || !candidate.composition.empty()) {
    all.argument = fmt::format(
        "{}{}", candidate.composition.empty() ? "in steps, each with a proof of its own" : candidate.composition,
        candidate.full_shape ? ", at full shape" : "");
    for (const std::string& one : shrunk) all.argument += "; " + one;
  } else if (!shrunk.empty()) {
    all.argument = shrunk.front();
  }
  candidate.verification = std::move(all);
  candidate.errors = errors;
}

}  // namespace strata
