// Scans: that kernels compute what the interpreter does, from which side operands are combined, how threads share the
// work, and what becomes one kernel.
#include "emitters/kinds/scan.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "emitters/fusion/pass.h"
#include "emitters/program.h"
#include "hlo/compare.h"
#include "hlo/evaluate.h"
#include "hlo/terms.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"

namespace strata::emitters {
namespace {

using hlo::Literal;
using testing::HasSubstr;

/// A computation `f` of two scalars.
std::string combiner(const std::string& type, const std::string& op) {
  return fmt::format("f {{\n  a = {0}[] parameter(0)\n  b = {0}[] parameter(1)\n  ROOT c = {0}[] {1}(a, b)\n}}\n", type,
                     op);
}

/// The last of two that is not 0, or the first: both associative, neither commutative.
std::string last_of(const std::string& type, bool last) {
  return fmt::format(
      "f {{\n  a = {0}[] parameter(0)\n  b = {0}[] parameter(1)\n  z = {0}[] constant(0)\n  p = pred[] compare({1}, "
      "z), direction=NE\n  ROOT c = {0}[] select(p, {1}, {2})\n}}\n",
      type, last ? "b" : "a", last ? "a" : "b");
}

/// log(exp a + exp b), as JAX writes it.
const char* const kLogSumExp = R"(f {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  d = f32[] subtract(a, b)
  n = pred[] compare(d, d), direction=NE
  s = f32[] add(a, b)
  m = f32[] maximum(a, b)
  abs = f32[] abs(d)
  neg = f32[] negate(abs)
  e = f32[] exponential(neg)
  l = f32[] log-plus-one(e)
  t = f32[] add(m, l)
  ROOT c = f32[] select(n, s, t)
}
)";

struct Case {
  std::string called, type, initial;
  std::vector<int64_t> dims;
  int dimension = 0;
  bool reverse = false;
  std::string layout = {};  ///< "{0,1}"
};

/// `window={…}` of a scan.
std::string window(const std::vector<int64_t>& dims, int dimension, bool reverse) {
  std::vector<std::string> sizes, pads;
  for (size_t d = 0; d < dims.size(); ++d) {
    const bool scanned = static_cast<int>(d) == dimension;
    sizes.push_back(std::to_string(scanned ? dims[d] : 1));
    const int64_t pad = scanned ? dims[d] - 1 : 0;
    pads.push_back(reverse ? fmt::format("0_{}", pad) : fmt::format("{}_0", pad));
  }
  return fmt::format("window={{size={} pad={}}}", fmt::join(sizes, "x"), fmt::join(pads, "x"));
}

std::string text_of(const Case& one) {
  const std::string shape = fmt::format("{}[{}]{}", one.type, fmt::join(one.dims, ","), one.layout);
  return fmt::format(
      "HloModule m\n{0}ENTRY e {{\n  x = {1} parameter(0)\n  z = {2}[] constant({3})\n  ROOT r = {1} reduce-window(x, "
      "z), {4}, to_apply=f\n}}\n",
      one.called, shape, one.type, one.initial, window(one.dims, one.dimension, one.reverse));
}

/// Runs a program on the CPU and compares it with the interpreter, or with the interpreter's values of another text.
/// Gives the emitter of its only kernel.
std::string check(const std::string& text, double slack = 4, const std::string& reference = {}) {
  const auto module = hlo::parse_module(text);
  EXPECT_TRUE(module) << module.error().to_string() << text;
  if (!module) return {};
  const auto program = emit_program(**module, {});
  EXPECT_TRUE(program) << program.error().to_string() << text;
  if (!program || program->steps.size() != 1 || !program->steps[0].fusion) {
    ADD_FAILURE() << "not one kernel: " << text << explain(*program);
    return {};
  }
  const std::vector<Literal> arguments = hlo::typical_arguments((*module)->entry_computation(), 7);
  const auto other = hlo::parse_module(reference.empty() ? text : reference);
  const auto expected = hlo::evaluate(**other, arguments);
  EXPECT_TRUE(expected) << expected.error().to_string();
  const auto result = run_on_cpu(*program, arguments);
  EXPECT_TRUE(result) << result.error().to_string() << explain(*program);
  if (result && expected) {
    const auto different = hlo::difference(*result, *expected, slack);
    EXPECT_FALSE(different) << *different << "\n" << text << explain(*program);
  }
  return program->steps[0].fusion->decision().emitter;
}

