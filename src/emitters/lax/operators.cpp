#include "emitters/lax/operators.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <tuple>

namespace strata::emitters {
namespace {

using Kind = LaxValue::Kind;

int bits_of(const Rational& value) {
  const auto count = [](int64_t of) { return static_cast<int>(std::bit_width(static_cast<uint64_t>(std::abs(of)))); };
  return count(value.num) + count(value.den);
}

/// As a fraction, exactly. Nothing if that has more than 62 bits.
std::optional<Rational> exactly(double value) {
  if (!std::isfinite(value)) return std::nullopt;
  int exponent = 0;
  double mantissa = std::frexp(value, &exponent);
  while (mantissa != std::trunc(mantissa)) {
    mantissa *= 2;
    --exponent;
  }
  const double num = exponent > 0 ? std::ldexp(mantissa, exponent) : mantissa;
  if (exponent < -62 || std::abs(num) >= 0x1p62) return std::nullopt;
  const Result<Rational> made = make_rational(static_cast<int64_t>(num), int64_t{1} << std::max(0, -exponent));
  return made ? std::optional(*made) : std::nullopt;
}

/// The first of the value's continued fraction that is the same f32 (f64 where `type` is).
std::optional<Rational> nearly(double value, DType type) {
  const auto is_same = [&](double found) {
    return type == DType::F64 ? found == value : static_cast<float>(found) == static_cast<float>(value);
  };
  double rest = std::abs(value);
  double num = 1, den = 0, last_num = 0, last_den = 1;
  for (int step = 0; step < 40; ++step) {
    const double whole = std::floor(rest);
    std::tie(num, last_num) = std::pair(whole * num + last_num, num);
    std::tie(den, last_den) = std::pair(whole * den + last_den, den);
    if (num >= 0x1p53 || den >= 0x1p53) return std::nullopt;
    if (is_same(std::copysign(num / den, value))) {
      const Result<Rational> made =
          make_rational(static_cast<int64_t>(std::copysign(num, value)), static_cast<int64_t>(den));
      return made ? std::optional(*made) : std::nullopt;
    }
    if (rest == whole) return std::nullopt;
    rest = 1 / (rest - whole);
  }
  return std::nullopt;
}

/// The fraction of fewest bits that is the constant for kernels, which compute in f32 (or f64): finite fields have room
/// for few.
std::optional<Rational> fraction(double value, DType type) {
  const std::optional<Rational> exact = exactly(value);
  const std::optional<Rational> near = std::isfinite(value) ? nearly(value, type) : std::nullopt;
  if (!exact || !near) return exact ? exact : near;
  return bits_of(*near) < bits_of(*exact) ? near : exact;
}

bool same_value(const LaxValue& a, const LaxValue& b) {
  if (a.kind != b.kind || a.over || b.over || a.places != b.places) return false;
  if (a.has_memory() && a.memory != b.memory) return false;
  return a.kind == Kind::Parameter ? a.parameter == b.parameter : a.tensor == b.tensor;
}

}  // namespace

Result<LaxValue> LaxOperators::with_operator(OpKind kind, const LaxValue& of, Attributes attributes) {
  if (of.is_constant()) return unsupported("it is computed of constants alone");
  const Arrangement lies = tensors_.arrangement(of);
  STRATA_TRY(const TensorId tensor, tensors_.arranged(of, lies, sizes_of(of)));
  STRATA_TRY(const TensorId made, tensors_.builder().add(kind, {tensor}, std::move(attributes)));
  return tensors_.made(made, lies, of.places.size());
}

/// Of the dimensions that have a place; 1 for others.
std::vector<int64_t> LaxOperators::sizes_of(const LaxValue& value) const {
  const Shape& shape = value.has_memory() ? value.memory : tensors_.builder().peek().type(value.tensor).shape;
  std::vector<int64_t> sizes;
  for (const int place : value.places) sizes.push_back(place < 0 ? 1 : shape[static_cast<size_t>(place)]);
  return sizes;
}

Result<LaxValue> LaxOperators::unary(OpKind kind, const LaxValue& of) {
  if (of.is_constant() || of.over) return unsupported("it is computed of a constant or a reciprocal");
  return with_operator(kind, of);
}

Result<LaxValue> LaxOperators::with_constant(OpKind kind, const char* name, const LaxValue& of, double constant,
                                             bool inverse) {
  const std::optional<Rational> exact = fraction(constant, tensors_.type());
  if (!exact || (inverse && exact->num == 0)) return unsupported("the constant {} is no fraction of 62 bits", constant);
  Rational value = *exact;
  if (inverse) value = *make_rational(value.den, value.num);
  Attributes attributes;
  attributes.set(name, value);
  return with_operator(kind, of, std::move(attributes));
}

Result<LaxValue> LaxOperators::plus(const LaxValue& of, double constant) {
  if (of.over) return unsupported("a constant is added to a reciprocal");
  if (constant == 0) return of;
  return with_constant(OpKind::AddConstant, "value", of, constant, false);
}

/// Times the constant, or its inverse.
Result<LaxValue> LaxOperators::scaled(const LaxValue& of, double constant, bool inverse) {
  if (constant == 1) return of;
  if (constant == 0 || of.is_constant()) return unsupported("a product with zero or of constants");
  if (!of.over) return with_constant(OpKind::Scale, "factor", of, constant, inverse);
  const std::optional<Rational> exact =
      fraction(of.over->to_double() * (inverse ? 1 / constant : constant), tensors_.type());
  if (!exact) return unsupported("the constant of a reciprocal is no fraction of 62 bits");
  LaxValue value = of;
  value.over = exact;
  return value;
}

Result<LaxValue> LaxOperators::binary(OpKind kind, const LaxValue& a, const LaxValue& b) {
  if (a.is_constant() || b.is_constant()) return unsupported("an operand has one value everywhere");
  // As the operand with more dimensions lies; of two, as the one that has been computed.
  const auto weight = [](const LaxValue& v) { return 2 * v.placed() + (v.kind == Kind::Tensor ? 1 : 0); };
  const LaxValue& first = weight(b) > weight(a) ? b : a;
  const LaxValue& second = &first == &a ? b : a;
  std::vector<int64_t> sizes = sizes_of(a);
  const std::vector<int64_t> others = sizes_of(b);
  Arrangement lies = tensors_.arrangement(first);
  bool all = true;
  Arrangement both;
  for (size_t d = 0; d < sizes.size(); ++d) {
    sizes[d] = std::max(sizes[d], others[d]);
    all &= second.places[d] < 0 || first.places[d] >= 0;
    if (a.places[d] >= 0 || b.places[d] >= 0) both.push_back(static_cast<int>(d));
  }
  if (!all) lies = both;
  STRATA_TRY(const TensorId x, tensors_.arranged(a, lies, sizes));
  STRATA_TRY(const TensorId y, tensors_.arranged(b, lies, sizes));
  STRATA_TRY(const TensorId made, tensors_.builder().add(kind, {x, y}));
  return tensors_.made(made, lies, sizes.size());
}

Result<LaxValue> LaxOperators::add(const LaxValue& a, const LaxValue& b) {
  if (a.over || b.over) return unsupported("a reciprocal is added");
  if (a.is_constant()) return plus(b, a.constant);
  if (b.is_constant()) return plus(a, b.constant);
  return binary(OpKind::Add, a, b);
}

Result<LaxValue> LaxOperators::subtract(const LaxValue& a, const LaxValue& b) {
  if (a.over || b.over) return unsupported("a reciprocal is subtracted");
  if (b.is_constant()) return plus(a, -b.constant);
  if (!a.is_constant()) return binary(OpKind::Sub, a, b);
  STRATA_TRY(const LaxValue minus, scaled(b, -1));
  return plus(minus, a.constant);
}

/// Whether a tensor is 1 + exp(−x).
bool LaxOperators::is_logistic_divisor(TensorId tensor, const LaxValue& x) const {
  const Graph& graph = tensors_.builder().peek();
  const auto producer = [&](TensorId id, OpKind kind) -> const Operation* {
    const int at = graph.tensor(id).producer;
    if (at < 0) return nullptr;
    const Operation& op = graph.operations()[static_cast<size_t>(at)];
    return op.kind == kind ? &op : nullptr;
  };
  const Operation* sum = producer(tensor, OpKind::AddConstant);
  const Operation* power = sum != nullptr ? producer(sum->operands[0], OpKind::Exp) : nullptr;
  const Operation* minus = power != nullptr ? producer(power->operands[0], OpKind::Scale) : nullptr;
  return minus != nullptr && x.kind == Kind::Tensor && minus->operands[0] == x.tensor &&
         sum->attributes.rational("value") == Rational{1, 1} && minus->attributes.rational("factor") == Rational{-1, 1};
}

Result<LaxValue> LaxOperators::multiply(const LaxValue& a, const LaxValue& b) {
  if (a.is_constant()) return scaled(b, a.constant);
  if (b.is_constant()) return scaled(a, b.constant);
  if (a.over && b.over) return unsupported("a product of reciprocals");
  if (a.over) return multiply(b, a);
  if (!b.over) return same_value(a, b) ? with_operator(OpKind::Sqr, a) : binary(OpKind::Mul, a, b);
  LaxValue below = b;
  below.over.reset();
  Result<LaxValue> quotient = *b.over == Rational{1, 1} && a.places == b.places && is_logistic_divisor(b.tensor, a)
                                  ? with_operator(OpKind::SiLU, a)
                                  : binary(OpKind::Div, a, below);
  if (!quotient) return quotient;
  return scaled(*quotient, b.over->to_double());
}

Result<LaxValue> LaxOperators::divide(const LaxValue& a, const LaxValue& b) {
  if (b.is_constant()) return scaled(a, b.constant, true);
  if (b.over) return unsupported("a quotient by a reciprocal");
  if (a.over) return unsupported("a quotient of a reciprocal");
  if (!a.is_constant()) return binary(OpKind::Div, a, b);
  const std::optional<Rational> over = fraction(a.constant, tensors_.type());
  if (!over || over->num == 0) return unsupported("the constant {} is no fraction of 62 bits", a.constant);
  STRATA_TRY(LaxValue value, as_tensor(b));
  value.over = over;
  return value;
}

Result<LaxValue> LaxOperators::maximum(const LaxValue& a, const LaxValue& b) {
  if (a.over || b.over) return unsupported("a maximum of a reciprocal");
  if (a.is_constant() || b.is_constant()) {
    const LaxValue& of = a.is_constant() ? b : a;
    const double constant = a.is_constant() ? a.constant : b.constant;
    if (constant == -std::numeric_limits<double>::infinity()) return of;
    if (constant == 0) return unary(OpKind::Relu, of);
    return unsupported("a maximum with {}", constant);
  }
  return binary(OpKind::Max, a, b);
}

Result<LaxValue> LaxOperators::power(const LaxValue& a, const LaxValue& b) {
  if (!b.is_constant() || a.is_constant() || a.over) return unsupported("a power that is no square or root");
  if (b.constant == 2) return with_operator(OpKind::Sqr, a);
  if (b.constant == 0.5) return unary(OpKind::Sqrt, a);
  if (b.constant == -0.5) return unary(OpKind::Rsqrt, a);
  return unsupported("a power that is no square or root");
}

Result<LaxValue> LaxOperators::logistic(const LaxValue& of) {
  STRATA_TRY(const LaxValue minus, negate(of));
  STRATA_TRY(const LaxValue power, unary(OpKind::Exp, minus));
  STRATA_TRY(LaxValue below, plus(power, 1));
  below.over = Rational{1, 1};
  return below;
}

Result<TensorId> LaxOperators::constant_tensor(double value) {
  // A number of more than 62 bits is a product.
  constexpr int kBits = 50;
  int scales = 0;
  for (; std::abs(value) >= 0x1p60 && std::isfinite(value); ++scales) value = std::ldexp(value, -kBits);
  const std::optional<Rational> exact = fraction(value, tensors_.type());
  if (!exact) return unsupported("the constant {} is no fraction of 62 bits", value);
  STRATA_TRY(TensorId made, tensors_.iota({1}, {0, *exact, 0}));
  for (; scales > 0; --scales) {
    Attributes attributes;
    attributes.set("factor", Rational{int64_t{1} << kBits, 1});
    STRATA_TRY(made, tensors_.builder().add(OpKind::Scale, {made}, attributes));
  }
  return made;
}

Result<LaxValue> LaxOperators::select(const LaxValue& mask, const LaxValue& a, const LaxValue& b, size_t dimensions) {
  if (a.over || b.over) return unsupported("a reciprocal is selected");
  if (a.is_constant() && b.is_constant()) return unsupported("it selects constants");
  // As the tensor lies that is selected; where the mask or the other one has more dimensions, in their order.
  const LaxValue& first = a.is_constant() || (!b.is_constant() && b.placed() > a.placed()) ? b : a;
  std::vector<int64_t> sizes(dimensions, 1);
  Arrangement lies = tensors_.arrangement(first), all;
  for (const LaxValue* value : {&mask, &a, &b}) {
    if (value->is_constant()) continue;
    const std::vector<int64_t> own = sizes_of(*value);
    for (size_t d = 0; d < dimensions; ++d) sizes[d] = std::max(sizes[d], own[d]);
  }
  bool fits = true;
  for (size_t d = 0; d < dimensions; ++d) {
    if (sizes[d] == 1) continue;
    all.push_back(static_cast<int>(d));
    fits &= first.places[d] >= 0;
  }
  if (!fits) lies = all;
  std::vector<TensorId> operands;
  for (const LaxValue* value : {&mask, &a, &b}) {
    STRATA_TRY(const TensorId tensor,
               value->is_constant() ? constant_tensor(value->constant) : tensors_.arranged(*value, lies, sizes));
    operands.push_back(tensor);
  }
  STRATA_TRY(const TensorId made, tensors_.builder().add(OpKind::Select, operands));
  return tensors_.made(made, lies, dimensions);
}

Result<LaxValue> LaxOperators::as_tensor(const LaxValue& of) {
  if (of.kind == Kind::Tensor) return of;
  const Arrangement lies = tensors_.arrangement(of);
  STRATA_TRY(const TensorId made, tensors_.arranged(of, lies, sizes_of(of)));
  return tensors_.made(made, lies, of.places.size());
}

}  // namespace strata::emitters
