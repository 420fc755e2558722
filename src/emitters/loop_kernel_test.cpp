// Loops as one kernel, on this processor, against the interpreter.
#include "emitters/loop_kernel.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <random>

#include "emitters/test_loops.h"
#include "machine/target.h"

namespace strata::emitters {
namespace {

using testing::HasSubstr;
using testing::Not;

/// x ← a step of each element until the largest change is small or `most` steps are done.
std::string until_small(int64_t rows, int64_t columns, int64_t most, const std::string& begins = "0") {
  return fmt::format(R"(HloModule until
greatest {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] maximum(a, b)
}}
condition {{
  s = (f32[{0},{1}], f32[], s32[], f32[{0},{1}]) parameter(0)
  moved = f32[] get-tuple-element(s), index=1
  i = s32[] get-tuple-element(s), index=2
  little = f32[] constant(0.001)
  most = s32[] constant({2})
  moves = pred[] compare(moved, little), direction=GT
  more = pred[] compare(i, most), direction=LT
  ROOT r = pred[] and(moves, more)
}}
body {{
  s = (f32[{0},{1}], f32[], s32[], f32[{0},{1}]) parameter(0)
  x = f32[{0},{1}] get-tuple-element(s), index=0
  i = s32[] get-tuple-element(s), index=2
  y = f32[{0},{1}] get-tuple-element(s), index=3
  half.1 = f32[] constant(0.5)
  half = f32[{0},{1}] broadcast(half.1), dimensions={{}}
  sum = f32[{0},{1}] add(x, y)
  next = f32[{0},{1}] multiply(sum, half)
  step = f32[{0},{1}] subtract(next, x)
  size = f32[{0},{1}] abs(step)
  least = f32[] constant(-inf)
  moved = f32[] reduce(size, least), dimensions={{0,1}}, to_apply=greatest
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT r = (f32[{0},{1}], f32[], s32[], f32[{0},{1}]) tuple(next, moved, j, y)
}}
ENTRY e {{
  x = f32[{0},{1}] parameter(0)
  y = f32[{0},{1}] parameter(1)
  moved = f32[] constant(inf)
  i = s32[] constant({3})
  s = (f32[{0},{1}], f32[], s32[], f32[{0},{1}]) tuple(x, moved, i, y)
  w = (f32[{0},{1}], f32[], s32[], f32[{0},{1}]) while(s), condition=condition, body=body
  last = f32[{0},{1}] get-tuple-element(w), index=0
  count = s32[] get-tuple-element(w), index=2
  ROOT r = (f32[{0},{1}], s32[]) tuple(last, count)
}}
)",
                     rows, columns, most, begins);
}

TEST(LoopKernel, RunsUntilNothingMoves) {
  for (const int64_t most : {0, 1, 2, 5, 50}) {
    SCOPED_TRACE(most);
    const auto loop = checked(until_small(7, 11, most));
    ASSERT_TRUE(loop);
    EXPECT_EQ(loop->blocks(), 1);  // nothing to wait for
  }
}

TEST(LoopKernel, BlocksWaitForEachOtherOnceAnIteration) {
  for (const int64_t most : {0, 3, 4}) {
    SCOPED_TRACE(most);
    const auto loop = checked(until_small(401, 173, most));
    ASSERT_TRUE(loop);
    EXPECT_GT(loop->blocks(), 1);
    const auto ptx = loop->ptx();
    ASSERT_TRUE(ptx) << ptx.error().to_string();
    // The one before the first iteration, that of an iteration, and what clears the counters.
    size_t arrivals = 0;
    for (size_t p = ptx->find("atom.relaxed.gpu.add"); p != std::string::npos;
         p = ptx->find("atom.relaxed.gpu.add", p + 1))
      ++arrivals;
    EXPECT_EQ(arrivals, 3U);
  }
}

