// The element types of HLO and their properties, read from element_type.def.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace strata::hlo {

enum class ElementType : uint8_t {
#define HLO_ELEMENT_TYPE(enumerator, name, bits, kind) enumerator,
#include "hlo/element_type.def"
#undef HLO_ELEMENT_TYPE
};

enum class TypeKind : uint8_t { Pred, Signed, Unsigned, Float, Complex, Token, Tuple };

/// As in HLO text: "f32", "pred", "f8e4m3fn".
std::string_view name(ElementType type);
TypeKind kind(ElementType type);
/// Bits of one element in memory where types narrower than a byte are packed; pred counts as 1.
int bit_width(ElementType type);
/// Bytes of one element in a Literal, where every element starts at a byte; 0 for token and tuple.
int byte_width(ElementType type);
/// None where there is no such type.
std::optional<ElementType> element_type_named(std::string_view name);

inline bool is_float(ElementType type) { return kind(type) == TypeKind::Float; }
inline bool is_complex(ElementType type) { return kind(type) == TypeKind::Complex; }
inline bool is_signed(ElementType type) { return kind(type) == TypeKind::Signed; }
inline bool is_unsigned(ElementType type) { return kind(type) == TypeKind::Unsigned; }
inline bool is_integer(ElementType type) { return is_signed(type) || is_unsigned(type); }
/// Of an array, so neither token nor tuple.
inline bool is_array(ElementType type) { return kind(type) < TypeKind::Token; }
/// The type of the parts of a complex type: f32 for c64, f64 for c128.
inline ElementType part_type(ElementType type) {
  return type == ElementType::C64 ? ElementType::F32 : ElementType::F64;
}

}  // namespace strata::hlo