TEST(Scan, RowsAndColumnsOfAllLengths) {
  for (const int64_t n : {1, 2, 31, 33, 64, 1000, 1023, 4097}) {
    for (const bool reverse : {false, true}) {
      const double slack = 4 * hlo::slack_of_terms(n);
      const std::string long_enough = n < 16 ? "loop" : "row scan";
      EXPECT_EQ(check(text_of({combiner("f32", "add"), "f32", "0.5", {n}, 0, reverse}), slack), long_enough);
      EXPECT_EQ(check(text_of({combiner("s32", "add"), "s32", "3", {n}, 0, reverse})), long_enough);
      if (n > 1000) continue;
      EXPECT_EQ(check(text_of({combiner("f32", "maximum"), "f32", "-inf", {5, n}, 1, reverse})), long_enough);
      EXPECT_EQ(check(text_of({combiner("f32", "add"), "f32", "0", {n, 5}, 0, reverse}), slack),
                n < 16 ? "loop" : "column scan");
      EXPECT_EQ(check(text_of({combiner("s32", "add"), "s32", "1", {2, n, 8}, 1, reverse})),
                n < 16 ? "loop" : "column scan");
    }
  }
}

/// The steps of a scan, which take linear time in the interpreter.
TEST(Scan, LongOnes) {
  for (const bool reverse : {false, true}) {
    for (const int64_t n : {70000, 65536}) {
      for (const bool last : {false, true}) {
        const std::string called = last ? last_of("s32", last != reverse) : combiner("s32", "add");
        const std::string shape = fmt::format("s32[{}]", n);
        // The elements are the steps' first operand, what is carried the second one.
        const std::string step =
            !last
                ? "g {\n  x = s32[] parameter(0)\n  c = s32[] parameter(1)\n  r = s32[] add(c, x)\n  ROOT t = (s32[], "
                  "s32[]) tuple(r, r)\n}\n"
                : "g {\n  x = s32[] parameter(0)\n  c = s32[] parameter(1)\n  z = s32[] constant(0)\n  p = pred[] "
                  "compare(x, z), direction=NE\n  r = s32[] select(p, x, c)\n  ROOT t = (s32[], s32[]) tuple(r, "
                  "r)\n}\n";
        const std::string reference = fmt::format(
            "HloModule m\n{}ENTRY e {{\n  x = {} parameter(0)\n  z = s32[] constant(0)\n  s = ({}, s32[]) scan(x, z), "
            "dimensions={{0}}, num_carries=1, is_reverse={}, to_apply=g\n  ROOT r = {} get-tuple-element(s), "
            "index=0\n}}\n",
            step, shape, shape, reverse, shape);
        EXPECT_EQ(check(text_of({called, "s32", "0", {n}, 0, reverse}), 1, reference), "row scan");
      }
    }
  }
}

TEST(Scan, TypesAndCombiners) {
  const auto all = [](const std::string& called, const std::string& type, const std::string& initial,
                      double slack = 4) {
    for (const bool reverse : {false, true}) {
      EXPECT_EQ(check(text_of({called, type, initial, {3, 520}, 1, reverse}), slack), "row scan");
      EXPECT_EQ(check(text_of({called, type, initial, {300, 12}, 0, reverse}), slack), "column scan");
    }
  };
  all(combiner("bf16", "add"), "bf16", "0", 8);
  all(combiner("f16", "add"), "f16", "1", 8);
  all(combiner("bf16", "maximum"), "bf16", "-inf");
  all(combiner("f16", "minimum"), "f16", "inf");
  all(combiner("f32", "multiply"), "f32", "1", 64);
  all(combiner("f64", "add"), "f64", "0.25", 8);
  all(combiner("s64", "xor"), "s64", "5");
  all(combiner("u8", "add"), "u8", "1");
  all(combiner("u8", "maximum"), "u8", "3");
  all(combiner("pred", "or"), "pred", "false");
  all(combiner("pred", "and"), "pred", "true");
  all(combiner("c64", "add"), "c64", "(1, 2)", 16);
  all(kLogSumExp, "f32", "-inf", 16);
}

