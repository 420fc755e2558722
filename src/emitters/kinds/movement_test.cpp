// Kernels that move elements, run on the processor and compared with the interpreter.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <numeric>
#include <sstream>

#include "emitters/program.h"
#include "hlo/compare.h"
#include "hlo/evaluate.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"

namespace strata::emitters {
namespace {

/// Emits a fusion by one emitter and runs it. The text of its decision; empty, with a failure, if something is wrong.
std::string check(const std::string& body, const std::string& emitter) {
  const auto module = hlo::parse_module("HloModule m\nfused {\n" + body + "}\n");
  if (!module) {
    ADD_FAILURE() << module.error().to_string();
    return {};
  }
  EmitOptions options;
  options.only = emitter;
  const Result<EmittedProgram> program = emit_program(**module, options);
  if (!program) {
    ADD_FAILURE() << body << program.error().to_string();
    return {};
  }
  EXPECT_EQ(program->steps.size(), 1u);
  const auto arguments = hlo::typical_arguments((*module)->entry_computation(), 7);
  const Result<hlo::Literal> expected = hlo::evaluate(**module, arguments);
  const Result<hlo::Literal> result = run_on_cpu(*program, arguments);
  if (!expected || !result) {
    ADD_FAILURE() << body << (expected ? result.error() : expected.error()).to_string();
    return {};
  }
  EXPECT_TRUE(hlo::identical(*expected, *result)) << body << explain(*program);
  return to_string(program->steps[0].fusion->decision());
}

/// Why an emitter refuses a fusion; a failure if it does not.
std::string refusal(const std::string& body, const std::string& emitter) {
  const auto module = hlo::parse_module("HloModule m\nfused {\n" + body + "}\n");
  if (!module) return module.error().to_string();
  EmitOptions options;
  options.only = emitter;
  const auto kernel = emit_fusion(**module, (*module)->entry, "fused", options);
  EXPECT_FALSE(kernel.has_value()) << body;
  return kernel ? "" : kernel.error().message;
}

std::string transpose_text(const std::string& type, const std::vector<int64_t>& dims, const std::vector<int>& order) {
  std::vector<int64_t> result;
  for (const int dim : order) result.push_back(dims[static_cast<size_t>(dim)]);
  return fmt::format("p = {0}[{1}] parameter(0)\nROOT t = {0}[{2}] transpose(p), dimensions={{{3}}}\n", type,
                     fmt::join(dims, ","), fmt::join(result, ","), fmt::join(order, ","));
}

/// The lines of a kernel's body before any pass, from the first space on, whose operations are in the list.
std::vector<std::string> operations(const std::string& body, const std::string& emitter,
                                    const std::vector<std::string>& wanted) {
  const auto module = hlo::parse_module("HloModule m\nfused {\n" + body + "}\n");
  EmitOptions options;
  options.only = emitter;
  const auto kernel = emit_fusion(**module, (*module)->entry, "fused", options);
  const auto text = kernel->text(Form::Mlir);
  std::vector<std::string> found;
  std::istringstream lines(text->substr(text->find("func.func @fused(")));
  for (std::string line; std::getline(lines, line) && line != "  }";) {
    for (const std::string& operation : wanted) {
      if (line.find(operation) != std::string::npos) found.push_back(operation);
    }
  }
  return found;
}

TEST(TransposeEmitter, ReadsATileThenWritesIt) {
  using Names = std::vector<std::string>;
  const Names wanted{"strata.allocate_shared", "vector = 1",    "vector = 2",   "tensor.extract %arg0",
                     "tensor.extract",         "tensor.insert", "sync_threads", "pure_call"};
  EXPECT_EQ(operations(transpose_text("f32", {128, 64}, {1, 0}), "transpose", wanted),
            (Names{wanted[0], wanted[1], wanted[3], wanted[4], wanted[5], wanted[6], wanted[2], wanted[4], wanted[7],
                   wanted[5]}));
}

TEST(TransposeEmitter, TypesOfAllWidths) {
  for (const char* type : {"pred", "s4", "s8", "f8e4m3fn", "bf16", "f16", "s16", "f32", "u32", "f64", "c64", "c128"}) {
    EXPECT_NE(check(transpose_text(type, {150, 70}, {1, 0}), "transpose"), "") << type;
    EXPECT_NE(check(transpose_text(type, {128, 64}, {1, 0}), "transpose"), "") << type;
  }
}

TEST(TransposeEmitter, KeptAndShortDimensions) {
  check(transpose_text("f32", {40, 30, 3}, {1, 0, 2}), "transpose");
  check(transpose_text("bf16", {40, 30, 2}, {1, 0, 2}), "transpose");
  check(transpose_text("s8", {64, 48, 4}, {1, 0, 2}), "transpose");
  check(transpose_text("f32", {2, 500, 3}, {0, 2, 1}), "transpose");
  check(transpose_text("s8", {3, 3, 700}, {0, 2, 1}), "transpose");
  check(transpose_text("f32", {5, 7, 3, 9, 4, 6}, {5, 3, 1, 2, 0, 4}), "transpose");
}

TEST(TransposeEmitter, Layouts) {
  EXPECT_NE(check("p = f32[50,70]{0,1} parameter(0)\nROOT c = f32[50,70]{1,0} copy(p)\n", "transpose"), "");
  EXPECT_NE(
      check("p = f32[50,70]{0,1} parameter(0)\nROOT c = f32[70,50]{0,1} transpose(p), dimensions={1,0}\n", "transpose"),
      "");
  // The dimensions change places, the elements do not.
  EXPECT_EQ(refusal("p = f32[50,70]{1,0} parameter(0)\nROOT c = f32[70,50]{0,1} transpose(p), dimensions={1,0}\n",
                    "transpose"),
            "no transpose stands behind a root by operators that keep places");
}

TEST(TransposeEmitter, PrologueEpilogueAndSideOutputs) {
  check(R"(
  p = bf16[8,40,56] parameter(0)
  b = bf16[40] parameter(1)
  n = bf16[8,40,56] negate(p)
  t = bf16[8,56,40] transpose(n), dimensions={0,2,1}
  w = bf16[8,56,40] broadcast(b), dimensions={2}
  a = bf16[8,56,40] add(t, w)
  r = bf16[448,40] reshape(a)
  m = bf16[448,40] multiply(r, r)
  c = f32[448,40] convert(m)
  ROOT out = (bf16[448,40], bf16[8,40,56], f32[448,40]) tuple(m, n, c)
)",
        "transpose");
}

TEST(TransposeEmitter, SeveralTransposes) {
  check(R"(
  p = f32[60,90] parameter(0)
  q = s8[60,90] parameter(1)
  t = f32[90,60] transpose(p), dimensions={1,0}
  u = s8[90,60] transpose(q), dimensions={1,0}
  v = f32[90,60] convert(u)
  a = f32[90,60] add(t, v)
  ROOT out = (f32[90,60], s8[90,60]) tuple(a, u)
)",
        "transpose");
}

