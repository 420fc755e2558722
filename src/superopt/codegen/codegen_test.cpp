#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "ir/validate.h"
#include "runtime/compile.h"
#include "superopt/codegen/test_host.h"
#include "support/test_rounds.h"
#include "test_paths.h"

namespace strata {
namespace {

GraphPtr parse(const std::string& text) {
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph) << graph.error().to_string();
  if (!graph) return nullptr;
  auto valid = validate(**graph, targets().back());
  EXPECT_TRUE(valid) << valid.error().to_string();
  return *graph;
}

double tolerance(DType type) {
  switch (type) {
    case DType::F16:
      return 4e-3;
    case DType::BF16:
      return 3e-2;
    case DType::F32:
      return 1e-5;
    case DType::F64:
      return 1e-12;
  }
  return 0;
}

/// The generated code, compiled for the host, agrees with the interpreter in float64.
void expect_agreement(const GraphPtr& graph, const HostCompiler& compiler) {
  ASSERT_TRUE(graph);
  auto program = generate_cuda(*graph, targets().back());
  ASSERT_TRUE(program) << program.error().to_string();
  // Positive, so that roots and quotients are tame.
  const auto [found, expected] = host_outputs(*graph, *program, uniform_inputs(*graph, 0.25, 1.25, 7), compiler);
  for (size_t n = 0; n < expected.size(); ++n) {
    double difference = 0;
    double magnitude = 0;
    for (int64_t i = 0; i < expected[n].size(); ++i) {
      ASSERT_TRUE(std::isfinite(found[n][i])) << "element " << i << " of\n" << print(*graph);
      difference = std::max(difference, std::fabs(found[n][i] - expected[n][i]));
      magnitude = std::max(magnitude, std::fabs(expected[n][i]));
    }
    EXPECT_LE(difference, tolerance(graph->type(graph->outputs()[n]).dtype) * magnitude) << print(*graph);
  }
}

/// Everything that a block graph may hold, at odd sizes.
std::string every_operator(std::string_view type) {
  return fmt::format(R"(graph every_operator {{
  input A: {0}[3, 6, 10]
  input B: {0}[3, 10, 14]
  input C: {0}[6, 1]
  O, P = block(A, B, C, grid=[3, 2], loop=5) {{
    a = in_iter(A, imap=[0, 1], fmap=2)
    b = in_iter(B, imap=[0, _], fmap=1)
    c = in_iter(C, imap=[_, 0])
    p = matmul(a, b)
    q = concat_matmul(a, a, b, b)
    acc = accum(p, kind=sum)
    acc2 = accum(q, kind=max)
    am = reduce_max(a, dim=2)
    ar = accum_rescale(p, am)
    s = sum(a, dim=2)
    t = accum(s, kind=concat, dim=2)
    m = reduce_max(t, dim=2)
    cc = accum(c, kind=max)
    h = sum(acc, dim=2, every=7)
    r = repeat(m, dim=2, times=14)
    w = concat(acc, r, dim=2)
    v = reshape(w, shape=[3, 28])
    x = transpose(v, perm=[1, 0])
    f = thread(acc2, cc, m, threads=96) {{
      acc2_r = in_iter(acc2)
      cc_r = in_iter(cc)
      m_r = in_iter(m)
      e1 = rsqrt(acc2_r)
      e2 = mul(e1, cc_r)
      e3 = silu(e2)
      e4 = max(e3, m_r)
      e5 = scale(e4, factor=-3/8)
      e6 = exp(e5)
      out = out_saver(e6)
    }}
    g = sqrt(h)
    k = sub(f, m)
    l = div(k, m)
    d = sqr(l)
    u = sum(d, dim=2)
    ars = sum(ar, dim=2)
    ucc = add(u, cc)
    y = add(ucc, ars)
    yy = sum(g, dim=2)
    z = mul(y, yy)
    O = out_saver(x, omap=[1, 0])
    P = out_saver(z, omap=[0, 1])
  }}
  Q = rsqrt(P)
  R = transpose(Q, perm=[2, 1, 0])
  output O, R
}}
)",
                     type);
}

class HostAgreement : public testing::TestWithParam<const char*> {};

TEST_P(HostAgreement, EveryOperatorUnderAddressSanitizer) {
  expect_agreement(parse(every_operator(GetParam())), kSanitizedHost);
}
INSTANTIATE_TEST_SUITE_P(Types, HostAgreement, testing::Values("f16", "bf16", "f32", "f64"));