/// Wrong sides would give other values.
TEST(Scan, KeepsTheOrderOfOperands) {
  for (const bool last : {false, true}) {
    for (const bool reverse : {false, true}) {
      for (const char* initial : {"0", "7"}) {
        for (const int64_t n : {17, 40, 200, 1500}) {
          check(text_of({last_of("s32", last), "s32", initial, {n}, 0, reverse}));
          if (n <= 200) check(text_of({last_of("s16", last), "s16", initial, {3, n, 6}, 1, reverse}));
        }
      }
    }
  }
}

/// h = a·h + b: (a, b) ∘ (c, d) = (ac, bc + d).
std::string recurrence(const std::vector<int64_t>& dims, int dimension, bool reverse, bool one_result) {
  const std::string shape = fmt::format("s32[{}]", fmt::join(dims, ","));
  const std::string pair = fmt::format("({0}, {0})", shape);
  const std::string result =
      one_result ? fmt::format(
                       "  r = {0} reduce-window(x, y, one, z), {1}, to_apply=f\n  h = {2} get-tuple-element(r), "
                       "index=1\n  ROOT t = ({2}) tuple(h)\n",
                       pair, window(dims, dimension, reverse), shape)
                 : fmt::format("  ROOT r = {0} reduce-window(x, y, one, z), {1}, to_apply=f\n", pair,
                               window(dims, dimension, reverse));
  return fmt::format(R"(HloModule m
f {{
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  c = s32[] parameter(2)
  d = s32[] parameter(3)
  ac = s32[] multiply(a, c)
  bc = s32[] multiply(b, c)
  h = s32[] add(bc, d)
  ROOT t = (s32[], s32[]) tuple(ac, h)
}}
ENTRY e {{
  x = {0} parameter(0)
  y = {0} parameter(1)
  one = s32[] constant(3)
  z = s32[] constant(5)
{1}}}
)",
                     shape, result);
}

TEST(Scan, LinearRecurrences) {
  for (const bool reverse : {false, true}) {
    for (const bool one_result : {false, true}) {
      EXPECT_EQ(check(recurrence({700}, 0, reverse, one_result)), "row scan");
      EXPECT_EQ(check(recurrence({3, 200}, 1, reverse, one_result)), "row scan");
      EXPECT_EQ(check(recurrence({200, 7}, 0, reverse, one_result)), "column scan");
    }
  }
}

TEST(Scan, Layouts) {
  EXPECT_EQ(check(text_of({combiner("s32", "add"), "s32", "0", {100, 9}, 0, false, "{0,1}"})), "row scan");
  EXPECT_EQ(check(text_of({combiner("s32", "add"), "s32", "0", {4, 100, 9}, 1, true, "{0,2,1}"})), "column scan");
}

TEST(Scan, RandomShapes) {
  std::mt19937 random(5);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int i = 0; i < 16; ++i) {
    std::vector<int64_t> dims;
    const int rank = 1 + below(4), dimension = below(rank);
    for (int d = 0; d < rank; ++d) {
      dims.push_back(d == dimension ? 16 + below(400)
                                    : std::vector<int64_t>{1, 2, 3, 8, 17}[static_cast<size_t>(below(5))]);
    }
    const bool last = below(2) == 0;
    check(text_of(
        {below(2) == 0 ? combiner("s32", "add") : last_of("s32", last), "s32", "2", dims, dimension, below(2) == 0}));
  }
}

/// What computes the operand and what is computed of the result is part of the kernel.
TEST(Scan, FusesProducersAndConsumers) {
  const auto text = [](const std::string& shape, const std::string& where) {
    return "HloModule m\n" + combiner("f32", "add") +
           fmt::format(R"(ENTRY e {{
  x = bf16[{0}] parameter(0)
  y = f32[{0}] parameter(1)
  wide = f32[{0}] convert(x)
  p = f32[{0}] multiply(wide, y)
  z = f32[] constant(0)
  s = f32[{0}] reduce-window(p, z), {1}, to_apply=f
  before = f32[{0}] subtract(s, p)
  low = bf16[{0}] convert(s)
  ROOT t = (f32[{0}], bf16[{0}], f32[{0}]) tuple(before, low, p)
}})",
                       shape, where);
  };
  EXPECT_EQ(check(text("6,300", window({6, 300}, 1, false)), 16), "row scan");
  EXPECT_EQ(check(text("300,6", window({300, 6}, 0, true)), 16), "column scan");
}

