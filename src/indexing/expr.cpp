#include "indexing/expr.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <map>
#include <unordered_map>

#include "support/hash.h"

namespace strata::indexing {

struct Expr::Node {
  ExprKind kind = ExprKind::Constant;
  int64_t value = 0;                  ///< see Expr::value
  std::vector<Expr> operands;         ///< atoms of a sum, factors of a product, both sides of a quotient
  std::vector<int64_t> coefficients;  ///< of a sum, one an operand
  uint64_t hash = 0;
  int64_t cost = 0;
  uint8_t kinds_used = 0;  ///< bit mask over ExprKind

  /// Fills in what follows from the other members.
  void finish() {
    Hasher hasher;
    hasher.add(static_cast<uint64_t>(kind)).add(static_cast<uint64_t>(value)).add_all(coefficients);
    const bool division = kind == ExprKind::FloorDiv || kind == ExprKind::Mod;
    cost = division ? 8 : kind == ExprKind::Product ? 1 : value != 0 && kind == ExprKind::Sum ? 1 : 0;
    if (kind == ExprKind::Dimension || kind == ExprKind::Range || kind == ExprKind::Runtime) {
      cost = 1;
      kinds_used = static_cast<uint8_t>(1U << static_cast<unsigned>(kind));
    }
    for (const Expr& operand : operands) {
      hasher.add(operand.hash());
      cost = saturating_add(cost, operand.cost());
      kinds_used |= operand.node_->kinds_used;
    }
    for (const int64_t coefficient : coefficients) cost = saturating_add(cost, coefficient == 1 ? 0 : 1);
    hash = hasher.value();
  }
};

Expr::Expr() : Expr(constant(0)) {}

Expr Expr::constant(int64_t value) {
  auto node = std::make_shared<Node>();
  node->value = value;
  node->finish();
  return Expr(std::move(node));
}

Expr Expr::variable(ExprKind kind, int number) {
  assert(kind == ExprKind::Dimension || kind == ExprKind::Range || kind == ExprKind::Runtime);
  auto node = std::make_shared<Node>();
  node->kind = kind;
  node->value = number;
  node->finish();
  return Expr(std::move(node));
}

Expr Expr::undefined() { return compound(ExprKind::Undefined, {}); }

Expr Expr::compound(ExprKind kind, std::vector<Expr> operands) {
  auto node = std::make_shared<Node>();
  node->kind = kind;
  node->operands = std::move(operands);
  node->finish();
  return Expr(std::move(node));
}

Expr Expr::product(std::vector<Expr> factors) {
  assert(!factors.empty());
  if (factors.size() == 1) return factors.front();
  std::sort(factors.begin(), factors.end());
  return compound(ExprKind::Product, std::move(factors));
}

Expr Expr::sum(int64_t offset, std::vector<Term> terms) {
  std::sort(terms.begin(), terms.end(), [](const Term& a, const Term& b) { return a.atom < b.atom; });
  auto node = std::make_shared<Node>();
  node->kind = ExprKind::Sum;
  node->value = offset;
  for (size_t i = 0; i < terms.size();) {
    const Expr& atom = terms[i].atom;
    if (atom.is_undefined()) return undefined();
    assert(!atom.is_constant() && atom.kind() != ExprKind::Sum);
    std::optional<int64_t> coefficient = 0;
    for (; i < terms.size() && terms[i].atom == atom; ++i) {
      coefficient = checked_add(*coefficient, terms[i].coefficient);
      if (!coefficient) return undefined();
    }
    if (*coefficient == kLeast) return undefined();  // has no negation
    if (*coefficient == 0) continue;
    node->operands.push_back(atom);
    node->coefficients.push_back(*coefficient);
  }
  if (node->operands.empty()) return constant(offset);
  if (offset == 0 && node->operands.size() == 1 && node->coefficients[0] == 1) return node->operands[0];
  node->finish();
  return Expr(std::move(node));
}

ExprKind Expr::kind() const { return node_->kind; }
bool Expr::is_variable() const {
  return kind() == ExprKind::Dimension || kind() == ExprKind::Range || kind() == ExprKind::Runtime;
}
int64_t Expr::value() const { return node_->value; }
const Expr& Expr::lhs() const { return node_->operands[0]; }
const Expr& Expr::rhs() const { return node_->operands[1]; }
const std::vector<Expr>& Expr::operands() const { return node_->operands; }

const std::vector<int64_t>& Expr::coefficients() const { return node_->coefficients; }

int64_t Expr::offset() const { return kind() == ExprKind::Constant || kind() == ExprKind::Sum ? node_->value : 0; }

std::vector<Term> Expr::terms() const {
  if (is_constant()) return {};
  if (kind() != ExprKind::Sum) return {{1, *this}};
  std::vector<Term> result;
  for (size_t i = 0; i < node_->operands.size(); ++i) result.push_back({node_->coefficients[i], node_->operands[i]});
  return result;
}

int64_t Expr::cost() const { return node_->cost; }
uint64_t Expr::hash() const { return node_->hash; }
bool Expr::uses(ExprKind kind) const { return (node_->kinds_used >> static_cast<unsigned>(kind) & 1U) != 0; }

bool Expr::uses(ExprKind kind, int number) const {
  if (!uses(kind)) return false;
  if (is_variable()) return node_->value == number;
  return std::any_of(node_->operands.begin(), node_->operands.end(),
                     [&](const Expr& operand) { return operand.uses(kind, number); });
}

bool Expr::operator==(const Expr& other) const {
  if (node_ == other.node_) return true;
  const Node& a = *node_;
  const Node& b = *other.node_;
  return a.hash == b.hash && a.kind == b.kind && a.value == b.value && a.coefficients == b.coefficients &&
         a.operands == b.operands;
}

std::strong_ordering Expr::operator<=>(const Expr& other) const {
  if (node_ == other.node_) return std::strong_ordering::equal;
  const Node& a = *node_;
  const Node& b = *other.node_;
  if (const auto order = a.kind <=> b.kind; order != 0) return order;
  for (size_t i = 0; i < a.operands.size() && i < b.operands.size(); ++i) {
    if (const auto order = a.operands[i] <=> b.operands[i]; order != 0) return order;
  }
  if (const auto order = a.operands.size() <=> b.operands.size(); order != 0) return order;
  if (const auto order = a.coefficients <=> b.coefficients; order != 0) return order;
  return a.value <=> b.value;
}

Expr operator+(const Expr& a, const Expr& b) {
  if (a.is_undefined() || b.is_undefined()) return Expr::undefined();
  const auto offset = checked_add(a.offset(), b.offset());
  if (!offset) return Expr::undefined();
  std::vector<Term> terms = a.terms();
  for (Term& term : b.terms()) terms.push_back(std::move(term));
  return Expr::sum(*offset, std::move(terms));
}

Expr operator*(const Expr& a, const Expr& b) {
  if (a.is_undefined() || b.is_undefined()) return Expr::undefined();
  const auto offset = checked_mul(a.offset(), b.offset());
  if (!offset) return Expr::undefined();
  std::vector<Term> terms;
  bool overflow = false;
  const auto add = [&](int64_t x, int64_t y, const Expr& atom) {
    const auto coefficient = checked_mul(x, y);
    overflow |= !coefficient;
    terms.push_back({coefficient.value_or(0), atom});
  };
  const std::vector<Term> right = b.terms();
  for (const Term& x : a.terms()) {
    if (b.offset() != 0) add(x.coefficient, b.offset(), x.atom);
    for (const Term& y : right) {
      std::vector<Expr> factors;
      for (const Expr& atom : {x.atom, y.atom}) {
        if (atom.kind() == ExprKind::Product) {
          factors.insert(factors.end(), atom.factors().begin(), atom.factors().end());
        } else {
          factors.push_back(atom);
        }
      }
      add(x.coefficient, y.coefficient, Expr::product(std::move(factors)));
    }
  }
  if (a.offset() != 0) {
    for (const Term& y : right) add(y.coefficient, a.offset(), y.atom);
  }
  return overflow ? Expr::undefined() : Expr::sum(*offset, std::move(terms));
}

Expr operator-(const Expr& a, const Expr& b) { return a + b * Expr::constant(-1); }

Expr floor_div(const Expr& a, const Expr& b) {
  if (a.is_undefined() || b.is_undefined()) return Expr::undefined();
  if (b.is_constant()) {
    if (b.value() < 0) return floor_div(a * -1, Expr::constant(-1) * b);
    if (b.value() == 0) return Expr::undefined();
    if (b.value() == 1) return a;
    if (a.is_constant()) return Expr::constant(floor_div(a.value(), b.value()));
  }
  return Expr::compound(ExprKind::FloorDiv, {a, b});
}

Expr mod(const Expr& a, const Expr& b) {
  if (a.is_undefined() || b.is_undefined()) return Expr::undefined();
  if (b.is_constant()) {
    if (b.value() < 0) return mod(a * -1, Expr::constant(-1) * b) * -1;
    if (b.value() == 0) return Expr::undefined();
    if (b.value() == 1) return Expr::constant(0);
    if (a.is_constant()) return Expr::constant(floor_mod(a.value(), b.value()));
  }
  return Expr::compound(ExprKind::Mod, {a, b});
}

Expr ceil_div(const Expr& a, const Expr& b) { return floor_div(a * -1, b) * -1; }
Expr operator+(const Expr& a, int64_t b) { return a + Expr::constant(b); }
Expr operator-(const Expr& a, int64_t b) { return a - Expr::constant(b); }
Expr operator*(const Expr& a, int64_t b) { return a * Expr::constant(b); }
Expr floor_div(const Expr& a, int64_t b) { return floor_div(a, Expr::constant(b)); }
Expr mod(const Expr& a, int64_t b) { return mod(a, Expr::constant(b)); }

std::optional<int64_t> evaluate(const Expr& expr, const Point& point) {
  switch (expr.kind()) {
    case ExprKind::Constant:
      return expr.value();
    case ExprKind::Dimension:
      return point.dims[static_cast<size_t>(expr.value())];
    case ExprKind::Range:
      return point.ranges[static_cast<size_t>(expr.value())];
    case ExprKind::Runtime:
      return point.runtime[static_cast<size_t>(expr.value())];
    case ExprKind::Product: {
      std::optional<int64_t> result = 1;
      for (const Expr& factor : expr.factors()) {
        const auto value = evaluate(factor, point);
        if (!value) return std::nullopt;
        result = checked_mul(*result, *value);
        if (!result) return std::nullopt;
      }
      return result;
    }
    case ExprKind::FloorDiv:
    case ExprKind::Mod: {
      const auto a = evaluate(expr.lhs(), point);
      const auto b = evaluate(expr.rhs(), point);
      if (!a || !b) return std::nullopt;
      return expr.kind() == ExprKind::Mod ? checked_mod(*a, *b) : checked_floor_div(*a, *b);
    }
    case ExprKind::Sum: {
      __int128 total = expr.offset();
      for (size_t i = 0; i < expr.atoms().size(); ++i) {
        const auto value = evaluate(expr.atoms()[i], point);
        const auto part = value ? checked_mul(expr.coefficients()[i], *value) : std::nullopt;
        if (!part) return std::nullopt;
        total += *part;
      }
      if (total < kLeast || total > kGreatest) return std::nullopt;
      return static_cast<int64_t>(total);
    }
    case ExprKind::Undefined:
      return std::nullopt;
  }
  return std::nullopt;
}

namespace {

class Substitution {
 public:
  explicit Substitution(const Replacement& replacement) : replacement_(replacement) {}

