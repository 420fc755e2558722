#include "hlo/typical_arguments.h"

#include <cmath>
#include <numbers>
#include <type_traits>

#include "hlo/compute.h"

namespace strata::hlo {
namespace {

/// Box–Muller; both numbers of a pair are drawn, so that each costs the same.
double normal(Random& random) {
  const double radius = std::sqrt(-2 * std::log(1 - random.uniform()));
  return radius * std::cos(2 * std::numbers::pi * random.uniform());
}

template <class T>
T draw(ElementType type, Random& random) {
  if constexpr (std::is_same_v<T, double>) {
    return normal(random);
  } else if constexpr (std::is_integral_v<T>) {
    if (type == ElementType::Pred) return static_cast<T>(random.below(2));
    // Types of few bits wrap around, and so have all their values.
    return static_cast<T>(random.below(is_signed(type) ? 20 : 16)) - static_cast<T>(is_signed(type) ? 4 : 0);
  } else {
    const double re = normal(random);
    return {re, normal(random)};
  }
}

}  // namespace

Literal typical_literal(const Shape& shape, Random& random) {
  if (shape.is_tuple()) {
    std::vector<Literal> elements;
    for (const Shape& element : shape.elements) elements.push_back(typical_literal(element, random));
    return Literal::tuple(std::move(elements));
  }
  Literal literal(shape);
  if (!shape.is_array()) return literal;
  std::byte* bytes = literal.mutable_bytes();
  visit_accumulator_type(shape.type, [&](auto zero) {
    using T = decltype(zero);
    for (int64_t i = 0; i < literal.size(); ++i) {
      const T value = draw<T>(shape.type, random);
      store(shape.type, bytes, i, 1, &value);
    }
  });
  return literal;
}

std::vector<Literal> typical_arguments(const Computation& computation, uint64_t seed) {
  Random random(seed);
  std::vector<Literal> arguments;
  for (InstructionId id : computation.parameters) {
    arguments.push_back(typical_literal(computation[id].shape, random));
  }
  return arguments;
}

}  // namespace strata::hlo