TEST(Scan, SeveralOfTheSameElements) {
  const std::string text = R"(HloModule m
f {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT c = s32[] add(a, b)
}
g {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT c = s32[] maximum(a, b)
}
ENTRY e {
  x = s32[9,500] parameter(0)
  z = s32[] constant(0)
  s = s32[9,500] reduce-window(x, z), window={size=1x500 pad=0_0x499_0}, to_apply=f
  m = s32[9,500] reduce-window(x, z), window={size=1x500 pad=0_0x499_0}, to_apply=g
  ROOT t = (s32[9,500], s32[9,500]) tuple(s, m)
})";
  EXPECT_EQ(check(text), "row scan");
}

/// A scan is computed once: not again for each element that others read.
TEST(Scan, StaysApartFromWhatReadsItAgain) {
  const std::string text = "HloModule m\n" + combiner("f32", "add") + R"(ENTRY e {
  x = f32[64,300] parameter(0)
  z = f32[] constant(0)
  s = f32[64,300] reduce-window(x, z), window={size=1x300 pad=0_0x299_0}, to_apply=f
  again = f32[64,300] reduce-window(s, z), window={size=1x300 pad=0_0x0_299}, to_apply=f
  e = f32[64,300] exponential(again)
  ROOT r = f32[64] reduce(e, z), dimensions={1}, to_apply=f
})";
  const auto module = hlo::parse_module(text);
  ASSERT_TRUE(module) << module.error().to_string();
  const auto program = emit_program(**module, {});
  ASSERT_TRUE(program);
  int scans = 0;
  for (const ProgramStep& step : program->steps) {
    ASSERT_TRUE(step.fusion) << step.why_interpreted;
    scans += step.fusion->decision().emitter == "row scan" ? 1 : 0;
    EXPECT_NE(step.fusion->decision().emitter, "loop");
  }
  EXPECT_EQ(scans, 2) << explain(*program);
}

/// No thread has more than its part of the work, but for what fits into a few tiles.
TEST(Scan, ThreadsShareTheWork) {
  const Target& target = default_target();
  struct Size {
    int64_t outer, length, inner, bytes;
  };
  for (const Size& size : std::vector<Size>{{1, 1 << 24, 1, 4},
                                            {4096, 8192, 1, 4},
                                            {1, 2048, 16384, 2},
                                            {1, 16384, 64, 4},
                                            {1, 1 << 20, 2, 4},
                                            {1, (1 << 20) + 1, 3, 1},
                                            {1, 70000, 1, 8},
                                            {300, 1000003, 1, 2},
                                            {1000000, 17, 1, 4},
                                            {7, 4097, 33, 2}}) {
    for (const bool scalar : {false, true}) {
      const ScanTiling tiling = choose_scan_tiling(size.outer, size.length, size.inner, size.bytes, scalar, target);
      const int64_t total = size.outer * size.length * size.inner;
      const int64_t share = indexing::ceil_div(total, int64_t{1024} * target.multiprocessors);
      EXPECT_LE(tiling.elements_of_thread(), std::max<int64_t>(128, 8 * share))
          << size.outer << "x" << size.length << "x" << size.inner;
      EXPECT_GE(tiling.chunks * tiling.tiles * tiling.tile(), tiling.vectors());
      EXPECT_GT(tiling.vectors(), (tiling.chunks - 1) * tiling.tiles * tiling.tile()) << "a chunk is empty";
      EXPECT_LE(tiling.threads(), 1024);
      EXPECT_LE(tiling.chunks - 1, tiling.warps * tiling.lanes * 8);
    }
  }
}

