#include "superopt/solver/formulas.h"

#include <gtest/gtest.h>

#include <cmath>

#include "superopt/solver/random_programs.h"

namespace strata {
namespace {

/// A formula's value, straight from the meaning of its atoms.
class Evaluation {
 public:
  Evaluation(const Formulas& formulas, std::vector<double> inputs) : formulas_(formulas), inputs_(std::move(inputs)) {}

  double operator()(const Polynomial& f) const {
    double sum = 0;
    for (const Term& term : f) {
      double product = static_cast<double>(term.coefficient.num) / static_cast<double>(term.coefficient.den);
      for (const Factor& factor : term.monomial) {
        product *= std::pow(atom(factor.atom),
                            static_cast<double>(factor.exponent.num) / static_cast<double>(factor.exponent.den));
      }
      sum += product;
    }
    return sum;
  }

  /// A step was decided by rounding.
  bool close() const { return close_; }

 private:
  double atom(AtomId id) const {
    const Atom& of = formulas_.atom(id);
    std::vector<double> x;
    for (const Polynomial& f : of.arguments) x.push_back((*this)(f));
    switch (of.kind) {
      case AtomKind::Input:
        return inputs_[id];
      case AtomKind::Exp:
        return std::exp(x[0]);
      case AtomKind::Root:
        return std::sqrt(x[0]);
      case AtomKind::Abs:
        return std::fabs(x[0]);
      case AtomKind::Max:
        return *std::max_element(x.begin(), x.end());
      case AtomKind::Positive:
        close_ |= x[0] != 0 && std::fabs(x[0]) < 1e-9;
        return x[0] > 0 ? 1 : 0;
      case AtomKind::Inverse:
        return 1 / x[0];
    }
    return 0;
  }