/// Sizes that fill no fragment of the tensor cores' instruction, a broadcast batch, more tiles than warps.
const char* const kHalfProducts = R"(graph products {{
  input A: {0}[2, 33, 40]
  input B: {0}[40, 20]
  input C: {0}[2, 33, 17]
  input D: {0}[2, 17, 20]
  O, P = block(A, B, C, D, grid=[1], loop=2) {{
    a = in_iter(A, imap=[_], fmap=2)
    b = in_iter(B, imap=[_], fmap=0)
    c = in_iter(C, imap=[_])
    d = in_iter(D, imap=[_])
    p = matmul(a, b)
    q = concat_matmul(c, a, d, b)
    s = accum(p, kind=sum)
    t = accum(q, kind=sum)
    O = out_saver(s, omap=[0])
    P = out_saver(t, omap=[0])
  }}
  output O, P
}}
)";

TEST(Codegen, ProductsOfTilesUseTheTensorCores) {
  for (const std::string type : {"f16", "bf16"}) {
    const GraphPtr graph = parse(fmt::format(fmt::runtime(kHalfProducts), type));
    expect_agreement(graph, kSanitizedHost);
    const auto program = generate_cuda(*graph, targets().front());
    ASSERT_TRUE(program) << program.error().to_string();
    const auto cubin = compile_cubin(program->source, targets().front());
    EXPECT_TRUE(cubin) << cubin.error().to_string();
  }
}

/// Operators of the kernel level alone, of three operands, and those that Lax programs lack.
TEST(Codegen, ConvolutionComparisonAndChoice) {
  for (const char* type : {"f16", "bf16", "f32", "f64"}) {
    expect_agreement(parse(fmt::format(R"(graph more {{
  input X: {0}[2, 3, 7, 5]
  input Z: {0}[2, 3, 7, 5]
  input W: {0}[4, 3, 3, 2]
  C = conv2d(X, W, stride=2, padding=1)
  D = conv2d(X, W)
  G = greater(X, Z)
  S = select(G, X, Z)
  E = gelu(S)
  F = block(X, Z, grid=[2]) {{
    x = in_iter(X, imap=[0])
    z = in_iter(Z, imap=[0])
    t = thread(x, z, threads=64) {{
      xr = in_iter(x)
      zr = in_iter(z)
      g = greater(zr, xr)
      n = gelu(zr)
      s = select(g, n, xr)
      out = out_saver(s)
    }}
    u = greater(t, x)
    v = select(u, t, z)
    F = out_saver(v, omap=[0])
  }}
  output C, D, E, F
}}
)",
                                       type)),
                     kSanitizedHost);
  }
}

TEST(Codegen, NamesOfCxxAreNoTrouble) {
  expect_agreement(parse(R"(graph float {
  input double: f32[2, 3]
  input x: f32[2, 3]
  int = block(double, x, grid=[2]) {
    shared = in_iter(double, imap=[0])
    i = in_iter(x, imap=[0])
    value = add(shared, i)
    block_x = out_saver(value, omap=[0])
  }
  sum = sum(int, dim=1)
  output sum, int
}
)"),
                   kSanitizedHost);
}

/// Names of the generated functions, of their variables, and of macros of the headers.
const char* const kUnluckyNames = R"(graph g {
  input shared_memory: f32[2, 3]
  input g_0: f32[2, 3]
  input g_0_kernel: f32[2, 3]
  input thread: f32[2, 3]
  M_PI = block(shared_memory, g_0, grid=[2]) {
    a = in_iter(shared_memory, imap=[0])
    b = in_iter(g_0, imap=[0])
    INFINITY = add(a, b)
    M_PI = out_saver(INFINITY, omap=[0])
  }
  linux = mul(M_PI, g_0_kernel)
  g_2 = mul(linux, thread)
  CHAR_BIT = sum(g_2, dim=1)
  output CHAR_BIT, thread
}
)";

TEST(Codegen, NamesOfFunctionsAndMacrosAreNoTrouble) {
  const GraphPtr graph = parse(kUnluckyNames);
  expect_agreement(graph, kSanitizedHost);
  const auto program = generate_cuda(*graph, targets().back());
  ASSERT_TRUE(program) << program.error().to_string();
  const auto cubin = compile_cubin(program->source, targets().back());
  EXPECT_TRUE(cubin) << cubin.error().to_string();
}