/// Where launches do not overlap, a kernel's inputs are read through a cache that sees no writes. A loop's kernel reads
/// what it has written itself.
TEST(LoopKernel, ReadsNothingThroughTheReadOnlyCache) {
  const auto older = find_target("sm_80");
  ASSERT_TRUE(older);
  EmitOptions options;
  options.target = **older;
  const Made made = made_of(until_small(401, 173, 3), options);
  ASSERT_EQ(made.image.loops.size(), 1U);
  const auto& ptx = made.image.loops.front().ptx();
  ASSERT_TRUE(ptx) << ptx.error().to_string();
  EXPECT_THAT(*ptx, Not(HasSubstr("ld.global.nc")));
  bool any = false;  // else the kernels that it consists of have none either
  for (const EmittedFusion& fusion : made.image.loops.front().fusions()) {
    const auto alone = fusion.text(Form::Ptx);
    ASSERT_TRUE(alone) << alone.error().to_string();
    any |= alone->find("ld.global.nc") != std::string::npos;
  }
  EXPECT_TRUE(any);
}

/// A loop of `most` iterations and one more array in its state, a pred; elements are of [rows, columns], [rows],
/// [columns] and [].
class RandomLoop {
 public:
  RandomLoop(uint64_t seed, int64_t rows, int64_t columns, bool counted = false)
      : random_(seed),
        counted_(counted),
        shapes_{fmt::format("f32[{},{}]", rows, columns), fmt::format("f32[{},{}]", rows, columns),
                fmt::format("f32[{}]", rows), fmt::format("f32[{}]", columns), "f32[]"},
        rows_(rows),
        columns_(columns) {}

