#include "hlo/element_type.h"

#include <array>

namespace strata::hlo {
namespace {

struct Properties {
  std::string_view name;
  int bits;
  TypeKind kind;
};

constexpr auto kTypes = std::to_array<Properties>({
#define HLO_ELEMENT_TYPE(enumerator, name, bits, kind) {name, bits, TypeKind::kind},
#include "hlo/element_type.def"
#undef HLO_ELEMENT_TYPE
});

const Properties& properties(ElementType type) { return kTypes[static_cast<size_t>(type)]; }

}  // namespace

std::string_view name(ElementType type) { return properties(type).name; }
TypeKind kind(ElementType type) { return properties(type).kind; }
int bit_width(ElementType type) { return properties(type).bits; }
int byte_width(ElementType type) { return (properties(type).bits + 7) / 8; }

std::optional<ElementType> element_type_named(std::string_view name) {
  for (size_t i = 0; i < kTypes.size(); ++i) {
    if (kTypes[i].name == name && kTypes[i].kind != TypeKind::Tuple) return static_cast<ElementType>(i);
  }
  return std::nullopt;
}

}  // namespace strata::hlo
