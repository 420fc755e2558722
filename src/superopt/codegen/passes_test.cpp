// Code is right with any pass turned off, and different where the pass has something to do.
#include "superopt/codegen/passes.h"

#include <gmock/gmock.h>

#include "runtime/storage.h"
#include "superopt/codegen/test_host.h"

namespace strata {
namespace {

constexpr const char* kTokens = R"(graph tokens {
  input X: f16[8, 64]
  input W: f16[64, 128]
  input G: f16[128]
  P = block(X, W, grid=[2], loop=4) {
    x = in_iter(X, imap=[_], fmap=1)
    w = in_iter(W, imap=[1], fmap=0)
    p = matmul(x, w)
    s = accum(p, kind=sum)
    P = out_saver(s, omap=[1])
  }
  O = block(P, G, grid=[8]) {
    q = in_iter(P, imap=[0])
    g = in_iter(G, imap=[_])
    m = reduce_max(q, dim=1)
    d = sub(q, m)
    e = exp(d)
    o = mul(e, g)
    O = out_saver(o, omap=[0])
  }
  output O
})";

const Target& target() { return targets().back(); }

class PassOff : public testing::TestWithParam<NamedPass> {};

TEST_P(PassOff, LeavesCodeRight) {
  const GraphPtr graph = *parse_graph(kTokens);
  Passes passes;
  passes.*GetParam().on = false;
  const auto program = generate_cuda(*graph, target(), {}, passes);
  ASSERT_TRUE(program) << program.error().to_string();
  const auto inputs = uniform_inputs(*graph, -1, 1, 7);
  const HostOutputs outputs = host_outputs(*graph, *program, inputs, kPlainHost);
  ASSERT_EQ(outputs.found.size(), 1U);
  EXPECT_LT(relative_error(outputs.found[0], outputs.expected[0]), 2e-3);
}

INSTANTIATE_TEST_SUITE_P(Each, PassOff, testing::ValuesIn(kPasses), [](const auto& test) {
  std::string name(test.param.name);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(Passes, ChangeWhatTheyAreFor) {
  const GraphPtr graph = *parse_graph(kTokens);
  const auto with = [&](const Passes& passes) { return *generate_cuda(*graph, target(), {}, passes); };
  const GeneratedProgram all = with({});
  EXPECT_THAT(all.source, testing::HasSubstr("// tiles:"));
  EXPECT_THAT(all.source, testing::HasSubstr("// rows:"));
  EXPECT_THAT(with({.registers = false}).source, testing::Not(testing::HasSubstr("// tiles:")));
  EXPECT_NE(with({.schedules = false}).source, all.source);
  const int64_t shared = with({.registers = false}).launches[1].shared_bytes;
  EXPECT_LT(shared, with({.registers = false, .memory_plan = false}).launches[1].shared_bytes);
  EXPECT_TRUE(all.launches[0].overlaps_previous);
  EXPECT_FALSE(with({.overlap = false}).launches[0].overlaps_previous);
}

TEST(Passes, LayoutsLetEightTokensBeColumns) {
  // They fill the 8 columns of an instruction, and half of its 16 rows.
  const GraphPtr graph = *parse_graph(
      "graph g {\n input A: f16[8, 4096]\n input B: f16[4096, 8192]\n C = block(A, B, grid=[128], loop=64) {\n"
      "  a = in_iter(A, imap=[_], fmap=1)\n  b = in_iter(B, imap=[1], fmap=0)\n  p = matmul(a, b)\n"
      "  s = accum(p, kind=sum)\n  C = out_saver(s, omap=[1])\n }\n output C\n}\n");
  EXPECT_NE(generate_cuda(*graph, target(), {}, {.layouts = false})->source, generate_cuda(*graph, target())->source);
}

}  // namespace
}  // namespace strata
