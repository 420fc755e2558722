#include "superopt/verify/verify.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "superopt/verify/bound.h"
#include "superopt/verify/compare.h"
#include "superopt/verify/exponents.h"
#include "superopt/verify/floats.h"
#include "superopt/verify/inputs.h"
#include "superopt/verify/lax.h"
#include "superopt/verify/maxima.h"
#include "superopt/verify/sample.h"
#include "superopt/verify/shrink.h"

namespace strata {
namespace {

/// Samples that may be lost to divisions by zero or to roots of non-residues before giving up.
constexpr int kLostSamples = 32;
/// Tests of programs without a reachable bound: enough to refute what is wrong.
constexpr int kRefutations = 2;
/// Tests of the signs of square roots: one wrong sign among three passes the most of them with (7/8)^256 = 1.4e-15, the
/// fewest, where shapes shrink badly, exclude a single wrong sign with 2^−48.
constexpr int64_t kMostSignTests = 256;
constexpr int64_t kFewestSignTests = 48;
constexpr int64_t kSignTestElements = 1 << 21;

/// Maxima of more elements than this have more orders than tests can meet.
constexpr size_t kMostCompared = 6;

struct Outcome {
  bool counts = false;  ///< no division by zero and no root of a non-residue
  bool divided_by_zero = false;
  std::optional<Counterexample> difference;
};

/// With `maxima_cancel` the reference's maxima are 0: its exponents are then those of the bound.
Result<Outcome> test(const Graph& reference, const Graph& candidate, FieldSample sample, bool maxima_cancel,
                     const std::stop_token& stop) {
  FieldArithmetic first = sample.arithmetic;
  if (maxima_cancel) first.maximum = FieldArithmetic::Maximum::Zero;
  STRATA_TRY(const auto expected, execute(reference, first, sample.inputs, stop));
  const auto inputs = reordered(std::move(sample.inputs), input_order(reference, candidate));
  FieldArithmetic second = sample.arithmetic;
  STRATA_TRY(const auto found, execute(candidate, second, inputs, stop));
  Outcome outcome;
  outcome.divided_by_zero = first.divided_by_zero || second.divided_by_zero;
  outcome.counts = !outcome.divided_by_zero && !first.left_residues && !second.left_residues;
  if (!outcome.divided_by_zero) outcome.difference = first_difference(reference, expected, found, first.fp);
  return outcome;
}

/// How many tests reach δ; 0 where more than `limit` would.
int tests_needed(double per_test, double delta, int limit) {
  if (per_test <= 0) return 1;
  if (per_test >= 1) return 0;
  const double tests = std::max(1.0, std::ceil(std::log(delta) / std::log(per_test) - 1e-9));
  return tests <= limit ? static_cast<int>(tests) : 0;
}

/// One comparison of two programs: the tests and what they have shown so far.
class Verification {
 public:
  Verification(const Graph& reference, const Graph& candidate, const VerifyOptions& options)
      : reference_(reference),
        candidate_(candidate),
        options_(options),
        roots_(takes_roots(reference) || takes_roots(candidate)),
        maxima_(takes_maxima(reference) || takes_maxima(candidate)) {}

  Result<VerifyResult> run() {
    for (const Graph* graph : {&reference_, &candidate_}) {
      if (auto violation = lax_violation(*graph)) return undecided(*violation);
    }
    if (maxima_) STRATA_CHECK(look_at_maxima());
    // Where maxima matter, a step of an input may change which element is the largest: no derivative by differences.
    const bool independent = (!maxima_ || maxima_cancel_) &&
                             exponents_independent(reference_, candidate_, mix(options_.seed), maxima_cancel_);
    TestBound bound = test_bound(reference_, candidate_, options_.primes, independent, maxima_cancel_);
    result_.argument = bound.argument;
    if (roots_) STRATA_CHECK(test_signs(bound));
    if (maxima_ && !done_) STRATA_CHECK(test_orders());
    if (done_ && result_.verdict != Verdict::Different) return result_;
    const bool small_differ = std::exchange(done_, false);
    result_ = VerifyResult{.argument = result_.argument};
    const int needed = tests_needed(bound.per_test, options_.delta, options_.max_tests);
    STRATA_CHECK(run_tests(reference_, candidate_, needed > 0 ? needed : kRefutations, options_.seed));
    if (done_) return result_;
    if (small_differ) return undecided("the programs agree at full shape and differ at shrunk shapes");
    if (needed == 0) {
      return undecided(fmt::format("the programs agree, but {} tests do not reach the bound {:g}", options_.max_tests,
                                   options_.delta));
    }
    result_.verdict = Verdict::Equivalent;
    result_.tests = needed;
    result_.error_bound = std::max(std::pow(bound.per_test, needed), orders_bound_);
    return result_;
  }

 private:
  VerifyResult undecided(std::string reason) {
    done_ = true;
    result_.reason = std::move(reason);
    return result_;
  }

