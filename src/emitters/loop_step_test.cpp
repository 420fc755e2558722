// While loops as programs of their own, against the interpreter.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "emitters/program.h"
#include "hlo/compare.h"
#include "hlo/evaluate.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"

namespace strata::emitters {
namespace {

/// The only loop of a module whose program has the interpreter's value.
std::shared_ptr<const LoopStep> checked_loop(const std::string& text) {
  const auto module = hlo::parse_module(text);
  EXPECT_TRUE(module) << module.error().to_string();
  if (!module) return nullptr;
  const auto program = emit_program(**module);
  EXPECT_TRUE(program) << program.error().to_string();
  if (!program) return nullptr;
  const auto arguments = hlo::typical_arguments((*module)->entry_computation(), 1);
  const auto expected = hlo::evaluate(**module, arguments);
  const auto actual = run_on_cpu(*program, arguments);
  EXPECT_TRUE(expected && actual);
  if (!expected || !actual) return nullptr;
  EXPECT_EQ(hlo::difference(*actual, *expected, 4).value_or(""), "");
  std::shared_ptr<const LoopStep> loop;
  for (const ProgramStep& step : program->steps) {
    EXPECT_TRUE(step.fusion || step.loop || step.library) << "the interpreter runs a step";
    if (step.loop) loop = step.loop;
  }
  EXPECT_NE(loop, nullptr);
  return loop;
}

/// (i, x, rows) with x ← x · 0.5 + rows[i] and rows[i] ← x, `condition` of i.
std::string scan(const std::string& condition, const std::string& first, const std::string& step) {
  return fmt::format(R"(HloModule scan
condition {{
  s = (s32[], f32[4], f32[64,4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(20)
  {}
}}
body {{
  s = (s32[], f32[4], f32[64,4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4] get-tuple-element(s), index=1
  rows = f32[64,4] get-tuple-element(s), index=2
  zero = s32[] constant(0)
  row = f32[1,4] dynamic-slice(rows, i, zero), dynamic_slice_sizes={{1,4}}
  flat = f32[4] reshape(row)
  half = f32[] constant(0.5)
  halves = f32[4] broadcast(half), dimensions={{}}
  scaled = f32[4] multiply(x, halves)
  next = f32[4] add(scaled, flat)
  new_row = f32[1,4] reshape(next)
  new_rows = f32[64,4] dynamic-update-slice(rows, new_row, i, zero)
  step = s32[] constant({})
  j = s32[] add(i, step)
  ROOT r = (s32[], f32[4], f32[64,4]) tuple(j, next, new_rows)
}}
ENTRY e {{
  x = f32[4] parameter(0)
  rows = f32[64,4] parameter(1)
  i = s32[] constant({})
  s = (s32[], f32[4], f32[64,4]) tuple(i, x, rows)
  ROOT w = (s32[], f32[4], f32[64,4]) while(s), condition=condition, body=body
}}
)",
                     condition, step, first);
}

TEST(LoopStep, CountsIterations) {
  struct Case {
    const char *condition, *first, *step;
    int64_t count;
  };
  for (const Case& one : {Case{"ROOT c = pred[] compare(i, n), direction=LT", "0", "1", 20},
                          Case{"ROOT c = pred[] compare(i, n), direction=LE", "0", "1", 21},
                          Case{"ROOT c = pred[] compare(n, i), direction=GT", "1", "3", 7},
                          Case{"ROOT c = pred[] compare(i, n), direction=NE", "2", "2", 9},
                          Case{"ROOT c = pred[] compare(i, n), direction=GE", "30", "-2", 6},
                          Case{"ROOT c = pred[] compare(i, n), direction=GT", "20", "-1", 0}}) {
    const auto loop = checked_loop(scan(one.condition, one.first, one.step));
    ASSERT_TRUE(loop && loop->counted) << one.condition;
    EXPECT_EQ(loop->counted->count, one.count) << one.condition << " from " << one.first;
    EXPECT_EQ(loop->counted->counters.size(), 1U);
    // Nothing computes the counter.
    for (const ProgramStep& step : loop->body->steps) {
      for (const int output : step.outputs)
        EXPECT_NE(loop->body->buffers[static_cast<size_t>(output)].shape.rank(), 0U);
    }
  }
}

TEST(LoopStep, AConditionalIsALoopOfOneIterationAtMost) {
  // In a loop whose iterations are counted, so that both branches are taken.
  const auto loop = checked_loop(R"(HloModule m
less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=LT
}
ordered {
  x = f32[4,33] parameter(0)
  ROOT r = f32[4,33] sort(x), dimensions={1}, to_apply=less
}
kept {
  ROOT x = f32[4,33] parameter(0)
}
condition {
  s = (s32[], f32[4,33]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT c = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], f32[4,33]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4,33] get-tuple-element(s), index=1
  two = s32[] constant(2)
  bit = s32[] remainder(i, two)
  y = f32[4,33] conditional(bit, x, x), branch_computations={kept, ordered}
  z = f32[4,33] cosine(y)
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT r = (s32[], f32[4,33]) tuple(j, z)
}
ENTRY e {
  x = f32[4,33] parameter(0)
  i = s32[] constant(0)
  s = (s32[], f32[4,33]) tuple(i, x)
  ROOT w = (s32[], f32[4,33]) while(s), condition=condition, body=body
}
)");
  ASSERT_TRUE(loop && loop->counted);
  int64_t inner = 0;
  for (const ProgramStep& step : loop->body->steps) {
    EXPECT_TRUE(step.fusion || step.loop) << "the interpreter runs a step of the body";
    if (!step.loop) continue;
    ++inner;
    EXPECT_FALSE(step.loop->counted);
    EXPECT_TRUE(step.loop->once);
    EXPECT_EQ(step.loop->condition->steps.size(), 0U) << "the flag is read as it is";
  }
  EXPECT_EQ(inner, 1);
}

/// A loop that ends after one iteration; `result` is what is read of it.
std::string loop_of_one(const std::string& value, const std::string& result) {
  return fmt::format(R"(HloModule once
condition {{
  s = (f32[3], pred[], (f32[3], f32[2])) parameter(0)
  ROOT r = pred[] get-tuple-element(s), index=1
}}
body {{
  s = (f32[3], pred[], (f32[3], f32[2])) parameter(0)
  x = f32[3] get-tuple-element(s), index=0
  y = f32[3] tanh(x)
  more = (f32[3], f32[2]) get-tuple-element(s), index=2
  no = pred[] constant(false)
  ROOT r = (f32[3], pred[], (f32[3], f32[2])) tuple(y, no, more)
}}
ENTRY e {{
  x = f32[3] parameter(0)
  y = f32[2] parameter(1)
  whether = pred[] constant({})
  pair = (f32[3], f32[2]) tuple(x, y)
  s = (f32[3], pred[], (f32[3], f32[2])) tuple(x, whether, pair)
  w = (f32[3], pred[], (f32[3], f32[2])) while(s), condition=condition, body=body
  {}
}}
)",
                     value, result);
}

TEST(LoopStep, WhatEndsAfterOneIterationIsAskedOnce) {
  for (const char* whether : {"true", "false"}) {
    const auto loop = checked_loop(loop_of_one(whether, "ROOT r = f32[3] get-tuple-element(w), index=0"));
    ASSERT_TRUE(loop);
    EXPECT_TRUE(loop->once);
    EXPECT_EQ(loop->body->steps.size(), 1U);  // nothing writes that it ends
    // Where what was asked is read, it is written.
    const auto read = checked_loop(loop_of_one(whether, R"(value = f32[3] get-tuple-element(w), index=0
  answer = pred[] get-tuple-element(w), index=1
  ROOT r = (f32[3], pred[]) tuple(value, answer))"));
    ASSERT_TRUE(read);
    EXPECT_FALSE(read->once);
  }
}

TEST(LoopStep, VeryManyIterationsAreNotCounted) {
  const auto module = hlo::parse_module(
      scan("big = s32[] constant(200000)\n  ROOT c = pred[] compare(i, big), direction=LT", "0", "1"));
  ASSERT_TRUE(module) << module.error().to_string();
  const auto program = emit_program(**module);
  ASSERT_TRUE(program) << program.error().to_string();
  ASSERT_TRUE(program->steps.back().loop);
  const LoopStep& loop = *program->steps.back().loop;
  EXPECT_FALSE(loop.counted);
  EXPECT_NE(loop.condition, nullptr);
  // The body counts then.
  EXPECT_LT(loop.body->buffers[static_cast<size_t>(loop.body->results[0])].parameter, 0);
}

TEST(LoopStep, RowsAreUpdatedInPlace) {
  const auto loop = checked_loop(scan("ROOT c = pred[] compare(i, n), direction=LT", "0", "1"));
  ASSERT_NE(loop, nullptr);
  const int rows = loop->body->results[2];
  for (const ProgramStep& step : loop->body->steps) {
    if (step.outputs.front() != rows) continue;
    EXPECT_EQ(step.fusion->decision().emitter, "dynamic-update-slice");
    // rows is read by the slice too: its copy is all that this kernel reads of it.
    EXPECT_EQ(std::count(step.only_copied.begin(), step.only_copied.end(), true), 1);
  }
}

/// A step of a recurrent layer: of h ← tanh(h · 0.5 + xs[i]) rows are kept, of it and of what is computed on the way.
/// h is reversed, without which no element would need another one, and all would be one kernel (element_loops.h).
/// `other` is what is written to the last array, of 4 × 9 elements.
std::string layer(const std::string& other) {
  return fmt::format(R"(HloModule layer
condition {{
  s = {1} parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(40)
  ROOT c = pred[] compare(i, n), direction=LT
}}
body {{
  s = {1} parameter(0)
  i = s32[] get-tuple-element(s), index=0
  h = f32[4,9] get-tuple-element(s), index=1
  xs = f32[40,4,9] get-tuple-element(s), index=2
  as = f32[40,4,9] get-tuple-element(s), index=3
  bs = f32[36,40] get-tuple-element(s), index=4
  cs = f32[40,36] get-tuple-element(s), index=5
  zero = s32[] constant(0)
  x.1 = f32[1,4,9] dynamic-slice(xs, i, zero, zero), dynamic_slice_sizes={{1,4,9}}
  x = f32[4,9] reshape(x.1)
  half = f32[] constant(0.5)
  halves = f32[4,9] broadcast(half), dimensions={{}}
  turned = f32[4,9] reverse(h), dimensions={{1}}
  scaled = f32[4,9] multiply(turned, halves)
  sum = f32[4,9] add(scaled, x)
  next = f32[4,9] tanh(sum)
  square = f32[4,9] multiply(next, next)
  a = f32[1,4,9] reshape(next)
  as.r = f32[40,4,9] dynamic-update-slice(as, a, i, zero, zero)
  b = f32[36,1] reshape(square)
  bs.r = f32[36,40] dynamic-update-slice(bs, b, zero, i)
  c.1 = f32[4,9] {0}
  c = f32[1,36] reshape(c.1)
  cs.r = f32[40,36] dynamic-update-slice(cs, c, i, zero)
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT r = {1} tuple(j, next, xs, as.r, bs.r, cs.r)
}}
ENTRY e {{
  h = f32[4,9] parameter(0)
  xs = f32[40,4,9] parameter(1)
  as = f32[40,4,9] parameter(2)
  bs = f32[36,40] parameter(3)
  cs = f32[40,36] parameter(4)
  i = s32[] constant(0)
  s = {1} tuple(i, h, xs, as, bs, cs)
  ROOT w = {1} while(s), condition=condition, body=body
}}
)",
                     other, "(s32[], f32[4,9], f32[40,4,9], f32[40,4,9], f32[36,40], f32[40,36])");
}

TEST(LoopStep, RowsOfSeveralArraysAreWrittenByOneKernel) {
  const auto loop = checked_loop(layer("negate(sum)"));
  ASSERT_NE(loop, nullptr);
  ASSERT_EQ(loop->body->steps.size(), 1U);
  const ProgramStep& step = loop->body->steps[0];
  EXPECT_EQ(step.fusion->decision().emitter, "dynamic-update-slice");
  EXPECT_EQ(step.outputs.size(), 4U);
  EXPECT_EQ(step.fusion->decision().preparations.size(), 3U);
  EXPECT_EQ(std::count(step.only_copied.begin(), step.only_copied.end(), true), 3);
}

/// h ← tanh(h, reversed, · 0.5) n times; row i of `rows`, which begin as ones, becomes `row`, of h and of the row
/// `before`.
std::string stacked(int64_t n, int64_t rows, const std::string& row) {
  return fmt::format(R"(HloModule stacked
condition {{
  s = {0} parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant({1})
  ROOT c = pred[] compare(i, n), direction=LT
}}
body {{
  s = {0} parameter(0)
  i = s32[] get-tuple-element(s), index=0
  h = f32[70,9] get-tuple-element(s), index=1
  all = f32[{2},70,9] get-tuple-element(s), index=2
  zero = s32[] constant(0)
  before.1 = f32[1,70,9] dynamic-slice(all, i, zero, zero), dynamic_slice_sizes={{1,70,9}}
  before = f32[70,9] reshape(before.1)
  half = f32[] constant(0.5)
  halves = f32[70,9] broadcast(half), dimensions={{}}
  turned = f32[70,9] reverse(h), dimensions={{1}}
  scaled = f32[70,9] multiply(turned, halves)
  next = f32[70,9] tanh(scaled)
  row = f32[70,9] {3}
  row.1 = f32[1,70,9] reshape(row)
  all.r = f32[{2},70,9] dynamic-update-slice(all, row.1, i, zero, zero)
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT r = {0} tuple(j, next, all.r)
}}
ENTRY e {{
  h = f32[70,9] parameter(0)
  one = f32[] constant(1)
  all = f32[{2},70,9] broadcast(one), dimensions={{}}
  i = s32[] constant(0)
  s = {0} tuple(i, h, all)
  ROOT w = {0} while(s), condition=condition, body=body
}}
)",
                     fmt::format("(s32[], f32[70,9], f32[{},70,9])", rows), n, rows, row);
}

