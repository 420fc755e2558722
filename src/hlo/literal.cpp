#include "hlo/literal.h"

#include <type_traits>

#include "hlo/compute.h"
#include "hlo/small_float.h"

namespace strata::hlo {
namespace {

template <class T>
constexpr bool is_complex_number = false;
template <class T>
constexpr bool is_complex_number<std::complex<T>> = true;

/// From an element in memory to a number of the same kind; kinds that do not fit never meet.
template <class T, class Stored>
T number(Stored stored) {
  if constexpr (is_complex_number<T> && is_complex_number<Stored>) {
    using Part = typename T::value_type;
    return T(static_cast<Part>(stored.real()), static_cast<Part>(stored.imag()));
  } else if constexpr (is_complex_number<T> || is_complex_number<Stored>) {
    assert(false && "a complex number and a real one");
    return T{};
  } else {
    return static_cast<T>(stored);
  }
}

template <class Stored, class T>
void load_plain(const std::byte* bytes, int64_t start, int64_t stride, int64_t count, T* out) {
  for (int64_t i = 0; i < count; ++i) {
    Stored stored;
    std::memcpy(&stored, bytes + static_cast<size_t>(start + i * stride) * sizeof stored, sizeof stored);
    out[i] = number<T>(stored);
  }
}

template <class Code, class T>
void load_small_float(ElementType type, const std::byte* bytes, int64_t start, int64_t stride, int64_t count, T* out) {
  const std::span<const float> table = decode_table(type);
  for (int64_t i = 0; i < count; ++i) {
    Code code;
    std::memcpy(&code, bytes + static_cast<size_t>(start + i * stride) * sizeof code, sizeof code);
    out[i] = number<T>(table[code]);
  }
}

template <class Stored, class T, class Convert>
void store_plain(std::byte* bytes, int64_t start, int64_t count, const T* values, Convert convert) {
  for (int64_t i = 0; i < count; ++i) {
    const Stored stored = convert(values[i]);
    std::memcpy(bytes + static_cast<size_t>(start + i) * sizeof stored, &stored, sizeof stored);
  }
}

template <class Stored, class T>
void store_integer(int bits, std::byte* bytes, int64_t start, int64_t count, const T* values) {
  if constexpr (std::is_integral_v<T>) {
    store_plain<Stored>(bytes, start, count, values, [bits](T value) {
      if constexpr (std::is_signed_v<Stored>)
        return static_cast<Stored>(wrap_signed(static_cast<int64_t>(value), bits));
      return static_cast<Stored>(wrap_unsigned(static_cast<uint64_t>(value), bits));
    });
  } else {
    assert(false && "a float where an integer is stored");
  }
}

template <class Stored, class T>
void store_float(std::byte* bytes, int64_t start, int64_t count, const T* values) {
  store_plain<Stored>(bytes, start, count, values, [](T value) { return number<Stored>(value); });
}

template <class Code, class T>
void store_small_float(ElementType type, std::byte* bytes, int64_t start, int64_t count, const T* values) {
  if constexpr (std::is_floating_point_v<T>) {
    if (type == ElementType::F8E8M0FNU) {
      store_plain<Code>(bytes, start, count, values, [type](T v) { return static_cast<Code>(encode(type, v)); });
      return;
    }
    const FloatFormat format = format_of(type);
    store_plain<Code>(bytes, start, count, values, [&](T v) { return static_cast<Code>(encode(format, v)); });
  } else {
    assert(false && "an integer where a float is stored");
  }
}

}  // namespace

template <class T>
void load(const Literal& literal, int64_t start, int64_t stride, int64_t count, T* out) {
  const std::byte* bytes = literal.bytes();
  const ElementType type = literal.type();
  switch (kind(type)) {
    case TypeKind::Pred:
      return load_plain<uint8_t>(bytes, start, stride, count, out);
    case TypeKind::Signed:
      switch (byte_width(type)) {
        case 1:
          return load_plain<int8_t>(bytes, start, stride, count, out);
        case 2:
          return load_plain<int16_t>(bytes, start, stride, count, out);
        case 4:
          return load_plain<int32_t>(bytes, start, stride, count, out);
        default:
          return load_plain<int64_t>(bytes, start, stride, count, out);
      }
    case TypeKind::Unsigned:
      switch (byte_width(type)) {
        case 1:
          return load_plain<uint8_t>(bytes, start, stride, count, out);
        case 2:
          return load_plain<uint16_t>(bytes, start, stride, count, out);
        case 4:
          return load_plain<uint32_t>(bytes, start, stride, count, out);
        default:
          return load_plain<uint64_t>(bytes, start, stride, count, out);
      }
    case TypeKind::Float:
      switch (byte_width(type)) {
        case 1:
          return load_small_float<uint8_t>(type, bytes, start, stride, count, out);
        case 2:
          return load_small_float<uint16_t>(type, bytes, start, stride, count, out);
        case 4:
          return load_plain<float>(bytes, start, stride, count, out);
        default:
          return load_plain<double>(bytes, start, stride, count, out);
      }
    case TypeKind::Complex:
      return type == ElementType::C64 ? load_plain<std::complex<float>>(bytes, start, stride, count, out)
                                      : load_plain<std::complex<double>>(bytes, start, stride, count, out);
    default:
      assert(false && "no array");
  }
}

template <class T>
void store(ElementType type, std::byte* bytes, int64_t start, int64_t count, const T* values) {
  const int bits = bit_width(type);
  switch (kind(type)) {
    case TypeKind::Pred:
      return store_plain<uint8_t>(bytes, start, count, values, [](T v) { return static_cast<uint8_t>(v != T{}); });
    case TypeKind::Signed:
      switch (byte_width(type)) {
        case 1:
          return store_integer<int8_t>(bits, bytes, start, count, values);
        case 2:
          return store_integer<int16_t>(bits, bytes, start, count, values);
        case 4:
          return store_integer<int32_t>(bits, bytes, start, count, values);
        default:
          return store_integer<int64_t>(bits, bytes, start, count, values);
      }
    case TypeKind::Unsigned:
      switch (byte_width(type)) {
        case 1:
          return store_integer<uint8_t>(bits, bytes, start, count, values);
        case 2:
          return store_integer<uint16_t>(bits, bytes, start, count, values);
        case 4:
          return store_integer<uint32_t>(bits, bytes, start, count, values);
        default:
          return store_integer<uint64_t>(bits, bytes, start, count, values);
      }
    case TypeKind::Float:
      switch (byte_width(type)) {
        case 1:
          return store_small_float<uint8_t>(type, bytes, start, count, values);
        case 2:
          return store_small_float<uint16_t>(type, bytes, start, count, values);
        case 4:
          return store_float<float>(bytes, start, count, values);
        default:
          return store_float<double>(bytes, start, count, values);
      }
    case TypeKind::Complex:
      return type == ElementType::C64 ? store_float<std::complex<float>>(bytes, start, count, values)
                                      : store_float<std::complex<double>>(bytes, start, count, values);
    default:
      assert(false && "no array");
  }
}

#define INSTANTIATE(T)                                               \
  template void load(const Literal&, int64_t, int64_t, int64_t, T*); \
  template void store(ElementType, std::byte*, int64_t, int64_t, const T*);
INSTANTIATE(int64_t)
INSTANTIATE(uint64_t)
INSTANTIATE(float)
INSTANTIATE(double)
INSTANTIATE(std::complex<float>)
INSTANTIATE(std::complex<double>)
#undef INSTANTIATE

Literal::Literal(const Shape& shape) : shape_(shape) {
  if (!shape.elements.empty()) elements_ = std::make_shared<std::vector<Literal>>();
  for (const Shape& element : shape.elements) elements_->emplace_back(element);
  if (!shape.is_array()) return;
  const size_t size = static_cast<size_t>(shape.element_count()) * static_cast<size_t>(byte_width(shape.type));
  bytes_ = std::make_shared<std::vector<std::byte>>(size);
}

Literal Literal::tuple(std::vector<Literal> elements) {
  Literal literal;
  std::vector<Shape> shapes;
  for (const Literal& element : elements) shapes.push_back(element.shape());
  literal.shape_ = tuple_shape(std::move(shapes));
  if (!elements.empty()) literal.elements_ = std::make_shared<std::vector<Literal>>(std::move(elements));
  return literal;
}

const std::vector<Literal>& Literal::elements() const {
  static const std::vector<Literal> kNone;
  return elements_ ? *elements_ : kNone;
}

std::vector<Literal>& Literal::mutable_elements() {
  if (!elements_ || elements_.use_count() > 1) elements_ = std::make_shared<std::vector<Literal>>(elements());
  return *elements_;
}

std::byte* Literal::mutable_bytes() {
  if (!bytes_) return nullptr;
  if (bytes_.use_count() > 1) bytes_ = std::make_shared<std::vector<std::byte>>(*bytes_);
  return bytes_->data();
}

Literal Literal::with_shape(const Shape& shape) const {
  assert(shape.type == type());
  Literal result = *this;
  result.shape_ = shape;
  // Elements that have their shapes already are shared.
  if (shape_ == shape) return result;
  for (size_t i = 0; i < elements().size(); ++i) {
    if (elements()[i].shape() != shape.elements[i])
      result.mutable_elements()[i] = elements()[i].with_shape(shape.elements[i]);
  }
  return result;
}

int64_t Literal::get_integer(int64_t index) const {
  return is_signed(type()) ? get<int64_t>(index) : static_cast<int64_t>(get<uint64_t>(index));
}

const Literal& leaf_of(const Literal& literal, int64_t leaf) {
  const Literal* at = &literal;
  while (at->shape().is_tuple()) {
    const size_t i = element_with_leaf(at->shape(), leaf);
    leaf -= at->shape().elements.first_leaf(i);
    at = &at->elements()[i];
  }
  return *at;
}

bool identical(const Literal& a, const Literal& b) {
  if (!same_shape(a.shape(), b.shape())) return false;
  for (size_t i = 0; i < a.elements().size(); ++i) {
    if (!identical(a.elements()[i], b.elements()[i])) return false;
  }
  return a.byte_size() == 0 || std::memcmp(a.bytes(), b.bytes(), a.byte_size()) == 0;
}

}  // namespace strata::hlo
