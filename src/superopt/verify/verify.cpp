#include "superopt/verify/verify.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "interpret/work.h"
#include "superopt/verify/bound.h"
#include "superopt/verify/compare.h"
#include "superopt/verify/domains.h"
#include "superopt/verify/exponents.h"
#include "superopt/verify/inputs.h"
#include "superopt/verify/lax.h"
#include "superopt/verify/maxima.h"
#include "superopt/verify/memory.h"
#include "superopt/verify/positive.h"
#include "superopt/verify/reals.h"
#include "superopt/verify/reductions.h"
#include "superopt/verify/roots.h"
#include "superopt/verify/sample.h"
#include "superopt/verify/shrink.h"
#include "superopt/verify/subgraph.h"

namespace strata {
namespace {

/// Samples that may be lost to divisions by zero or to roots of non-residues before giving up, beside four for each
/// test that counted.
constexpr int kLostSamples = 32;
/// Tests of programs without a reachable bound: enough to refute what is wrong.
constexpr int kRefutations = 2;
/// Of given primes, a division by zero that is rarer by the bound does not happen by chance; of drawn ones, none does.
constexpr double kByChance = 1e-6;
/// Primes of one verification: each test draws its own, up to this many.
constexpr size_t kMostPrimes = 64;

/// Square roots that one entry depends on and that may be of squares: each doubles the tests.
constexpr double kMostSigns = 10;
/// Of one thread, in a finite field: an execution that is sure to take too long need not begin.
constexpr double kOperationsPerSecond = 2e9;
/// Scalar operations of two programs above which smaller shapes are taken where no size matters.
constexpr double kLargeWork = 1e6;
/// Scalar operations of all tests of signs, or of orders, together.
constexpr double kSmallTestsWork = 2e8;
/// Maxima of more elements than this have more orders than tests can meet.
constexpr size_t kMostCompared = 6;

/// What the operators outside polynomials are executed as.
enum class Meaning {
  Exact,  ///< maxima by a random order, all others as what they are
  Free    ///< maxima and whatever is outside the Lax fragment as random functions
};

struct Outcome {
  bool counts = false;          ///< both are defined and no root is of a non-residue
  bool reference_lost = false;  ///< it divided by zero
  bool candidate_lost = false;  ///< it alone did
  bool maxima_matter = false;   ///< against what was assumed
  bool maxima_idle = false;     ///< where there is a difference: the candidate does not depend on its maxima either
  bool roots_match = true;      ///< the candidate's roots are of what the reference's are, up to positive factors
  bool divisors_match = true;   ///< the candidate divides by nothing else than the reference
  std::optional<Counterexample> difference;
};

/// How many tests reach δ; 0 where more than `limit` would.
int tests_needed(double per_test, double delta, int limit) {
  if (per_test <= 0) return 1;
  if (per_test >= 1) return 0;
  const double tests = std::max(1.0, std::ceil(std::log(delta) / std::log(per_test) - 1e-9));
  return tests <= limit ? static_cast<int>(tests) : 0;
}

/// Two programs, or the same at smaller shapes, with what their operators are executed as.
struct Programs {
  const Graph& reference;
  const Graph& candidate;
  std::optional<FreeOperators> free_reference;
  std::optional<FreeOperators> free_candidate;

  Programs(const Graph& first, const Graph& second, Meaning meaning) : reference(first), candidate(second) {
    if (meaning != Meaning::Free) return;
    free_reference = free_operators(first);
    free_candidate = free_operators(second);
  }
  std::pair<const FreeOperators*, const FreeOperators*> free() const {
    return {free_reference ? &*free_reference : nullptr, free_candidate ? &*free_candidate : nullptr};
  }
  double work() const { return execution_work(reference) + execution_work(candidate); }
};

bool any(const FreeOperators& operators) {
  return std::any_of(operators.begin(), operators.end(), [](const auto& of_graph) {
    return std::find(of_graph.second.begin(), of_graph.second.end(), true) != of_graph.second.end();
  });
}

/// Whether every root is of something that is ≥ 0 for all inputs, by its operators.
bool roots_always_defined(const Graph& graph, const std::vector<Sign>& of_inputs) {
  const std::vector<Sign> signs = signs_of(graph, of_inputs);
  return std::all_of(graph.operations().begin(), graph.operations().end(), [&](const Operation& op) {
    std::vector<Sign> operands;
    for (TensorId id : op.operands) operands.push_back(signs[static_cast<size_t>(id)]);
    if (op.body) return roots_always_defined(*op.body, operands);
    return !op_def(op.kind).traits.lax.root || operands[0] != Sign::Unknown;
  });
}

/// One comparison of two programs in one meaning: the tests and what they have shown so far.
class Verification {
 public:
  Verification(const Graph& reference, const Graph& candidate, const VerifyOptions& options, Meaning meaning)
      : programs_(reference, candidate, meaning),
        options_(options),
        meaning_(meaning),
        roots_(takes_roots(reference) || takes_roots(candidate)),
        maxima_(takes_maxima(reference) || takes_maxima(candidate)) {}

