// Lax parts of modules as JAX prints them (tests/data/lax), and of random ones: which they are, and that the programs
// that they become compute what the interpreter does.
#include "emitters/lax/parts.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <numeric>
#include <set>

#include "emitters/lax/test_parts.h"
#include "hlo/compare.h"
#include "hlo/evaluate.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"
#include "ir/text.h"
#include "test_paths.h"

namespace strata::emitters {
namespace {

namespace fs = std::filesystem;

class LaxPartsOfJax : public testing::TestWithParam<std::string> {};

TEST_P(LaxPartsOfJax, ComputeTheSame) {
  const auto module = hlo::load_module(STRATA_SOURCE_DIR "/tests/data/lax/" + GetParam() + ".hlo");
  ASSERT_TRUE(module) << module.error().to_string();
  const hlo::Module entry = hlo::inline_calls(**module);
  const std::vector<LaxPart> parts = find_lax_parts(entry);
  ASSERT_FALSE(parts.empty());
  // HLO rounds 16-bit values after each operator.
  EXPECT_EQ(difference(entry, parts, 16), "");
  ASSERT_EQ(parts.size(), 1U);
  for (const hlo::Instruction& it : entry.entry_computation().instructions) {
    const auto id = static_cast<hlo::InstructionId>(&it - entry.entry_computation().instructions.data());
    const auto& members = parts[0].members;
    if (it.opcode != hlo::Opcode::Dot) continue;
    EXPECT_NE(std::find(members.begin(), members.end(), id), members.end());
  }
}

std::vector<std::string> names() {
  std::set<std::string> found;
  for (const auto& entry : fs::directory_iterator(STRATA_SOURCE_DIR "/tests/data/lax"))
    if (entry.path().extension() == ".hlo") found.insert(entry.path().stem().string());
  return {found.begin(), found.end()};
}

INSTANTIATE_TEST_SUITE_P(Modules, LaxPartsOfJax, testing::ValuesIn(names()),
                         [](const auto& instance) { return instance.param; });

/// The text of operators of a program.
std::vector<std::string> operators(const Graph& graph) {
  std::vector<std::string> names;
  for (const Operation& op : graph.operations()) names.emplace_back(op.name());
  return names;
}

TEST(LaxParts, AttentionIsOneProgram) {
  const auto module = hlo::load_module(STRATA_SOURCE_DIR "/tests/data/lax/attention_bthd_bf16.hlo");
  ASSERT_TRUE(module);
  const auto parts = find_lax_parts(hlo::inline_calls(**module));
  ASSERT_EQ(parts.size(), 1U);
  EXPECT_EQ(operators(*parts[0].program.graph),
            (std::vector<std::string>{"transpose", "transpose", "matmul", "scale", "reduce_max", "sub", "exp", "sum",
                                      "div", "transpose", "matmul"}));
  // JAX multiplies V by the weights, and transposes to a layout of its own behind that; here the rows of the result are
  // the queries, by head.
  EXPECT_EQ(parts[0].permutation, (std::vector<int64_t>{0, 1, 3, 2}));
  EXPECT_TRUE(parts[0].program.wide_values);
}

/// As torch's front end writes it: heads lie beside each other in the rows that products before and after it have.
TEST(LaxParts, WhatIsComputedIsTransposedBehindThePart) {
  const auto module = hlo::parse_module(R"(HloModule m
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
max { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] maximum(a, b) }
ENTRY e {
  q = bf16[8,12] parameter(0)
  k = bf16[8,12] parameter(1)
  v = bf16[8,12] parameter(2)
  zero = f32[] constant(0)
  lowest = f32[] constant(-inf)
  heads.q = bf16[3,8,4] transpose(bf16[8,3,4] reshape(q)), dimensions={1,0,2}
  heads.k = bf16[3,4,8] transpose(bf16[8,3,4] reshape(k)), dimensions={1,2,0}
  heads.v = bf16[3,8,4] transpose(bf16[8,3,4] reshape(v)), dimensions={1,0,2}
  scores = f32[3,8,8] dot(heads.q, heads.k), lhs_batch_dims={0}, rhs_batch_dims={0},
      lhs_contracting_dims={2}, rhs_contracting_dims={1}
  top = f32[3,8] reduce(scores, lowest), dimensions={2}, to_apply=max
  tops = f32[3,8,8] broadcast(top), dimensions={0,1}
  below = f32[3,8,8] subtract(scores, tops)
  exponentials = f32[3,8,8] exponential(below)
  sum = f32[3,8] reduce(exponentials, zero), dimensions={2}, to_apply=add
  sums = f32[3,8,8] broadcast(sum), dimensions={0,1}
  weights = f32[3,8,8] divide(exponentials, sums)
  rounded = bf16[3,8,8] convert(weights)
  heads = bf16[3,8,4] dot(rounded, heads.v), lhs_batch_dims={0}, rhs_batch_dims={0},
      lhs_contracting_dims={2}, rhs_contracting_dims={1}
  rows = bf16[8,3,4] transpose(heads), dimensions={1,0,2}
  ROOT all = bf16[8,12] reshape(rows)
})");
  ASSERT_TRUE(module) << module.error().to_string();
  const auto parts = find_lax_parts(**module);
  ASSERT_EQ(parts.size(), 1U);
  const Graph& graph = *parts[0].program.graph;
  EXPECT_EQ(operators(graph), (std::vector<std::string>{"transpose", "transpose", "matmul", "reduce_max", "sub", "exp",
                                                        "sum", "div", "transpose", "matmul"}));
  EXPECT_EQ(graph.type(graph.outputs()[0]).shape, (Shape{3, 8, 4}));
  EXPECT_EQ(difference(**module, parts, 16), "");
}

/// Scores, masked by `mask` of i and j where it is false, or as `masked` says; `rest` makes the root of `x`.
hlo::Module masked(const std::string& mask, const std::string& value = "0.5",
                   const std::string& rest =
                       "  e = f32[8,8] exponential(x)\n"
                       "  ROOT o = f32[8,4] dot(e, v), lhs_contracting_dims={1}, "
                       "rhs_contracting_dims={0}\n") {
  return flat(R"(HloModule m
most {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] maximum(a, b)
}
ENTRY e {
  q = f32[8,4] parameter(0)
  k = f32[8,4] parameter(1)
  v = f32[8,4] parameter(2)
  s = f32[8,8] dot(q, k), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  i = s32[8,8] iota(), iota_dimension=0
  j0 = s32[8] iota(), iota_dimension=0
  j = s32[8,8] broadcast(j0), dimensions={1}
  two = s32[] constant(2)
  twos = s32[8,8] broadcast(two), dimensions={}
)" + mask + R"(
  c = f32[] constant()" +
              value + R"()
  cs = f32[8,8] broadcast(c), dimensions={}
  x = f32[8,8] select(m, s, cs)
)" + rest + "}\n");
}

