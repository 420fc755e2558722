// Block graphs that read tensors whose columns lie in pieces (ir/views.h): heads that become one row a token.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "runtime/storage.h"
#include "superopt/codegen/test_host.h"

namespace strata {
namespace {

/// Heads of 32 columns, three tokens each, as the left side of a product and as rows; tiles of 16 or 32 columns.
std::string heads(int loop) {
  return fmt::format(R"(graph g {{
  input A: bf16[4, 3, 32]
  input W: bf16[128, 64]
  input B: bf16[4, 3, 32]
  T = transpose(A, perm=[1, 0, 2])
  X = reshape(T, shape=[3, 128])
  O = block(X, W, grid=[2], loop={0}) {{
    x = in_iter(X, imap=[_], fmap=1)
    w = in_iter(W, imap=[1], fmap=0)
    p = matmul(x, w)
    s = accum(p, kind=sum)
    O = out_saver(s, omap=[1])
  }}
  S = transpose(B, perm=[1, 0, 2])
  Y = reshape(S, shape=[3, 128])
  R = block(Y, grid=[3], loop={0}) {{
    y = in_iter(Y, imap=[0], fmap=1)
    q = sqr(y)
    u = sum(q, dim=1)
    v = accum(u, kind=sum)
    R = out_saver(v, omap=[0])
  }}
  output O, R
}})",
                     loop);
}

TEST(Folds, AreReadBySchedulesOfAllKinds) {
  const Target& target = **find_target("sm_90a");
  for (const int loop : {4, 8}) {
    auto graph = parse_graph(heads(loop));
    ASSERT_TRUE(graph) << graph.error().to_string();
    std::vector<Schedules> all(3, Schedules(3));
    all[0][2] = BlockSchedule{.stages = 2, .bulk = true};
    all[1][2] = BlockSchedule{.loop_warps = 2, .stages = 2};
    for (size_t i = 0; i < all.size(); ++i) {
      Passes passes;
      passes.registers = i < 2;
      passes.grouping = false;
      const auto program = generate_cuda(**graph, target, all[i], passes);
      ASSERT_TRUE(program) << program.error().to_string();
      // Nobody writes the rows.
      ASSERT_EQ(program->launches.size(), 2U);
      EXPECT_EQ(program->launches[0].arguments, (std::vector<std::string>{"A", "W", "O"}));
      EXPECT_EQ(program->launches[0].tensor_maps.size(), i == 0 ? 2U : 0U);
      const HostOutputs outputs = host_outputs(**graph, *program, uniform_inputs(**graph, -1, 1, 7), kPlainHost);
      ASSERT_EQ(outputs.expected.size(), 2U);
      for (size_t o = 0; o < 2; ++o) EXPECT_LT(relative_error(outputs.found[o], outputs.expected[o]), 1e-2) << i;
    }
  }
}

}  // namespace
}  // namespace strata