/// The operator of JAX 0.11. The last carry is a slice.
TEST(Scan, OfTheOperatorScan) {
  const auto text = [](const std::string& type, const std::string& op, bool reverse) {
    return fmt::format(R"(HloModule m
step {{
  x = {0}[6] parameter(0)
  c = {0}[6] parameter(1)
  s = {0}[6] {1}(x, c)
  ROOT t = ({0}[6], {0}[6]) tuple(s, s)
}}
ENTRY e {{
  x = {0}[6,700] parameter(0)
  z = {0}[] constant(3)
  zs = {0}[6] broadcast(z), dimensions={{}}
  s = ({0}[6,700], {0}[6]) scan(x, zs), dimensions={{1}}, num_carries=1, is_reverse={2}, to_apply=step
  r = {0}[6,700] get-tuple-element(s), index=0
  l = {0}[6] get-tuple-element(s), index=1
  ROOT t = ({0}[6,700], {0}[6]) tuple(r, l)
}})",
                       type, op, reverse);
  };
  const auto emitters = [](const std::string& source, double slack) {
    const auto module = hlo::parse_module(source);
    EXPECT_TRUE(module) << module.error().to_string();
    const auto program = emit_program(**module, {});
    EXPECT_TRUE(program) << program.error().to_string();
    const std::vector<Literal> arguments = hlo::typical_arguments((*module)->entry_computation(), 3);
    const auto result = run_on_cpu(*program, arguments);
    EXPECT_TRUE(result) << result.error().to_string();
    const auto different = hlo::difference(*result, *hlo::evaluate(**module, arguments), slack);
    EXPECT_FALSE(different) << *different << source;
    std::string names;
    for (const ProgramStep& step : program->steps) {
      names += (step.fusion ? step.fusion->decision().emitter : "interpreter") + " ";
    }
    return names;
  };
  for (const bool reverse : {false, true}) {
    EXPECT_THAT(emitters(text("f32", "add", reverse), 16), HasSubstr("row scan"));
    EXPECT_THAT(emitters(text("s32", "maximum", reverse), 1), HasSubstr("row scan"));
    EXPECT_THAT(emitters(text("bf16", "minimum", reverse), 1), HasSubstr("row scan"));
    // Each step rounds.
    EXPECT_THAT(emitters(text("bf16", "add", reverse), 1), HasSubstr("loop of elements"));
    EXPECT_THAT(emitters(text("s32", "subtract", reverse), 1), HasSubstr("loop of elements"));
  }
}

/// The function of an instruction that is named as a kernel's launch is, in a fusion named after the instruction.
TEST(Scan, KernelsHaveNamesOfTheirOwn) {
  const auto module = hlo::parse_module(R"(HloModule m
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}
ENTRY e {
  x = f32[4,1000,33]{2,1,0} parameter(0)
  zero = f32[] constant(0)
  scan = f32[4,1000,33]{2,1,0} reduce-window(x, zero), window={size=1x1000x1 pad=0_0x999_0x0_0}, to_apply=add
  rest = f32[4,1000,33]{2,1,0} subtract(x, scan)
  ROOT r = (f32[4,1000,33]{2,1,0}, f32[4,1000,33]{2,1,0}) tuple(scan, rest)
})");
  ASSERT_TRUE(module);
  const auto program = emit_program(**module);
  ASSERT_TRUE(program) << program.error().to_string();
  ASSERT_EQ(program->steps.size(), 1U);
  ASSERT_TRUE(program->steps[0].fusion.has_value());
  EXPECT_THAT(program->steps[0].fusion->decision().emitter, HasSubstr("column scan"));
}

/// A module whose scan takes two kernels, and PTX for them.
TEST(Scan, HasPtx) {
  const std::pair<Case, std::string> cases[] = {
      {{combiner("f32", "add"), "f32", "0", {1 << 24}, 0, false}, "ld.global.v4.f32"},
      {{combiner("bf16", "maximum"), "bf16", "-inf", {2048, 16384}, 0, true}, "ld.global.u32"}};
  for (const auto& [one, load] : cases) {
    const auto module = hlo::parse_module(text_of(one));
    ASSERT_TRUE(module);
    const auto fusion = emit_fusion(**module, (*module)->entry, "scan");
    ASSERT_TRUE(fusion) << fusion.error().to_string();
    EXPECT_THAT(fusion->decision().emitter, HasSubstr("scan"));
    const auto ptx = fusion->text(Form::Ptx);
    ASSERT_TRUE(ptx) << ptx.error().to_string();
    EXPECT_THAT(*ptx, HasSubstr(".target sm_90a"));
    EXPECT_THAT(*ptx, HasSubstr(load));
    for (const Launch& launch : fusion->decision().launches) EXPECT_LE(launch.shared_bytes, 64 * 1024);
  }
}

}  // namespace
}  // namespace strata::emitters
