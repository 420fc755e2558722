// Loops whose iterations are counted as one kernel, on this processor, against the interpreter.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "emitters/test_loops.h"

namespace strata::emitters {
namespace {

/// xs[i] is read and ys[i] written; h goes on. The sum of h's squares keeps the loop from being one of elements only.
std::string scan(int64_t count, int64_t width, int64_t most) {
  return fmt::format(R"(HloModule scan
add {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}}
condition {{
  s = (s32[], f32[{1}], f32[{0},{1}], f32[{0},{1}]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant({2})
  ROOT r = pred[] compare(i, n), direction=LT
}}
body {{
  s = (s32[], f32[{1}], f32[{0},{1}], f32[{0},{1}]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  h = f32[{1}] get-tuple-element(s), index=1
  xs = f32[{0},{1}] get-tuple-element(s), index=2
  ys = f32[{0},{1}] get-tuple-element(s), index=3
  zero = s32[] constant(0)
  x.1 = f32[1,{1}] dynamic-slice(xs, i, zero), dynamic_slice_sizes={{1,{1}}}
  x = f32[{1}] reshape(x.1)
  none = f32[] constant(0)
  square = f32[{1}] multiply(h, h)
  sum = f32[] reduce(square, none), dimensions={{0}}, to_apply=add
  one.f = f32[] constant(1)
  more = f32[] add(sum, one.f)
  mores = f32[{1}] broadcast(more), dimensions={{}}
  share = f32[{1}] divide(h, mores)
  next = f32[{1}] add(share, x)
  y = f32[1,{1}] reshape(next)
  ys.next = f32[{0},{1}] dynamic-update-slice(ys, y, i, zero)
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT r = (s32[], f32[{1}], f32[{0},{1}], f32[{0},{1}]) tuple(j, next, xs, ys.next)
}}
ENTRY e {{
  h = f32[{1}] parameter(0)
  xs = f32[{0},{1}] parameter(1)
  ys = f32[{0},{1}] parameter(2)
  i = s32[] constant(0)
  s = (s32[], f32[{1}], f32[{0},{1}], f32[{0},{1}]) tuple(i, h, xs, ys)
  w = (s32[], f32[{1}], f32[{0},{1}], f32[{0},{1}]) while(s), condition=condition, body=body
  last = f32[{1}] get-tuple-element(w), index=1
  all = f32[{0},{1}] get-tuple-element(w), index=3
  ROOT r = (f32[{1}], f32[{0},{1}]) tuple(last, all)
}}
)",
                     count, width, most);
}

TEST(CountedLoopKernel, ScansRowsInOneBlock) {
  // Of small rows it is sooner by the rates as they are: the block's own barriers are all that an iteration waits for.
  for (const int64_t most : {5, 40}) {
    SCOPED_TRACE(most);
    const auto loop = checked(scan(40, 200, most));
    ASSERT_TRUE(loop);
    EXPECT_EQ(loop->blocks(), 1);
  }
  for (const int64_t most : {1, 2, 3}) checked(scan(40, 200, most), 1, free_barriers());
  const auto wide = checked(scan(7, 20011, 7), 1, free_barriers());
  ASSERT_TRUE(wide);
  EXPECT_GT(wide->blocks(), 1);
}

TEST(CountedLoopKernel, NoIterationIsNoKernel) {
  EXPECT_TRUE(made_of(scan(40, 200, 0), free_barriers()).image.loops.empty());
  // Of one, launches are as many as the kernel's barriers.
  EXPECT_TRUE(made_of(scan(40, 20011, 1)).image.loops.empty());
}

/// Arrays that only move, (a, b, c) -> (b, c, f(a)), and a counter that is read after the loop.
TEST(CountedLoopKernel, ArraysThatMoveAreNotCopied) {
  for (const int64_t most : {1, 2, 3, 4, 7, 11}) {
    SCOPED_TRACE(most);
    // Means: errors stay those of the last places.
    const auto loop = checked(fmt::format(R"(HloModule moving
add {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}}
condition {{
  s = (f32[7,33], f32[7,33], f32[7,33], s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=3
  n = s32[] constant({})
  ROOT r = pred[] compare(i, n), direction=LT
}}
body {{
  s = (f32[7,33], f32[7,33], f32[7,33], s32[]) parameter(0)
  a = f32[7,33] get-tuple-element(s), index=0
  b = f32[7,33] get-tuple-element(s), index=1
  c = f32[7,33] get-tuple-element(s), index=2
  i = s32[] get-tuple-element(s), index=3
  none = f32[] constant(0)
  sums = f32[7] reduce(a, none), dimensions={{1}}, to_apply=add
  part = f32[] constant(0.03)
  parts = f32[7] broadcast(part), dimensions={{}}
  means = f32[7] multiply(sums, parts)
  wide = f32[7,33] broadcast(means), dimensions={{0}}
  sum = f32[7,33] add(wide, b)
  d = f32[7,33] sine(sum)
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT r = (f32[7,33], f32[7,33], f32[7,33], s32[]) tuple(b, c, d, j)
}}
ENTRY e {{
  a = f32[7,33] parameter(0)
  b = f32[7,33] parameter(1)
  c = f32[7,33] parameter(2)
  i = s32[] constant(0)
  s = (f32[7,33], f32[7,33], f32[7,33], s32[]) tuple(a, b, c, i)
  w = (f32[7,33], f32[7,33], f32[7,33], s32[]) while(s), condition=condition, body=body
  x = f32[7,33] get-tuple-element(w), index=0
  y = f32[7,33] get-tuple-element(w), index=1
  z = f32[7,33] get-tuple-element(w), index=2
  k = s32[] get-tuple-element(w), index=3
  ROOT r = (f32[7,33], f32[7,33], f32[7,33], s32[]) tuple(x, y, z, k)
}}
)",
                                          most),
                              1, free_barriers());
    ASSERT_TRUE(loop);
  }
}

/// An inner loop whose iterations are counted is a kernel in an outer one, which stays a loop.
TEST(CountedLoopKernel, ACountedLoopInALoopIsAKernelOfIt) {
  std::string text = scan(40, 200, 40);
  const std::string state = "(s32[], f32[200], f32[40,200], f32[40,200])";
  const size_t entry = text.find("ENTRY e");
  text = text.substr(0, entry) + fmt::format(R"(outer_condition {{
  s = {0} parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT r = pred[] compare(i, n), direction=LT
}}
outer_body {{
  s = {0} parameter(0)
  i = s32[] get-tuple-element(s), index=0
  h = f32[200] get-tuple-element(s), index=1
  xs = f32[40,200] get-tuple-element(s), index=2
  ys = f32[40,200] get-tuple-element(s), index=3
  zero = s32[] constant(0)
  t = {0} tuple(zero, h, xs, ys)
  w = {0} while(t), condition=condition, body=body
  last = f32[200] get-tuple-element(w), index=1
  all = f32[40,200] get-tuple-element(w), index=3
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT r = {0} tuple(j, last, all, ys)
}}
ENTRY e {{
  h = f32[200] parameter(0)
  xs = f32[40,200] parameter(1)
  ys = f32[40,200] parameter(2)
  i = s32[] constant(0)
  s = {0} tuple(i, h, xs, ys)
  ROOT w = {0} while(s), condition=outer_condition, body=outer_body
}}
)",
                                             state);
  const Made made = made_of(text);
  ASSERT_EQ(made.image.loops.size(), 1U);
  int inner = 0;
  for (const GpuStep& step : made.image.image.manifest.steps) {
    if (step.loop() == nullptr) continue;
    EXPECT_EQ(step.loop()->count, 3);
    for (const GpuStep& of : step.loop()->body)
      inner += of.launch() != nullptr && of.launch()->kernel == made.image.loops.front().name() ? 1 : 0;
  }
  EXPECT_EQ(inner, 1);
  // What it names is there.
  for (const std::string& one : made.image.loops.front().arguments())
    EXPECT_NE(made.image.image.manifest.find(one), nullptr) << one;
}

}  // namespace
}  // namespace strata::emitters