TEST(LaxParts, MasksOfIotasAreWhatTheyAre) {
  const std::string sums = "  a = s32[8,8] add(i, twos)\n  b = s32[8,8] multiply(twos, j)\n";
  std::vector<std::string> masks;
  for (const char* direction : {"EQ", "NE", "LT", "LE", "GT", "GE"}) {
    masks.push_back(sums + "  m = pred[8,8] compare(a, b), direction=" + direction);
    masks.push_back(sums + "  m = pred[8,8] compare(twos, j), direction=" + direction);
    masks.push_back(sums + "  d = s32[8,8] subtract(b, a)\n  m = pred[8,8] compare(d, twos), direction=" + direction);
  }
  const std::string both =
      sums + "  l = pred[8,8] compare(i, j), direction=LT\n  n = pred[8,8] compare(j, twos), direction=GT\n";
  for (const char* logical : {"and(l, n)", "or(l, n)", "select(l, n, p)"})
    masks.push_back(both + "  p = pred[8,8] not(l)\n  m = pred[8,8] " + logical);
  masks.push_back(both + "  t = pred[8,8] transpose(l), dimensions={1,0}\n  m = pred[8,8] and(t, n)");
  for (const std::string& mask : masks) {
    const hlo::Module module = masked(mask);
    const auto parts = find_lax_parts(module);
    ASSERT_EQ(parts.size(), 1U) << mask;
    EXPECT_EQ(parts[0].inputs.size(), 3U) << mask;
    EXPECT_EQ(parts[0].program.inputs.size(), 3U) << mask;
    EXPECT_EQ(operators(*parts[0].program.graph).back(), "matmul") << mask;
    EXPECT_EQ(difference(module, parts, 1), "") << mask;
  }
}

