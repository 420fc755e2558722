#include "interpret/interpret.h"

#include <gtest/gtest.h>

#include <chrono>
#include <stop_token>
#include <thread>

#include "interpret/liveness.h"
#include "interpret/pieces.h"
#include "interpret/work.h"
#include "ir/text.h"
#include "support/random.h"

namespace strata {
namespace {

GraphPtr graph_of(const char* text) {
  auto graph = parse_graph(text);
  if (!graph) {
    ADD_FAILURE() << graph.error().to_string();
    std::abort();
  }
  return *graph;
}

const char* const kAttention = R"(graph g {
  input Q: f16[4, 2]
  input K: f16[2, 6]
  input V: f16[6, 2]
  N = sqr(Q)
  S = sum(N, dim=1)
  R = rsqrt(S)
  QN = mul(Q, R)
  O = block(QN, K, V, grid=[2], loop=3) {
    q = in_iter(QN, imap=[0])
    k = in_iter(K, imap=[_], fmap=1)
    v = in_iter(V, imap=[_], fmap=0)
    a = matmul(q, k)
    e = exp(a)
    p = matmul(e, v)
    n = accum(p, kind=sum)
    s = sum(e, dim=1)
    d = accum(s, kind=sum)
    o = div(n, d)
    O = out_saver(o, omap=[0])
  }
  output O
})";

std::vector<Tensor<FieldArithmetic::Value>> draw(const Graph& graph, const FieldArithmetic& field, uint64_t seed) {
  Random random(seed);
  std::vector<Tensor<FieldArithmetic::Value>> inputs;
  for (TensorId id : graph.inputs()) {
    auto& input = inputs.emplace_back(graph.type(id).shape);
    for (auto& value : input.data) {
      value = {field.fp.from_integer(random()), field.fq.from_integer(random())};
    }
  }
  return inputs;
}

TEST(Execute, ComputesTheWantedResidueOfTheFullComputation) {
  const PrimeField fp(kVerifierPrimes.p);
  const FieldArithmetic field{fp, PrimeField(kVerifierPrimes.q), fp.pow(fp.from_integer(17), 2), 1};
  for (const char* text : {kAttention, "graph g {\n input x: f32[5]\n a = silu(x)\n b = mul(a, x)\n output b }",
                           "graph g {\n input x: f32[5]\n input y: f32[5]\n a = max(x, y)\n e = exp(a)\n output e }"}) {
    const GraphPtr graph = graph_of(text);
    const auto inputs = draw(*graph, field, 1);
    FieldArithmetic all = field;
    FieldArithmetic some = field;
    some.wanted = FieldArithmetic::kResidueP;
    const auto expected = execute(*graph, all, inputs);
    const auto found = execute(*graph, some, inputs);
    ASSERT_TRUE(expected && found);
    for (size_t i = 0; i < expected->front().data.size(); ++i) {
      EXPECT_EQ(expected->front().data[i].p, found->front().data[i].p);
      EXPECT_NE(found->front().data[i].p, 0u);
    }
  }
}

TEST(Work, CountsProductsAndEveryRunOfABlock) {
  EXPECT_EQ(execution_work(*graph_of("graph g {\n input A: f16[4, 8]\n input B: f16[8, 16]\n C = matmul(A, B)\n"
                                     " D = exp(C)\n output D\n}")),
            4 * 8 * 16 + 4 * 16);
  EXPECT_EQ(execution_work(*graph_of("graph g {\n input A: f16[1, 2, 5, 5]\n input B: f16[3, 2, 3, 3]\n"
                                     " C = conv2d(A, B)\n output C\n}")),
            3 * 3 * 3 * 2 * 9);
  // Two blocks of four iterations: tiles of 4 × 2, read again by the sums, and four sums to accumulate and save.
  EXPECT_EQ(execution_work(*graph_of("graph g {\n input A: f16[8, 8]\n C = block(A, grid=[2], loop=4) {\n"
                                     "  a = in_iter(A, imap=[0], fmap=1)\n  s = sum(a, dim=1)\n"
                                     "  t = accum(s, kind=sum)\n  C = out_saver(t, omap=[0])\n }\n output C\n}")),
            2 * 4 * (8 + 8 + 4 + 4));
}