  Result<VerifyResult> run() {
    const Graph& reference = programs_.reference;
    const Graph& candidate = programs_.candidate;
    if (meaning_ == Meaning::Exact) {
      for (const Graph* graph : {&reference, &candidate}) {
        if (auto violation = lax_violation(*graph)) return undecided(*violation);
      }
      if (maxima_) STRATA_CHECK(look_at_maxima());
    }
    const bool free = meaning_ == Meaning::Free;
    if (free && !(programs_.free_reference && programs_.free_candidate)) {
      return undecided("an operator that is not elementwise exponentiates an exponential");
    }
    if (const auto unread = unread_domain(reference, programs_.free().first)) {
      return undecided(*unread + ": the first program's results may be defined where this is not");
    }
    // Over small primes less would be certified.
    const FieldPrimes certifying = options_.primes ? kVerifierPrimes : primes(0);
    if (roots_) {
      STRATA_TRY(roots_certified_, roots_independent(reference, certifying, mix(options_.seed + 3), options_.stop));
      candidate_roots_defined_ = roots_always_defined(candidate, unknown_inputs(candidate));
    }
    divides_by_selected_ = divides_by_selected(candidate, programs_.free().second);
    // Where the order of maxima matters, a step of an input may change it: no derivative by differences.
    const bool independent = (free || !maxima_ || maxima_cancel_) &&
                             exponents_independent(reference, candidate, certifying, mix(options_.seed), maxima_cancel_,
                                                   free, options_.stop);
    const TestBound bound = test_bound(reference, candidate, bound_options(independent));
    result_.argument = bound.argument;
    by_chance_ = options_.primes && bound.per_test > kByChance;
    const bool others = roots_ || (maxima_ && !free);  // tests of signs and orders have their share of δ
    const int needed = tests_needed(bound.per_test, others ? options_.delta / 2 : options_.delta, options_.max_tests);
    STRATA_CHECK(run_tests(programs_, needed > 0 ? needed : kRefutations, options_.seed));
    if (done_) return result_;
    if (needed == 0) {
      return undecided(fmt::format("the programs agree, but {} tests do not reach the bound {:g}", options_.max_tests,
                                   options_.delta));
    }
    double error = std::pow(bound.per_test, needed);
    if (roots_) STRATA_CHECK(look_at_roots(bound, error));
    if (maxima_ && !free && !done_) STRATA_CHECK(test_orders(error));
    if (!done_) look_at_domains();
    if (done_) return result_;
    result_.verdict = Verdict::Equivalent;
    result_.tests = needed;
    result_.error_bound = error;
    return result_;
  }

 private:
  VerifyResult undecided(std::string reason) {
    done_ = true;
    result_.verdict = Verdict::Undecided;
    result_.reason = std::move(reason);
    return result_;
  }

  static std::vector<Sign> unknown_inputs(const Graph& graph) {
    return std::vector<Sign>(graph.inputs().size(), Sign::Unknown);
  }

  BoundOptions bound_options(bool independent) const {
    constexpr uint64_t kLeastPrime = uint64_t{1} << 60;
    return {.p = options_.primes ? options_.primes->p : kLeastPrime,
            .random_primes = !options_.primes,
            .independent = independent,
            .maxima_cancel = maxima_cancel_,
            .free = programs_.free()};
  }

  /// Of the n-th test.
  const FieldPrimes& primes(size_t n) {
    if (options_.primes) return *options_.primes;
    n %= kMostPrimes;
    while (primes_.size() <= n) primes_.push_back(draw_field_primes(mix(options_.seed + 5) ^ mix(primes_.size())));
    return primes_[n];
  }

  /// Both programs at shrunk shapes, once; the reason, where there are none.
  const Result<std::pair<GraphPtr, GraphPtr>>& small() {
    if (!small_) small_ = shrink(programs_.reference, programs_.candidate);
    return *small_;
  }

