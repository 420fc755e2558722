// Rows of several dimensions along some of which arrays are broadcast, on the processor against the interpreter.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "emitters/kinds/reduction_shape.h"
#include "emitters/program.h"
#include "hlo/compare.h"
#include "hlo/evaluate.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"
#include "support/random.h"

namespace strata::emitters {
namespace {

struct Rows {
  int64_t rows = 3, pieces = 5, length = 261;
  std::string type = "f32";
  bool along_pieces = false;  ///< an array that is the same along the piece, not from piece to piece
  bool place = false;         ///< the place of the maximum, too
  bool root = false;          ///< and what is computed of the sum
};

std::string text_of(const Rows& one) {
  const std::string all = fmt::format("[{},{},{}]", one.rows, one.pieces, one.length);
  std::string text = fmt::format(
      "HloModule m\nadd {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }}\n"
      "best {{\n  a = f32[] parameter(0)\n  i = s32[] parameter(1)\n  b = f32[] parameter(2)\n  j = s32[] "
      "parameter(3)\n  more = pred[] compare(a, b), direction=GT\n  same = pred[] compare(a, b), direction=EQ\n  less "
      "= "
      "pred[] compare(i, j), direction=LT\n  first = pred[] and(same, less)\n  takes = pred[] or(more, first)\n  m = "
      "f32[] maximum(a, b)\n  k = s32[] select(takes, i, j)\n  ROOT r = (f32[], s32[]) tuple(m, k)\n}}\n"
      "ENTRY e {{\n  p = {0}{1} parameter(0)\n  x = f32{1} convert(p)\n  w = f32[{2},{3}] parameter(1)\n"
      "  ww = f32{1} broadcast(w), dimensions={{0,{4}}}\n  y = f32{1} multiply(x, ww)\n  zero = f32[] constant(0)\n"
      "  s = f32[{2}] reduce(y, zero), dimensions={{1,2}}, to_apply=add\n",
      one.type, all, one.rows, one.along_pieces ? one.pieces : one.length, one.along_pieces ? 1 : 2);
  std::string names = "s", types = fmt::format("f32[{}]", one.rows);
  if (one.root) {
    text += fmt::format("  e = f32[{0}] abs(s)\n  q = f32[{0}] sqrt(e)\n", one.rows);
    names += ", q";
    types += fmt::format(", f32[{}]", one.rows);
  }
  if (one.place) {
    text += fmt::format(
        "  least = f32[] constant(-inf)\n  none = s32[] constant(0)\n  at = s32{0} iota(), iota_dimension=2\n"
        "  both = (f32[{1}], s32[{1}]) reduce(y, at, least, none), dimensions={{1,2}}, to_apply=best\n"
        "  place = s32[{1}] get-tuple-element(both), index=1\n",
        all, one.rows);
    names += ", place";
    types += fmt::format(", s32[{}]", one.rows);
  }
  return text + fmt::format("  ROOT t = ({}) tuple({})\n}}\n", types, names);
}

std::string check(const Rows& one, int processors, const std::string& only) {
  const std::string text = text_of(one);
  SCOPED_TRACE(text);
  const auto module = hlo::parse_module(text);
  EXPECT_TRUE(module) << module.error().to_string();
  if (!module) return {};
  EmitOptions options;
  options.only = only;
  options.target.multiprocessors = processors;
  const auto program = emit_program(**module, options);
  EXPECT_TRUE(program) << program.error().to_string();
  if (!program) return {};
  const auto arguments = hlo::typical_arguments((*module)->entry_computation(), one.length);
  const auto expected = hlo::evaluate(**module, arguments);
  const auto actual = run_on_cpu(*program, arguments);
  EXPECT_TRUE(actual) << actual.error().to_string();
  if (expected && actual) {
    for (size_t i = 0; i < expected->elements().size(); ++i) {
      const auto slack = static_cast<double>(one.pieces * one.length) / 8;
      EXPECT_EQ(hlo::difference(actual->elements()[i], expected->elements()[i], slack).value_or(""), "")
          << "result " << i;
    }
  }
  return explain(*program);
}

TEST(RowPieces, AreAsTheInterpreterHasThem) {
  Random random(3);
  int pieces = 0;
  for (int i = 0; i < 24; ++i) {
    Rows one;
    one.rows = 1 + static_cast<int64_t>(random.below(4));
    one.pieces = 2 + static_cast<int64_t>(random.below(40));
    one.length = random.below(3) == 0 ? 100 + static_cast<int64_t>(random.below(100))
                                      : 257 + static_cast<int64_t>(random.below(1000));
    one.type = i % 3 == 0 ? "f16" : i % 3 == 1 ? "bf16" : "f32";
    one.along_pieces = random.below(4) == 0;
    one.place = random.below(3) == 0;
    one.root = random.below(2) == 0;
    const std::string decision = check(one, 1 + static_cast<int>(random.below(16)), i % 2 == 0 ? "reduction" : "");
    const bool whole = i % 2 == 0;  // the kernel has all, not parts of rows
    const bool in_pieces =
        decision.find(fmt::format("{}x{}x{} threads", one.rows, one.pieces, one.length)) != std::string::npos;
    const bool wanted = !one.along_pieces && one.length > 256 && one.length % 8 != 0;
    if (whole && one.rows > 1) {
      EXPECT_EQ(in_pieces, wanted) << decision;
    }
    pieces += in_pieces ? 1 : 0;
  }
  EXPECT_GE(pieces, 4);
}

TEST(RowPieces, RowsThatAreGoneThroughAgainStayWhole) {
  const auto module = hlo::parse_module(R"(HloModule m
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
ENTRY e {
  x = f32[3,5,261] parameter(0)
  w = f32[261] parameter(1)
  ww = f32[3,5,261] broadcast(w), dimensions={2}
  y = f32[3,5,261] multiply(x, ww)
  zero = f32[] constant(0)
  s = f32[3] reduce(y, zero), dimensions={1,2}, to_apply=add
  ss = f32[3,5,261] broadcast(s), dimensions={0}
  ROOT q = f32[3,5,261] divide(y, ss)
})");
  ASSERT_TRUE(module) << module.error().to_string();
  const auto heroes = find_reductions((*module)->entry_computation());
  ASSERT_TRUE(heroes) << heroes.error().to_string();
  EXPECT_EQ(heroes->groups.size(), 2U);
}

}  // namespace
}  // namespace strata::emitters
