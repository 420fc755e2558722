#include "hlo/expand_bitcast_converts.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "hlo/element_type.h"
#include "hlo/evaluate.h"
#include "hlo/text.h"
#include "hlo/verify.h"
#include "support/random.h"

namespace strata::hlo {
namespace {

constexpr ElementType kTypes[] = {
#define HLO_ELEMENT_TYPE(enumerator, name, bits, kind) ElementType::enumerator,
#include "hlo/element_type.def"
#undef HLO_ELEMENT_TYPE
};

int bits_of(ElementType type) { return type == ElementType::Pred ? 8 : bit_width(type); }

/// Any bits, NaN of all kinds among them.
Literal random_bits(const Shape& shape, uint64_t seed) {
  Random random(seed);
  Literal literal(shape);
  for (size_t i = 0; i < literal.byte_size(); ++i) {
    auto byte = static_cast<uint8_t>(random.below(256));
    // Elements of less than a byte are extended to one; pred is 0 or 1.
    const int bits = bit_width(shape.type);
    if (bits < 8) {
      byte = static_cast<uint8_t>(byte & ((1 << bits) - 1));
      const bool negative = kind(shape.type) == TypeKind::Signed && (byte >> (bits - 1)) != 0;
      if (negative) byte = static_cast<uint8_t>(byte | ~((1 << bits) - 1));
    }
    literal.mutable_bytes()[i] = static_cast<std::byte>(byte);
  }
  return literal;
}

TEST(ExpandBitcastConverts, EveryPairOfTypes) {
  int pairs = 0;
  for (const ElementType from : kTypes) {
    for (const ElementType to : kTypes) {
      if (!is_array(from) || !is_array(to) || is_complex(from) || is_complex(to) || to == ElementType::Pred) continue;
      const int a = bits_of(from), b = bits_of(to);
      if (a == b || std::max(a, b) % std::min(a, b) != 0) continue;
      ++pairs;
      const std::string narrow = fmt::format("[3,5,{}]", std::max(a, b) / std::min(a, b));
      const std::string operand = fmt::format("{}{}", name(from), a < b ? narrow : "[3,5]");
      const std::string result = fmt::format("{}{}", name(to), a < b ? "[3,5]" : narrow);
      const auto module = parse_module(fmt::format(
          "HloModule m\nENTRY e {{\n  x = {} parameter(0)\n  ROOT r = {} bitcast-convert(x)\n}}\n", operand, result));
      ASSERT_TRUE(module) << module.error().to_string();
      ASSERT_TRUE(has_uneven_bitcast_converts(**module));
      const auto expanded = expand_bitcast_converts(**module);
      ASSERT_TRUE(expanded) << expanded.error().to_string();
      EXPECT_FALSE(has_uneven_bitcast_converts(*expanded));
      const auto verified = verify(*expanded);
      ASSERT_TRUE(verified) << verified.error().to_string() << print(*expanded);
      const Computation& entry = (*module)->entry_computation();
      const std::vector<Literal> arguments{random_bits(entry[entry.parameters[0]].shape, 7)};
      const auto expected = evaluate(**module, arguments);
      const auto actual = evaluate(*expanded, arguments);
      ASSERT_TRUE(expected && actual);
      EXPECT_TRUE(identical(*actual, *expected)) << operand << " to " << result;
    }
  }
  EXPECT_GT(pairs, 300);
}

TEST(ExpandBitcastConverts, OthersStay) {
  const auto module = parse_module(
      "HloModule m\nENTRY e {\n  x = f32[3]{0} parameter(0)\n  y = u32[3] bitcast-convert(x)\n  b = u8[8] "
      "parameter(1)\n  p = pred[8] bitcast-convert(b)\n  ROOT r = (u32[3], pred[8]) tuple(y, p)\n}\n");
  ASSERT_TRUE(module) << module.error().to_string();
  EXPECT_FALSE(has_uneven_bitcast_converts(**module));
}

}  // namespace
}  // namespace strata::hlo