TEST(LoopStep, FewRowsAreUpdatedInPlace) {
  // Of three rows each is a third of the array, which a loop over all of it would read and write.
  for (const int64_t rows : {2, 3, 5}) {
    const auto loop = checked_loop(stacked(rows, rows, "multiply(next, scaled)"));
    ASSERT_NE(loop, nullptr);
    ASSERT_EQ(loop->body->steps.size(), 1U) << "one kernel has both";
    EXPECT_EQ(loop->body->steps[0].fusion->decision().emitter, "dynamic-update-slice");
    EXPECT_EQ(std::ranges::count(loop->body->steps[0].only_copied, true), 1);
  }
}

TEST(LoopStep, WhatIsWrittenWholeHasNoFirstValue) {
  const auto steps_of = [](const std::string& text) {
    const auto program = emit_program(**hlo::parse_module(text));
    EXPECT_TRUE(program);
    return program ? program->steps.size() : 0;
  };
  const std::string all = stacked(3, 3, "negate(next)");
  const auto loop = checked_loop(all);
  ASSERT_NE(loop, nullptr);
  EXPECT_EQ(loop->leaves[2].initial, loop->leaves[2].result);
  EXPECT_EQ(steps_of(all), 1U);
  // The fourth row stays as it was; or what a row was is read.
  for (const std::string& text : {stacked(3, 4, "negate(next)"), stacked(3, 3, "add(next, before)")}) {
    const auto filled = checked_loop(text);
    ASSERT_NE(filled, nullptr);
    EXPECT_NE(filled->leaves[2].initial, filled->leaves[2].result) << text;
    EXPECT_EQ(steps_of(text), 2U) << text;
  }
}

