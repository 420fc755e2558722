// Programs with maxima over finite fields: what cancels, what depends on the order, and what is left to the solver.
#include "superopt/verify/maxima.h"

#include <gmock/gmock.h>

#include "superopt/verify/shrink.h"
#include "superopt/verify/test_graphs.h"
#include "superopt/verify/verify.h"

namespace strata {
namespace {

const std::string kInputs = "input Q: f32[4, 2];input K: f32[2, 6];input V: f32[6, 3];A = matmul(Q, K);";
const std::string kPlain = kInputs + "E = exp(A);S = sum(E, dim=1);D = div(E, S);O = matmul(D, V);output O";

std::string softmax(const std::string& maximum, const std::string& denominator = "E") {
  return kInputs + maximum + "T = sub(A, M);E = exp(T);F = exp(A);S = sum(" + denominator +
         ", dim=1);D = div(E, S);U = scale(F, factor=0);O1 = matmul(D, V);Z = sum(U, dim=1);O = add(O1, Z);output O";
}

struct Case {
  const char* name;
  std::string reference;
  std::string candidate;
  Verdict verdict;
};

class Maxima : public testing::TestWithParam<Case> {};

TEST_P(Maxima, AreDecided) {
  const Case& c = GetParam();
  for (uint64_t seed : {1, 2, 3}) {
    const auto result = verify(*graph_of(c.reference), *graph_of(c.candidate), {.seed = seed});
    ASSERT_TRUE(result) << result.error().to_string();
    EXPECT_EQ(result->verdict, c.verdict) << result->reason;
    if (c.verdict == Verdict::Equivalent) {
      EXPECT_LE(result->error_bound, 1e-12);
    }
  }
}

const std::string kRow = "M = reduce_max(A, dim=1);";
const std::string kPair = "input x: f32[2];input y: f32[2];input z: f32[2];";

INSTANTIATE_TEST_SUITE_P(
    Pairs, Maxima,
    testing::Values(
        Case{"softmax", kPlain, softmax(kRow), Verdict::Equivalent},
        Case{"softmax_reversed", softmax(kRow), kPlain, Verdict::Equivalent},
        Case{"whole_matrix_maximum", kPlain, softmax("N = reduce_max(A, dim=1);M = reduce_max(N, dim=0);"),
             Verdict::Equivalent},
        Case{"column_maximum", kPlain, softmax("M = reduce_max(A, dim=0);"), Verdict::Different},
        Case{"denominator_without", kPlain, softmax(kRow, "F"), Verdict::Different},
        Case{"groups", kPlain, softmax("N = reduce_max(A, dim=1, every=3);M = reduce_max(N, dim=1);"),
             Verdict::Equivalent},
        Case{"groups_only", kPlain, softmax("N = reduce_max(A, dim=1, every=3);M = repeat(N, dim=1, times=3);"),
             Verdict::Different},
        Case{"rows_then_columns", "input x: f32[2, 2];a = reduce_max(x, dim=1);b = reduce_max(a, dim=0);output b",
             "input x: f32[2, 2];a = reduce_max(x, dim=0);b = reduce_max(a, dim=1);output b", Verdict::Equivalent},
        Case{"maximum_or_sum", "input x: f32[2, 2];a = reduce_max(x, dim=1);b = reduce_max(a, dim=0);output b",
             "input x: f32[2, 2];a = reduce_max(x, dim=0);b = sum(a, dim=1);output b", Verdict::Different},
        Case{"commutes", kPair + "a = max(x, y);b = max(a, z);output b", kPair + "a = max(z, y);b = max(x, a);output b",
             Verdict::Equivalent},
        Case{"idempotent", kPair + "a = max(x, y);b = add(a, z);output b",
             kPair + "a = max(x, y);c = max(a, y);b = add(c, z);output b", Verdict::Equivalent},
        Case{"one_missing", kPair + "a = max(x, y);b = max(a, z);output b",
             kPair + "b = max(x, y);c = mul(b, z);d = "
                     "div(c, z);output d",
             Verdict::Different},
        // True over the reals; the order of a field knows nothing of sums.
        Case{"with_arithmetic", kPair + "a = max(x, y);b = add(a, z);output b",
             kPair + "c = add(x, z);d = add(y, z);b = max(c, d);output b", Verdict::Undecided},
        Case{"doubled", kPair + "a = max(x, y);c = add(z, z);b = add(a, a);e = add(b, c);output e",
             kPair + "c = add(x, x);d = add(y, y);a = max(c, d);f = add(z, z);b = add(a, f);output b",
             Verdict::Undecided}),
    [](const auto& c) { return std::string(c.param.name); });

TEST(OnlineSoftmax, IsProvedAndItsMistakesAreFound) {
  const GraphPtr program = load_program("gqa");
  for (const char* name : {"gqa_online", "gqa_online_split"}) {
    const std::string text = print(*load_data(name));
    const auto check = [&](const std::string& changed) {
      auto graph = parse_graph(changed);
      EXPECT_TRUE(graph) << changed;
      auto small = shrink(*program, **graph);
      EXPECT_TRUE(small);
      return verify(*small->first, *small->second)->verdict;
    };
    EXPECT_EQ(check(text), Verdict::Equivalent) << name;
    // One of the accumulators forgets to rescale.
    for (const char* mistaken : {"accum_rescale(s, m)", "accum_rescale(p, m)"}) {
      std::string wrong = text;
      const size_t at = wrong.find(mistaken);
      ASSERT_NE(at, std::string::npos);
      wrong.replace(at, std::string_view(mistaken).size(), fmt::format("accum({}, kind=sum)", mistaken[14]));
      EXPECT_EQ(check(wrong), Verdict::Different) << name << " " << mistaken;
    }
  }
}

TEST(Maxima, CancelInSoftmaxAlone) {
  const auto cancels = [](const std::string& text) {
    const GraphPtr graph = graph_of(text);
    return *maxima_cancel(*graph, *graph, kVerifierPrimes, 1, {});
  };
  EXPECT_TRUE(cancels(softmax(kRow)));
  EXPECT_FALSE(cancels(softmax(kRow, "F")));
  EXPECT_FALSE(cancels("input x: f32[2, 3];a = reduce_max(x, dim=1);output a"));
}

}  // namespace
}  // namespace strata