  Expr operator()(const Expr& expr) {
    if (expr.is_constant() || expr.is_undefined()) return expr;
    if (const auto known = done_.find(expr.id()); known != done_.end()) return known->second;
    return done_.emplace(expr.id(), replaced(expr)).first->second;
  }

 private:
  Expr replaced(const Expr& expr) {
    if (expr.is_variable()) return replacement_(expr.kind(), expr.number());
    if (expr.kind() == ExprKind::FloorDiv) return floor_div((*this)(expr.lhs()), (*this)(expr.rhs()));
    if (expr.kind() == ExprKind::Mod) return mod((*this)(expr.lhs()), (*this)(expr.rhs()));
    if (expr.kind() == ExprKind::Product) {
      Expr result = Expr::constant(1);
      for (const Expr& factor : expr.factors()) result = result * (*this)(factor);
      return result;
    }
    // All terms at once: adding them one by one would sort again for each.
    std::vector<Term> terms;
    std::optional<int64_t> offset = expr.offset();
    for (const Term& term : expr.terms()) {
      const Expr part = (*this)(term.atom) * term.coefficient;
      if (part.is_undefined()) return part;
      offset = checked_add(*offset, part.offset());
      if (!offset) return Expr::undefined();
      for (Term& piece : part.terms()) terms.push_back(std::move(piece));
    }
    return Expr::sum(*offset, std::move(terms));
  }