// 3·2^29 + (2^29 − 4) + j passes 2^31 for some j: s32 wraps around there, and a sum of indices would not.
TEST(LaxParts, MasksThatWrapAroundAreNotTaken) {
  for (const bool wraps : {true, false}) {
    const std::string step = wraps ? "536870912" : "1048576";
    const hlo::Module module =
        masked("  step = s32[] constant(" + step +
               ")\n  steps = s32[8,8] broadcast(step), dimensions={}\n"
               "  first = s32[] constant(536870908)\n  firsts = s32[8,8] broadcast(first), dimensions={}\n"
               "  rows = s32[8,8] multiply(i, steps)\n  a = s32[8,8] add(rows, firsts)\n"
               "  b = s32[8,8] add(a, j)\n  m = pred[8,8] compare(a, b), direction=LT");
    const auto parts = find_lax_parts(module);
    const bool taken = std::any_of(parts.begin(), parts.end(), [](const LaxPart& part) {
      const auto of_part = operators(*part.program.graph);
      return std::find(of_part.begin(), of_part.end(), "select") != of_part.end();
    });
    EXPECT_EQ(taken, !wraps);
    EXPECT_EQ(difference(module, parts, 1), "") << step;
  }
}

// −∞ stands for itself only where maxima and exponentials make 0 of it.
TEST(LaxParts, WhatMasksByInfinityMustBeExponentiated) {
  const std::string causal = "  m = pred[8,8] compare(i, j), direction=GE";
  const std::string softmax =
      "  n = f32[] constant(-inf)\n  r = f32[8] reduce(x, n), dimensions={1}, to_apply=most\n"
      "  rs = f32[8,8] broadcast(r), dimensions={0}\n  d = f32[8,8] subtract(x, rs)\n"
      "  e = f32[8,8] exponential(d)\n"
      "  ROOT o = f32[8,4] dot(e, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n";
  for (const char* value : {"-inf", "-1e30", "-3.4028235e38"}) {
    const hlo::Module module = masked(causal, value, softmax);
    const auto parts = find_lax_parts(module);
    ASSERT_EQ(parts.size(), 1U) << value;
    EXPECT_EQ(operators(*parts[0].program.graph).back(), "matmul");
    EXPECT_EQ(difference(module, parts, 1), "") << value;
  }
  for (const char* rest :
       {"  ROOT o = f32[8,8] maximum(x, s)\n", "  ROOT o = f32[8,8] multiply(x, s)\n", "  ROOT o = f32[8,8] copy(x)\n",
        // −2^100 stands for −∞, and e^(−2^100 · 10^−29) is not 0.
        "  h = f32[] constant(1e-29)\n  hs = f32[8,8] broadcast(h), dimensions={}\n"
        "  y = f32[8,8] multiply(x, hs)\n  e = f32[8,8] exponential(y)\n"
        "  ROOT o = f32[8,4] dot(e, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"}) {
    for (const LaxPart& part : find_lax_parts(masked(causal, "-inf", rest)))
      for (const std::string& name : operators(*part.program.graph)) EXPECT_NE(name, "select") << rest;
  }
  // A mask that parameters decide stays outside.
  const hlo::Module read = masked("  z = f32[8,8] sqrt(s)\n  m = pred[8,8] compare(s, z), direction=GT");
  for (const LaxPart& part : find_lax_parts(read))
    for (const std::string& name : operators(*part.program.graph)) EXPECT_NE(name, "select");
}

