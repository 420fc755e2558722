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

/// Of pairs that save the same, those are joined first with which the whole takes less time.
TEST(Recompute, TakesTheBetterOrderOfEqualPairs) {
  // One kernel for the sums of rows and of all, beside the array's for those of columns, would write the array.
  const char* readers_last = R"(
sum {
  a = c64[] parameter(0)
  b = c64[] parameter(1)
  ROOT c = c64[] add(a, b)
}
ENTRY e {
  zero = c64[] constant((0, 0))
  p = f32[777,12345] parameter(0)
  q = f32[777,12345] parameter(1)
  x = c64[777,12345] complex(p, q)
  rows = c64[777] reduce(x, zero), dimensions={1}, to_apply=sum
  columns = c64[12345] reduce(x, zero), dimensions={0}, to_apply=sum
  ROOT t = (c64[777], c64[12345]) tuple(rows, columns)
}
)";
  // A gradient of a norm of rows.
  const char* in_order = R"(
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
ENTRY e {
  zero = f32[] constant(0)
  p = bf16[16384,2048] parameter(0)
  q = bf16[16384,2048] parameter(1)
  w = f32[2048] parameter(2)
  x = f32[16384,2048] convert(p)
  y = f32[16384,2048] convert(q)
  squares = f32[16384,2048] multiply(x, x)
  s = f32[16384] reduce(squares, zero), dimensions={1}, to_apply=sum
  r = f32[16384] rsqrt(s)
  wide = f32[16384,2048] broadcast(r), dimensions={0}
  n = f32[16384,2048] multiply(x, wide)
  weights = f32[16384,2048] broadcast(w), dimensions={1}
  g = f32[16384,2048] multiply(y, weights)
  gn = f32[16384,2048] multiply(g, n)
  dots = f32[16384] reduce(gn, zero), dimensions={1}, to_apply=sum
  dot = f32[16384,2048] broadcast(dots), dimensions={0}
  along = f32[16384,2048] multiply(n, dot)
  d = f32[16384,2048] subtract(g, along)
  dx = f32[16384,2048] multiply(d, wide)
  narrow = bf16[16384,2048] convert(dx)
  yn = f32[16384,2048] multiply(y, n)
  dw = f32[2048] reduce(yn, zero), dimensions={0}, to_apply=sum
  ROOT t = (bf16[16384,2048], f32[2048]) tuple(narrow, dw)
}
)";
  const Target& target = default_target();
  const auto fused = [&](const char* text) {
    const auto module = hlo::parse_module(text);
    EXPECT_TRUE(module) << module.error().to_string();
    return fuse_recomputing(**module, target);
  };
  EXPECT_LT(written_bytes(fused(readers_last)), 777 * 12345);  // nothing of the array
  EXPECT_EQ(fused(in_order).parts.size(), 2U);
}

/// Two kernels read rows of a table: neither writes what it gathers.
TEST(Recompute, KernelsReadRowsOfTables) {
  const auto module = hlo::parse_module(R"(
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
ENTRY e {
  zero = f32[] constant(0)
  none = s32[] constant(0)
  table = f32[123457,100] parameter(0)
  places = s32[12345,7] parameter(1)
  weights = f32[12345,7] parameter(2)
  nones = s32[12345,7] broadcast(none), dimensions={}
  positive = s32[12345,7] maximum(places, nones)
  indices = s32[12345,7,1] reshape(positive)
  rows = f32[12345,7,100] gather(table, indices), offset_dims={2}, collapsed_slice_dims={0}, start_index_map={0},
      index_vector_dim=2, slice_sizes={1,100}
  wide = f32[12345,7,100] broadcast(weights), dimensions={0,1}
  weighted = f32[12345,7,100] multiply(rows, wide)
  bags = f32[12345,100] reduce(weighted, zero), dimensions={1}, to_apply=sum
  steep = f32[12345,100] sine(bags)
  gradient = f32[12345,7,100] broadcast(steep), dimensions={0,2}
  products = f32[12345,7,100] multiply(rows, gradient)
  of_weights = f32[12345,7] reduce(products, zero), dimensions={2}, to_apply=sum
  ROOT t = (f32[12345,100], f32[12345,7]) tuple(bags, of_weights)
})");
  ASSERT_TRUE(module) << module.error().to_string();
  EXPECT_LT(written_bytes(fuse_recomputing(**module, default_target())), 12345 * 7 * 100 * 4);
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

/// Sums that stand twice, for scatters of what is computed of them.
TEST(Recompute, EqualValuesAreStoredOnce) {
  const auto module = hlo::parse_module(R"(
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
ENTRY e {
  zero = f32[] constant(0)
  p = f32[4096,512] parameter(0)
  i = s32[4096,1] parameter(1)
  zeros = f32[64,512] broadcast(zero), dimensions={}
  none = f32[32,512] broadcast(zero), dimensions={}
  rows = f32[4096] reduce(p, zero), dimensions={1}, to_apply=sum
  wide = f32[4096,512] broadcast(rows), dimensions={0}
  x = f32[4096,512] multiply(p, wide)
  rows2 = f32[4096] reduce(p, zero), dimensions={1}, to_apply=sum
  wide2 = f32[4096,512] broadcast(rows2), dimensions={0}
  y = f32[4096,512] multiply(p, wide2)
  one = f32[64,512] scatter(zeros, i, x),
      update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0},
      index_vector_dim=1, to_apply=sum
  two = f32[32,512] scatter(none, i, y),
      update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0},
      index_vector_dim=1, to_apply=sum
  ROOT t = (f32[64,512], f32[32,512]) tuple(one, two)
}
)");
  ASSERT_TRUE(module) << module.error().to_string();
  const FusedModule fused = fuse_recomputing(**module, default_target());
  EXPECT_TRUE(fused.changed);
  EXPECT_EQ(fused.parts.size(), 3U);
  EXPECT_EQ(written_bytes(fused), 4 * (64 * 512 + 32 * 512 + 4096)) << hlo::print(fused.module);
}