  std::string text() {
    std::string state = "(";
    for (const std::string& shape : shapes_) state += shape + ", ";
    state += "s32[])";
    std::string body, next, parameters, given, results, shapes;
    for (size_t i = 0; i < shapes_.size(); ++i) {
      body += fmt::format("  x{0} = {1} get-tuple-element(s), index={0}\n", i, shapes_[i]);
      parameters += fmt::format("  p{0} = {1} parameter({0})\n", i, shapes_[i]);
      given += fmt::format("p{}, ", i);
      results += fmt::format("  r{0} = {1} get-tuple-element(w), index={0}\n", i, shapes_[i]);
      shapes += (i > 0 ? ", r" : "r") + std::to_string(i);
    }
    for (size_t i = 0; i < shapes_.size(); ++i) next += value(i, body) + ", ";
    const int64_t most = below(counted_ ? 9 : 6);
    const std::string_view asked = counted_ ? "ROOT r = pred[] compare(i, most), direction=LT"
                                            : "near = pred[] compare(x, far), direction=LT\n"
                                              "  more = pred[] compare(i, most), direction=LT\n"
                                              "  ROOT r = pred[] and(near, more)";
    return fmt::format(R"(HloModule random
add {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}}
greatest {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] maximum(a, b)
}}
condition {{
  s = {0} parameter(0)
  x = f32[] get-tuple-element(s), index=4
  i = s32[] get-tuple-element(s), index={6}
  far = f32[] constant(1e6)
  most = s32[] constant({7})
  {9}
}}
body {{
  s = {0} parameter(0)
  i = s32[] get-tuple-element(s), index={6}
{1}  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT r = {0} tuple({2}j)
}}
ENTRY e {{
{3}  i = s32[] constant(0)
  s = {0} tuple({4}i)
  w = {0} while(s), condition=condition, body=body
{5}  count = s32[] get-tuple-element(w), index={6}
  ROOT r = tuple({8}, count)
}}
)",
                       state, body, next, parameters, given, results, shapes_.size(), most, shapes, asked);
  }

 private:
  int64_t below(int64_t end) { return std::uniform_int_distribution<int64_t>(0, end - 1)(random_); }

  /// The name of the next value of `i`, of what the state has; what computes it is added to the body.
  std::string value(size_t i, std::string& body) {
    const std::string& shape = shapes_[i];
    const std::string name = fmt::format("y{}", i);
    const auto add = [&](const std::string& suffix, const std::string& of, const std::string& text) {
      body += fmt::format("  {}{} = {} {}\n", name, suffix, of, text);
      return name + suffix;
    };
    const auto bounded = [&](const std::string& value) { return add("", shape, "cosine(" + value + ")"); };
    const std::string other = i == 0 ? "x1" : "x0";
    const std::string zero = add(".zero", "f32[]", "constant(0)"), least = add(".least", "f32[]", "constant(-inf)");
    if (i < 2) {
      switch (below(counted_ ? 6 : 5)) {
        case 0:
          return other;  // it moves
        case 1: {
          const std::string wide = add(".wide", shape, fmt::format("broadcast(x2), dimensions={{0}}"));
          return bounded(add(".sum", shape, fmt::format("add({}, {})", other, wide)));
        }
        case 2: {
          const std::string wide = add(".wide", shape, fmt::format("broadcast(x3), dimensions={{1}}"));
          return bounded(add(".sum", shape, fmt::format("add(x{}, {})", i, wide)));
        }
        case 3: {
          const std::string row = add(".row", fmt::format("f32[1,{}]", columns_), "reshape(x3)");
          const std::string at = add(".at", "s32[]", "constant(0)");
          return add("", shape, fmt::format("dynamic-update-slice(x{}, {}, i, {})", i, row, at));
        }
        case 4: {
          const std::string at = add(".at", "s32[]", "constant(0)");
          const std::string row =
              add(".row", fmt::format("f32[1,{}]", columns_),
                  fmt::format("dynamic-slice({}, i, {}), dynamic_slice_sizes={{1,{}}}", other, at, columns_));
          const std::string flat = add(".flat", fmt::format("f32[{}]", columns_), "reshape(" + row + ")");
          const std::string wide = add(".wide", shape, fmt::format("broadcast({}), dimensions={{1}}", flat));
          return bounded(add(".sum", shape, fmt::format("add(x{}, {})", i, wide)));
        }
        default:
          return bounded(add(".back", shape, fmt::format("reverse({}), dimensions={{0}}", other)));
      }
    }
    if (i == 4) {
      const std::string sum =
          add(".sum", shape, fmt::format("reduce(x{}, {}), dimensions={{0,1}}, to_apply=greatest", below(2), least));
      return below(2) == 0 ? sum : add("", shape, fmt::format("add({}, x4)", sum));
    }
    if (below(4) == 0) return fmt::format("x{}", i);
    const std::string sum = add(
        ".sum", shape, fmt::format("reduce(x{}, {}), dimensions={{{}}}, to_apply=add", below(2), zero, i == 2 ? 1 : 0));
    // Means: errors of the sums stay those of the last places, whatever the order, over all iterations.
    const std::string number =
        add(".number", "f32[]", fmt::format("constant({})", 1.0 / static_cast<double>(i == 2 ? columns_ : rows_)));
    const std::string share = add(".share", shape, fmt::format("broadcast({}), dimensions={{}}", number));
    const std::string mean = add(".mean", shape, fmt::format("multiply({}, {})", sum, share));
    return bounded(add(".more", shape, fmt::format("add({}, x{})", mean, i)));
  }

  std::mt19937_64 random_;
  bool counted_;
  std::vector<std::string> shapes_;
  int64_t rows_, columns_;
};

TEST(LoopKernel, RandomBodiesAreWhatTheInterpreterComputes) {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    const bool large = seed % 3 == 2;
    checked(RandomLoop(seed, large ? 301 : 7, large ? 129 : 5).text(), seed);
  }
}

TEST(LoopKernel, RandomCountedLoopsAreWhatTheInterpreterComputes) {
  int kernels = 0;
  for (uint64_t seed = 0; seed < 24; ++seed) {
    SCOPED_TRACE(seed);
    const bool large = seed % 4 == 3;
    const std::string text = RandomLoop(seed, large ? 301 : 9, large ? 129 : 5, /*counted=*/true).text();
    // Loops without iterations, and those of copies alone, are no kernels.
    if (made_of(text, free_barriers()).image.loops.empty()) continue;
    ++kernels;
    checked(text, seed, free_barriers());
  }
  EXPECT_GE(kernels, 12);
}

