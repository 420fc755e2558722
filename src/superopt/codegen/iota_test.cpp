// Tiles of iotas in generated code: each emitter computes them, from where the block and the iteration are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/validate.h"
#include "superopt/codegen/test_host.h"
#include "test_paths.h"

namespace strata {
namespace {

using testing::HasSubstr;

/// The largest difference of the generated code from the interpreter, on the host; `emitter` stands in its text.
double difference(const Graph& graph, const std::string& emitter, const Schedules& schedules = {}) {
  const auto valid = validate(graph, targets().back());
  EXPECT_TRUE(valid) << valid.error().to_string();
  const auto program = generate_cuda(graph, targets().back(), schedules);
  EXPECT_TRUE(program) << program.error().to_string();
  if (!program) return 1;
  EXPECT_THAT(program->source, HasSubstr(emitter));
  EXPECT_EQ(program->inputs.size(), graph.arguments().size());
  const auto [found, expected] = host_outputs(graph, *program, uniform_inputs(graph, 0.25, 1.25, 7), kPlainHost);
  double most = expected.empty() ? 1 : 0;
  for (size_t n = 0; n < expected.size(); ++n) {
    for (int64_t i = 0; i < expected[n].size(); ++i) {
      if (!std::isfinite(found[n][i])) return 1;
      most = std::max(most, std::fabs(found[n][i] - expected[n][i]));
    }
  }
  return most;
}

GraphPtr parse(const std::string& text) {
  const auto graph = parse_graph(text);
  EXPECT_TRUE(graph) << graph.error().to_string();
  return *graph;
}

/// A tensor times an iota along each dimension, cut by the grid along each and by the loop along each or none.
std::string counting(std::string_view type) {
  constexpr std::array<int64_t, 3> kSizes{4, 8, 16};
  std::string inputs = fmt::format("  input A: {}[{}]\n", type, fmt::join(kSizes, ", ")), blocks, outputs;
  for (const int64_t dim : {0, 1, 2}) {
    // Rows have the same dimensions before the last as what they meet, or none.
    const std::array<int64_t, 3> shape = dim == 2 ? std::array<int64_t, 3>{1, 1, 16} : std::array<int64_t, 3>{4, 8, 1};
    inputs += fmt::format("  I{0} = iota(dim={0}, start=-3, step=2) : {1}[{2}]\n", dim, type, fmt::join(shape, ", "));
    for (const int64_t cut : {0, 1, 2}) {
      for (const int64_t fmap : {-1, 0, 1, 2}) {
        const auto of = [](int64_t d) { return d < 0 ? std::string("_") : fmt::format("{}", d); };
        const auto of_iota = [&](int64_t d) { return of(d < 0 || shape[static_cast<size_t>(d)] == 1 ? -1 : d); };
        const std::string name = fmt::format("{}{}{}", dim, cut, fmap + 1);
        blocks += fmt::format(
            "  B{0} = block(A, I{1}, grid=[2], loop=2) {{\n    a = in_iter(A, imap=[{2}], fmap={3})\n"
            "    i = in_iter(I{1}, imap=[{4}], fmap={5})\n    s = mul(a, i)\n    c = accum(s, kind={6})\n"
            "    B{0} = out_saver(c, omap=[{2}])\n  }}\n  D{0} = add(B{0}, I{1})\n",
            name, dim, cut, of(fmap), of_iota(cut), of_iota(fmap),
            fmap < 0 ? "sum" : fmt::format("concat, dim={}", fmap));
        outputs += fmt::format("{}D{}", outputs.empty() ? "" : ", ", name);
      }
    }
  }
  return fmt::format("graph counting {{\n{}{}  output {}\n}}\n", inputs, blocks, outputs);
}

TEST(Iota, TilesCountFromTheirPlace) {
  const GraphPtr graph = parse(counting("f32"));
  EXPECT_LE(difference(*graph, "no registers"), 1e-4);  // what concatenates
  const auto program = generate_cuda(*graph, targets().back());
  ASSERT_TRUE(program);
  for (const char* text : {"AlongColumns", "AlongSomeRows<8, ", "AlongSomeRows<1, "})
    EXPECT_THAT(program->source, HasSubstr(text));
  EXPECT_LE(difference(*parse(counting("f64")), "static_cast<double>("), 1e-12);
}

TEST(Iota, CausalAttentionLoadsNoMask) {
  const GraphPtr graph = parse(R"(graph causal {
  input Q: f16[2, 64, 32]
  input K: f16[2, 32, 64]
  input V: f16[2, 64, 32]
  I = iota(dim=0) : f16[64, 1]
  J = iota(dim=1) : f16[1, 64]
  B = iota(dim=0, start=-65504, step=0) : f16[1]
  O = block(Q, K, V, I, J, B, grid=[2, 2], loop=4) {
    q = in_iter(Q, imap=[0, 1])
    k = in_iter(K, imap=[0, _], fmap=2)
    v = in_iter(V, imap=[0, _], fmap=1)
    i = in_iter(I, imap=[_, 0])
    j = in_iter(J, imap=[_, _], fmap=1)
    b = in_iter(B, imap=[_, _])
    a = matmul(q, k)
    c = greater(j, i)
    x = select(c, b, a)
    m = reduce_max(x, dim=2)
    d = sub(x, m)
    e = exp(d)
    p = matmul(e, v)
    n = accum_rescale(p, m)
    s = sum(e, dim=2)
    t = accum_rescale(s, m)
    o = div(n, t)
    O = out_saver(o, omap=[0, 1])
  }
  output O
}
)");
  EXPECT_LE(difference(*graph, "// tiles: "), 4e-3);
  const Operation& op = graph->operations()[0];
  const auto schedules = block_schedules(op, operand_strides(*graph, op), targets().back());
  ASSERT_FALSE(schedules.empty());
  const auto bulk = std::find_if(schedules.begin(), schedules.end(), [](const auto& one) { return one.bulk; });
  ASSERT_NE(bulk, schedules.end());
  EXPECT_LE(difference(*graph, "counted<", {*bulk}), 4e-3);
  const auto program = generate_cuda(*graph, targets().back());
  ASSERT_TRUE(program);
  for (const KernelLaunch& launch : program->launches)
    EXPECT_EQ(launch.arguments, (std::vector<std::string>{"Q", "K", "V", "O"}));
  Passes slow;
  slow.registers = false;
  const auto plain = generate_cuda(*graph, targets().back(), {}, slow);
  ASSERT_TRUE(plain);
  const auto [found, expected] = host_outputs(*graph, *plain, uniform_inputs(*graph, -1, 1, 3), kSanitizedHost);
  ASSERT_EQ(found.size(), 1U);
  for (int64_t i = 0; i < found[0].size(); ++i) EXPECT_NEAR(found[0][i], expected[0][i], 4e-3);
}

}  // namespace
}  // namespace strata
