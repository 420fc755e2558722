#include "emitters/fusion/share_long_reductions.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <set>
#include <tuple>

#include "emitters/fusion/parts_rewriter.h"
#include "emitters/program.h"
#include "hlo/compare.h"
#include "hlo/evaluate.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"
#include "hlo/verify.h"
#include "support/random.h"
#include "support/test_rounds.h"

namespace strata::emitters {
namespace {

/// A GPU so small that few blocks fill it: arrays of a test are large on it.
Target small_target() {
  Target target = default_target();
  target.multiprocessors = 8;
  return target;
}

/// How something is combined: element types, the initial values, and the computation's body over a0… and b0….
struct Combiner {
  std::vector<std::string> types, initial;
  std::string body;
  bool shared = true;
};

const Combiner kCombiners[] = {
    // The first place of a maximum, NaN above all, as JAX prints it.
    {{"f32", "s32"},
     {"-inf", "0"},
     "gt = pred[] compare(a0, b0), direction=GT\n  ne = pred[] compare(a0, a0), direction=NE\n  or = pred[] or(gt, "
     "ne)\n"
     "  v = f32[] select(or, a0, b0)\n  eq = pred[] compare(a0, b0), direction=EQ\n  lt = pred[] compare(a1, b1), "
     "direction=LT\n  and = pred[] and(eq, lt)\n  or2 = pred[] or(or, and)\n  i = s32[] select(or2, a1, b1)\n"
     "  ROOT r = (f32[], s32[]) tuple(v, i)"},
    {{"bf16", "s32"},
     {"inf", "2147483647"},
     "lt = pred[] compare(a0, b0), direction=LT\n  v = bf16[] select(lt, a0, b0)\n  eq = pred[] compare(a0, b0), "
     "direction=EQ\n  less = pred[] compare(a1, b1), direction=LT\n  and = pred[] and(eq, less)\n  or = pred[] or(lt, "
     "and)\n  i = s32[] select(or, a1, b1)\n  ROOT r = (bf16[], s32[]) tuple(v, i)"},
    {{"pred"}, {"false"}, "ROOT r = pred[] or(a0, b0)"},
    {{"pred"}, {"true"}, "ROOT r = pred[] and(a0, b0)"},
    {{"c64"}, {"(0, 0)"}, "ROOT r = c64[] add(a0, b0)"},
    {{"bf16"}, {"-inf"}, "ROOT r = bf16[] maximum(a0, b0)"},
    {{"s8"}, {"0"}, "ROOT r = s8[] add(a0, b0)"},
    {{"u16"}, {"0"}, "ROOT r = u16[] xor(a0, b0)"},
    // A sum and a maximum at once.
    {{"f32", "f32"},
     {"0", "-inf"},
     "s = f32[] add(a0, b0)\n  m = f32[] maximum(a1, b1)\n  ROOT r = (f32[], f32[]) tuple(s, m)"},
    // Those that stay whole: rounded sums, what is done atomically, initial values that count.
    {{"bf16"}, {"0"}, "ROOT r = bf16[] add(a0, b0)", false},
    {{"f32"}, {"0"}, "ROOT r = f32[] add(a0, b0)", false},
    {{"s8"}, {"3"}, "ROOT r = s8[] add(a0, b0)", false},
    {{"f32", "f32"},
     {"1", "-inf"},
     "s = f32[] add(a0, b0)\n  m = f32[] maximum(a1, b1)\n  ROOT r = (f32[], f32[]) tuple(s, m)",
     false},
};

std::string text_of(const Combiner& by, const std::vector<int64_t>& dims, const std::vector<int64_t>& reduced) {
  std::vector<int64_t> kept;
  for (int64_t d = 0; d < std::ssize(dims); ++d) {
    if (std::find(reduced.begin(), reduced.end(), d) == reduced.end()) kept.push_back(dims[static_cast<size_t>(d)]);
  }
  std::string head = "HloModule m\ncombine {\n", entry = "ENTRY e {\n";
  std::vector<std::string> arrays, initial, results;
  for (size_t i = 0; i < by.types.size(); ++i) {
    const std::string& type = by.types[i];
    head += fmt::format("  a{0} = {1}[] parameter({0})\n  b{0} = {1}[] parameter({2})\n", i, type, i + by.types.size());
    entry += fmt::format("  p{0} = {1}[{2}] parameter({0})\n  i{0} = {1}[] constant({3})\n", i, type,
                         fmt::join(dims, ","), by.initial[i]);
    arrays.push_back(fmt::format("p{}", i));
    initial.push_back(fmt::format("i{}", i));
    results.push_back(fmt::format("{}[{}]", type, fmt::join(kept, ",")));
  }
  const std::string shape = results.size() == 1 ? results[0] : fmt::format("({})", fmt::join(results, ", "));
  return head + fmt::format("  {}\n}}\n", by.body) + entry +
         fmt::format("  ROOT r = {} reduce({}, {}), dimensions={{{}}}, to_apply=combine\n}}\n", shape,
                     fmt::join(arrays, ", "), fmt::join(initial, ", "), fmt::join(reduced, ","));
}

/// Few different numbers, so that many are equal, and one that is none: of two the place depends on the order.
void repeat_elements(hlo::Literal& array, Random& random) {
  if (array.shape().type == hlo::ElementType::F32) {
    const size_t none = random.below(array.byte_size() / sizeof(float));
    for (size_t i = 0; i < array.byte_size() / sizeof(float); ++i) {
      float value = static_cast<float>(random.below(7)) - 3;
      if (i == none)
        value = std::numeric_limits<float>::quiet_NaN();
      else if (random.below(5) == 0)
        value = -std::numeric_limits<float>::infinity();
      std::memcpy(array.mutable_bytes() + i * sizeof(float), &value, sizeof(float));
    }
  } else if (array.shape().type == hlo::ElementType::S32) {  // places: each once
    for (size_t i = 0; i < array.byte_size() / sizeof(int32_t); ++i) {
      const auto value = static_cast<int32_t>(i);
      std::memcpy(array.mutable_bytes() + i * sizeof(int32_t), &value, sizeof(int32_t));
    }
  }
}

/// By the interpreter, of the changed module, and by the kernels of the one that is given.
void expect_the_same_results(const hlo::Module& module, const hlo::Module& changed, const Target& target) {
  const auto arguments = hlo::typical_arguments(module.entry_computation(), 7);
  const auto expected = hlo::evaluate(module, arguments);
  const auto actual = hlo::evaluate(changed, arguments);
  ASSERT_TRUE(expected && actual);
  EXPECT_EQ(hlo::difference(*actual, *expected, 512).value_or(""), "");
  EmitOptions options;
  options.target = target;
  const auto program = emit_program(module, options);
  ASSERT_TRUE(program) << program.error().to_string();
  const auto run = run_on_cpu(*program, arguments);
  ASSERT_TRUE(run) << run.error().to_string();
  EXPECT_EQ(hlo::difference(*run, *expected, 512).value_or(""), "");
}

TEST(ShareLongReductions, ComputeTheSame) {
  const Target target = small_target();
  const struct {
    std::vector<int64_t> dims, reduced;
  } arrays[] = {{{100003}, {0}},         {{131072}, {0}},       {{3, 50021}, {1}},    {{1, 2, 64, 1024}, {2, 3}},
                {{40009, 5}, {0}},       {{2, 20011, 3}, {1}},  {{300, 401}, {0, 1}}, {{4096, 24}, {0}},
                {{1, 30011, 1, 2}, {1}}, {{2, 3, 5, 8009}, {3}}};
  uint64_t seed = 0;
  int shared = 0;
  // Of the rounds, each array with all combiners; else with every fourth, each of them with two arrays or three.
  const size_t apart = rounds(4) == 4 ? 1 : 4;
  for (size_t a = 0; a < std::size(arrays); ++a) {
    const auto& array = arrays[a];
    for (size_t c = a % apart; c < std::size(kCombiners); c += apart) {
      const Combiner& by = kCombiners[c];
      const std::string text = text_of(by, array.dims, array.reduced);
      SCOPED_TRACE(text);
      const auto module = hlo::parse_module(text);
      ASSERT_TRUE(module) << module.error().to_string();
      const hlo::Module changed = share_long_reductions(**module, target);
      const auto verified = hlo::verify(changed);
      ASSERT_TRUE(verified) << verified.error().to_string() << hlo::print(changed);
      const bool is_shared = hlo::print(changed).find("of.parts") != std::string::npos;
      EXPECT_TRUE(by.shared || !is_shared) << hlo::print(changed);
      if (!is_shared) continue;  // or it has so few bytes that one block does
      ++shared;
      Random random(++seed);
      auto arguments = hlo::typical_arguments((*module)->entry_computation(), seed);
      for (hlo::Literal& argument : arguments) repeat_elements(argument, random);
      const auto expected = hlo::evaluate(**module, arguments);
      ASSERT_TRUE(expected) << expected.error().to_string();
      const auto actual = hlo::evaluate(changed, arguments);
      ASSERT_TRUE(actual) << actual.error().to_string();
      EXPECT_EQ(hlo::difference(*actual, *expected, 64).value_or(""), "");
      if (seed % static_cast<uint64_t>(rounds(6)) != 1) continue;
      EmitOptions options;
      options.target = target;
      const auto program = emit_program(**module, options);
      ASSERT_TRUE(program) << program.error().to_string();
      const auto run = run_on_cpu(*program, arguments);
      ASSERT_TRUE(run) << run.error().to_string();
      EXPECT_EQ(hlo::difference(*run, *expected, 64).value_or(""), "");
    }
  }
  EXPECT_GE(shared, rounds(40));
}

TEST(ShareLongReductions, LeaveWhatFillsTheGpu) {
  for (const auto& [dims, reduced] : {std::pair<std::vector<int64_t>, std::vector<int64_t>>{{4096, 1000}, {1}},
                                      {{1000, 4096}, {0}},
                                      {{500}, {0}},
                                      {{64, 100, 64}, {0, 2}}}) {
    const std::string text = text_of(kCombiners[0], dims, reduced);
    const auto module = hlo::parse_module(text);
    ASSERT_TRUE(module) << module.error().to_string();
    EXPECT_EQ(hlo::print(share_long_reductions(**module, small_target())), hlo::print(**module)) << text;
  }
}

/// What blocks could add up atomically: only where the kernel goes on with the sum, and what reads the same beside it.
TEST(ShareLongReductions, AtomicOnesWhereTheyWouldLoseThat) {
  const Target target = small_target();
  for (const auto& [dims, reduced, kept] :
       {std::tuple{"200003", "0", ""}, {"3,90001", "1", "3"}, {"2,301,257", "1,2", "2"}, {"90001,3", "0", "3"}}) {
    const std::string text = fmt::format(
        "HloModule m\nadd {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }}\n"
        "max {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] maximum(a, b) }}\n"
        "ENTRY e {{\n  x = f32[{0}] parameter(0)\n  zero = f32[] constant(0)\n  least = f32[] constant(-inf)\n"
        "  y = f32[{0}] multiply(x, x)\n  s = f32[{2}] reduce(y, zero), dimensions={{{1}}}, to_apply=add\n"
        "  r = f32[{2}] sqrt(s)\n  z = f32[{0}] abs(x)\n"
        "  m = f32[{2}] reduce(z, least), dimensions={{{1}}}, to_apply=max\n"
        "  o = f32[{0}] parameter(1)\n  other = f32[{2}] reduce(o, zero), dimensions={{{1}}}, to_apply=add\n"
        "  ROOT t = (f32[{2}], f32[{2}], f32[{2}]) tuple(r, m, other)\n}}\n",
        dims, reduced, kept);
    SCOPED_TRACE(text);
    const auto module = hlo::parse_module(text);
    ASSERT_TRUE(module) << module.error().to_string();
    EXPECT_EQ(hlo::print(share_long_reductions(**module, target)), hlo::print(**module));
    const auto changed = share_atomic_reductions(**module, target);
    ASSERT_TRUE(changed);
    const auto verified = hlo::verify(*changed);
    ASSERT_TRUE(verified) << verified.error().to_string() << hlo::print(*changed);
    const std::string printed = hlo::print(*changed);
    EXPECT_NE(printed.find("s.of.parts = "), std::string::npos) << printed;
    EXPECT_NE(printed.find("m.of.parts = "), std::string::npos) << printed;
    EXPECT_EQ(printed.find("other.of.parts = "), std::string::npos) << printed;
    expect_the_same_results(**module, *changed, target);
  }
}

/// The place of a maximum, and beside it what blocks could update atomically: the maximum of something else of the same
/// array; and a sum that waits for the place, which stays.
TEST(ShareLongReductions, AtomicOnesBesideOthersReadTheSameOnce) {
  const Target target = small_target();
  for (const auto& [dims, rows, reduced, kept] :
       {std::tuple{"200003", "", "0", ""}, {"3,90001", "0", "1", "3"}, {"90001,3", "1", "0", "3"}}) {
    const std::string text = fmt::format(
        "HloModule m\nadd {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }}\n"
        "max {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] maximum(a, b) }}\n"
        "place {{ a = f32[] parameter(0)  i = s32[] parameter(1)  b = f32[] parameter(2)  j = s32[] parameter(3)\n"
        "  g = pred[] compare(a, b), direction=GT  e = pred[] compare(a, b), direction=EQ\n"
        "  l = pred[] compare(i, j), direction=LT  t = pred[] and(e, l)  f = pred[] or(g, t)\n"
        "  c = f32[] select(f, a, b)  k = s32[] select(f, i, j)  ROOT r = (f32[], s32[]) tuple(c, k) }}\n"
        "ENTRY e {{\n  x = f32[{0}] parameter(0)\n  zero = f32[] constant(0)\n  least = f32[] constant(-inf)\n"
        "  i = s32[{0}] iota(), iota_dimension={2}\n  first = s32[] constant(0)\n"
        "  p = (f32[{3}], s32[{3}]) reduce(x, i, least, first), dimensions={{{2}}}, to_apply=place\n"
        "  y = f32[{0}] abs(x)\n  m = f32[{3}] reduce(y, least), dimensions={{{2}}}, to_apply=max\n"
        "  top = f32[{3}] get-tuple-element(p), index=0\n  k = s32[{3}] get-tuple-element(p), index=1\n"
        "  tops = f32[{0}] broadcast(top), dimensions={{{1}}}\n  z = f32[{0}] subtract(x, tops)\n"
        "  s = f32[{3}] reduce(z, zero), dimensions={{{2}}}, to_apply=add\n"
        "  ROOT t = (s32[{3}], f32[{3}], f32[{3}]) tuple(k, m, s)\n}}\n",
        dims, rows, reduced, kept);
    SCOPED_TRACE(text);
    const auto module = hlo::parse_module(text);
    ASSERT_TRUE(module) << module.error().to_string();
    const hlo::Module changed = share_long_reductions(**module, target);
    const auto verified = hlo::verify(changed);
    ASSERT_TRUE(verified) << verified.error().to_string() << hlo::print(changed);
    const std::string printed = hlo::print(changed);
    EXPECT_NE(printed.find("p.of.parts = "), std::string::npos) << printed;
    EXPECT_NE(printed.find("m.of.parts = "), std::string::npos) << printed;
    EXPECT_EQ(printed.find("s.of.parts = "), std::string::npos) << printed;
    expect_the_same_results(**module, changed, target);
  }
}

/// The second largest element: of the place's reduction the largest one, which is there beside it, is read by nobody.
TEST(ShareLongReductions, WhatNobodyReadsOfSeveralResultsIsNotComputed) {
  const auto module = hlo::parse_module(R"(HloModule m
max { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] maximum(a, b) }
place { a = f32[] parameter(0)  i = s32[] parameter(1)  b = f32[] parameter(2)  j = s32[] parameter(3)
  g = pred[] compare(a, b), direction=GT  e = pred[] compare(a, b), direction=EQ
  l = pred[] compare(i, j), direction=LT  t = pred[] and(e, l)  f = pred[] or(g, t)
  c = f32[] select(f, a, b)  k = s32[] select(f, i, j)  ROOT r = (f32[], s32[]) tuple(c, k) }
ENTRY e {
  x = f32[120000] parameter(0)
  least = f32[] constant(-inf)
  first = s32[] constant(0)
  i = s32[120000] iota(), iota_dimension=0
  m = f32[] reduce(x, least), dimensions={0}, to_apply=max
  p = (f32[], s32[]) reduce(x, i, least, first), dimensions={0}, to_apply=place
  k = s32[] get-tuple-element(p), index=1
  at = s32[120000] broadcast(k), dimensions={}
  is = pred[120000] compare(i, at), direction=EQ
  leasts = f32[120000] broadcast(least), dimensions={}
  y = f32[120000] select(is, leasts, x)
  second = f32[] reduce(y, least), dimensions={0}, to_apply=max
  ROOT t = (f32[], f32[]) tuple(m, second)
})");
  ASSERT_TRUE(module) << module.error().to_string();
  const auto program = emit_program(**module);
  ASSERT_TRUE(program) << program.error().to_string();
  std::set<int> read(program->results.begin(), program->results.end());
  for (const ProgramStep& step : program->steps) read.insert(step.inputs.begin(), step.inputs.end());
  bool shares = false;
  for (const ProgramStep& step : program->steps) {
    for (const int output : step.outputs) {
      const ProgramBuffer& buffer = program->buffers[static_cast<size_t>(output)];
      shares = shares || (buffer.shape.rank() == 1 && buffer.shape.type == hlo::ElementType::S32);
      EXPECT_TRUE(read.contains(output)) << hlo::to_string(buffer.shape);
    }
  }
  EXPECT_TRUE(shares) << "places of parts";
  const auto arguments = hlo::typical_arguments((*module)->entry_computation(), 7);
  const auto expected = hlo::evaluate(**module, arguments);
  const auto actual = run_on_cpu(*program, arguments);
  ASSERT_TRUE(expected && actual);
  EXPECT_EQ(hlo::difference(*actual, *expected, 4).value_or(""), "");
}

TEST(ShareLongReductions, LastPartsAreHardlyShorter) {
  for (int64_t size = 2000; size < 200000; size += 997) {
    const EvenCut cut = cut_evenly(size, 1500, 64);
    EXPECT_LT(cut.missing(), cut.part);
    EXPECT_LE(cut.missing(), 64 * cut.parts) << size;
    EXPECT_LE(cut.part, 1536) << size;
  }
}

}  // namespace
}  // namespace strata::emitters