/// n iterations write `part` of a counter, as ones times that, into `all` at `places`, which are computed `before`;
/// beside it another array is turned.
std::string pieces(int64_t n, const std::string& all, const std::string& part, const std::string& before,
                   const std::string& places) {
  return fmt::format(R"(HloModule pieces
condition {{
  s = (s32[], f32[{1}], f32[5]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant({0})
  ROOT c = pred[] compare(i, n), direction=LT
}}
body {{
  s = (s32[], f32[{1}], f32[5]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  all = f32[{1}] get-tuple-element(s), index=1
  others = f32[5] get-tuple-element(s), index=2
  turned = f32[5] reverse(others), dimensions={{0}}
  zero = s32[] constant(0)
  one = s32[] constant(1)
  two = s32[] constant(2)
  last = s32[] constant(7)
  {3}
  number = f32[] convert(i)
  part = f32[{2}] broadcast(number), dimensions={{}}
  next = f32[{1}] dynamic-update-slice(all, part, {4})
  j = s32[] add(i, one)
  ROOT r = (s32[], f32[{1}], f32[5]) tuple(j, next, turned)
}}
ENTRY e {{
  x = f32[] constant(7)
  all = f32[{1}] broadcast(x), dimensions={{}}
  others = f32[5] parameter(0)
  i = s32[] constant(0)
  s = (s32[], f32[{1}], f32[5]) tuple(i, all, others)
  ROOT w = (s32[], f32[{1}], f32[5]) while(s), condition=condition, body=body
}}
)",
                     n, all, part, before, places);
}

TEST(LoopStep, WhatIsWrittenInPartsHasNoFirstValue) {
  struct Case {
    int64_t n;
    const char *all, *part, *before, *places;
    bool whole;
  };
  const char* doubled = "at = s32[] multiply(two, i)";
  const char* reversed = "at = s32[] subtract(last, i)";
  const char* one_off = "at = s32[] subtract(i, one)";
  for (const Case& one : {
           Case{8, "8", "1", "", "i", true},                   // scalars
           Case{8, "3,8", "3,1", "", "zero, i", true},         // columns
           Case{8, "3,8", "3,1", reversed, "last, at", true},  // which begin at 0 wherever they are said to
           Case{8, "16,3", "2,3", doubled, "at, zero", true},  // two rows each
           Case{8, "5,16,3", "5,2,3", doubled, "zero, at, zero", true},
           Case{8, "16,3", "2,3", "", "i, zero", false},        // which overlap
           Case{8, "17,3", "2,3", doubled, "at, zero", false},  // the last row stays
           Case{7, "16,3", "2,3", doubled, "at, zero", false},
           Case{8, "8,3", "1,3", one_off, "at, zero", false},  // the first row is written twice
           Case{8, "8,3", "1,2", "", "i, zero", false},        // and columns stay
           Case{8, "8,8", "1,1", "", "i, i", false},
       }) {
    const std::string text = pieces(one.n, one.all, one.part, one.before, one.places);
    const auto loop = checked_loop(text);
    ASSERT_NE(loop, nullptr);
    EXPECT_EQ(loop->leaves[1].initial == loop->leaves[1].result, one.whole) << text;
  }
}

TEST(LoopStep, ARowThatIsPutTogetherIsWrittenInPlace) {
  // What has blocks for each operand of the concatenation would write all rows.
  std::string text = layer("negate(sum)");
  text.replace(text.find("tanh(sum)"), 9, "tanh(joined)");
  text.insert(text.find("  next ="),
              "  left = f32[4,5] slice(sum), slice={[0:4], [0:5]}\n"
              "  right = f32[4,4] slice(scaled), slice={[0:4], [2:6]}\n"
              "  joined = f32[4,9] concatenate(left, right), dimensions={1}\n");
  const auto loop = checked_loop(text);
  ASSERT_NE(loop, nullptr);
  ASSERT_EQ(loop->body->steps.size(), 1U);
  EXPECT_EQ(loop->body->steps[0].fusion->decision().emitter, "dynamic-update-slice");
}

TEST(LoopStep, ArraysThatAreReadAreUpdatedApart) {
  // The array's row before is read where another one is written.
  std::string text = layer("negate(before)");
  const std::string reads =
      "  before.1 = f32[1,36] dynamic-slice(cs, i, zero), dynamic_slice_sizes={1,36}\n  before = f32[4,9] "
      "reshape(before.1)\n";
  text.insert(text.find("  c.1 ="), reads);
  const auto loop = checked_loop(text);
  ASSERT_NE(loop, nullptr);
  EXPECT_EQ(loop->body->steps.size(), 2U);
}

TEST(LoopStep, AConditionOfTheDataIsAsked) {
  const auto loop = checked_loop(R"(HloModule newton
condition {
  s = (f32[], f32[], f32[3]) parameter(0)
  x = f32[] get-tuple-element(s), index=0
  limit = f32[] get-tuple-element(s), index=1
  ROOT c = pred[] compare(x, limit), direction=LT
}
body {
  s = (f32[], f32[], f32[3]) parameter(0)
  x = f32[] get-tuple-element(s), index=0
  limit = f32[] get-tuple-element(s), index=1
  one = f32[] constant(1)
  others = f32[3] get-tuple-element(s), index=2
  turned = f32[3] reverse(others), dimensions={0}
  square = f32[] multiply(x, x)
  next = f32[] add(square, one)
  ROOT r = (f32[], f32[], f32[3]) tuple(next, limit, turned)
}
ENTRY e {
  x = f32[] parameter(0)
  limit = f32[] constant(100)
  others = f32[3] parameter(1)
  s = (f32[], f32[], f32[3]) tuple(x, limit, others)
  w = (f32[], f32[], f32[3]) while(s), condition=condition, body=body
  last = f32[] get-tuple-element(w), index=0
  double = f32[] add(last, last)
  turned = f32[3] get-tuple-element(w), index=2
  ROOT r = (f32[], f32[3]) tuple(double, turned)
}
)");
  ASSERT_NE(loop, nullptr);
  EXPECT_FALSE(loop->counted);
  EXPECT_TRUE(loop->leaves[0].changes);
  EXPECT_FALSE(loop->leaves[1].changes);
}

TEST(LoopStep, LoopsInLoopsAndExchangedArrays) {
  // The inner one has more operators than unroll_loops writes out.
  const auto loop = checked_loop(R"(HloModule nested
inner_condition {
  s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(601)
  ROOT c = pred[] compare(i, n), direction=LT
}
inner_body {
  s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8] get-tuple-element(s), index=1
  y = f32[8] negate(x)
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT r = (s32[], f32[8]) tuple(j, y)
}
condition {
  s = (f32[8], s32[], f32[8], s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=1
  n = s32[] get-tuple-element(s), index=3
  ROOT c = pred[] compare(i, n), direction=LT
}
body {
  s = (f32[8], s32[], f32[8], s32[]) parameter(0)
  a = f32[8] get-tuple-element(s), index=0
  i = s32[] get-tuple-element(s), index=1
  b = f32[8] get-tuple-element(s), index=2
  n = s32[] get-tuple-element(s), index=3
  zero = s32[] constant(0)
  state = (s32[], f32[8]) tuple(zero, a)
  w = (s32[], f32[8]) while(state), condition=inner_condition, body=inner_body
  c = f32[8] get-tuple-element(w), index=1
  d = f32[8] add(c, b)
  one = s32[] constant(1)
  j = s32[] add(one, i)
  ROOT r = (f32[8], s32[], f32[8], s32[]) tuple(b, j, d, n)
}
ENTRY e {
  a = f32[8] parameter(0)
  b = f32[8] parameter(1)
  i = s32[] constant(-2)
  n = s32[] constant(5)
  s = (f32[8], s32[], f32[8], s32[]) tuple(a, i, b, n)
  w = (f32[8], s32[], f32[8], s32[]) while(s), condition=condition, body=body
  x = f32[8] get-tuple-element(w), index=0
  y = f32[8] get-tuple-element(w), index=2
  ROOT z = f32[8] subtract(x, y)
}
)");
  ASSERT_TRUE(loop && loop->counted);
  EXPECT_EQ(loop->counted->count, 7);
}

}  // namespace
}  // namespace strata::emitters