  const Formulas& formulas_;
  std::vector<double> inputs_;
  mutable bool close_ = false;
};

TEST(Formulas, MeanWhatTheProgramComputes) {
  Random random(3);
  int compared = 0;
  std::array<int, 8> atoms{};
  for (int program = 0; program < 40000; ++program) {
    Formulas formulas({.terms = 400});
    SymbolicArithmetic symbolic{formulas};
    Float64Arithmetic real;
    std::vector<double> inputs;
    std::vector<SymbolicValue> terms;
    for (int i = 0; i < 3; ++i) {
      // Some inputs are equal and some 0, where comparisons turn.
      const double fresh = 4 * random.uniform() - 2;
      inputs.push_back(random.below(6) == 0 ? 0 : i > 0 && random.below(6) == 0 ? inputs[0] : fresh);
      terms.push_back(formulas.input(std::string(1, static_cast<char>('a' + i))));
    }
    std::vector<double> values = inputs;
    const size_t length = 2 + random.below(8);
    for (size_t step = 0; step < length; ++step) {
      Instruction instruction{static_cast<ScalarOp>(random.below(11)), {}};
      for (size_t& operand : instruction.from) operand = random.below(values.size());
      const Rational constant{static_cast<int64_t>(random.below(9)) - 4, 1 + static_cast<int64_t>(random.below(2))};
      instruction.constant = *make_rational(constant.num, constant.den);
      values.push_back(apply(real, instruction, values));
      terms.push_back(apply(symbolic, instruction, terms));
      const double value = values.back();
      // What is not defined, or too large or too close to a step for float64, ends the program.
      if (!std::isfinite(value) || std::fabs(value) > 1e4 || !formulas.failure().empty()) break;
      const Evaluation evaluation(formulas, inputs);
      const double found = evaluation(formulas[terms.back()]);
      if (!std::isfinite(found)) break;  // 0 · ∞ in a factor by itself
      const bool near = std::fabs(found - value) <= 1e-6 * (1 + std::fabs(value));
      if (!near) {
        // A step whose argument is rounding error decides either way.
        bool close = evaluation.close();
        for (const double x : values) {
          for (const double y : values) close |= x != y && std::fabs(x - y) < 1e-9 * (1 + std::fabs(x));
          close |= x != 0 && std::fabs(x) < 1e-9;
        }
        if (close) break;
      }
      EXPECT_TRUE(near) << value << " is " << found << " by "
                        << formulas.to_string(formulas[terms.back()]).substr(0, 400) << " at "
                        << testing::PrintToString(inputs);
      if (!near) return;
      ++compared;
      for (const Term& term : formulas[terms.back()]) {
        for (const Factor& factor : term.monomial) ++atoms[static_cast<size_t>(formulas.atom(factor.atom).kind)];
      }
    }
  }
  EXPECT_GT(compared, 80000);
  for (const AtomKind kind :
       {AtomKind::Exp, AtomKind::Root, AtomKind::Abs, AtomKind::Max, AtomKind::Positive, AtomKind::Inverse}) {
    EXPECT_GT(atoms[static_cast<size_t>(kind)], 400) << static_cast<int>(kind);
  }
}

TEST(Formulas, NumbersThatDoNotFitFail) {
  Formulas formulas;
  SymbolicValue x = formulas.constant({int64_t{1} << 40, 1});
  x = formulas.mul(x, x);
  EXPECT_FALSE(formulas.failure().empty());
}

TEST(Formulas, FormulasOfTooManyTermsFail) {
  Formulas formulas({.terms = 100});
  SymbolicValue sum = formulas.input("x");
  for (int i = 0; i < 5; ++i) sum = formulas.add(sum, formulas.input("y"));
  for (int i = 0; i < 3; ++i) sum = formulas.mul(sum, sum);
  EXPECT_FALSE(formulas.failure().empty());
}

TEST(Formulas, ConditionsThatAlwaysHoldAreNotMet) {
  Formulas formulas;
  const SymbolicValue x = formulas.input("x");
  const SymbolicValue square = formulas.mul(x, x);
  const std::vector<SymbolicValue> harmless{formulas.sqrt(square), formulas.div(x, formulas.exp(x)),
                                            formulas.div(x, formulas.add(square, formulas.constant({1, 1})))};
  EXPECT_TRUE(formulas.conditions_of(harmless).empty());
  const std::vector<SymbolicValue> others{formulas.sqrt(x), formulas.div(square, x)};
  EXPECT_EQ(formulas.conditions_of(others).size(), 2u);
}

TEST(Formulas, ZerosThatHaveNoVolume) {
  Formulas f;
  const SymbolicValue x = f.input("x");
  const SymbolicValue y = f.input("y");
  const SymbolicValue one = f.constant({1, 1});
  const SymbolicValue squares = f.add(f.mul(x, x), f.mul(y, y));
  const auto inverse = [&](SymbolicValue v) { return f.div(one, v); };
  const auto without_volume = [&](SymbolicValue v) { return f.zeros_have_no_volume(f[v]); };
  EXPECT_TRUE(without_volume(f.sub(x, y)));
  EXPECT_TRUE(without_volume(f.sub(f.exp(inverse(x)), y)));
  EXPECT_TRUE(without_volume(f.sub(inverse(f.sub(x, y)), x)));
  EXPECT_TRUE(without_volume(f.sub(f.sqrt(squares), one)));
  EXPECT_TRUE(without_volume(f.sub(f.sqrt(f.add(f.exp(x), squares)), y)));
  EXPECT_TRUE(without_volume(f.sub(f.sqrt(x), f.sqrt(f.sub(y, x)))));
  EXPECT_TRUE(without_volume(f.sub(f.sqrt(f.add(f.sqrt(x), one)), y)));
  // 0 on a region.
  const SymbolicValue sum = f.add(x, y);
  EXPECT_FALSE(without_volume(f.sub(f.sqrt(f.mul(sum, sum)), sum)));
  EXPECT_FALSE(without_volume(f.max(x, f.constant({0, 1}))));
  EXPECT_FALSE(without_volume(f.greater(x, y)));
  const SymbolicValue under = f.add(one, inverse(f.mul(x, x)));
  EXPECT_FALSE(without_volume(f.sub(f.mul(x, f.sqrt(under)), f.sqrt(f.add(f.mul(x, x), one)))));
  const SymbolicValue root = f.sqrt(f.add(one, inverse(x)));
  EXPECT_FALSE(without_volume(f.sub(f.mul(f.mul(x, root), root), f.mul(root, f.sqrt(f.add(f.mul(x, x), x))))));
  // 0 everywhere.
  EXPECT_FALSE(without_volume(f.sub(x, x)));
  const SymbolicValue growing = inverse(f.add(one, f.exp(x)));
  const SymbolicValue falling = inverse(f.add(one, f.exp(f.sub(f.constant({0, 1}), x))));
  EXPECT_FALSE(without_volume(f.sub(f.add(growing, falling), one)));
  // Not seen.
  EXPECT_FALSE(without_volume(f.sub(f.sqrt(f.mul(x, y)), one)));
}

/// Partial sums of n terms, each a formula of its own: n²/2 terms.
TEST(Formulas, StopGrowingTogether) {
  Formulas formulas({.all_terms = 5000});
  SymbolicValue sum = formulas.input("x0");
  for (int i = 1; i < 200; ++i) sum = formulas.add(sum, formulas.input(fmt::format("x{}", i)));
  EXPECT_EQ(formulas.failure(), "formulas have more than 5000 terms together");
}

TEST(Formulas, StopInTheMiddleOfSums) {
  std::stop_source stop;
  Formulas formulas({.stop = stop.get_token()});
  stop.request_stop();
  SymbolicValue sum = formulas.input("x0");
  for (int i = 1; i < 1000; ++i) sum = formulas.add(sum, formulas.input(fmt::format("x{}", i)));
  EXPECT_EQ(formulas.failure(), "time is up");
}

}  // namespace
}  // namespace strata
