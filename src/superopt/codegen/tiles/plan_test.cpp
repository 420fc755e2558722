#include "superopt/codegen/tiles/plan.h"

#include <gtest/gtest.h>

#include "ir/text.h"
#include "runtime/compile.h"
#include "superopt/codegen/generate.h"
#include "superopt/codegen/running_reference.h"
#include "superopt/codegen/tiles/tiles.h"

namespace strata {
namespace {

/// Attention on one block; `reference` is what is subtracted, `added` what is summed up.
std::string attention(const char* reference, const char* added) {
  return fmt::format(R"(graph g {{
  input Q: f16[1, 128, 64]
  input K: f16[1, 64, 512]
  input V: f16[1, 512, 64]
  O = block(Q, K, V, grid=[1], loop=8) {{
    q = in_iter(Q, imap=[_])
    k = in_iter(K, imap=[_], fmap=2)
    v = in_iter(V, imap=[_], fmap=1)
    s = matmul(q, k)
    m = reduce_max(s, dim=2)
    l = {}
    e = exp(l)
    x = {}
    p = matmul(x, v)
    o = accum_rescale(p, m)
    O = out_saver(o, omap=[_])
  }}
  output O
}})",
                     reference, added);
}

struct Block {
  GraphPtr graph;
  const Operation* op;
  OperandPlaces strides;
};

Block block(const std::string& text) {
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph) << graph.error().to_string();
  if (!graph) return {};
  const Operation& op = (*graph)->operations()[0];
  return {*graph, &op, operand_strides(**graph, op)};
}

TensorId tensor(const Block& block, const char* name) { return *block.op->body->find_tensor(name); }

TEST(TilePlan, TimesAreInTheLaunchAndNotInTheSource) {
  const Block b = block(attention("sub(s, m)", "scale(e, factor=1/2)"));
  const auto first = generate_cuda(*b.graph, targets().back());
  const auto second = generate_cuda(*b.graph, targets().back());
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->source, second->source);
  EXPECT_EQ(launch_manifest(*first), launch_manifest(*second));
  ASSERT_EQ(first->launches.size(), 1U);
  EXPECT_GE(first->launches[0].layouts.choices, 1);
  EXPECT_GT(first->launches[0].layouts.seconds, 0);
}

TEST(TilePlan, WarpsDivideTheRowsThatNothingReduces) {
  const Block b = block(attention("sub(s, m)", "scale(e, factor=1/2)"));
  BlockSchedule schedule{.row_warps = 4};
  const auto plan = plan_tiles(*b.op->body, b.strides, schedule);
  ASSERT_TRUE(plan) << plan.error().to_string();
  // Scores hold pairs along the context, over which they are multiplied by the values.
  EXPECT_FALSE(plan->tensors[static_cast<size_t>(tensor(b, "s"))].transposed);
  const TileDims scores = warp_dims(*plan, plan->tensors[static_cast<size_t>(tensor(b, "s"))], schedule, false);
  EXPECT_EQ(scores, (TileDims{1, 32, 64}));
  const TileDims keys = warp_dims(*plan, plan->tensors[static_cast<size_t>(tensor(b, "k"))], schedule, false);
  EXPECT_EQ(keys, (TileDims{1, 64, 64}));
  EXPECT_TRUE(plan->wide.empty());
  // 8 warps have 16 rows each: whole instructions of four warps.
  schedule = {.row_warps = 8, .wide = true};
  const auto wide = plan_tiles(*b.op->body, b.strides, schedule);
  ASSERT_TRUE(wide) << wide.error().to_string();
  EXPECT_EQ(wide->wide, (std::vector<TensorId>{tensor(b, "s"), tensor(b, "p")}));
}

TEST(TilePlan, FewTokensAreTheColumnsOfAProduct) {
  const Block b = block(R"(graph g {
  input X: f16[8, 256]
  input W: f16[256, 64]
  O = block(X, W, grid=[1], loop=4) {
    x = in_iter(X, imap=[_], fmap=1)
    w = in_iter(W, imap=[_], fmap=0)
    p = matmul(x, w)
    s = accum(p, kind=sum)
    O = out_saver(s, omap=[_])
  }
  output O
})");
  const auto plan = plan_tiles(*b.op->body, b.strides, {});
  ASSERT_TRUE(plan) << plan.error().to_string();
  // 64 columns of weights fill instructions of 16 rows; 8 tokens would fill half of them.
  EXPECT_TRUE(plan->tensors[static_cast<size_t>(tensor(b, "p"))].transposed);
  EXPECT_EQ(plan->layouts.choices, 2);
  EXPECT_GT(plan->layouts.seconds, 0);
}

TEST(TilePlan, ReasonsAreGiven) {
  const Block odd = block(R"(graph g {
  input X: f16[8, 24]
  input W: f16[24, 64]
  O = block(X, W, grid=[1]) {
    x = in_iter(X, imap=[_])
    w = in_iter(W, imap=[_])
    p = matmul(x, w)
    O = out_saver(p, omap=[_])
  }
  output O
})");
  const auto plan = plan_tiles(*odd.op->body, odd.strides, {});
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().message, "a product over 24 elements does not fill fragments of 16");
}

TEST(RunningReference, OnlyWhereTheReferenceCancels) {
  const auto runs = [](const char* reference, const char* added) {
    const Block b = block(attention(reference, added));
    return runs_along(*b.op->body, tensor(b, "m"));
  };
  EXPECT_TRUE(runs("sub(s, m)", "scale(e, factor=1/2)"));
  EXPECT_TRUE(runs("sub(s, m)", "mul(e, s)"));
  EXPECT_FALSE(runs("sub(s, m)", "mul(e, e)"));  // exp(-2m)
  EXPECT_FALSE(runs("add(s, m)", "scale(e, factor=1/2)"));
  EXPECT_FALSE(runs("sub(s, m)", "add(e, s)"));  // not proportional
  EXPECT_FALSE(runs("sub(s, m)", "mul(e, m)"));
}

TEST(Tiles, EveryScheduleBecomesACubin) {
  const Block b = block(attention("sub(s, m)", "scale(e, factor=1/2)"));
  for (const Target& target : targets()) {
    const auto offered = tile_schedules(*b.op, b.strides, target);
    ASSERT_FALSE(offered.empty());
    const bool wide =
        std::any_of(offered.begin(), offered.end(), [](const BlockSchedule& schedule) { return schedule.wide; });
    EXPECT_EQ(wide, target.wide_products);
    for (size_t i = 0; i < offered.size(); i += 1 + offered.size() / 6) {
      const auto program = generate_cuda(*b.graph, target, {offered[i]});
      ASSERT_TRUE(program) << program.error().to_string();
      const auto cubin = compile_cubin(program->source, target);
      EXPECT_TRUE(cubin) << cubin.error().to_string();
    }
  }
}

}  // namespace
}  // namespace strata