TEST(LaxParts, SiluIsFoundInItsLogistic) {
  const auto parts = find_lax_parts(flat(R"(HloModule m
ENTRY e {
  x = f16[8,32] parameter(0)
  w = f16[32,16] parameter(1)
  p = f16[8,16] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  l = f16[8,16] logistic(p)
  ROOT r = f16[8,16] multiply(l, p)
})"));
  ASSERT_EQ(parts.size(), 1U);
  EXPECT_EQ(operators(*parts[0].program.graph), (std::vector<std::string>{"matmul", "silu"}));
}

/// Why a computation is no program.
std::string refusal(const std::string& lines) {
  const hlo::Module module = flat("HloModule m\nENTRY e {\n" + lines + "}\n");
  const auto program = lax_program(module, module.entry_computation());
  return program ? "" : program.error().message;
}

TEST(LaxToIr, SaysWhatItDoesNotTake) {
  const std::string product =
      "  x = bf16[8,32] parameter(0)\n  w = bf16[32,16] parameter(1)\n"
      "  p = bf16[8,16] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n";
  EXPECT_EQ(refusal(product + "  ROOT r = bf16[8,16] tanh(p)\n"), "r: the superoptimizer has no tanh");
  EXPECT_EQ(refusal(product + "  ROOT r = f32[8,16] convert(p)\n"), "r: a result of f32");
  EXPECT_EQ(refusal(product + "  ROOT r = bf16[8,16]{0,1} negate(p)\n"), "r: a result that does not lie row-major");
  EXPECT_EQ(refusal(product + "  ROOT r = bf16[3,8,16] broadcast(p), dimensions={1,2}\n"),
            "r: a result that repeats elements");
  EXPECT_EQ(refusal(product + "  y = f32[8,16] parameter(2)\n  c = f32[8,16] convert(p)\n  a = f32[8,16] add(c, y)\n"
                              "  ROOT r = bf16[8,16] convert(a)\n"),
            "y: it is f32, the part bf16");
  // The weights of softmax keep their 24 bits in HLO: a product of bf16 would be less accurate.
  EXPECT_EQ(
      refusal(product + "  v = bf16[16,4] parameter(2)\n  c = f32[8,16] convert(p)\n  e = f32[8,16] exponential(c)\n"
                        "  u = f32[16,4] convert(v)\n  o = f32[8,4] dot(e, u), lhs_contracting_dims={1}, "
                        "rhs_contracting_dims={0}\n  ROOT r = bf16[8,4] convert(o)\n"),
      "o: a product of values that have more bits than bf16");
  // Converted operands are exact.
  EXPECT_EQ(refusal(product + "  v = bf16[16,4] parameter(2)\n  c = f32[8,16] convert(p)\n  u = f32[16,4] convert(v)\n"
                              "  o = f32[8,4] dot(c, u), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                              "  ROOT r = bf16[8,4] convert(o)\n"),
            "");
}

TEST(LaxParts, APathThatComesBackIsNoPart) {
  // The sine of the product is no operator of the program: what is added to it comes later.
  const hlo::Module module = flat(R"(HloModule m
ENTRY e {
  x = f32[8,32] parameter(0)
  w = f32[32,16] parameter(1)
  p = f32[8,16] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  s = f32[8,16] sine(p)
  e = f32[8,16] exponential(p)
  a = f32[8,16] add(e, s)
  ROOT r = f32[8,16] multiply(a, a)
})");
  for (const LaxPart& part : find_lax_parts(module)) {
    for (const hlo::InstructionId id : part.members) EXPECT_NE(module.entry_computation()[id].name, "a");
  }
}

TEST(LaxToIr, RandomPartsOf16BitsWithF32Within) {
  int parts = 0, wide = 0;
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    const std::string text = RandomText(seed, seed % 2 == 0 ? "f16" : "bf16").text();
    const hlo::Module module = flat(text);
    const std::vector<LaxPart> found = find_lax_parts(module);
    parts += static_cast<int>(found.size());
    for (const LaxPart& part : found) wide += part.program.wide_values;
    // HLO rounds after each operator, a program after each kernel: they differ by some units in the last place.
    ASSERT_EQ(difference(module, found, 64), "") << seed << "\n" << text;
  }
  EXPECT_GT(parts, 300);
  EXPECT_GT(wide, 100);
}

TEST(LaxToIr, RandomComputationsAreTheSamePrograms) {
  int programs = 0, parts = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    const std::string text = RandomText(seed, seed % 3 == 0 ? "f64" : "f32").text();
    const hlo::Module module = flat(text);
    const hlo::Computation& entry = module.entry_computation();
    if (const auto program = lax_program(module, entry)) {
      ++programs;
      const auto arguments = hlo::typical_arguments(entry, seed);
      hlo::Module ordered = module;
      const auto expected = hlo::evaluate(module, arguments);
      ASSERT_TRUE(expected);
      // As the program lies.
      hlo::Computation& last = ordered.computations[static_cast<size_t>(ordered.entry)];
      std::vector<int64_t> dims;
      for (const int64_t d : program->permutations[0]) dims.push_back(expected->shape().dim(d));
      last.instructions.push_back({"permuted",
                                   hlo::Opcode::Transpose,
                                   hlo::array_shape(expected->type(), dims),
                                   {last.root},
                                   {},
                                   hlo::DimensionsAttributes{program->permutations[0]},
                                   {}});
      last.root = static_cast<hlo::InstructionId>(last.instructions.size()) - 1;
      const auto permuted = hlo::evaluate(ordered, arguments);
      ASSERT_TRUE(permuted);
      const auto actual = run_on_host(*program->graph, program->inputs, arguments, permuted->shape());
      ASSERT_TRUE(actual) << actual.error().to_string();
      const auto found = hlo::difference(*actual, *permuted, 64);
      ASSERT_FALSE(found) << *found << "\n" << text << print(*program->graph);
    }
    const std::vector<LaxPart> found = find_lax_parts(module);
    parts += static_cast<int>(found.size());
    ASSERT_EQ(difference(module, found, 64), "") << seed << "\n" << text;
  }
  EXPECT_GT(programs, 700);
  EXPECT_GT(parts, 400);
}

