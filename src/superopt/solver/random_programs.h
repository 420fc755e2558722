// Random scalar programs for the tests of this folder, executed over any number type.
#pragma once

#include <array>
#include <cmath>
#include <vector>

#include "support/random.h"
#include "support/rational.h"

namespace strata {

enum class ScalarOp : uint8_t { Add, Sub, Mul, Div, Exp, Sqrt, Max, Greater, Select, Scale, Constant };

struct Instruction {
  ScalarOp op;
  std::array<size_t, 3> from;  ///< earlier values, inputs first
  Rational constant{};
};

template <class A>
typename A::Value apply(A& a, const Instruction& i, const std::vector<typename A::Value>& values) {
  const auto x = [&](size_t operand) { return values[i.from[operand]]; };
  switch (i.op) {
    case ScalarOp::Add:
      return a.add(x(0), x(1));
    case ScalarOp::Sub:
      return a.sub(x(0), x(1));
    case ScalarOp::Mul:
      return a.mul(x(0), x(1));
    case ScalarOp::Div:
      return a.div(x(0), x(1));
    case ScalarOp::Exp:
      return a.exp(x(0));
    case ScalarOp::Sqrt:
      return a.sqrt(x(0));
    case ScalarOp::Max:
      return a.max(x(0), x(1));
    case ScalarOp::Greater:
      return a.greater(x(0), x(1));
    case ScalarOp::Select:
      return a.select(x(0), x(1), x(2));
    case ScalarOp::Scale:
      return a.mul(a.constant(i.constant), x(0));
    case ScalarOp::Constant:
      return a.constant(i.constant);
  }
  return x(0);
}

/// float64 that knows where a value has no meaning (a root of a negative number, a quotient by 0, in a branch that is
/// taken), and where rounding may have decided.
struct TrackedArithmetic {
  struct Value {
    double x = 0;
    bool defined = true;
    bool close = false;
  };

  static bool near(double a, double b) { return a != b && std::fabs(a - b) <= 1e-9 * (1 + std::fabs(a)); }
  static Value with(double x, const Value& a, const Value& b) {
    // Beyond, a sum swallows its smaller operand.
    return {x, a.defined && b.defined, a.close || b.close || std::fabs(x) > 1e6};
  }
  Value add(Value a, Value b) const { return with(a.x + b.x, a, b); }
  Value sub(Value a, Value b) const { return with(a.x - b.x, a, b); }
  Value mul(Value a, Value b) const { return with(a.x * b.x, a, b); }
  Value div(Value a, Value b) const {
    Value result = with(a.x / b.x, a, b);
    result.defined &= b.x != 0;
    result.close |= b.x != 0 && std::fabs(b.x) < 1e-3;
    return result;
  }
  Value exp(Value a) const {
    Value result = with(std::exp(a.x), a, a);
    result.close |= result.x < 1e-6;
    return result;
  }
  Value sqrt(Value a) const {
    Value result = with(std::sqrt(a.x), a, a);
    result.defined &= a.x >= 0;
    result.close |= near(0, a.x);
    return result;
  }
  Value max(Value a, Value b) const { return with(std::max(a.x, b.x), a, b); }
  Value greater(Value a, Value b) const {
    Value result = with(a.x > b.x ? 1 : 0, a, b);
    result.close |= near(a.x, b.x);
    return result;
  }
  Value select(Value c, Value a, Value b) const {
    const Value taken = c.x != 0 ? a : b;
    return {taken.x, c.defined && taken.defined, c.close || taken.close || near(0, c.x)};
  }
  Value constant(const Rational& r) const { return {r.to_double()}; }
};

}  // namespace strata
