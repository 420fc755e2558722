// Packed constants, on the host's stand-in for bulk copies: random shapes of tiles and schedules. What is packed
// wrongly, read before it came or overwritten too early differs from the interpreter.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/validate.h"
#include "runtime/storage.h"
#include "superopt/codegen/all_schedules.h"
#include "superopt/codegen/test_host.h"
#include "superopt/codegen/tiles/test_products.h"
#include "superopt/codegen/tiles/tiles.h"

namespace strata {
namespace {

/// Which of the operands X, W, G are constants: the weights, with or without the gains, or all but the weights.
int64_t random_constants(Random& random) { return one_of(random, {0b010, 0b010, 0b110, 0b101}); }

class PackedLoads : public testing::TestWithParam<int> {};

TEST_P(PackedLoads, BringWhatTheInterpreterReads) {
  Random random(static_cast<uint64_t>(GetParam()));
  const Target& target = targets().back();
  size_t checked = 0;
  for (int tries = 0; checked < 1 && tries < 40; ++tries) {
    const std::string text = random_product(random);
    const auto graph = parse_graph(text);
    ASSERT_TRUE(graph) << graph.error().to_string() << text;
    const auto number = (*graph)->operations().size() - 1;
    const Operation& op = (*graph)->operations()[number];
    BlockSchedule schedule;
    schedule.row_warps = one_of(random, {1, 2});
    schedule.loop_warps = std::min<int64_t>(one_of(random, {1, 2, 4}), op.body->launch().loop);
    schedule.stages = one_of(random, {1, 2, 3});
    schedule.packed = random_constants(random);
    Schedules schedules(number + 1);
    schedules[number] = schedule;
    SCOPED_TRACE(text + label(schedules));
    const auto program = generate_cuda(**graph, target, schedules);
    if (!program) continue;  // too few rows for so many warps, or too much memory
    ASSERT_EQ(program->launches.size(), 2U);
    ASSERT_THAT(program->source, testing::HasSubstr("load_bytes("));
    const HostOutputs outputs =
        host_outputs(**graph, *program, uniform_inputs(**graph, -1, 1, random()), kSanitizedHost);
    EXPECT_LT(relative_error(outputs.found[0], outputs.expected[0]), 1.5e-2);
    ++checked;
  }
  EXPECT_EQ(checked, 1U);
}

INSTANTIATE_TEST_SUITE_P(Seeds, PackedLoads, testing::Range(1, 5));

TEST(PackedLoads, SaysWhyItTakesNoBlock) {
  const auto graph = parse_graph(R"(graph product {
  input X: f16[16, 64]
  input W: f16[64, 64]
  O = block(X, W, grid=[2], loop=2) {
    x = in_iter(X, imap=[_], fmap=1)
    w = in_iter(W, imap=[1], fmap=0)
    p = matmul(x, w)
    a = accum(p, kind=sum)
    O = out_saver(a, omap=[1])
  }
  output O
})");
  ASSERT_TRUE(graph) << graph.error().to_string();
  const Operation& op = (*graph)->operations()[0];
  const auto refusal = [&](const BlockSchedule& schedule) {
    const auto code = emit_tiles(op, "product", operand_strides(**graph, op), schedule, targets().back());
    EXPECT_FALSE(code);
    return code ? "" : code.error().message;
  };
  EXPECT_EQ(refusal({.stages = 2, .cluster = 2, .packed = 0b10}), "packed tiles are a block's own, not a cluster's");
  EXPECT_EQ(refusal({.stages = 2, .packed = 0b100}), "the loop cuts no constant");
}

}  // namespace
}  // namespace strata