TEST(TransposeEmitter, HeroOnBothSides) {
  check(R"(
  p = f32[60,90] parameter(0)
  t = f32[90,60] transpose(p), dimensions={1,0}
  n = f32[90,60] negate(t)
  r = f32[90,60] reverse(n), dimensions={0}
  a = f32[90,60] add(n, r)
  b = f32[5400] reshape(t)
  s = f32[60,90] reshape(b)
  m = f32[60,90] multiply(s, p)
  ROOT out = (f32[90,60], f32[90,60], f32[60,90]) tuple(a, t, m)
)",
        "transpose");
}

/// A map over elements keeps places: what it reads is the tile's, not memory once more.
TEST(TransposeEmitter, MapsAfterIt) {
  const std::string maps = R"(
p = f32[40,70] parameter(0)
t = f32[70,40] transpose(p), dimensions={1,0}
m = f32[70,40] map(t), dimensions={0,1}, to_apply=twice
ROOT r = f32[70,40] multiply(t, m)
)";
  const std::string twice = "HloModule m\ntwice {\nx = f32[] parameter(0)\nROOT y = f32[] add(x, x)\n}\nfused {\n";
  const auto module = hlo::parse_module(twice + maps + "}\n");
  ASSERT_TRUE(module) << module.error().to_string();
  EmitOptions options;
  options.only = "transpose";
  const auto kernel = emit_fusion(**module, (*module)->entry, "fused", options);
  ASSERT_TRUE(kernel) << kernel.error().to_string();
  const std::string text = *kernel->text(Form::Mlir);
  size_t reads = 0;
  for (size_t at = 0; (at = text.find("tensor.extract %arg0", at)) != std::string::npos; ++at) ++reads;
  EXPECT_EQ(reads, 1u) << text;
}