/// Two sums that do not need each other.
TEST(LoopKernel, SumsRowsOfTwoLengths) {
  const auto loop = checked(R"(HloModule rows
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}
condition {
  s = (f32[256,4096], f32[64,16384], f32[256], f32[64], s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=4
  n = f32[256] get-tuple-element(s), index=2
  some = f32[1] slice(n), slice={[0:1]}
  first = f32[] reshape(some)
  far = f32[] constant(1e6)
  most = s32[] constant(3)
  near = pred[] compare(first, far), direction=LT
  more = pred[] compare(i, most), direction=LT
  ROOT r = pred[] and(near, more)
}
body {
  s = (f32[256,4096], f32[64,16384], f32[256], f32[64], s32[]) parameter(0)
  x = f32[256,4096] get-tuple-element(s), index=0
  y = f32[64,16384] get-tuple-element(s), index=1
  p = f32[256] get-tuple-element(s), index=2
  q = f32[64] get-tuple-element(s), index=3
  i = s32[] get-tuple-element(s), index=4
  zero = f32[] constant(0)
  part = f32[] constant(0.001)
  p.all = f32[256,4096] broadcast(p), dimensions={0}
  q.all = f32[64,16384] broadcast(q), dimensions={0}
  x.p = f32[256,4096] add(x, p.all)
  y.q = f32[64,16384] add(y, q.all)
  x.c = f32[256,4096] cosine(x.p)
  y.c = f32[64,16384] cosine(y.q)
  xs = f32[256] reduce(x.c, zero), dimensions={1}, to_apply=add
  ys = f32[64] reduce(y.c, zero), dimensions={1}, to_apply=add
  parts.p = f32[256] broadcast(part), dimensions={}
  parts.q = f32[64] broadcast(part), dimensions={}
  xm = f32[256] multiply(xs, parts.p)
  ym = f32[64] multiply(ys, parts.q)
  pn = f32[256] add(p, xm)
  qn = f32[64] add(q, ym)
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT r = (f32[256,4096], f32[64,16384], f32[256], f32[64], s32[]) tuple(x, y, pn, qn, j)
}
ENTRY e {
  x = f32[256,4096] parameter(0)
  y = f32[64,16384] parameter(1)
  p = f32[256] parameter(2)
  q = f32[64] parameter(3)
  i = s32[] constant(0)
  s = (f32[256,4096], f32[64,16384], f32[256], f32[64], s32[]) tuple(x, y, p, q, i)
  w = (f32[256,4096], f32[64,16384], f32[256], f32[64], s32[]) while(s), condition=condition, body=body
  pw = f32[256] get-tuple-element(w), index=2
  qw = f32[64] get-tuple-element(w), index=3
  ROOT r = (f32[256], f32[64]) tuple(pw, qw)
}
)");
  ASSERT_TRUE(loop);
}

TEST(LoopKernel, OthersStayLoops) {
  // Of so much work that kernels of their own are better: until a condition is false, and as often as is known.
  const std::string large = until_small(20000, 10000, 20);
  EXPECT_TRUE(made_of(large).image.loops.empty());
  std::string counted = large;
  counted.replace(counted.find("and(moves, more)"), 16, "compare(i, most), direction=LT");
  EXPECT_TRUE(made_of(counted).image.loops.empty());
  EXPECT_TRUE(made_of(counted, free_barriers()).image.loops.empty());
}

/// A part of the module that is called as the loop's kernel would be keeps its module.
TEST(LoopKernel, NamesOfModulesDiffer) {
  std::string text = until_small(7, 11, 5);
  const auto replace = [&](const std::string& from, const std::string& to) {
    text.replace(text.find(from), from.size(), to);
  };
  replace("last = f32[7,11] get-tuple-element(w), index=0",
          "before = f32[7,11] get-tuple-element(w), index=0\n  w_loop = f32[7,11] negate(before)");
  replace("tuple(last, count)", "tuple(w_loop, count)");
  const Made made = made_of(text);
  ASSERT_EQ(made.image.loops.size(), 1U);
  std::vector<std::string> names;
  for (const ProgramStep& step : made.program.steps) {
    if (step.fusion) names.push_back(step.fusion->module_name());
  }
  EXPECT_THAT(names, testing::Contains("fused_w_loop"));
  EXPECT_THAT(names, Not(testing::Contains(made.image.loops.front().name())));
  EXPECT_EQ(made.image.image.modules.size(), names.size() + 1);
}

}  // namespace
}  // namespace strata::emitters