  const Replacement& replacement_;
  std::unordered_map<const void*, Expr> done_;  // the nodes live as long as the expression that holds them
};

}  // namespace

Expr substitute(const Expr& expr, const Replacement& replacement) { return Substitution(replacement)(expr); }

std::vector<Expr> substitute(const std::vector<Expr>& exprs, const Replacement& replacement) {
  Substitution substitution(replacement);
  std::vector<Expr> result;
  for (const Expr& expr : exprs) result.push_back(substitution(expr));
  return result;
}

namespace {

/// An operand of *, floordiv or mod: in brackets unless a variable or a constant that is not negative.
std::string operand_text(const Expr& expr) {
  const bool plain = expr.is_variable() || (expr.is_constant() && expr.value() >= 0);
  return plain ? to_string(expr) : "(" + to_string(expr) + ")";
}

std::string sum_text(const Expr& expr) {
  std::string text;
  const auto sign = [&](bool negative) { text += text.empty() ? (negative ? "-" : "") : (negative ? " - " : " + "); };
  for (const Term& term : expr.terms()) {
    sign(term.coefficient < 0);
    const int64_t magnitude = term.coefficient < 0 ? -term.coefficient : term.coefficient;
    const bool division = term.atom.kind() == ExprKind::FloorDiv || term.atom.kind() == ExprKind::Mod;
    const std::string atom = division ? "(" + to_string(term.atom) + ")" : to_string(term.atom);
    text += magnitude == 1 ? atom : fmt::format("{} * {}", atom, magnitude);
  }
  if (expr.offset() != 0) {
    sign(expr.offset() < 0);
    // -kLeast does not fit; its digits are those of the unsigned difference.
    text += fmt::format("{}", expr.offset() < 0 ? uint64_t{0} - static_cast<uint64_t>(expr.offset())
                                                : static_cast<uint64_t>(expr.offset()));
  }
  return text;
}

}  // namespace

std::string to_string(const Expr& expr) {
  switch (expr.kind()) {
    case ExprKind::Constant:
      return fmt::format("{}", expr.value());
    case ExprKind::Dimension:
      return fmt::format("d{}", expr.value());
    case ExprKind::Range:
      return fmt::format("s{}", expr.value());
    case ExprKind::Runtime:
      return fmt::format("rt{}", expr.value());
    case ExprKind::Product: {
      std::vector<std::string> factors;
      for (const Expr& factor : expr.factors()) factors.push_back(operand_text(factor));
      return fmt::format("{}", fmt::join(factors, " * "));
    }
    case ExprKind::FloorDiv:
      return operand_text(expr.lhs()) + " floordiv " + operand_text(expr.rhs());
    case ExprKind::Mod:
      return operand_text(expr.lhs()) + " mod " + operand_text(expr.rhs());
    case ExprKind::Sum:
      return sum_text(expr);
    case ExprKind::Undefined:
      return "undefined";
  }
  return {};
}

}  // namespace strata::indexing