/// Many threads where short functions are computed, as many registers as they want where long ones are.
TEST(TransposeEmitter, RoomForMoreBlocks) {
  const auto min_blocks = [](const std::string& type, const std::string& function) {
    const auto module = hlo::parse_module(fmt::format(
        "HloModule m\nfused {{\np = {0}[400,700] parameter(0)\nt = {0}[700,400] transpose(p), dimensions={{1,0}}\n"
        "ROOT r = {0}[700,400] {1}\n}}\n",
        type, function));
    EXPECT_TRUE(module) << module.error().to_string();
    EmitOptions options;
    options.only = "transpose";
    const auto kernel = emit_fusion(**module, (*module)->entry, "fused", options);
    return kernel->decision().launch().min_blocks;
  };
  EXPECT_EQ(min_blocks("f32", "tanh(t)"), 6);
  EXPECT_EQ(min_blocks("bf16", "logistic(t)"), 6);
  EXPECT_EQ(min_blocks("f32", "negate(t)"), 0);
  EXPECT_EQ(min_blocks("f64", "tanh(t)"), 0);
  EXPECT_EQ(min_blocks("f32", "power(t, t)"), 0);
}

/// Arrays behind each other: vectors are read under conditions.
TEST(LoopEmitter, ConcatenatesVectors) {
  const std::string body = R"(
p = bf16[6,64] parameter(0)
q = bf16[6,32] parameter(1)
s = bf16[6,16] parameter(2)
c = bf16[6,112] concatenate(p, q, s), dimensions={1}
ROOT n = bf16[6,112] negate(c)
)";
  check(body, "loop");
  const auto module = hlo::parse_module("HloModule m\nfused {\n" + body + "}\n");
  EmitOptions options;
  options.only = "loop";
  options.target.multiprocessors = 0;  // vectors although there is little to do
  options.target.rates.scalar_rate = 0;
  const auto kernel = emit_fusion(**module, (*module)->entry, "fused", options);
  const std::string ptx = *kernel->text(Form::Ptx);
  EXPECT_NE(ptx.find("ld.global.v4"), std::string::npos) << ptx;
  EXPECT_EQ(ptx.find("ld.global.u16"), std::string::npos) << ptx;
}

/// A branch has elements of a thread follow each other: where each takes long, more threads have fewer.
TEST(LoopEmitter, FewElementsOfAThreadWhereTheyFollowEachOther) {
  const auto vector = [](int elements, int functions) {
    std::string body = fmt::format(
        "p = s8[{0}] parameter(0)\nlast = s8[1] slice(p), slice={{[0:1]}}\nrest = s8[{1}] slice(p), "
        "slice={{[1:{0}]}}\n{2}rolled = s8[{0}] concatenate(rest, last), dimensions={{0}}\n",
        elements, elements - 1, functions == 0 ? "ROOT " : "");
    if (functions > 0) body += fmt::format("f0 = f32[{}] convert(rolled)\n", elements);
    for (int i = 0; i < functions; ++i) body += fmt::format("f{} = f32[{}] sine(f{})\n", i + 1, elements, i);
    if (functions > 0) body += fmt::format("ROOT r = s8[{}] convert(f{})\n", elements, functions);
    const auto module = hlo::parse_module("HloModule m\nfused {\n" + body + "}\n");
    EmitOptions options;
    options.only = "loop";
    const auto kernel = emit_fusion(**module, (*module)->entry, "fused", options);
    for (const auto& [key, text] : kernel->decision().details) {
      if (key == "vector") return text;
    }
    return std::string();
  };
  EXPECT_EQ(vector(600000, 0), "4");  // each waits for what it loads
  EXPECT_EQ(vector(600000, 8), "4");
  EXPECT_EQ(vector(6000000, 0), "16");
  EXPECT_EQ(vector(6000000, 8), "16");
}

