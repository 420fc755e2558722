#include "superopt/solver/formulas.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/random.h"

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

/// One random operator on random earlier values, over numbers and over formulas.
template <class A>
typename A::Value apply(A& a, size_t op, const std::array<typename A::Value, 3>& x, const Rational& constant) {
  switch (op) {
    case 0:
      return a.add(x[0], x[1]);
    case 1:
      return a.sub(x[0], x[1]);
    case 2:
      return a.mul(x[0], x[1]);
    case 3:
      return a.div(x[0], x[1]);
    case 4:
      return a.exp(x[0]);
    case 5:
      return a.sqrt(x[0]);
    case 6:
      return a.max(x[0], x[1]);
    case 7:
      return a.greater(x[0], x[1]);
    case 8:
      return a.select(x[0], x[1], x[2]);
    case 9:
      return a.mul(a.constant(constant), x[0]);
    default:
      return a.constant(constant);
  }
}

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
      const size_t op = random.below(11);
      std::array<size_t, 3> from{};
      for (size_t& operand : from) operand = random.below(values.size());
      const Rational constant{static_cast<int64_t>(random.below(9)) - 4, 1 + static_cast<int64_t>(random.below(2))};
      const Rational lowest = *make_rational(constant.num, constant.den);
      values.push_back(apply(real, op, {values[from[0]], values[from[1]], values[from[2]]}, lowest));
      terms.push_back(apply(symbolic, op, {terms[from[0]], terms[from[1]], terms[from[2]]}, lowest));
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
  formulas.sqrt(square);
  formulas.div(x, formulas.exp(x));
  formulas.div(x, formulas.add(square, formulas.constant({1, 1})));
  EXPECT_TRUE(formulas.take_conditions().empty());
  formulas.sqrt(x);
  formulas.div(square, x);
  EXPECT_EQ(formulas.take_conditions().size(), 2u);
}

}  // namespace
}  // namespace strata