  /// Whether anything seems to depend on the maxima, at shrunk shapes where there are some. The tests at full shape
  /// find out whether it is true.
  Result<void> look_at_maxima() {
    const auto& shrunk = small();
    const Graph& first = shrunk ? *shrunk->first : programs_.reference;
    const Graph& second = shrunk ? *shrunk->second : programs_.candidate;
    STRATA_TRY(maxima_cancel_, maxima_cancel(first, second, primes(0), mix(options_.seed + 1), options_.stop));
    return {};
  }

  /// Whether the roots may be conjugated freely; if not, tests that meet all combinations of their signs, which the
  /// reals may tell apart (√(x²) is x or −x). `error` grows by what these may miss.
  Result<void> look_at_roots(const TestBound& bound, double& error) {
    if (!roots_match_ && !candidate_roots_defined_) {
      undecided(
          "the second program takes a root of something of which the first takes none, and which may be negative");
      return {};
    }
    if (roots_certified_ && roots_match_) {
      result_.argument += "; roots are independent";
      return {};
    }
    const double roots = signs(programs_, bound);
    if (roots > kMostSigns) {
      undecided(fmt::format("an entry depends on {:.0f} square roots, whose signs have too many combinations", roots));
      return {};
    }
    const double missed = 1 - std::pow(0.5, roots);
    const double delta = options_.delta / 4;
    const int tests = static_cast<int>(std::ceil(1.1 * std::log(delta) / std::log(missed)));
    result_.argument += fmt::format("; signs of {:.0f} roots: {} tests", roots, tests);
    error += delta;
    return run_small_tests(roots, tests, mix(~options_.seed));
  }

  /// How many roots an entry depends on. The candidate's are products of the reference's where they match.
  double signs(const Programs& programs, const TestBound& bound) const {
    return roots_match_ ? std::min(bound.roots, roots_in_entry(programs.reference)) : bound.roots;
  }

  /// Many tests, at full shape if these are affordable, or else at shrunk shapes, if an entry depends on as many roots
  /// there.
  Result<void> run_small_tests(double roots, int tests, uint64_t seed) {
    if (programs_.work() * tests <= kSmallTestsWork) return run_tests(programs_, tests, seed);
    const auto& shrunk = small();
    if (shrunk) {
      const Programs programs(*shrunk->first, *shrunk->second, meaning_);
      BoundOptions options = bound_options(false);
      options.free = programs.free();
      const bool alike = signs(programs, test_bound(programs.reference, programs.candidate, options)) == roots;
      if (alike && programs.work() * tests <= kSmallTestsWork) {
        result_.argument += " at shrunk shapes";
        return run_tests(programs, tests, seed);
      }
    }
    undecided(fmt::format("{} tests of these programs would take too long", tests));
    return {};
  }

  /// Where results depend on maxima: so many tests that each order of what is compared is likely met. A pair that
  /// differs does so for one order at least, of k elements one of k!.
  Result<void> test_orders(double& error) {
    if (maxima_cancel_) {
      result_.argument += "; maxima cancel";
      return {};
    }
    STRATA_TRY(const size_t k,
               compared_elements(programs_.reference, programs_.candidate, primes(0), options_.seed, options_.stop));
    if (k > kMostCompared) {
      undecided(fmt::format("results depend on maxima of {} elements, which have too many orders", k));
      return {};
    }
    const TestBound bound = test_bound(programs_.reference, programs_.candidate, bound_options(false));
    const double accepted = 1 - (1 - bound.per_test) / std::tgamma(static_cast<double>(k) + 1);
    const int tests = tests_needed(accepted, options_.delta / 4, std::numeric_limits<int>::max());
    if (tests == 0 || programs_.work() * tests > kSmallTestsWork) {
      undecided("results depend on maxima, and their orders cannot all be tested");
      return {};
    }
    result_.argument += fmt::format("; orders of {} elements: {} tests", k, tests);
    error += options_.delta / 4;
    orders_tested_ = true;
    return run_tests(programs_, tests, mix(options_.seed + 2));
  }

  /// The candidate must be defined where the reference is.
  void look_at_domains() {
    if (!divides_by_selected_ || divisors_match_ || orders_tested_) return;
    undecided("the second program divides by something that a maximum or a comparison selects, and which may be 0");
  }