TEST(Liveness, StopsAtExponentials) {
  const GraphPtr graph = graph_of(kAttention);
  const ResidueLiveness live = residue_liveness(*graph, FieldArithmetic::kResidueP);
  const auto of = [&](const char* name) {
    return live.at(graph.get())[static_cast<size_t>(*graph->find_tensor(name))];
  };
  EXPECT_EQ(of("Q"), FieldArithmetic::kResidueQ);
  EXPECT_EQ(of("K"), FieldArithmetic::kResidueQ);
  EXPECT_EQ(of("V"), FieldArithmetic::kResidueP);
  EXPECT_EQ(of("O"), FieldArithmetic::kResidueP);
}

TEST(Execute, RunsBlocksAsTheirFormula) {
  const GraphPtr fused = graph_of(kAttention);
  const GraphPtr plain = graph_of(R"(graph g {
    input Q: f16[4, 2]
    input K: f16[2, 6]
    input V: f16[6, 2]
    N = sqr(Q)
    S = sum(N, dim=1)
    R = rsqrt(S)
    QN = mul(Q, R)
    A = matmul(QN, K)
    E = exp(A)
    T = sum(E, dim=1)
    P = matmul(E, V)
    O = div(P, T)
    output O
  })");
  Random random(4);
  std::vector<Tensor<double>> inputs;
  for (TensorId id : plain->inputs()) {
    for (double& x : inputs.emplace_back(plain->type(id).shape).data) x = random.uniform(-1, 1);
  }
  Float64Arithmetic arithmetic;
  const auto expected = execute(*plain, arithmetic, inputs);
  const auto found = execute(*fused, arithmetic, inputs);
  ASSERT_TRUE(expected && found);
  for (size_t i = 0; i < 8; ++i) EXPECT_NEAR(expected->front().data[i], found->front().data[i], 1e-14);
  // With rounded storage the result is a half-precision number, and the inputs stay as they were.
  Float64Arithmetic rounding{true};
  const auto before = inputs[0].data;
  const auto rounded = execute_all(*fused, rounding, inputs);
  ASSERT_TRUE(rounded);
  EXPECT_EQ(inputs[0].data, before);
  for (double x : rounded->back().data) EXPECT_EQ(x, round_to(x, DType::F16));
  EXPECT_NE(rounded->front().data, before);
}

/// Large enough for pieces: along outer and inner dimensions, with operands that broadcast, are regrouped or read
/// whole.
// Of a tile, the block and the iteration decide where it begins; two dimensions of the grid may cut one.
TEST(Execute, TilesOfIotasCountFromTheirPlace) {
  const GraphPtr graph = graph_of(R"(graph g {
  input A: f32[24, 2]
  I = iota(dim=0, start=5, step=-3) : f32[24, 1]
  B = block(A, I, grid=[2, 3], loop=2) {
    a = in_iter(A, imap=[0, 0], fmap=0)
    i = in_iter(I, imap=[0, 0], fmap=0)
    s = add(a, i)
    c = accum(s, kind=concat, dim=0)
    B = out_saver(c, omap=[0, 0])
  }
  output B
})");
  Random random(3);
  Tensor<double> a({24, 2});
  for (double& x : a.data) x = random.uniform(-1, 1);
  Float64Arithmetic exact;
  const auto all = execute(*graph, exact, {a, Tensor<double>({24, 1})});  // what stands for the iota is not read
  const auto found = execute(*graph, exact, {a});
  ASSERT_TRUE(found && all);
  EXPECT_EQ(found->front().data, all->front().data);
  for (int64_t n = 0; n < 48; ++n) EXPECT_EQ(found->front()[n], a[n] + static_cast<double>(5 - 3 * (n / 2))) << n;
  EXPECT_FALSE(execute(*graph, exact, {}));
}