TEST(LaxParts, TransposesOfParametersAreOnlyAnotherWayToReadThem) {
  // Two products read the same weights, so that the transpose could not be a part's own.
  const hlo::Module module = flat(R"(HloModule m
ENTRY e {
  x = f16[2,64] parameter(0)
  w = f16[128,64] parameter(1)
  b = f16[128] parameter(2)
  y = f16[2,64] parameter(3)
  t = f16[64,128] transpose(w), dimensions={1,0}
  p = f16[2,128] dot(x, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  bs = f16[2,128] broadcast(b), dimensions={1}
  a = f16[2,128] add(p, bs)
  q = f16[2,128] dot(y, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  d = f16[128] parameter(4)
  ds = f16[2,128] broadcast(d), dimensions={1}
  c = f16[2,128] multiply(q, ds)
  ROOT r = (f16[2,128], f16[2,128]) tuple(a, c)
})");
  const std::vector<LaxPart> parts = find_lax_parts(module);
  ASSERT_EQ(parts.size(), 2U);
  for (const LaxPart& part : parts)
    for (const hlo::InstructionId input : part.inputs)
      EXPECT_EQ(module.entry_computation()[input].opcode, hlo::Opcode::Parameter);
  EXPECT_EQ(difference(module, parts, 16), "");
}

}  // namespace
}  // namespace strata::emitters