/// Of few large blocks some multiprocessors would have one more than others, for as long as its elements take.
TEST(LoopEmitter, MultiprocessorsComputeEvenly) {
  const auto emitted = [](int elements, int functions) {
    std::string body = fmt::format("p = s8[{0}] parameter(0)\nf0 = f32[{0}] convert(p)\n", elements);
    for (int i = 0; i < functions; ++i) body += fmt::format("f{} = f32[{}] sine(f{})\n", i + 1, elements, i);
    body += fmt::format("ROOT r = s8[{}] convert(f{})\n", elements, functions);
    const auto module = hlo::parse_module("HloModule m\nfused {\n" + body + "}\n");
    EmitOptions options;
    options.only = "loop";
    return emit_fusion(**module, (*module)->entry, "fused", options)->decision().launches.at(0);
  };
  const int multiprocessors = EmitOptions().target.multiprocessors;
  for (const int elements : {560000, 600000, 700000, 800000, 1200000}) {
    const auto launch = emitted(elements, 16);
    const int64_t rounds = (launch.blocks + multiprocessors - 1) / multiprocessors;
    EXPECT_LE(8 * rounds * multiprocessors, 9 * launch.blocks) << elements;
  }
  EXPECT_EQ(emitted(600000, 0).blocks, 147);  // what only moves data is as fast by one vector a thread
}

/// What an element is made of is loaded one by one: neighbouring threads have neighbouring elements.
TEST(LoopEmitter, ElementsOfTermsAreNoVectors) {
  const std::string sum = R"(
    p = f32[8,30,64,64] parameter(0)
    z = f32[] constant(0)
    w = f32[8,30,64,64] reduce-window(p, z), window={size=1x3x1x1 pad=0_0x1_1x0_0x0_0}, to_apply=add
    ROOT r = f32[8,30,64,64] add(w, p)
)";
  const auto module = hlo::parse_module(
      "HloModule m\nadd {\na = f32[] parameter(0)\nb = f32[] parameter(1)\nROOT c = f32[] add(a, b)\n}\nfused {\n" +
      sum + "}\n");
  ASSERT_TRUE(module) << module.error().to_string();
  EmitOptions options;
  options.only = "loop";
  const auto kernel = emit_fusion(**module, (*module)->entry, "fused", options);
  ASSERT_TRUE(kernel) << kernel.error().to_string();
  EXPECT_NE(to_string(kernel->decision()).find("vector           1\n"), std::string::npos);
}

/// Of sums beside a larger array each has a thread, which would go through those of a vector one after the other.
TEST(LoopEmitter, SumsBesideAnArrayHaveThreadsOfTheirOwn) {
  const auto decision = [](const std::string& body) {
    const auto module = hlo::parse_module(
        "HloModule m\nadd {\na = f32[] parameter(0)\nb = f32[] parameter(1)\nROOT c = f32[] add(a, b)\n}\nfused {\n" +
        body + "}\n");
    EXPECT_TRUE(module) << module.error().to_string();
    EmitOptions options;
    options.only = "loop";
    const Result<EmittedProgram> program = emit_program(**module, options);
    EXPECT_TRUE(program) << program.error().to_string();
    const auto arguments = hlo::typical_arguments((*module)->entry_computation(), 7);
    const Result<hlo::Literal> expected = hlo::evaluate(**module, arguments), result = run_on_cpu(*program, arguments);
    EXPECT_TRUE(expected && result);
    EXPECT_EQ(hlo::difference(*result, *expected, 52).value_or(""), "");
    return to_string(program->steps[0].fusion->decision());
  };
  const std::string few = decision(R"(
    p = f32[1013,17,52] parameter(0)
    z = f32[] constant(0)
    n = f32[1013,17,52] negate(p)
    s = f32[1013,17] reduce(p, z), dimensions={2}, to_apply=add
    ROOT t = (f32[1013,17,52], f32[1013,17]) tuple(n, s)
)");
  EXPECT_NE(few.find("vector           4"), std::string::npos) << few;
  EXPECT_NE(few.find("vector 1, unroll 1"), std::string::npos) << few;
  const std::string many = decision(R"(
    p = f32[300000,4] parameter(0)
    q = f32[1000,800] parameter(1)
    z = f32[] constant(0)
    n = f32[1000,800] negate(q)
    s = f32[300000] reduce(p, z), dimensions={1}, to_apply=add
    u = f32[1000,300] reshape(s)
    ROOT t = (f32[1000,800], f32[1000,300]) tuple(n, u)
)");
  EXPECT_NE(many.find("vector           4"), std::string::npos) << many;
  EXPECT_NE(many.find("vector 1, unroll"), std::string::npos) << many;
}