  /// Whether one residue of each divisor is that of a divisor of the reference. It is 0 where nothing reads it: in
  /// arguments of exponentials only that modulo q is read, elsewhere it may be only the other.
  static bool all_among(const std::vector<FieldArithmetic::Value>& divisors,
                        const std::vector<FieldArithmetic::Value>& of_reference,
                        uint64_t FieldArithmetic::Value::*residue) {
    std::vector<uint64_t> known{0};
    for (const auto& one : of_reference) known.push_back(one.*residue);
    std::sort(known.begin(), known.end());
    return std::all_of(divisors.begin(), divisors.end(),
                       [&](const auto& one) { return std::binary_search(known.begin(), known.end(), one.*residue); });
  }

  /// Both programs on one sample.
  Result<Outcome> test(const Programs& programs, FieldSample sample) {
    const auto [free_reference, free_candidate] = programs.free();
    using Maximum = FieldArithmetic::Maximum;
    std::vector<FieldArithmetic::Value> roots_of_reference, roots_of_candidate;
    std::vector<FieldArithmetic::Value> divisors_of_reference, divisors_of_candidate;

    FieldArithmetic first = sample.arithmetic;
    first.free_operators = free_reference;
    if (roots_) first.roots = &roots_of_reference;
    if (divides_by_selected_) first.divisors = &divisors_of_reference;
    first.maximum = meaning_ == Meaning::Free ? Maximum::Free : maxima_cancel_ ? Maximum::Zero : Maximum::ByOrder;
    STRATA_TRY(const auto expected, execute(programs.reference, first, sample.inputs, options_.stop));
    Outcome outcome;
    if (maxima_cancel_ && takes_maxima(programs.reference)) {
      FieldArithmetic other = sample.arithmetic;
      other.maximum = Maximum::Random;
      STRATA_TRY(const auto again, execute(programs.reference, other, sample.inputs, options_.stop));
      outcome.maxima_matter = !other.divided_by_zero && first_difference(programs.reference, expected, again, first.fp);
    }

    const auto inputs = reordered(std::move(sample.inputs), input_order(programs.reference, programs.candidate));
    FieldArithmetic second = sample.arithmetic;
    second.free_operators = free_candidate;
    if (roots_) second.roots = &roots_of_candidate;
    if (divides_by_selected_) second.divisors = &divisors_of_candidate;
    second.maximum = maxima_cancel_ ? Maximum::Random : first.maximum;
    STRATA_TRY(const auto found, execute(programs.candidate, second, inputs, options_.stop));

    outcome.reference_lost = first.divided_by_zero;
    outcome.candidate_lost = second.divided_by_zero && !first.divided_by_zero;
    const bool defined = !first.divided_by_zero && !second.divided_by_zero;
    outcome.counts = defined && !first.left_residues && !second.left_residues;
    if (defined) outcome.difference = first_difference(programs.reference, expected, found, first.fp);
    if (outcome.difference && maxima_cancel_) {
      FieldArithmetic other = second;
      other.maximum = Maximum::Zero;
      other.roots = other.divisors = nullptr;
      STRATA_TRY(const auto again, execute(programs.candidate, other, inputs, options_.stop));
      outcome.maxima_idle = !other.divided_by_zero && !first_difference(programs.candidate, found, again, other.fp);
    }
    if (roots_ && roots_match_) {
      RootMatch match(roots_of_reference, first, options_.stop);
      std::sort(roots_of_candidate.begin(), roots_of_candidate.end(),
                [](const auto& a, const auto& b) { return std::pair(a.p, a.q) < std::pair(b.p, b.q); });
      roots_of_candidate.erase(std::unique(roots_of_candidate.begin(), roots_of_candidate.end()),
                               roots_of_candidate.end());
      outcome.roots_match = std::all_of(roots_of_candidate.begin(), roots_of_candidate.end(),
                                        [&](const auto& root) { return match.matches(root); });
      if (options_.stop.stop_requested()) {
        return tl::unexpected(Error{ErrorCode::Interrupted, "the verification was stopped", {}, {}});
      }
    }
    if (divides_by_selected_ && divisors_match_) {
      outcome.divisors_match = all_among(divisors_of_candidate, divisors_of_reference, &FieldArithmetic::Value::p) &&
                               all_among(divisors_of_candidate, divisors_of_reference, &FieldArithmetic::Value::q);
    }
    return outcome;
  }

