#include "emitters/math/math_library.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace strata::emitters {

std::span<const std::byte> math_bitcode_nvptx();
std::span<const std::byte> math_bitcode_x86();

namespace {

struct Row {
  std::string_view name;
  std::string_view type;
  std::string_view suffix;
  MathShape shape;
  double max_ulp;
};

/// Of c64 half an ulp and the rounding of double's; of c128 what docs/emitters-math.md states.
constexpr double kComplex64 = 1;
constexpr double kComplex128 = 4;
/// 2^-13 and 2^-11, in units of f32 of results that are almost a power of two.
constexpr double kHalf = 0x1p10;
constexpr double kBf16 = 0x1.01p13;

constexpr auto kRows = std::to_array<Row>({
#define STRATA_MATH_REAL1(name, ulp_f32, ulp_nvptx, ulp_f64) \
  {#name, "f32", "f32", MathShape::Unary, ulp_f32}, {#name, "f64", "f64", MathShape::Unary, ulp_f64},
#define STRATA_MATH_REAL2(name, ulp_f32, ulp_nvptx, ulp_f64) \
  {#name, "f32", "f32", MathShape::Binary, ulp_f32}, {#name, "f64", "f64", MathShape::Binary, ulp_f64},
#define STRATA_MATH_HALF(name) {#name, "f32", "f32_half", MathShape::Unary, kHalf},
#define STRATA_MATH_BF16(name) {#name, "f32", "f32_bf16", MathShape::Unary, kBf16},
#define STRATA_MATH_COMPLEX1(name)                            \
  {#name, "c64", "c64", MathShape::ComplexUnary, kComplex64}, \
      {#name, "c128", "c128", MathShape::ComplexUnary, kComplex128},
#define STRATA_MATH_COMPLEX2(name)                             \
  {#name, "c64", "c64", MathShape::ComplexBinary, kComplex64}, \
      {#name, "c128", "c128", MathShape::ComplexBinary, kComplex128},
#define STRATA_MATH_SMALL(type, bits)
#include "emitters/math/strata_math.def"
    {"abs", "c64", "c64", MathShape::ComplexAbs, 1},
    {"abs", "c128", "c128", MathShape::ComplexAbs, 2},
});

}  // namespace

std::span<const std::byte> math_bitcode(MathTarget target) {
  return target == MathTarget::Nvptx ? math_bitcode_nvptx() : math_bitcode_x86();
}

std::optional<MathFunction> find_math_function(std::string_view name, std::string_view type, MathPrecision precision) {
  const auto find = [&](std::string_view suffix) {
    return std::find_if(kRows.begin(), kRows.end(),
                        [&](const Row& row) { return row.name == name && row.type == type && row.suffix == suffix; });
  };
  auto row = precision == MathPrecision::Bf16 ? find("f32_bf16") : kRows.end();
  if (row == kRows.end() && precision != MathPrecision::Full) row = find("f32_half");
  if (row == kRows.end()) row = find(type);
  if (row == kRows.end()) return std::nullopt;
  return MathFunction{fmt::format("strata_{}_{}", row->name, row->suffix), row->shape, row->max_ulp};
}

}  // namespace strata::emitters
