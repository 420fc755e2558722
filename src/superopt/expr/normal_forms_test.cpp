#include "superopt/expr/normal_forms.h"

#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "superopt/expr/subexpression_oracle.h"
#include "superopt/expr/test_trees.h"

namespace strata {
namespace {

class NormalFormsTest : public ::testing::Test {
 protected:
  ExprId rmax(int64_t k, ExprId a) { return b.function("reduce_max", k, std::array{a}, false); }
  ExprId max(ExprId p, ExprId q) { return b.function("max", 0, std::array{p, q}, true); }
  ExprId silu(ExprId a) { return b.function("silu", 0, std::array{a}, false); }
  bool contains(ExprId target, ExprId e) { return SubexpressionOracle(b, {target}).contains(e); }

  NormalForms b;
  ExprId one = b.constant({1, 1});
  ExprId c = b.constant({1, 1024});
  ExprId x = b.input("x"), y = b.input("y"), z = b.input("z"), w = b.input("w"), g = b.input("g");
};

TEST_F(NormalFormsTest, AddAndMulCommuteAndAssociate) {
  EXPECT_EQ(b.add(x, y), b.add(y, x));
  EXPECT_EQ(b.add(b.add(x, y), z), b.add(x, b.add(y, z)));
  EXPECT_EQ(b.mul(x, y), b.mul(y, x));
  EXPECT_EQ(b.mul(b.mul(x, y), z), b.mul(x, b.mul(y, z)));
  EXPECT_NE(b.add(x, x), x);
  EXPECT_NE(b.mul(x, x), x);
  EXPECT_NE(b.add(x, y), b.mul(x, y));
}

TEST_F(NormalFormsTest, Distribution) {
  EXPECT_EQ(b.mul(x, b.add(y, z)), b.add(b.mul(x, y), b.mul(x, z)));
  EXPECT_EQ(b.div(b.add(x, y), z), b.add(b.div(x, z), b.div(y, z)));
  EXPECT_EQ(b.sum(8, b.add(x, y)), b.add(b.sum(8, x), b.sum(8, y)));
  EXPECT_NE(b.div(z, b.add(x, y)), b.add(b.div(z, x), b.div(z, y)));
}

TEST_F(NormalFormsTest, Division) {
  EXPECT_EQ(b.mul(x, b.div(y, z)), b.div(b.mul(x, y), z));
  EXPECT_EQ(b.div(b.div(x, y), z), b.div(x, b.mul(y, z)));
  EXPECT_EQ(b.div(x, b.div(b.mul(y, z), w)), b.div(b.div(x, y), b.div(z, w)));
  EXPECT_EQ(b.div(x, one), x);
}

TEST_F(NormalFormsTest, NothingCancels) {
  EXPECT_NE(b.div(b.mul(x, y), y), x);
  EXPECT_NE(b.div(one, b.div(one, z)), z);
  EXPECT_NE(b.div(x, x), one);
  EXPECT_NE(b.mul(b.sqrt(x), b.sqrt(x)), x);
  EXPECT_NE(b.add(x, b.mul(b.constant({-1, 1}), x)), b.constant({0, 1}));
  EXPECT_NE(b.sum(2, x), b.add(x, x));
  EXPECT_NE(b.sum(2, x), b.mul(b.constant({2, 1}), x));
  EXPECT_NE(b.mul(b.constant({2, 1}), b.constant({3, 1})), b.constant({6, 1}));
}

TEST_F(NormalFormsTest, DenominatorsAreExpanded) {
  const ExprId apart = b.div(b.div(one, b.add(x, y)), b.add(z, w));
  EXPECT_EQ(apart, b.div(one, b.mul(b.add(x, y), b.add(z, w))));
  const ExprId expanded = b.add(b.add(b.mul(x, z), b.mul(x, w)), b.add(b.mul(y, z), b.mul(y, w)));
  EXPECT_EQ(apart, b.div(one, expanded));
  EXPECT_EQ(b.div(g, b.add(b.mul(x, y), b.mul(x, z))), b.div(b.div(g, x), b.add(y, z)));
  EXPECT_EQ(b.div(g, b.add(b.div(x, w), b.div(y, w))), b.div(b.div(g, b.add(x, y)), b.div(one, w)));
}

TEST_F(NormalFormsTest, EqualTermsAreCounted) {
  const ExprId square = b.mul(b.add(x, y), b.add(x, y));
  const ExprId xy = b.mul(x, y);
  EXPECT_EQ(square, b.add(b.add(b.mul(x, x), xy), b.add(xy, b.mul(y, y))));
  EXPECT_EQ(b.to_string(square), "2 times x*y + x^2 + y^2");
  EXPECT_NE(square, b.add(b.add(b.mul(x, x), xy), b.mul(y, y)));
}

/// The terms of a sum keep their order under multiplication, whatever order their parts were made in.
TEST_F(NormalFormsTest, TermsThatDifferInOneFactorOnly) {
  const auto wrappers = std::array<std::function<ExprId(ExprId)>, 4>{
      [&](ExprId e) { return b.div(one, e); }, [&](ExprId e) { return b.sqrt(e); }, [&](ExprId e) { return b.exp(e); },
      [&](ExprId e) { return b.div(b.exp(b.div(x, e)), b.sqrt(e)); }};
  const std::array parts{x, y, b.add(x, y), b.add(x, z), b.mul(z, w), b.sum(4, x)};
  for (const auto& f : wrappers) {
    for (const ExprId p : parts) {
      for (const ExprId q : parts) {
        for (const ExprId r : parts) {
          const ExprId apart = b.add(b.mul(f(q), f(r)), b.mul(f(p), f(r)));
          EXPECT_EQ(b.mul(b.add(f(p), f(q)), f(r)), apart);
          EXPECT_TRUE(contains(apart, b.add(f(p), f(q))));
          EXPECT_TRUE(contains(b.div(one, b.mul(apart, b.add(f(p), f(r)))), b.div(one, b.add(f(p), f(q)))));
        }
      }
    }
  }
  for (int64_t p = 1; p < 8; ++p) {
    for (int64_t q = 1; q < 8; ++q) {
      const ExprId whole = b.mul(b.add(b.sum(p, x), b.sum(q, x)), b.sum(2, y));
      EXPECT_EQ(whole, b.add(b.sum(2 * q, b.mul(x, y)), b.sum(2 * p, b.mul(x, y))));
    }
  }
}

TEST_F(NormalFormsTest, Sums) {
  EXPECT_EQ(b.sum(1, x), x);
  EXPECT_EQ(b.sum(4, b.sum(6, x)), b.sum(24, x));
  EXPECT_EQ(b.sum(4, b.sum(6, x)), b.sum(8, b.sum(3, x)));
  EXPECT_EQ(b.sum(4, b.mul(x, y)), b.mul(b.sum(4, x), y));
  EXPECT_EQ(b.mul(b.sum(4, x), y), b.mul(x, b.sum(4, y)));
  EXPECT_EQ(b.sum(4, b.div(x, y)), b.div(b.sum(4, x), y));
  EXPECT_NE(b.sum(4, b.div(x, y)), b.div(x, b.sum(4, y)));
  EXPECT_EQ(b.div(x, b.sum(4, b.mul(y, z))), b.div(b.div(x, y), b.sum(4, z)));
  EXPECT_NE(b.sum(4, b.exp(x)), b.exp(b.sum(4, x)));
}

TEST_F(NormalFormsTest, ExpAndSqrt) {
  EXPECT_EQ(b.mul(b.exp(x), b.exp(y)), b.exp(b.add(x, y)));
  EXPECT_EQ(b.mul(b.sqrt(x), b.sqrt(y)), b.sqrt(b.mul(x, y)));
  EXPECT_EQ(b.mul(b.sqrt(b.add(x, y)), b.sqrt(z)), b.sqrt(b.add(b.mul(x, z), b.mul(z, y))));
  EXPECT_EQ(b.sqrt(one), one);
  EXPECT_NE(b.exp(b.mul(x, y)), b.mul(b.exp(x), b.exp(y)));
  EXPECT_NE(b.sqrt(b.div(one, x)), b.div(one, b.sqrt(x)));
  EXPECT_NE(b.exp(x), b.sqrt(x));
}

TEST_F(NormalFormsTest, Functions) {
  EXPECT_EQ(rmax(4, rmax(6, x)), rmax(24, x));
  EXPECT_EQ(rmax(1, x), x);
  EXPECT_NE(rmax(4, x), rmax(6, x));
  EXPECT_EQ(max(max(x, y), z), max(y, max(z, x)));
  EXPECT_NE(max(x, x), x);
  EXPECT_EQ(silu(b.mul(x, y)), silu(b.mul(y, x)));
  EXPECT_NE(silu(x), b.function("gelu", 0, std::array{x}, false));
  EXPECT_NE(b.function("concat", 0, std::array{x, y}, false), b.function("concat", 0, std::array{y, x}, false));
  EXPECT_EQ(b.function("f", 0, std::array{x, y}, true), b.function("f", 0, std::array{y, x}, true));
  EXPECT_NE(b.function("f", 0, std::array{x}, true), b.function("f", 1, std::array{x}, true));
}

TEST_F(NormalFormsTest, RmsNormWithDelayedDivision) {
  const ExprId root = b.sqrt(b.mul(c, b.sum(1024, b.mul(x, x))));
  const ExprId target = b.sum(1024, b.mul(b.div(b.mul(x, g), root), w));
  EXPECT_EQ(target, b.div(b.sum(1024, b.mul(b.mul(x, g), w)), root));
  EXPECT_EQ(target, b.div(b.sum(16, b.sum(64, b.mul(b.mul(x, g), w))), root));

  SubexpressionOracle oracle(b, {target});
  for (const ExprId part : {x, g, w, c, one, b.mul(x, x), b.mul(g, w), b.mul(x, w), b.sum(64, b.mul(x, x)),
                            b.sum(64, x), root, b.sum(64, b.mul(b.mul(x, g), w)), b.div(w, root), b.div(one, root),
                            b.mul(c, b.mul(x, x)), b.sqrt(b.mul(x, x)), b.sqrt(x), b.sqrt(b.sum(1024, x)), target}) {
    EXPECT_TRUE(oracle.contains(part)) << b.to_string(part);
  }
  for (const ExprId alien : {y, b.mul(w, w), b.mul(g, g), b.sum(3, x), b.sum(2048, b.mul(x, x)), b.exp(x), b.add(x, g),
                             b.add(x, x), b.div(w, g), b.mul(x, b.mul(x, x)), b.mul(x, root),
                             b.div(b.div(x, root), root), b.sqrt(w), b.sqrt(root), silu(x), b.mul(target, x)}) {
    EXPECT_FALSE(oracle.contains(alien)) << b.to_string(alien);
  }
  EXPECT_TRUE(oracle.equals_target(0, target));
  EXPECT_FALSE(oracle.equals_target(0, root));
}

TEST_F(NormalFormsTest, AttentionInFlashForm) {
  const ExprId q = b.input("q"), k = b.input("k"), v = b.input("v");
  const ExprId p = b.exp(b.sum(64, b.mul(q, k)));
  const ExprId target = b.sum(4096, b.mul(b.div(p, b.sum(4096, p)), v));
  const ExprId split = b.div(b.sum(32, b.sum(128, b.mul(p, v))), b.sum(32, b.sum(128, p)));
  EXPECT_EQ(target, split);
  EXPECT_TRUE(contains(target, b.sum(128, b.mul(p, v))));
  EXPECT_TRUE(contains(target, b.sum(128, p)));
  EXPECT_TRUE(contains(target, b.mul(q, k)));
  EXPECT_FALSE(contains(target, b.exp(q)));
  EXPECT_FALSE(contains(target, b.mul(q, v)));
  EXPECT_FALSE(contains(target, b.mul(p, p)));

  const ExprId shifted = b.exp(b.add(b.mul(q, k), x));
  EXPECT_TRUE(contains(shifted, b.exp(x)));
  EXPECT_TRUE(contains(shifted, b.exp(b.mul(q, k))));
  EXPECT_FALSE(contains(shifted, b.mul(b.exp(x), x)));
}

TEST_F(NormalFormsTest, PartsOfSumsDenominatorsAndFunctions) {
  const ExprId wide = b.add(b.mul(x, b.add(y, z)), w);
  EXPECT_TRUE(contains(wide, b.add(y, z)));
  EXPECT_TRUE(contains(wide, b.add(b.mul(x, z), w)));
  EXPECT_FALSE(contains(wide, b.add(y, w)));
  EXPECT_FALSE(contains(wide, b.add(x, y)));
  EXPECT_FALSE(contains(wide, b.add(y, y)));

  const ExprId over = b.div(one, b.mul(b.add(x, y), b.add(z, w)));
  EXPECT_TRUE(contains(over, b.add(x, y)));
  EXPECT_TRUE(contains(over, b.div(one, b.add(z, w))));
  EXPECT_FALSE(contains(over, b.div(one, x)));  // 1/(x + y) has no factor 1/x
  EXPECT_TRUE(contains(over, b.mul(x, z)));
  EXPECT_FALSE(contains(over, b.mul(x, y)));
  EXPECT_FALSE(contains(over, b.add(b.mul(x, z), b.mul(x, y))));

  const ExprId root = b.sqrt(b.mul(b.add(x, y), b.add(z, w)));
  EXPECT_TRUE(contains(root, b.sqrt(b.add(x, y))));
  EXPECT_FALSE(contains(root, b.sqrt(b.add(x, z))));

  const ExprId peak = b.mul(g, max(max(x, y), rmax(24, z)));
  EXPECT_TRUE(contains(peak, max(x, y)));
  EXPECT_TRUE(contains(peak, max(y, rmax(24, z))));
  EXPECT_TRUE(contains(peak, rmax(8, z)));
  EXPECT_TRUE(contains(peak, z));
  EXPECT_FALSE(contains(peak, max(x, z)));
  EXPECT_FALSE(contains(peak, rmax(5, z)));
  EXPECT_FALSE(contains(peak, b.mul(g, max(x, y))));
}

TEST_F(NormalFormsTest, SeveralTargets) {
  SubexpressionOracle oracle(b, {b.mul(x, y), b.exp(z)});
  EXPECT_TRUE(oracle.contains(b.mul(x, y)));
  EXPECT_TRUE(oracle.contains(z));
  EXPECT_FALSE(oracle.contains(b.mul(x, z)));
  EXPECT_TRUE(oracle.equals_target(1, b.exp(z)));
  EXPECT_FALSE(oracle.equals_target(0, b.exp(z)));
}

TEST_F(NormalFormsTest, OversizedExpressionsAreRejectedUnlessTheTargetIsOne) {
  ExprId wide = b.add(b.add(x, y), b.add(z, w));
  const ExprId modest = wide;
  for (int i = 0; i < 6; ++i) wide = b.mul(wide, wide);
  EXPECT_EQ(wide, NormalForms::kOversized);
  EXPECT_EQ(b.exp(b.div(g, wide)), NormalForms::kOversized);
  EXPECT_FALSE(contains(modest, wide));
  EXPECT_TRUE(contains(wide, b.mul(g, g)));
  EXPECT_EQ(b.sum(int64_t{1} << 40, b.sum(int64_t{1} << 40, x)), NormalForms::kOversized);
  ExprId many = x;
  for (int i = 0; i < 70; ++i) many = b.add(many, many);
  EXPECT_EQ(many, NormalForms::kOversized);
  // Part by part: nothing oversized fits a part that is not, and it has no terms to look at.
  SubexpressionOracle oracle(b, {modest});
  const auto any = [](MonomialId) { return true; };
  EXPECT_FALSE(oracle.oversized());
  EXPECT_TRUE(oracle.fits(modest, oracle.parts()[0]));
  EXPECT_FALSE(oracle.fits(wide, oracle.parts()[0]));
  EXPECT_TRUE(oracle.fits(modest, wide));
  EXPECT_TRUE(oracle.any_multiplier(modest, oracle.parts()[0], any));
  EXPECT_FALSE(oracle.any_multiplier(wide, oracle.parts()[0], any));
  EXPECT_TRUE(SubexpressionOracle(b, {modest, wide}).oversized());
}

TEST_F(NormalFormsTest, Text) {
  EXPECT_EQ(b.to_string(one), "1");
  EXPECT_EQ(b.to_string(b.add(x, b.add(x, b.mul(y, x)))), "2 times x + x*y");
  EXPECT_EQ(b.to_string(b.div(b.sum(8, b.mul(x, w)), b.sqrt(b.mul(c, b.mul(x, x))))),
            "sum(8, w*x) / (sqrt((1/1024)*x^2))");
  EXPECT_EQ(b.to_string(b.exp(rmax(4, max(y, x)))), "exp(reduce_max[4](max(x, y)))");
}

TEST(NormalFormsThreads, ThreadsAgree) {
  NormalForms forms;
  Random setup(7);
  std::vector<expr_test::Tree> trees;
  for (int i = 0; i < 400; ++i) trees.push_back(expr_test::random_tree(setup, 6, 3));
  const ExprId target = expr_test::build(forms, trees[0]);
  SubexpressionOracle oracle(forms, {target});
  constexpr size_t kThreads = 4;
  std::array<std::vector<ExprId>, kThreads> ids;
  std::array<std::vector<bool>, kThreads> inside;
  {
    std::vector<std::jthread> threads;
    for (size_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        ids[t].resize(trees.size());
        inside[t].resize(trees.size());
        for (size_t i = 0; i < trees.size(); ++i) {
          const size_t at = (i * (2 * t + 1) + t) % trees.size();
          ids[t][at] = expr_test::build(forms, trees[at]);
          inside[t][at] = oracle.contains(ids[t][at]);
        }
        for (size_t i = 0; i < trees.size(); ++i) {
          ids[t][i] = expr_test::build(forms, trees[i]);
          inside[t][i] = oracle.contains(ids[t][i]);
        }
      });
    }
  }
  for (size_t t = 1; t < kThreads; ++t) {
    EXPECT_EQ(ids[t], ids[0]);
    EXPECT_EQ(inside[t], inside[0]);
  }
  NormalForms alone;
  for (size_t i = 0; i < trees.size(); ++i) {
    EXPECT_EQ(alone.to_string(expr_test::build(alone, trees[i])), forms.to_string(ids[0][i]));
  }
}

}  // namespace
}  // namespace strata