  /// Runs until `wanted` tests have counted. Done, with a verdict, when it could not.
  Result<void> run_tests(const Programs& programs, int wanted, uint64_t first_seed) {
    int divisions = 0;
    int unclean = 0;
    int counted = 0;
    std::vector<std::unique_ptr<Sampler>> samplers(options_.primes ? 1 : kMostPrimes);
    for (uint64_t n = 0; counted < wanted; ++n) {
      const uint64_t seed = mix(first_seed ^ mix(n));
      auto& sampler = samplers[n % samplers.size()];
      if (!sampler) {
        sampler = std::make_unique<Sampler>(programs.reference, primes(n), meaning_ == Meaning::Free);
      }
      STRATA_TRY(Outcome outcome, test(programs, sampler->draw(seed, options_.stop)));
      if (outcome.maxima_matter) {
        undecided("results depend on maxima at full shape");
        return {};
      }
      if (outcome.candidate_lost && !by_chance_) {
        undecided("the second program divides by zero where the first does not, on a share of the inputs");
        return {};
      }
      if (outcome.difference) {
        outcome.difference->seed = seed;
        STRATA_CHECK(judge(std::move(*outcome.difference), outcome.counts, outcome.maxima_idle));
        if (done_) return {};
      }
      roots_match_ = roots_match_ && outcome.roots_match;
      divisors_match_ = divisors_match_ && outcome.divisors_match;
      if (outcome.counts) {
        ++counted;
        continue;
      }
      const bool divided = outcome.reference_lost || outcome.candidate_lost;
      if (++(divided ? divisions : unclean) <= kLostSamples + 4 * counted) continue;
      undecided(divisions > kLostSamples + 4 * counted
                    ? "every sample divides by zero"
                    : "no sample was found in which all square roots are of quadratic residues");
      return {};
    }
    return {};
  }

  /// A difference in the field. With roots or maxima it may be the field's and not the programs': float64 decides, and
  /// where it sees none, a sample with a root of a non-residue is only lost. Of random functions it says nothing.
  /// `idle`: nothing depends on maxima, so that the difference is none of theirs.
  Result<void> judge(Counterexample difference, bool clean, bool idle) {
    const std::string where = fmt::format("'{}' differs at {}", difference.output, to_string(difference.index));
    if (meaning_ == Meaning::Free) {
      undecided(where + " for some functions in the place of operators outside the Lax fragment");
      return {};
    }
    if (roots_ || (maxima_ && !idle)) {
      if (!differ_) {
        // Two executions at least, however large the programs are.
        const double work = std::max(RealCheckOptions{}.work, 2 * programs_.work());
        STRATA_TRY(const auto found,
                   difference_over_reals(programs_.reference, programs_.candidate,
                                         {.seed = options_.seed, .work = work, .stop = options_.stop}));
        differ_ = found.has_value();
      }
      if (!*differ_) {
        if (clean) undecided(where + " in the field, where numbers have no sign and no order, and not in float64");
        return {};
      }
    }
    done_ = true;
    result_.verdict = Verdict::Different;
    result_.reason = where;
    result_.counterexample = std::move(difference);
    return {};
  }