  /// Tests that exclude programs which agree for one sign of a root only: √(x²) and x. They run at shrunk shapes, where
  /// many are cheap; where there are none, every test may be one of the agreeing half. A difference there is shown
  /// again at full shape.
  Result<void> test_signs(TestBound& bound) {
    const auto& shrunk = small();
    if (!shrunk) {
      bound.per_test = std::max(bound.per_test, 0.5);
      result_.argument += "; signs of roots untested at small shapes";
      return {};
    }
    int64_t elements = 0;
    for (const TensorInfo& tensor : shrunk->first->tensors()) elements += tensor.type.elements();
    const auto tests = static_cast<int>(std::clamp(kSignTestElements / elements, kFewestSignTests, kMostSignTests));
    result_.argument += fmt::format("; signs of roots: {} tests at small shapes", tests);
    return run_tests(*shrunk->first, *shrunk->second, tests, mix(~options_.seed));
  }

  /// Both programs at shrunk shapes, once; the reason, where there are none.
  const Result<std::pair<GraphPtr, GraphPtr>>& small() {
    if (!small_) small_ = shrink(reference_, candidate_);
    return *small_;
  }

  /// Whether anything depends on the maxima: at shrunk shapes, or at full ones where those do not shrink.
  Result<void> look_at_maxima() {
    const auto& shrunk = small();
    const Graph& first = shrunk ? *shrunk->first : reference_;
    const Graph& second = shrunk ? *shrunk->second : candidate_;
    STRATA_TRY(maxima_cancel_, maxima_cancel(first, second, options_.primes, mix(options_.seed + 1), options_.stop));
    return {};
  }

  /// Where results depend on maxima: tests at shrunk shapes, so many that each order of what is compared is likely met.
  /// A pair that differs does so for one order at least, of k elements one of k!.
  Result<void> test_orders() {
    if (maxima_cancel_) {
      result_.argument += "; maxima cancel";
      return {};
    }
    const auto& shrunk = small();
    if (!shrunk) {
      undecided("results depend on maxima, and the shapes do not shrink: " + shrunk.error().message);
      return {};
    }
    const Graph& first = *shrunk->first;
    const Graph& second = *shrunk->second;
    STRATA_TRY(const size_t k, compared_elements(first, second, options_.primes, options_.seed, options_.stop));
    if (k > kMostCompared) {
      // What is wrong is refuted all the same.
      STRATA_CHECK(run_tests(first, second, kRefutations, mix(options_.seed + 2)));
      if (!done_) undecided(fmt::format("results depend on maxima of {} elements, which have too many orders", k));
      return {};
    }
    const TestBound bound = test_bound(first, second, options_.primes, false);
    const double accepted = 1 - (1 - bound.per_test) / std::tgamma(static_cast<double>(k) + 1);
    const int tests = tests_needed(accepted, options_.delta, std::numeric_limits<int>::max());
    if (tests == 0) {
      undecided("results depend on maxima, and no bound is known at small shapes");
      return {};
    }
    orders_bound_ = std::pow(accepted, tests);
    result_.argument += fmt::format("; orders of {} elements: {} tests at small shapes", k, tests);
    return run_tests(first, second, tests, mix(options_.seed + 2));
  }

  /// Runs until `wanted` tests have counted. Done, with a verdict, when it could not.
  Result<void> run_tests(const Graph& reference, const Graph& candidate, int wanted, uint64_t first_seed) {
    const Sampler sampler(reference, options_.primes);
    int divisions = 0;
    int unclean = 0;
    int counted = 0;
    for (uint64_t n = 0; counted < wanted; ++n) {
      const uint64_t seed = mix(first_seed ^ mix(n));
      STRATA_TRY(Outcome outcome, test(reference, candidate, sampler.draw(seed), maxima_cancel_, options_.stop));
      if (outcome.difference) {
        outcome.difference->seed = seed;
        STRATA_CHECK(judge(std::move(*outcome.difference), outcome.counts));
        if (done_) return {};
      }
      if (outcome.counts) ++counted;
      if (outcome.counts || ++(outcome.divided_by_zero ? divisions : unclean) <= kLostSamples) continue;
      undecided(divisions > kLostSamples ? "every sample divides by zero"
                                         : "no sample was found in which all square roots are of quadratic residues");
      return {};
    }
    result_.tests = counted;
    return {};
  }

  /// A difference in the field. With roots it may be the field's and not the programs': float64 decides, and where it
  /// sees none, a sample with a root of a non-residue is only lost.
  Result<void> judge(Counterexample difference, bool clean) {
    const std::string where = fmt::format("'{}' differs at {}", difference.output, to_string(difference.index));
    if (roots_ || maxima_) {
      if (!differ_) {
        STRATA_TRY(const bool differ, differ_over_reals(reference_, candidate_, options_.seed, options_.stop));
        differ_ = differ;
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

  const Graph& reference_;
  const Graph& candidate_;
  const VerifyOptions& options_;
  bool roots_;
  bool maxima_;
  bool maxima_cancel_ = false;
  double orders_bound_ = 0;  ///< of test_orders
  std::optional<Result<std::pair<GraphPtr, GraphPtr>>> small_;
  bool done_ = false;
  std::optional<bool> differ_;  ///< over the reals, once known
  VerifyResult result_;
};

}  // namespace

Result<VerifyResult> verify(const Graph& reference, const Graph& candidate, const VerifyOptions& options) {
  STRATA_CHECK(check_interface(reference, candidate));
  return Verification(reference, candidate, options).run();
}

}  // namespace strata
