#include "superopt/codegen/schedule_cost.h"

#include <gmock/gmock.h>

#include "ir/text.h"
#include "superopt/codegen/all_schedules.h"
#include "superopt/codegen/known_schedules.h"

namespace strata {
namespace {

const Target& h200() { return **find_target("sm_90a"); }

/// A product of 16 rows, its columns in this many blocks.
GraphPtr product(int64_t blocks, int64_t loop, int64_t columns = 8192) {
  return *parse_graph(
      fmt::format("graph g {{\n input A: f16[16, 4096]\n input B: f16[4096, {}]\n"
                  " C = block(A, B, grid=[{}], loop={}) {{\n  a = in_iter(A, imap=[_], fmap=1)\n"
                  "  b = in_iter(B, imap=[1], fmap=0)\n  p = matmul(a, b)\n  s = accum(p, kind=sum)\n"
                  "  C = out_saver(s, omap=[1])\n }}\n output C\n}}\n",
                  columns, blocks, loop));
}

TEST(ScheduleCost, SpreadBlocksLeaveNoRoomForMoreThanTheirShare) {
  const int64_t whole = h200().shared_memory + 1024;
  const auto fit = [&](int64_t bytes) { return whole / (bytes + 1024); };
  EXPECT_EQ(fit(spreading_bytes(128, {}, h200())), 1);
  EXPECT_EQ(fit(spreading_bytes(132, {}, h200())), 1);
  EXPECT_EQ(fit(spreading_bytes(133, {}, h200())), 2);
  EXPECT_EQ(fit(spreading_bytes(300, {}, h200())), 3);
  // Clusters of four do not reach all multiprocessors: 128 blocks need two on some.
  EXPECT_EQ(fit(spreading_bytes(128, {.cluster = 4}, h200())), 2);
  // Few blocks spread by themselves, and of many the share is even.
  EXPECT_EQ(spreading_bytes(16, {}, h200()), 0);
  EXPECT_EQ(spreading_bytes(4096, {}, h200()), 0);
}

TEST(ScheduleCost, LaunchesAskForThatMuch) {
  const auto program = generate_cuda(*product(128, 64), h200());
  ASSERT_TRUE(program) << program.error().to_string();
  EXPECT_GE(program->launches[0].shared_bytes, spreading_bytes(128, {}, h200()));
}

TEST(ScheduleCost, OrdersSchedules) {
  const GraphPtr graph = product(128, 64);
  const Operation& op = graph->operations()[0];
  double last = 0;
  const auto schedules = block_schedules(op, operand_strides(*graph, op), h200());
  ASSERT_GT(schedules.size(), 10U);
  for (const BlockSchedule& schedule : schedules) {
    const auto block = describe_schedule(*graph, op, schedule, h200());
    ASSERT_TRUE(block);
    EXPECT_GE(block->seconds, last);
    // Never under the time of its bytes and a launch.
    EXPECT_GT(block->seconds, 8192 * 4096 * 2 / h200().rates.memory_bandwidth + 1e-6);
    last = block->seconds;
  }
}

TEST(KnownSchedules, AreMadeOnceForEqualBlocks) {
  KnownSchedules known(h200());
  const GraphPtr graph = product(128, 64);
  const auto of = [&](const GraphPtr& one) -> const std::vector<BlockSchedule>& {
    return known.of(*one, one->operations()[0]);
  };
  const std::vector<BlockSchedule>& first = of(graph);
  EXPECT_EQ(first, block_schedules(graph->operations()[0], operand_strides(*graph, graph->operations()[0]), h200()));
  EXPECT_EQ(&of(product(128, 64)), &first);
  EXPECT_NE(&of(product(64, 64)), &first);
  EXPECT_NE(&of(product(128, 32)), &first);
  for (const int64_t blocks : {32, 64, 128}) {
    const GraphPtr one = product(blocks, 64);
    EXPECT_DOUBLE_EQ(scheduled_cost(*one, known).seconds, scheduled_cost(*one, h200()).seconds);
  }
}

TEST(KnownSchedules, DependOnHowOperandsLie) {
  const auto graph = [](const std::string& of) {
    return *parse_graph(
        "graph g {\n input A: f16[16, 64]\n input B: f16[64, 64]\n T = transpose(B, perm=[1, 0])\n"
        " C = block(A, " +
        of + ", grid=[2], loop=2) {\n  a = in_iter(A, imap=[_], fmap=1)\n  b = in_iter(" + of +
        ", imap=[1], fmap=0)\n  p = matmul(a, b)\n  s = accum(p, kind=sum)\n"
        "  C = out_saver(s, omap=[1])\n }\n output C\n}\n");
  };
  KnownSchedules known(h200());
  const GraphPtr straight = graph("B");
  const GraphPtr turned = graph("T");
  EXPECT_NE(&known.of(*straight, straight->operations()[1]), &known.of(*turned, turned->operations()[1]));
}

TEST(ScheduleLabels, RoundTrip) {
  const auto all = all_schedules(*product(128, 64), h200());
  ASSERT_GT(all.size(), 100U);
  for (const Schedules& schedules : all) EXPECT_EQ(read_label(label(schedules)), schedules.front()) << label(schedules);
  const BlockSchedule turns{4, 2, 3, true, 1, true, 2, true};
  EXPECT_EQ(label({std::nullopt, turns}), "r4g2s3c1wb2t");
  EXPECT_EQ(read_label("r4g2s3c1wb2t lt0.2"), turns);
  for (const char* none : {"own", "lt0", "", "r4g2s3", "r4g2s3c1x", "r4g2s3c1t", "r99999999999999999999g1s1c1"}) {
    EXPECT_EQ(read_label(none), std::nullopt) << none;
  }
}

TEST(ScheduleCost, MoreStagesAndGroupsHideLatency) {
  const GraphPtr graph = product(128, 64);
  const Operation& op = graph->operations()[0];
  const auto seconds = [&](const BlockSchedule& schedule) {
    return describe_schedule(*graph, op, schedule, h200())->seconds;
  };
  EXPECT_LT(seconds({.stages = 4}), seconds({.stages = 2}));
  EXPECT_LT(seconds({.loop_warps = 4, .stages = 4}), seconds({.stages = 4}));
}

TEST(ScheduleCost, KnowsWhatOverlaps) {
  const GraphPtr graph = product(128, 64);
  const Operation& op = graph->operations()[0];
  BlockSchedule schedule{.loop_warps = 4, .stages = 4};
  auto block = describe_schedule(*graph, op, schedule, h200());
  ASSERT_TRUE(block);
  const auto seconds = [&] { return schedule_seconds(op, operand_strides(*graph, op), block->code, schedule, h200()); };
  block->code.work.elements = 2000;
  block->code.work.products = 200;
  const double apart = seconds();
  block->code.work.overlaps = true;
  EXPECT_LT(seconds(), 0.95 * apart);
  block->code.work.read_bytes = 1e6;  // of each warp: then shared memory is what takes long
  EXPECT_GT(seconds(), 2 * apart);
  block->code.work.read_bytes = 0;
  // The warp that asks TMA for tiles computes nothing.
  schedule.bulk = true;
  const double bulk = seconds();
  block->code.threads += 32;
  EXPECT_EQ(seconds(), bulk);
  schedule.bulk = false;
  EXPECT_NE(seconds(), bulk);
}

TEST(ScheduleCost, LinesOfMemoryThatTilesShareCountTwice) {
  const auto bytes = [](int64_t blocks, int64_t columns) {
    const GraphPtr graph = product(blocks, 64, columns);
    const Operation& op = graph->operations()[0];
    return device_bytes(op, operand_strides(*graph, op)) / static_cast<double>(graph->type(op.operands[1]).bytes());
  };
  EXPECT_NEAR(bytes(128, 8192), 1.0, 0.01);      // 64 columns: 128 bytes
  EXPECT_NEAR(bytes(128, 6144), 4.0 / 3, 0.01);  // 48: 96 of 128
}

}  // namespace
}  // namespace strata
