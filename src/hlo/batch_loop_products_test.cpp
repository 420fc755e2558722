#include "hlo/batch_loop_products.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "hlo/compare.h"
#include "hlo/evaluate.h"
#include "hlo/inline_calls.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"
#include "hlo/verify.h"

namespace strata::hlo {
namespace {

/// A layer of 7 rows, forwards or backwards (index `at`), of the state h:
///   h ← tanh(xs[at] · W + h · U), ys[at] ← h · V, dW ← dW + xs[at]ᵀ · h, db ← db + Σ h
/// where `more` may read other values.
struct Layer {
  std::string at = "i";  ///< of i, and j = 6 - i
  std::string bound = "7";
  std::string ys = "ys.r", dw = "dw.r";  ///< the root's
  std::string more{};
  std::string before{};         ///< what defines `at`
  std::string written = "h.v";  ///< rows of ys

  std::string text() const {
    return fmt::format(R"(HloModule m
add {{
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT r = f32[] add(p, q)
}}
condition {{
  s = {6} parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant({0})
  ROOT c = pred[] compare(i, n), direction=LT
}}
body {{
  s = {6} parameter(0)
  i = s32[] get-tuple-element(s), index=0
  h = f32[3,4] get-tuple-element(s), index=1
  xs = f32[7,3,5] get-tuple-element(s), index=2
  w = f32[5,4] get-tuple-element(s), index=3
  u = f32[4,4] get-tuple-element(s), index=4
  v = f32[4,6] get-tuple-element(s), index=5
  ys = f32[7,3,6] get-tuple-element(s), index=6
  dw = f32[4,5] get-tuple-element(s), index=7
  db = f32[4] get-tuple-element(s), index=8
  zero = s32[] constant(0)
  one = s32[] constant(1)
  seven = s32[] constant(7)
  k = s32[] subtract(seven, i)
  j = s32[] subtract(k, one)
{7}  negative = pred[] compare({1}, zero), direction=LT
  wrapped = s32[] add({1}, seven)
  at = s32[] select(negative, wrapped, {1})
  x.1 = f32[1,3,5] dynamic-slice(xs, at, zero, zero), dynamic_slice_sizes={{1,3,5}}
  x = f32[3,5] reshape(x.1)
  x.w = f32[3,4] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  h.u = f32[3,4] dot(h, u), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
  both = f32[3,4] add(x.w, h.u)
  next = f32[3,4] tanh(both)
  h.v = f32[3,6] dot(next, v), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
{2}  row = f32[1,3,6] reshape({3})
  ys.r = f32[7,3,6] dynamic-update-slice(ys, row, at, zero, zero)
  x.h = f32[5,4] dot(x, next), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  h.x = f32[4,5] transpose(x.h), dimensions={{1,0}}
  dw.r = f32[4,5] add(dw, h.x)
  none = f32[] constant(0)
  rows = f32[4] reduce(next, none), dimensions={{0}}, to_apply=add
  again = f32[1,4] reshape(rows)
  sum = f32[4] reduce(again, none), dimensions={{0}}, to_apply=add
  db.r = f32[4] add(sum, db)
  i.r = s32[] add(i, one)
  ROOT r = {6} tuple(i.r, next, xs, w, u, v, {4}, {5}, db.r)
}}
ENTRY e {{
  h = f32[3,4] parameter(0)
  xs = f32[7,3,5] parameter(1)
  w = f32[5,4] parameter(2)
  u = f32[4,4] parameter(3)
  v = f32[4,6] parameter(4)
  ys = f32[7,3,6] parameter(5)
  dw = f32[4,5] parameter(6)
  db = f32[4] parameter(7)
  zero = s32[] constant(0)
  s = {6} tuple(zero, h, xs, w, u, v, ys, dw, db)
  ROOT l = {6} while(s), condition=condition, body=body
}}
)",
                       bound, at, more, written, ys, dw,
                       "(s32[], f32[3,4], f32[7,3,5], f32[5,4], f32[4,4], f32[4,6], f32[7,3,6], f32[4,5], f32[4])",
                       before);
  }
};

int64_t products(const Computation& computation) {
  return std::count_if(computation.instructions.begin(), computation.instructions.end(),
                       [](const Instruction& it) { return it.opcode == Opcode::Dot; });
}

struct Counted {
  int64_t in_loop = 0;
  int64_t outside = 0;
  bool operator==(const Counted&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Counted& it) {
  return out << it.in_loop << " in the loop, " << it.outside << " outside";
}

/// Products of the batched module, which is verified and computes the same.
Counted batched(const std::string& text) {
  const auto module = parse_module(text);
  EXPECT_TRUE(module) << module.error().to_string() << text;
  if (!module) return {};
  const Module flat = inline_calls(**module);
  const Module result = batch_loop_products(flat);
  const auto verified = verify(result);
  EXPECT_TRUE(verified) << verified.error().to_string() << print(result);
  const auto again = parse_module(print(result));
  EXPECT_TRUE(again) << again.error().to_string() << print(result);
  const auto arguments = typical_arguments(flat.entry_computation(), 4);
  const auto expected = evaluate(flat, arguments), actual = evaluate(result, arguments);
  EXPECT_TRUE(expected && actual && !difference(*actual, *expected, 4)) << print(result);
  Counted count;
  for (const Instruction& it : result.entry_computation().instructions) {
    if (it.opcode == Opcode::Dot) ++count.outside;
    if (it.opcode == Opcode::While) count.in_loop += products(result[it.called[1]]);
  }
  return count;
}

TEST(BatchLoopProducts, IndicesThatWrapAroundStay) {
  // Never less than 0, so rows go backwards, though i - 7 is.
  const std::string before =
      "  i.u = u32[] convert(i)\n  seven.u = u32[] constant(7)\n  zero.u = u32[] constant(0)\n"
      "  d = u32[] subtract(i.u, seven.u)\n  less = pred[] compare(d, zero.u), direction=LT\n"
      "  picked = s32[] select(less, i, j)\n";
  EXPECT_EQ(batched(Layer{.at = "picked", .before = before}.text()), (Counted{3, 1}));
  EXPECT_EQ(batched(Layer{.at = "wide", .before = "  i.u = u8[] convert(i)\n  wide = s32[] convert(i.u)\n"}.text()),
            (Counted{1, 3}))
      << "a type that has all of them";
}

TEST(BatchLoopProducts, OnlyTheStatesProductStays) {
  EXPECT_EQ(batched(Layer{}.text()), (Counted{1, 3}));
  EXPECT_EQ(batched(Layer{.at = "j"}.text()), (Counted{1, 3})) << "backwards";
}

TEST(BatchLoopProducts, RowsThatAreNotAllThereStay) {
  // What is added up is written as rows of the iterations, x too.
  EXPECT_EQ(batched(Layer{.bound = "6"}.text()), (Counted{3, 1})) << "six of seven rows";
  EXPECT_EQ(batched(Layer{.at = "one"}.text()), (Counted{3, 1})) << "the same row in each iteration";
}

TEST(BatchLoopProducts, WhatTheLoopReadsStays) {
  // The result's rows are read before they are written.
  const std::string read =
      "  y.1 = f32[1,3,6] dynamic-slice(ys, at, zero, zero), dynamic_slice_sizes={1,3,6}\n"
      "  y = f32[3,6] reshape(y.1)\n  h.y = f32[3,6] add(h.v, y)\n";
  EXPECT_EQ(batched(Layer{.more = read, .written = "h.y"}.text()), (Counted{2, 2}));
  // A product that is changed before it is written.
  EXPECT_EQ(batched(Layer{.more = "  h.2 = f32[3,6] sine(h.v)\n", .written = "h.2"}.text()), (Counted{2, 2}));
  // A sum that the iteration uses otherwise.
  EXPECT_EQ(batched(Layer{.dw = "dw.2", .more = "  dw.2 = f32[4,5] sine(dw)\n"}.text()).in_loop, 1)
      << "nothing else is computed of what is not used";
}

TEST(BatchLoopProducts, ConversionsGoAlong) {
  const std::string text = R"(HloModule m
condition {
  s = (s32[], f32[5,2,3], bf16[3,4], bf16[5,2,4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT c = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], f32[5,2,3], bf16[3,4], bf16[5,2,4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  xs = f32[5,2,3] get-tuple-element(s), index=1
  w = bf16[3,4] get-tuple-element(s), index=2
  ys = bf16[5,2,4] get-tuple-element(s), index=3
  zero = s32[] constant(0)
  x.1 = f32[1,2,3] dynamic-slice(xs, i, zero, zero), dynamic_slice_sizes={1,2,3}
  x.2 = f32[2,3] reshape(x.1)
  x = bf16[2,3] convert(x.2)
  y = bf16[2,4] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  row = bf16[1,2,4] reshape(y)
  next = bf16[5,2,4] dynamic-update-slice(ys, row, i, zero, zero)
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT r = (s32[], f32[5,2,3], bf16[3,4], bf16[5,2,4]) tuple(j, xs, w, next)
}
ENTRY e {
  xs = f32[5,2,3] parameter(0)
  w = bf16[3,4] parameter(1)
  ys = bf16[5,2,4] parameter(2)
  zero = s32[] constant(0)
  s = (s32[], f32[5,2,3], bf16[3,4], bf16[5,2,4]) tuple(zero, xs, w, ys)
  l = (s32[], f32[5,2,3], bf16[3,4], bf16[5,2,4]) while(s), condition=condition, body=body
  ROOT y = bf16[5,2,4] get-tuple-element(l), index=3
}
)";
  EXPECT_EQ(batched(text), (Counted{0, 1}));
}

TEST(BatchLoopProducts, LargeProductsStay) {
  std::string text = Layer{}.text();
  // 2 · 4000 · 5000 · 40 operations are too many, and are not evaluated here.
  for (const auto& [small, large] : {std::pair("f32[7,3,5]", "f32[7,4000,5000]"),
                                     {"f32[1,3,5]", "f32[1,4000,5000]"},
                                     {"f32[3,5]", "f32[4000,5000]"},
                                     {"f32[5,4]", "f32[5000,40]"},
                                     {"f32[3,4]", "f32[4000,40]"},
                                     {"f32[4,4]", "f32[40,40]"},
                                     {"f32[4,6]", "f32[40,6]"},
                                     {"f32[7,3,6]", "f32[7,4000,6]"},
                                     {"f32[1,3,6]", "f32[1,4000,6]"},
                                     {"f32[3,6]", "f32[4000,6]"},
                                     {"f32[4,5]", "f32[40,5000]"},
                                     {"f32[4]", "f32[40]"},
                                     {"f32[1,4]", "f32[1,40]"},
                                     {"sizes={1,3,5}", "sizes={1,4000,5000}"}}) {
    for (size_t at = 0; (at = text.find(small, at)) != std::string::npos; at += std::string(large).size())
      text.replace(at, std::string(small).size(), large);
  }
  const auto module = parse_module(text);
  ASSERT_TRUE(module) << module.error().to_string() << text;
  const Module result = batch_loop_products(**module);
  const Instruction& loop = *std::ranges::find_if(result.entry_computation().instructions,
                                                  [](const Instruction& it) { return it.opcode == Opcode::While; });
  EXPECT_EQ(products(result[loop.called[1]]), 3) << "of the product of h by V alone the rows are written";
}

}  // namespace
}  // namespace strata::hlo