TEST(LoopEmitter, VectorsOfOddArrays) {
  // Of odd numbers of elements, each with a rest of its own, and of one vector less than a block has.
  const std::string two = check(R"(
    p = f32[521,523] parameter(0)
    q = f32[521,523] parameter(1)
    r = bf16[272477] parameter(2)
    a = f32[521,523] add(p, q)
    flat = f32[272483] reshape(a)
    s = bf16[272477] negate(r)
    t = s32[3] parameter(3)
    u = s32[3] negate(t)
    ROOT all = (f32[272483], bf16[272477], s32[3], f32[521,523]) tuple(flat, s, u, p)
)",
                                "loop");
  EXPECT_NE(two.find("vector           4"), std::string::npos) << two;
  // One after the other; what reads the same array stands at its blocks.
  EXPECT_NE(two.find(fmt::format("{} blocks", 267 + 267 + 1)), std::string::npos) << two;
  // Arrays of one shape too; what is computed for two results is computed once.
  const std::string alike = check(R"(
    p = f32[300000] parameter(0)
    q = f32[300000] parameter(1)
    r = f32[300000] parameter(2)
    f = f32[] parameter(3)
    g = f32[] multiply(f, f)
    gs = f32[300000] broadcast(g), dimensions={}
    half = f32[300000] multiply(gs, gs)
    a = f32[300000] multiply(p, half)
    b = f32[300000] multiply(q, half)
    e = f32[300000] negate(r)
    c = f32[300000] add(e, half)
    d = f32[300000] multiply(e, e)
    ROOT all = (f32[300000], f32[300000], f32[300000], f32[300000]) tuple(a, b, c, d)
)",
                                  "loop");
  EXPECT_NE(alike.find(fmt::format("{} blocks", 3 * 293)), std::string::npos) << alike;
  // Lines of a vector would be read one element after the other.
  const std::string shifted = check(R"(
    p = f32[521,525] parameter(0)
    ROOT s = f32[521,523] slice(p), slice={[0:521], [1:524]}
)",
                                    "loop");
  EXPECT_NE(shifted.find("vector           1"), std::string::npos) << shifted;
}

TEST(TransposeEmitter, Refusals) {
  EXPECT_EQ(refusal(transpose_text("f32", {1000, 5, 3}, {0, 2, 1}), "transpose"),
            "t: 1000x5x3 by 0,2,1 in the result's order takes 1.33 times the lines that it fills: it is read as it is");
  EXPECT_EQ(
      refusal(transpose_text("f32", {100, 50, 32}, {1, 0, 2}), "transpose"),
      "t: 100x50x32 by 1,0,2 in the result's order takes 1.00 times the lines that it fills: it is read as it is");
  EXPECT_EQ(refusal(transpose_text("f32", {3, 50}, {1, 0}), "transpose"), "t: 3x50 by 1,0 is 150 elements only");
  EXPECT_EQ(refusal("p = f32[60,90] parameter(0)\nROOT n = f32[60,90] negate(p)\n", "transpose"),
            "no transpose stands behind a root by operators that keep places");
}

