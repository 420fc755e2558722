#include "emitters/fusion/recompute.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "emitters/program.h"
#include "hlo/compare.h"
#include "hlo/evaluate.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"
#include "hlo/verify.h"
#include "support/random.h"

namespace strata::emitters {
namespace {

double microseconds(const std::vector<ProgramPart>& parts) {
  double sum = 0;
  for (const ProgramPart& part : parts) sum += part.interpreted ? 0 : part.microseconds;
  return sum;
}

/// Bytes of all arrays between kernels, and of results.
int64_t written_bytes(const FusedModule& fused) {
  int64_t bytes = 0;
  for (const ProgramPart& part : fused.parts) {
    for (const ArrayValue& output : part.outputs) {
      const hlo::Shape& shape = fused.module.entry_computation()[output.instruction].shape;
      if (shape.is_array()) bytes += shape.element_count() * hlo::byte_width(shape.type);
    }
  }
  return bytes;
}

/// Sums of rows and of columns of converted arrays: both kernels read what was converted, and the second one computes
/// what the first one would have to store of the whole array.
TEST(Recompute, KernelsReadWhatIsNarrow) {
  const auto module = hlo::parse_module(R"(
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
ENTRY e {
  zero = f32[] constant(0)
  p = bf16[8192,4096] parameter(0)
  q = bf16[8192,4096] parameter(1)
  x = f32[8192,4096] convert(p)
  y = f32[8192,4096] convert(q)
  xy = f32[8192,4096] multiply(x, y)
  rows = f32[8192] reduce(xy, zero), dimensions={1}, to_apply=sum
  scale = f32[8192] rsqrt(rows)
  wide = f32[8192,4096] broadcast(scale), dimensions={0}
  scaled = f32[8192,4096] multiply(x, wide)
  product = f32[8192,4096] multiply(scaled, y)
  columns = f32[4096] reduce(product, zero), dimensions={0}, to_apply=sum
  ROOT t = (f32[8192], f32[4096]) tuple(rows, columns)
}
)");
  ASSERT_TRUE(module) << module.error().to_string();
  const Target& target = default_target();
  const FusedModule fused = fuse_recomputing(**module, target);
  EXPECT_TRUE(fused.changed);
  EXPECT_LE(written_bytes(fused), 1 << 17) << hlo::print(fused.module);
  EXPECT_LE(fused.parts.size(), 3U);
}

/// Converted parameters, elementwise operators on them, and sums of rows and columns of these, spread again.
std::string random_module(uint64_t seed, int64_t rows, int64_t columns) {
  Random random(seed);
  const auto below = [&](size_t n) { return static_cast<size_t>(random.below(n)); };
  const std::string shape = fmt::format("f32[{},{}]", rows, columns);
  std::string text = fmt::format(
      "HloModule m\nsum {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }}\nENTRY e {{\n  "
      "zero = f32[] constant(0)\n  p0 = b{0} parameter(0)\n  p1 = b{0} parameter(1)\n  v0 = {1} convert(p0)\n  v1 = "
      "{1} convert(p1)\n",
      "f16" + shape.substr(3), shape);
  std::vector<std::string> whole{"v0", "v1"}, results;
  for (int i = 2; i < 12; ++i) {
    const std::string value = "v" + std::to_string(i), from = whole[below(whole.size())];
    if (below(3) == 0) {
      const size_t kept = below(2);
      const std::string small = fmt::format("f32[{}]", kept == 0 ? rows : columns);
      text += fmt::format(
          "  r{0} = {1} reduce({2}, zero), dimensions={{{3}}}, to_apply=sum\n  s{0} = {1} logistic(r{0})\n  {4} = {6} "
          "broadcast(s{0}), dimensions={{{5}}}\n",
          i, small, from, 1 - kept, value, kept, shape);
      if (below(3) == 0) results.push_back("s" + std::to_string(i));
    } else {
      text += fmt::format("  {} = {} {}({}, {})\n", value, shape, below(2) == 0 ? "multiply" : "subtract", from,
                          whole[below(whole.size())]);
    }
    whole.push_back(value);
  }
  text += fmt::format("  w = b{} convert(v11)\n", "f16" + shape.substr(3));
  results.push_back("w");
  return text + fmt::format("  ROOT t = tuple({})\n}}\n", fmt::join(results, ", "));
}

TEST(Recompute, NeverTakesLongerByTheModel) {
  int changed = 0;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    const auto module = hlo::parse_module(random_module(seed, 8192, 4096));
    ASSERT_TRUE(module) << module.error().to_string();
    SCOPED_TRACE(seed);
    const Target& target = default_target();
    const double before = microseconds(fuse(**module, target));
    const FusedModule fused = fuse_recomputing(**module, target);
    EXPECT_LE(microseconds(fused.parts), before);
    const auto verified = hlo::verify(fused.module);
    EXPECT_TRUE(verified) << verified.error().to_string() << hlo::print(fused.module);
    changed += fused.changed ? 1 : 0;
  }
  EXPECT_GE(changed, 3);
}

TEST(Recompute, ComputesTheSame) {
  int changed = 0;
  for (uint64_t seed = 1; seed <= 100 && changed < 2; ++seed) {
    const auto module = hlo::parse_module(random_module(seed, 512, 512));
    ASSERT_TRUE(module) << module.error().to_string();
    SCOPED_TRACE(random_module(seed, 512, 512));
    if (!fuse_recomputing(**module, default_target()).changed) continue;
    ++changed;
    const auto arguments = hlo::typical_arguments((*module)->entry_computation(), seed);
    const auto expected = hlo::evaluate(**module, arguments);
    ASSERT_TRUE(expected) << expected.error().to_string();
    const auto program = emit_program(**module);
    ASSERT_TRUE(program) << program.error().to_string();
    const auto actual = run_on_cpu(*program, arguments);
    ASSERT_TRUE(actual) << actual.error().to_string();
    EXPECT_EQ(hlo::difference(*actual, *expected, 64).value_or(""), "");
  }
  EXPECT_EQ(changed, 2);
}

}  // namespace
}  // namespace strata::emitters
