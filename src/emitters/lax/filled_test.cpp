// Parts with longer dimensions: which sizes they get, that calls of them compute what the module does, and what keeps a
// size as it is.
#include "emitters/lax/filled.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "emitters/lax/fillings.h"
#include "emitters/lax/test_parts.h"

namespace strata::emitters {
namespace {

TEST(LaxFilled, SizesOfTiles) {
  EXPECT_EQ(filled_size(1500), 1536);
  EXPECT_EQ(filled_size(1536), 1536);
  EXPECT_EQ(filled_size(777), 896);
  EXPECT_EQ(filled_size(257), 288);
  EXPECT_EQ(filled_size(100), 112);
  EXPECT_EQ(filled_size(17), 17);
  EXPECT_EQ(filled_size(1), 1);
  for (int64_t size = 1; size < 5000; ++size) {
    EXPECT_GE(filled_size(size), size);
    EXPECT_LE(6 * (filled_size(size) - size), size);
    EXPECT_TRUE(size % 64 != 0 || filled_size(size) == size) << size;
  }
}

/// softmax(Q·Kᵀ + what `mask` makes of the scores `s`)·V.
std::string attention(int64_t queries, int64_t keys, const std::string& mask = "  m = f32[Q,K] copy(s)\n") {
  std::string text = R"(HloModule m
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
max {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] maximum(a, b)
}
ENTRY e {
  q = bf16[Q,64] parameter(0)
  k = bf16[K,64] parameter(1)
  v = bf16[K,64] parameter(2)
  s = f32[Q,K] dot(q, k), lhs_contracting_dims={1}, rhs_contracting_dims={1}
)" + mask + R"(  low = f32[] constant(-inf)
  zero = f32[] constant(0)
  l = f32[Q] reduce(m, low), dimensions={1}, to_apply=max
  ls = f32[Q,K] broadcast(l), dimensions={0}
  d = f32[Q,K] subtract(m, ls)
  x = f32[Q,K] exponential(d)
  t = f32[Q] reduce(x, zero), dimensions={1}, to_apply=add
  ts = f32[Q,K] broadcast(t), dimensions={0}
  y = f32[Q,K] divide(x, ts)
  p = bf16[Q,K] convert(y)
  ROOT o = bf16[Q,64] dot(p, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})";
  for (const auto& [from, to] :
       {std::pair<std::string, int64_t>{"Q,", queries}, {"K,", keys}, {"K]", keys}, {"Q]", queries}})
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at))
      text.replace(at, 1, std::to_string(to));
  return text;
}

/// How the filled form of the module's only part differs.
std::string difference_of_filled(const std::string& text) {
  const hlo::Module module = flat(text);
  const std::vector<LaxPart> parts = find_lax_parts(module);
  if (parts.size() != 1) return fmt::format("{} parts", parts.size());
  const std::optional<LaxPart> longer = filled(parts[0]);
  if (!longer) return "no filled form";
  EXPECT_TRUE(is_filled(*longer));
  EXPECT_FALSE(is_filled(parts[0]));
  return difference(module, {*longer}, 16);
}

TEST(LaxFilled, AttentionMasksTheKeysThatAreMore) { EXPECT_EQ(difference_of_filled(attention(95, 108)), ""); }

TEST(LaxFilled, QueriesAlone) { EXPECT_EQ(difference_of_filled(attention(95, 128)), ""); }

TEST(LaxFilled, ScoresThatAreMaskedAlready) {
  const std::string causal = R"(  i = s32[Q,K] iota(), iota_dimension=0
  j = s32[Q,K] iota(), iota_dimension=1
  below = pred[Q,K] compare(i, j), direction=GE
  ninf = f32[] constant(-inf)
  never = f32[Q,K] broadcast(ninf), dimensions={}
  m = f32[Q,K] select(below, s, never)
)";
  EXPECT_EQ(difference_of_filled(attention(95, 95, causal)), "");
}