RC_GTEST_PROP(TransposeEmitter, RandomPermutations, ()) {
  const int rank = *rc::gen::inRange(2, 7);
  std::vector<int> order(static_cast<size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  order = *rc::gen::map(rc::gen::container<std::vector<int>>(order.size(), rc::gen::arbitrary<int>()),
                        [order](const std::vector<int>& keys) {
                          std::vector<int> sorted = order;
                          std::stable_sort(sorted.begin(), sorted.end(), [&](int a, int b) {
                            return keys[static_cast<size_t>(a)] < keys[static_cast<size_t>(b)];
                          });
                          return sorted;
                        });
  std::vector<int64_t> dims;
  int64_t left = 6000;
  for (int i = 0; i < rank; ++i) {
    dims.push_back(*rc::gen::inRange<int64_t>(1, std::clamp<int64_t>(left, 2, 90)));
    left /= dims.back();
  }
  const auto type = *rc::gen::element<std::string>("pred", "s8", "bf16", "f32", "f64", "c128");
  const auto module = hlo::parse_module("HloModule m\nfused {\n" + transpose_text(type, dims, order) + "}\n");
  RC_ASSERT(module.has_value());
  EmitOptions options;
  options.only = "transpose";
  const auto kernel = emit_fusion(**module, (*module)->entry, "fused", options);
  RC_CLASSIFY(kernel.has_value(), "taken");
  if (!kernel) {
    RC_ASSERT(kernel.error().code == ErrorCode::Unsupported);
    RC_ASSERT(kernel.error().message.find("internal error") == std::string::npos);
    return;
  }
  check(transpose_text(type, dims, order), "transpose");
}

TEST(ConcatenateEmitter, OperandsOfAllSizes) {
  check(R"(
  x = f32[33,64] parameter(0)
  y = f32[33,96] parameter(1)
  a = f32[33,64] add(x, x)
  c = f32[33,160] concatenate(a, y), dimensions={1}
  ROOT n = f32[33,160] negate(c)
)",
        "concatenate");
  check(R"(
  x = bf16[7,5,3] parameter(0)
  y = bf16[7,0,3] parameter(1)
  z = bf16[7,1,3] parameter(2)
  ROOT c = bf16[7,11,3] concatenate(x, y, z, x), dimensions={1}
)",
        "concatenate");
  check(R"(
  x = s8[100]{0} parameter(0)
  y = s8[28]{0} parameter(1)
  ROOT c = s8[128]{0} concatenate(x, y), dimensions={0}
)",
        "concatenate");
}

TEST(ConcatenateEmitter, LayoutsEpiloguesAndOtherResults) {
  check(R"(
  x = f32[20,30]{0,1} parameter(0)
  y = f32[20,10]{1,0} parameter(1)
  b = f32[40] parameter(2)
  c = f32[20,40]{1,0} concatenate(x, y), dimensions={1}
  w = f32[20,40]{1,0} broadcast(b), dimensions={1}
  a = f32[20,40]{1,0} add(c, w)
  r = f32[800] reshape(a)
  d = f32[20,40]{1,0} concatenate(y, x), dimensions={1}
  n = f32[20,30]{0,1} negate(x)
  ROOT out = (f32[800], f32[20,40]{1,0}, f32[20,30]{0,1}) tuple(r, c, n)
)",
        "concatenate");
}

TEST(ConcatenateEmitter, Refusals) {
  std::string body = "x = f32[4] parameter(0)\nROOT c = f32[280] concatenate(x";
  for (int i = 1; i < 70; ++i) body += ", x";
  EXPECT_EQ(refusal(body + "), dimensions={0}\n", "concatenate"),
            "c has 70 operands, each of which would be a loop of its own");
}

TEST(InputSlicesEmitter, OverlappingAndStrided) {
  check(R"(
  x = f32[64,48] parameter(0)
  a = f32[64,48] negate(x)
  s = f32[64,32] slice(a), slice={[0:64],[0:32]}
  t = f32[60,12] slice(a), slice={[4:64],[16:40:2]}
  n = f32[60,12] multiply(t, t)
  u = f32[64,32] slice(x), slice={[0:64],[0:32]}
  v = f32[64,32] add(s, u)
  r = f32[720] reshape(n)
  ROOT out = (f32[64,32], f32[720]) tuple(v, r)
)",
        "input slices");
}

TEST(InputSlicesEmitter, Refusals) {
  EXPECT_EQ(refusal(R"(
  x = f32[64,48] parameter(0)
  s = f32[64,3] slice(x), slice={[0:64],[0:3]}
  t = f32[64,2] slice(x), slice={[0:64],[9:11]}
  ROOT out = (f32[64,3], f32[64,2]) tuple(s, t)
)",
                    "input slices"),
            "320 elements of 3072 are written: most would be computed in vain");
  EXPECT_EQ(refusal(R"(
  x = f32[64,48] parameter(0)
  s = f32[64,30] slice(x), slice={[0:64],[0:30]}
  t = f32[64,30] slice(x), slice={[0:64],[18:48]}
  a = f32[64,30] add(s, t)
  ROOT out = (f32[64,30], f32[64,30]) tuple(s, a)
)",
                    "input slices"),
            "t and s are different parts of what is sliced");
}

}  // namespace
}  // namespace strata::emitters
