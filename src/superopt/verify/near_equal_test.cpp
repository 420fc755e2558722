// Programs that differ in one of many exponential terms, over small primes, where wrong ones are accepted now and then:
// never more often than the bound says.
#include <gtest/gtest.h>

#include <cmath>

#include "superopt/verify/test_graphs.h"
#include "superopt/verify/verify.h"

namespace strata {
namespace {

struct Case {
  std::string name, reference, candidate;
  double zeros = 0;  ///< share of the samples at which they agree, times q, as the algebra says; 0: not known
};

/// Σ_j w_j exp(x_j) and the same with another exponent, or coefficient, in the first term.
std::vector<Case> cases(int k) {
  const std::string inputs = fmt::format("input x: f32[{0}];input w: f32[{0}];", k);
  const std::string first = "h = slice(x, dim=0, start=0, size=1);";
  const std::string rest = fmt::format("t = slice(x, dim=0, start=1, size={});", k - 1);
  const std::string sum = "e = exp(y);m = mul(e, w);o = sum(m, dim=0);output o";
  const std::string same = inputs + "y = scale(x, factor=1);" + sum;
  return {
      {"exponent doubled", same, inputs + first + rest + "d = scale(h, factor=2);y = concat(d, t, dim=0);" + sum, 1},
      {"exponent of another term", same,
       inputs + rest + fmt::format("d = slice(x, dim=0, start={}, size=1);y = concat(d, t, dim=0);", k - 1) + sum, 1},
      {"exponent negated", same, inputs + first + rest + "d = scale(h, factor=-1);y = concat(d, t, dim=0);" + sum, 1},
      {"coefficient doubled", same,
       inputs + "e = exp(x);m = mul(e, w);" + "g = slice(m, dim=0, start=0, size=1);" +
           fmt::format("r = slice(m, dim=0, start=1, size={});", k - 1) +
           "d = scale(g, factor=2);y = concat(d, r, dim=0);o = sum(y, dim=0);output o",
       0},
      // Exponents that are sums of two inputs: a term's is no input of its own.
      {"products of exponentials",
       "input x: f32[3];input y: f32[3];z = add(x, y);e = exp(z);o = sum(e, dim=0);output o",
       "input x: f32[3];input y: f32[3];z = sub(x, y);e = exp(z);o = sum(e, dim=0);output o", 0}};
}

TEST(NearEqual, AreAcceptedNoMoreOftenThanTheBound) {
  constexpr int kTrials = 1500;
  constexpr std::array kPrimes{FieldPrimes{47, 23}, FieldPrimes{167, 83}, FieldPrimes{263, 131}};
  int accepted_in_all = 0;
  for (const int k : {2, 4, 8, 16, 32}) {
    for (const Case& c : cases(k)) {
      const GraphPtr reference = graph_of(c.reference);
      const GraphPtr candidate = graph_of(c.candidate);
      for (const FieldPrimes& primes : kPrimes) {
        int accepted = 0;
        double bound = 0;
        for (uint64_t seed = 1; seed <= kTrials; ++seed) {
          // δ so large that one test suffices wherever there is a bound below 1.
          const auto result = verify(*reference, *candidate, {.delta = 0.999, .seed = seed, .primes = primes});
          ASSERT_TRUE(result) << result.error().to_string();
          if (result->verdict != Verdict::Equivalent) continue;
          ++accepted;
          bound = std::max(bound, result->error_bound);
        }
        accepted_in_all += accepted;
        const double rate = accepted / static_cast<double>(kTrials);
        const std::string what =
            fmt::format("{}, {} terms, p = {}: {:.4f} accepted, bound {:.4f}", c.name, k, primes.p, rate, bound);
        EXPECT_LE(rate, bound + 4 * std::sqrt(bound / kTrials)) << what;
        if (accepted == 0 || c.zeros == 0) continue;
        // One zero of q: the bound is not vacuous, and the rate is what it should be.
        EXPECT_GE(rate, 0.3 * c.zeros / static_cast<double>(primes.q)) << what;
      }
    }
  }
  EXPECT_GT(accepted_in_all, 500);  // else nothing was tested
}

}  // namespace
}  // namespace strata
