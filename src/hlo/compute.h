// The number types in which elements are computed, and conversion between them and a Literal's bytes.
#pragma once

#include <cassert>
#include <complex>

#include "hlo/literal.h"

namespace strata::hlo {

/// Calls visit(T{}) with the type in which elements are computed: int64_t, uint64_t (pred too), float (for f32 and all
/// that is narrower), double, std::complex<float>, std::complex<double>.
template <class Visit>
decltype(auto) visit_compute_type(ElementType type, Visit&& visit) {
  switch (kind(type)) {
    case TypeKind::Signed:
      return visit(int64_t{});
    case TypeKind::Float:
      return type == ElementType::F64 ? visit(double{}) : visit(float{});
    case TypeKind::Complex:
      return type == ElementType::C64 ? visit(std::complex<float>{}) : visit(std::complex<double>{});
    default:
      break;
  }
  assert(kind(type) == TypeKind::Pred || kind(type) == TypeKind::Unsigned);
  return visit(uint64_t{});
}

/// The same with the type in which long sums are: double for all floats, std::complex<double> for all complex types.
template <class Visit>
decltype(auto) visit_accumulator_type(ElementType type, Visit&& visit) {
  switch (kind(type)) {
    case TypeKind::Signed:
      return visit(int64_t{});
    case TypeKind::Float:
      return visit(double{});
    case TypeKind::Complex:
      return visit(std::complex<double>{});
    default:
      break;
  }
  return visit(uint64_t{});
}

/// out[i] = element start + i · stride of the literal, for 0 ≤ i < count. T is a compute or an accumulator type of the
/// literal's.
template <class T>
void load(const Literal& literal, int64_t start, int64_t stride, int64_t count, T* out);
/// Elements start … start + count - 1 become values[…]: floats rounded to nearest even, integers modulo 2^bits, pred
/// true where the value is not 0. The bytes are those of the literal (mutable_bytes()), taken once by the caller.
template <class T>
void store(ElementType type, std::byte* bytes, int64_t start, int64_t count, const T* values);

/// All elements.
template <class T>
std::vector<T> load_all(const Literal& literal) {
  std::vector<T> values(static_cast<size_t>(literal.size()));
  load(literal, 0, 1, literal.size(), values.data());
  return values;
}
template <class T>
Literal literal_of(const Shape& shape, const std::vector<T>& values) {
  Literal literal(shape);
  assert(static_cast<int64_t>(values.size()) == literal.size());
  store(shape.type, literal.mutable_bytes(), 0, literal.size(), values.data());
  return literal;
}

template <class T>
T Literal::get(int64_t index) const {
  T value{};
  load(*this, index, 1, 1, &value);
  return value;
}
template <class T>
void Literal::set(int64_t index, T value) {
  store(type(), mutable_bytes(), index, 1, &value);
}

/// `value` modulo 2^bits, sign-extended from there.
inline int64_t wrap_signed(int64_t value, int bits) {
  return static_cast<int64_t>(static_cast<uint64_t>(value) << (64 - bits)) >> (64 - bits);
}
inline uint64_t wrap_unsigned(uint64_t value, int bits) { return value << (64 - bits) >> (64 - bits); }

}  // namespace strata::hlo