TEST(Pieces, GiveWhatTheWholeGives) {
  for (const char* text : {
           "graph g { input x: f32[700, 600]\n input r: f32[600]\n input c: f32[700, 1]\n a = mul(x, r)\n b = add(a, "
           "c)\n"
           " d = sub(c, b)\n y = max(x, d)\n output y }",
           "graph g { input x: f32[1, 300000]\n y = scale(x, factor=3)\n output y }",
           "graph g { input x: f32[300000]\n y = exp(x)\n z = select(x, y, x)\n output z }",
           "graph g { input x: f32[600, 700]\n y = sum(x, dim=0)\n z = reduce_max(x, dim=1)\n w = add(y, z)\n output w "
           "}",
           "graph g { input x: f32[600, 700]\n y = sum(x, dim=1, every=7)\n output y }",
           "graph g { input x: f32[300, 256]\n t = transpose(x, perm=[1, 0])\n y = matmul(t, x)\n output y }",
           "graph g { input x: f32[6, 300, 200]\n y = reshape(x, shape=[6, 60000])\n r = repeat(y, dim=0, times=2)\n"
           " c = concat(r, r, dim=1)\n s = slice(c, dim=1, start=5, size=70000)\n output s }",
           "graph g { input x: f32[9, 3, 90, 90]\n input w: f32[4, 3, 3, 3]\n y = conv2d(x, w)\n output y }",
       }) {
    const GraphPtr graph = graph_of(text);
    const bool cut = std::any_of(graph->operations().begin(), graph->operations().end(),
                                 [&](const Operation& op) { return pieces_of(*graph, op).has_value(); });
    EXPECT_TRUE(cut) << text;
    Random random(7);
    std::vector<Tensor<double>> inputs;
    for (TensorId id : graph->inputs()) {
      for (double& x : inputs.emplace_back(graph->type(id).shape).data) x = random.uniform(-1, 1);
    }
    Float64Arithmetic arithmetic;
    const auto whole = execute(*graph, arithmetic, inputs);
    std::stop_source never;
    const auto in_pieces = execute(*graph, arithmetic, inputs, never.get_token());
    ASSERT_TRUE(whole && in_pieces) << text;
    for (size_t o = 0; o < whole->size(); ++o) EXPECT_EQ((*whole)[o].data, (*in_pieces)[o].data) << text;
  }
}

TEST(Pieces, AreOfWhatIsLargeAndHasADimensionOfItsOwn) {
  const auto pieces = [](const char* text) {
    const GraphPtr graph = graph_of(text);
    return pieces_of(*graph, graph->operations().back());
  };
  EXPECT_FALSE(pieces("graph g { input x: f32[30, 40]\n y = exp(x)\n output y }"));
  EXPECT_FALSE(pieces("graph g { input x: f32[300000]\n y = sum(x, dim=0)\n output y }"));
  const auto rows = pieces("graph g { input x: f32[4096, 1024]\n y = exp(x)\n output y }");
  ASSERT_TRUE(rows);
  EXPECT_EQ(rows->dim, 0);
  EXPECT_EQ(rows->size, 128);
  // No operand has the rows of the result.
  const auto columns = pieces("graph g { input x: f32[8, 100000]\n y = repeat(x, dim=0, times=8)\n output y }");
  ASSERT_TRUE(columns);
  EXPECT_EQ(columns->dim, 1);
}

/// One operation of some seconds is stopped inside.
TEST(Interpret, StopsInTheMiddleOfAnOperation) {
  const GraphPtr graph = graph_of("graph g { input x: f32[2048, 4096]\n y = gelu(x)\n output y }");
  FieldArithmetic field(PrimeField(kVerifierPrimes.p), PrimeField(kVerifierPrimes.q), 1, 1);
  const std::vector<Tensor<FieldArithmetic::Value>> inputs{Tensor<FieldArithmetic::Value>(Shape{2048, 4096})};
  std::stop_source source;
  std::chrono::steady_clock::time_point asked;
  const std::jthread stopper([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    asked = std::chrono::steady_clock::now();
    source.request_stop();
  });
  const auto result = execute(*graph, field, inputs, source.get_token());
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::Interrupted);
  // A piece is some hundredths of a second; all of it takes more than the allowed time.
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - asked).count(), 2);
}

/// Whenever the stop comes, execution ends with the outputs or says that it was stopped.
TEST(Interpret, StopsInTheMiddleOfThreadGraphs) {
  const GraphPtr graph = graph_of(R"(graph g {
  input A: f32[512, 8]
  O = block(A, grid=[512]) {
    a = in_iter(A, imap=[0])
    t = thread(a, threads=128) {
      x = in_iter(a)
      b = sqr(x)
      c = exp(b)
      d = add(c, b)
      t = out_saver(d)
    }
    O = out_saver(t, omap=[0])
  }
  output O
}
)");
  const std::vector<Tensor<double>> inputs{Tensor<double>({512, 8})};
  for (int delay = 0; delay < 200; ++delay) {
    std::stop_source source;
    const std::jthread stopper([&source, delay] {
      std::this_thread::sleep_for(std::chrono::microseconds(5 * delay));
      source.request_stop();
    });
    Float64Arithmetic arithmetic;
    const auto outputs = execute(*graph, arithmetic, inputs, source.get_token());
    if (outputs) {
      EXPECT_EQ((*outputs)[0].data.size(), 4096U);
    } else {
      EXPECT_EQ(outputs.error().code, ErrorCode::Interrupted);
    }
  }
}

}  // namespace
}  // namespace strata