TEST(LaxFilled, NormOfRowsBeforeAProduct) {
  EXPECT_EQ(difference_of_filled(R"(HloModule m
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
ENTRY e {
  x = f32[95,60] parameter(0)
  w = f32[60,44] parameter(1)
  q = f32[95,60] multiply(x, x)
  zero = f32[] constant(0)
  t = f32[95] reduce(q, zero), dimensions={1}, to_apply=add
  r = f32[95] rsqrt(t)
  rs = f32[95,60] broadcast(r), dimensions={0}
  y = f32[95,60] multiply(x, rs)
  ROOT o = f32[95,44] dot(y, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})"),
            "");
}

TEST(LaxFilled, SizesThatFitStayAsTheyAre) {
  const hlo::Module module = flat(attention(128, 64));
  const std::vector<LaxPart> parts = find_lax_parts(module);
  ASSERT_EQ(parts.size(), 1U);
  EXPECT_FALSE(filled(parts[0]));
}

TEST(LaxFilled, WhatCouldBeNoNumberIsNotSummed) {
  // Rows of zeros divided by their norm, and then a sum over rows.
  const hlo::Module module = flat(R"(HloModule m
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
ENTRY e {
  x = f32[95,64] parameter(0)
  w = f32[95,64] parameter(1)
  q = f32[95,64] multiply(x, x)
  zero = f32[] constant(0)
  t = f32[95] reduce(q, zero), dimensions={1}, to_apply=add
  r = f32[95] rsqrt(t)
  rs = f32[95,64] broadcast(r), dimensions={0}
  y = f32[95,64] multiply(x, rs)
  ROOT o = f32[64,64] dot(y, w), lhs_contracting_dims={0}, rhs_contracting_dims={0}
})");
  const std::vector<LaxPart> parts = find_lax_parts(module);
  ASSERT_EQ(parts.size(), 1U);
  EXPECT_FALSE(filled(parts[0]));
}

TEST(LaxFilled, FillingsOfOperators) {
  using hlo::Opcode;
  using enum Filling;
  const std::vector<std::optional<double>> none(3);
  EXPECT_EQ(filling_of(Opcode::Add, {Zeros, Zeros}, none), Zeros);
  EXPECT_EQ(filling_of(Opcode::Add, {Masked, Numbers}, none), Masked);
  EXPECT_EQ(filling_of(Opcode::Subtract, {Masked, Same}, none), Masked);
  EXPECT_EQ(filling_of(Opcode::Subtract, {Masked, Masked}, none), Any);
  EXPECT_EQ(filling_of(Opcode::Exp, {Masked}, none), Zeros);
  EXPECT_EQ(filling_of(Opcode::Exp, {Numbers}, none), Any);
  EXPECT_EQ(filling_of(Opcode::Multiply, {Zeros, Any}, none), Any);
  EXPECT_EQ(filling_of(Opcode::Multiply, {Masked, Same}, {{}, 0.5}), Masked);
  EXPECT_EQ(filling_of(Opcode::Multiply, {Masked, Same}, {{}, -0.5}), Any);
  EXPECT_EQ(filling_of(Opcode::Divide, {Zeros, Same}, none), Zeros);
  EXPECT_EQ(filling_of(Opcode::Divide, {Zeros, Zeros}, none), Any);
  EXPECT_EQ(filling_of(Opcode::Rsqrt, {Zeros}, none), Any);
  EXPECT_EQ(filling_of(Opcode::Tanh, {Zeros}, none), Any);
  EXPECT_EQ(filling_of_product(Zeros, Numbers), Zeros);
}

TEST(LaxFilled, RandomPartsComputeTheSame) {
  int forms = 0;
  for (uint64_t seed = 0; seed < 1200; ++seed) {
    const std::string text = RandomText(seed, "f32", {1, 2, 15, 29}).text();
    const hlo::Module module = flat(text);
    for (const LaxPart& part : find_lax_parts(module)) {
      const std::optional<LaxPart> longer = filled(part);
      if (!longer) continue;
      ++forms;
      ASSERT_EQ(difference_of_calls(module, {*longer}, 256), "") << seed << "\n" << text;
    }
  }
  EXPECT_GT(forms, 100);
}

}  // namespace
}  // namespace strata::emitters
