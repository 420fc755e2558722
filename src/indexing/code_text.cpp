#include "indexing/code_text.h"

#include <fmt/format.h>

#include "indexing/expr_range.h"

namespace strata::indexing {
namespace {

constexpr Interval k32Bits{std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};

class Writer {
 public:
  Writer(const IndexingMap& map, const std::function<std::string(ExprKind, int)>& name) : range_(map), name_(name) {}

  /// With brackets around what binds less tightly than a product does.
  Result<std::string> factor(const Expr& expr) {
    STRATA_TRY(std::string text, write(expr));
    const bool tight = expr.is_variable() || expr.is_constant() || expr.kind() == ExprKind::Product;
    return tight ? text : "(" + text + ")";
  }

  Result<std::string> write(const Expr& expr) {
    const Interval values = range_(expr);
    if (expr.is_undefined() || values.lo == kLeast || values.hi == kGreatest) {
      return unsupported("the index {} may not fit 64 bits", to_string(expr));
    }
    switch (expr.kind()) {
      case ExprKind::Constant:
        return k32Bits.contains(expr.value()) ? fmt::format("{}", expr.value()) : fmt::format("{}LL", expr.value());
      case ExprKind::Dimension:
      case ExprKind::Range:
      case ExprKind::Runtime:
        return name_(expr.kind(), expr.number());
      case ExprKind::Product: {
        std::string text;
        for (const Expr& part : expr.factors()) {
          STRATA_TRY(const std::string one, factor(part));
          text += (text.empty() ? "" : " * ") + one;
        }
        return text;
      }
      case ExprKind::FloorDiv:
      case ExprKind::Mod: {
        if (range_(expr.lhs()).lo < 0 || !expr.rhs().is_constant() || expr.rhs().value() < 1) {
          return unsupported("{} is no quotient of what is not negative by a constant", to_string(expr));
        }
        STRATA_TRY(const std::string divided, factor(expr.lhs()));
        return fmt::format("{} {} {}", divided, expr.kind() == ExprKind::Mod ? '%' : '/', expr.rhs().value());
      }
      case ExprKind::Sum:
        return sum(expr);
      case ExprKind::Undefined:
        break;
    }
    return unsupported("the index {} has no value", to_string(expr));
  }

 private:
  Result<std::string> sum(const Expr& expr) {
    std::string text;
    for (const Term& term : expr.terms()) {
      const bool minus = term.coefficient < 0 && !text.empty();
      const int64_t coefficient = minus ? -term.coefficient : term.coefficient;
      STRATA_TRY(std::string one, factor(term.atom));
      if (coefficient != 1) {
        const bool narrow = k32Bits.contains(range_(term.atom) * coefficient);
        one = fmt::format("{} * {}{}", one, coefficient, narrow ? "" : "LL");
      }
      text += (text.empty() ? "" : minus ? " - " : " + ") + one;
    }
    if (expr.offset() != 0) text += fmt::format(" {} {}", expr.offset() < 0 ? '-' : '+', std::abs(expr.offset()));
    return text;
  }

  ExprRange range_;
  const std::function<std::string(ExprKind, int)>& name_;
};

}  // namespace

Result<std::string> code_text(const Expr& expr, const IndexingMap& map,
                              const std::function<std::string(ExprKind kind, int number)>& name) {
  return Writer(map, name).write(expr);
}

}  // namespace strata::indexing