  Programs programs_;
  const VerifyOptions& options_;
  Meaning meaning_;
  bool roots_;
  bool maxima_;
  bool maxima_cancel_ = false;
  bool roots_certified_ = false;          ///< the reference's are independent
  bool candidate_roots_defined_ = false;  ///< for all inputs
  bool roots_match_ = true;               ///< in all tests so far
  bool divides_by_selected_ = false;
  bool divisors_match_ = true;
  bool orders_tested_ = false;
  bool by_chance_ = false;  ///< divisions by zero are likely at these primes
  std::vector<FieldPrimes> primes_;
  std::optional<Result<std::pair<GraphPtr, GraphPtr>>> small_;
  bool done_ = false;
  std::optional<bool> differ_;  ///< over the reals, once known
  VerifyResult result_;
};

/// Whether executing what is outside the fragment as random functions may show more.
bool has_free(const Graph& graph) {
  const auto free = free_operators(graph);
  return takes_maxima(graph) || (free && any(*free));
}

Result<VerifyResult> verify_whole(const Graph& reference, const Graph& candidate, const VerifyOptions& options) {
  STRATA_TRY(VerifyResult result, Verification(reference, candidate, options, Meaning::Exact).run());
  if (result.verdict == Verdict::Undecided && (has_free(reference) || has_free(candidate))) {
    STRATA_TRY(VerifyResult free, Verification(reference, candidate, options, Meaning::Free).run());
    if (free.verdict == Verdict::Equivalent) {
      result = std::move(free);
    } else {
      result.reason += "; with random functions in the place of operators: " + free.reason;
    }
  }
  // Over small primes different programs are meant to pass.
  if (result.verdict != Verdict::Equivalent || options.primes) return result;
  const RealCheckOptions reals{.seed = options.seed, .stop = options.stop};
  const Graph* first = &reference;
  const Graph* second = &candidate;
  Result<std::pair<GraphPtr, GraphPtr>> small = unsupported("not needed");
  if (2 * (execution_work(reference) + execution_work(candidate)) > reals.work) {
    small = shrink(reference, candidate);
    if (!small) return result;
    std::tie(first, second) = std::pair(small->first.get(), small->second.get());
  }
  STRATA_TRY(auto refuted, difference_over_reals(*first, *second, reals));
  if (refuted && small) {  // sizes may be factors of what the programs compute
    const double work = 2 * (execution_work(reference) + execution_work(candidate));
    STRATA_TRY(refuted,
               difference_over_reals(reference, candidate, {.seed = options.seed, .work = work, .stop = options.stop}));
  }
  if (!refuted) return result;
  VerifyResult doubted;
  doubted.argument = std::move(result.argument);
  doubted.reason = "the random tests over finite fields agree, but " + described(reference, *refuted);
  return doubted;
}

/// Whether some output of a program is defined where others are not, as far as its roots and quotients go.
bool outputs_differ_in_domain(const Graph& graph) {
  const auto free = free_operators(graph);
  for (size_t n = 0; n < graph.outputs().size(); ++n) {
    if (unread_domain(graph, free ? &*free : nullptr, n)) return true;
  }
  return false;
}

/// Output by output: each must be equal wherever it is defined itself.
Result<VerifyResult> verify_each_output(const Graph& reference, const Graph& candidate, const VerifyOptions& options) {
  VerifyResult all{.verdict = Verdict::Equivalent, .error_bound = 0};
  for (size_t n = 0; n < reference.outputs().size(); ++n) {
    STRATA_TRY(const GraphPtr first, part_computing(reference, reference.outputs()[n]));
    STRATA_TRY(const GraphPtr second, part_computing(candidate, candidate.outputs()[n]));
    STRATA_TRY(VerifyResult one, verify_whole(*first, *second, options));
    if (one.verdict != Verdict::Equivalent) return one;
    all.tests += one.tests;
    all.error_bound = std::max(all.error_bound, one.error_bound);
    if (one.argument != all.argument) all.argument += (n == 0 ? "" : "; ") + one.argument;
  }
  return all;
}

double work_of(const Graph& reference, const Graph& candidate) {
  return execution_work(reference) + execution_work(candidate);
}

/// At the shapes that the programs have.
Result<VerifyResult> verify_in_time(const Graph& reference, const Graph& candidate, const VerifyOptions& options) {
  const Deadline deadline(options.time_limit, options.stop);
  VerifyOptions within = options;
  within.stop = deadline.token();
  VerifyResult out_of_time;
  if (const auto room = check_field_memory(reference, candidate); !room) {
    out_of_time.reason = room.error().message;
    return out_of_time;
  }
  const double seconds = work_of(reference, candidate) / kOperationsPerSecond;
  out_of_time.reason = fmt::format("the random tests take more than the {:g} s that they may", options.time_limit);
  if (seconds > options.time_limit) {
    out_of_time.reason += fmt::format(": about {:.0f} s each", seconds);
    return out_of_time;
  }
  auto result = reference.outputs().size() > 1 && outputs_differ_in_domain(reference)
                    ? verify_each_output(reference, candidate, within)
                    : verify_whole(reference, candidate, within);
  const bool interrupted = !result && result.error().code == ErrorCode::Interrupted;
  return interrupted && !options.stop.stop_requested() ? out_of_time : result;
}

}  // namespace

Result<VerifyResult> verify(const Graph& reference, const Graph& candidate, const VerifyOptions& options) {
  STRATA_CHECK(check_interface(reference, candidate));
  if (work_of(reference, candidate) > kLargeWork) {
    const auto small = alike_at_small_shapes(reference, candidate);
    if (small && work_of(*small->first, *small->second) < work_of(reference, candidate)) {
      STRATA_TRY(VerifyResult result, verify_in_time(*small->first, *small->second, options));
      const std::string shapes = fmt::format("; at {}, as no size matters", input_shapes(*small->first));
      (result.verdict == Verdict::Equivalent ? result.argument : result.reason) += shapes;
      return result;
    }
  }
  return verify_in_time(reference, candidate, options);
}

}  // namespace strata