/// What one kernel computes for several scatters each of them computes.
TEST(Recompute, ScattersComputeWhatOthersRead) {
  const auto module = hlo::parse_module(R"(
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
ENTRY e {
  zero = f32[] constant(0)
  p = f32[4096,512] parameter(0)
  i = s32[4096,1] parameter(1)
  zeros = f32[64,512] broadcast(zero), dimensions={}
  none = f32[32,512] broadcast(zero), dimensions={}
  rows = f32[4096] reduce(p, zero), dimensions={1}, to_apply=sum
  wide = f32[4096,512] broadcast(rows), dimensions={0}
  x = f32[4096,512] multiply(p, wide)
  one = f32[64,512] scatter(zeros, i, x),
      update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0},
      index_vector_dim=1, to_apply=sum
  two = f32[32,512] scatter(none, i, x),
      update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0},
      index_vector_dim=1, to_apply=sum
  ROOT t = (f32[64,512], f32[32,512]) tuple(one, two)
}
)");
  ASSERT_TRUE(module) << module.error().to_string();
  const FusedModule fused = fuse_recomputing(**module, default_target());
  EXPECT_EQ(written_bytes(fused), 4 * (64 * 512 + 32 * 512 + 4096)) << hlo::print(fused.module);
}

/// A mask of places, which kernels compute as they read it, however many bytes the places would have.
TEST(Recompute, MasksOfPlacesAreNotStored) {
  const auto module = hlo::parse_module(R"(
most {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] maximum(a, b)
}
ENTRY e {
  least = f32[] constant(-inf)
  seven = s32[] constant(7)
  p = f32[27,601,601] parameter(0)
  q = f32[601,601] parameter(1)
  i = s32[601,601] iota(), iota_dimension=0
  j = s32[601,601] iota(), iota_dimension=1
  far = s32[601,601] broadcast(seven), dimensions={}
  away = s32[601,601] subtract(i, j)
  near = pred[601,601] compare(away, far), direction=LT
  before = pred[601,601] compare(j, i), direction=LE
  mask = pred[601,601] and(near, before)
  masks = pred[27,601,601] broadcast(mask), dimensions={1,2}
  lows = f32[27,601,601] broadcast(least), dimensions={}
  masked = f32[27,601,601] select(masks, p, lows)
  rows = f32[27,601] reduce(masked, least), dimensions={2}, to_apply=most
  low = f32[601,601] broadcast(least), dimensions={}
  other = f32[601,601] select(mask, q, low)
  columns = f32[601] reduce(other, least), dimensions={0}, to_apply=most
  ROOT t = (f32[27,601], f32[601]) tuple(rows, columns)
}
)");
  ASSERT_TRUE(module) << module.error().to_string();
  const FusedModule fused = fuse_recomputing(**module, default_target());
  EXPECT_EQ(fused.parts.size(), 2U) << hlo::print(fused.module);
  EXPECT_EQ(written_bytes(fused), 4 * (27 * 601 + 601));
}

/// Another kernel reads what bits were cast from, not what they were cast to.
TEST(Recompute, CastsOfBitsAreNotStored) {
  const auto module = hlo::parse_module(R"(
sum {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT c = s32[] add(a, b)
}
ENTRY e {
  zero = s32[] constant(0)
  x = f32[3001,3072] parameter(0)
  bits = s32[3001,3072] bitcast-convert(x)
  turned = s32[3001,3072] not(bits)
  columns = s32[3072] reduce(bits, zero), dimensions={0}, to_apply=sum
  count = s32[3001,3072] popcnt(bits)
  rows = s32[3001] reduce(count, zero), dimensions={1}, to_apply=sum
  ROOT t = (s32[3001,3072], s32[3072], s32[3001]) tuple(turned, columns, rows)
}
)");
  ASSERT_TRUE(module) << module.error().to_string();
  const FusedModule fused = fuse_recomputing(**module, default_target());
  EXPECT_EQ(written_bytes(fused), 4 * (3001 * 3072 + 3072 + 3001)) << hlo::print(fused.module);
}

}  // namespace
}  // namespace strata::emitters