TEST(Codegen, ManifestListsABufferOnce) {
  const auto program = generate_cuda(*parse(kUnluckyNames), targets().back());
  ASSERT_TRUE(program) << program.error().to_string();
  const std::string manifest = launch_manifest(*program);
  const size_t first = manifest.find("\"name\": \"thread\"");
  ASSERT_NE(first, std::string::npos) << manifest;
  EXPECT_EQ(manifest.find("\"name\": \"thread\"", first + 1), std::string::npos) << manifest;
}

TEST(Codegen, PredefinedOperatorsOfAllPrograms) {
  // At small shapes: the real ones take minutes on a host.
  expect_agreement(parse(R"(graph attention {
  input Q: f16[2, 5, 4]
  input K: f16[2, 4, 9]
  input V: f16[2, 9, 4]
  input W: f16[4, 6]
  input B: f16[1, 6]
  Q2 = sqr(Q)
  QS = sum(Q2, dim=2)
  QM = scale(QS, factor=1/4)
  QR = rsqrt(QM)
  QN = mul(Q, QR)
  A = matmul(QN, K)
  E = exp(A)
  S = sum(E, dim=2)
  D = div(E, S)
  O = matmul(D, V)
  P = concat_matmul(O, Q, W, W)
  R = reshape(P, shape=[10, 6])
  T = repeat(B, dim=0, times=10)
  U = concat(R, T, dim=1)
  M = reduce_max(U, dim=1, every=4)
  output M
}
)"),
                   kSanitizedHost);
}

TEST(Codegen, EveryScheduleBecomesACubin) {
  const auto graph = load_graph(std::string(STRATA_SOURCE_DIR) + "/tests/data/lora_low_rank.strata");
  ASSERT_TRUE(graph) << graph.error().to_string();
  const Target& target = targets().back();
  const Operation& op = (*graph)->operations()[0];
  const auto schedules = block_schedules(op, operand_strides(**graph, op), target);
  // Not every round: those from all over the list.
  const size_t apart = rounds(4) == 4 ? 1 : 3;
  ASSERT_GT(schedules.size(), apart);
  for (size_t i = 0; i < schedules.size(); i += apart) {
    const BlockSchedule& schedule = schedules[i];
    const auto program = generate_cuda(**graph, target, {schedule});
    ASSERT_TRUE(program) << program.error().to_string();
    const auto cubin = compile_cubin(program->source, target);
    EXPECT_TRUE(cubin) << cubin.error().to_string();
  }
}

TEST(Codegen, EveryGraphBecomesACubinForEveryTarget) {
  std::vector<GraphPtr> graphs;
  for (const char* type : {"f16", "bf16", "f32", "f64"}) graphs.push_back(parse(every_operator(type)));
  for (const char* folder : {"/programs", "/tests/data"}) {
    for (const auto& entry : std::filesystem::directory_iterator(std::string(STRATA_SOURCE_DIR) + folder)) {
      if (entry.path().extension() != ".strata") continue;
      auto graph = load_graph(entry.path().string());
      ASSERT_TRUE(graph) << graph.error().to_string();
      graphs.push_back(*graph);
    }
  }
  int compiled = 0;
  for (size_t i = 0; i < graphs.size(); ++i) {
    const GraphPtr& graph = graphs[i];
    for (const Target& target : targets()) {
      // All operators for every target; the others for the one that is measured, unless all rounds are run.
      if (i >= 4 && rounds(2) != 2 && &target != &default_target()) continue;
      if (!validate(*graph, target)) continue;  // made for a larger shared memory
      auto program = generate_cuda(*graph, target);
      ASSERT_TRUE(program) << program.error().to_string();
      auto cubin = compile_cubin(program->source, target);
      ASSERT_TRUE(cubin) << cubin.error().to_string();
      EXPECT_EQ(std::string(cubin->data() + 1, 3), "ELF");
      ++compiled;
    }
  }
  EXPECT_GE(compiled, 24);
}

TEST(Codegen, CompilerErrorsComeBackWithTheLog) {
  auto cubin = compile_cubin("this is not CUDA", targets().back());
  ASSERT_FALSE(cubin);
  EXPECT_NE(cubin.error().message.find("error"), std::string::npos) << cubin.error().to_string();
}

}  // namespace
}  // namespace strata
