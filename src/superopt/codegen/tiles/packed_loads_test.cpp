// Packed constants, on the host's stand-in for bulk copies: random shapes of tiles and schedules, with what is read
// beside them in pieces of random sizes, and sums that groups leave in turns. What is packed wrongly, read before it
// came or overwritten too early differs from the interpreter.
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
    schedule.piece = one_of(random, {0, 1, 1, 2, 3});
    schedule.leaving = one_of(random, {0, 1, 2});
    if (schedule.leaving > 0 && schedule.loop_warps % schedule.leaving != 0) schedule.leaving = 1;
    Schedules schedules(number + 1);
    schedules[number] = schedule;
    SCOPED_TRACE(
        fmt::format("{}{}, pieces of {}, {} leaving", text, label(schedules), schedule.piece, schedule.leaving));
    const auto program = generate_cuda(**graph, target, schedules);
    if (!program) continue;  // too few rows for this many warps, or too much memory
    ASSERT_EQ(program->launches.size(), 2U);
    ASSERT_THAT(program->source, testing::HasSubstr("load_bytes("));
    const HostOutputs outputs =
        host_outputs(**graph, *program, uniform_inputs(**graph, -1, 1, random()), kSanitizedHost);
    EXPECT_LT(relative_error(outputs.found[0], outputs.expected[0]), 1.5e-2);
    ++checked;
  }
  EXPECT_EQ(checked, 1U);
}

INSTANTIATE_TEST_SUITE_P(Seeds, PackedLoads, testing::Range(1, 4));

/// A down-projection of 16 sequences, made small: 8 groups of one warp, 6 iterations each. All activations take six
/// times the memory of pieces of one iteration, and sums left two at a time a quarter of all.
TEST(PackedLoads, BringActivationsInPieces) {
  const auto graph = parse_graph(R"(graph down {
  input R: bf16[16, 32]
  input X: bf16[16, 1536]
  input G: bf16[1536]
  input W: bf16[32, 1536]
  Wt = transpose(W, perm=[1, 0])
  Y = block(R, X, G, Wt, grid=[2], loop=48) {
    r = in_iter(R, imap=[1])
    same = accum(r, kind=max)
    x = in_iter(X, imap=[_], fmap=1)
    g = in_iter(G, imap=[_], fmap=0)
    w = in_iter(Wt, imap=[1], fmap=0)
    scaled = mul(x, g)
    squares = sqr(x)
    square = sum(squares, dim=1)
    squared = accum(square, kind=sum)
    p = matmul(scaled, w)
    a = accum(p, kind=sum)
    mean = scale(squared, factor=1/1536)
    above = add_constant(mean, value=1/100)
    inverse = rsqrt(above)
    normed = mul(a, inverse)
    y = add(same, normed)
    Y = out_saver(y, omap=[1])
  }
  output Y
})");
  ASSERT_TRUE(graph) << graph.error().to_string();
  const size_t number = (*graph)->operations().size() - 1;
  const Operation& op = (*graph)->operations()[number];
  const auto inputs = uniform_inputs(**graph, -1, 1, 7);
  BlockSchedule schedule{.loop_warps = 8, .packed = 0b1000};
  const auto code_of = [&] { return emit_tiles(op, "down", operand_strides(**graph, op), schedule, targets().back()); };
  const auto all = code_of();
  ASSERT_TRUE(all) << all.error().to_string();
  EXPECT_THAT(all->text, testing::Not(testing::HasSubstr("bring_piece")));
  for (const int64_t piece : {1, 4}) {
    schedule.piece = piece;
    schedule.leaving = piece == 1 ? 2 : 4;
    const auto code = code_of();
    ASSERT_TRUE(code) << code.error().to_string();
    EXPECT_LT(code->ring->page_bytes, all->ring->page_bytes * piece / 6 + 2048);
    EXPECT_EQ(code->scratch_bytes * 8, all->scratch_bytes * schedule.leaving);
    Schedules schedules(number + 1);
    schedules[number] = schedule;
    const auto program = generate_cuda(**graph, targets().back(), schedules);
    ASSERT_TRUE(program) << program.error().to_string();
    ASSERT_THAT(program->source, testing::HasSubstr("bring_piece(iteration"));
    const HostOutputs outputs = host_outputs(**graph, *program, inputs, kSanitizedHost);
    EXPECT_LT(relative_error(outputs.found[0], outputs.expected[0]), 1.5e-2);
  }
}

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
  EXPECT_EQ(refusal({.stages = 2, .packed = 0b10, .piece = -1}), "pieces of -1 iterations");
  EXPECT_EQ(refusal({.stages = 2, .piece = 1}), "only what is read beside packed constants comes in pieces");
  EXPECT_EQ(refusal({.loop_warps = 2, .stages = 2, .packed = 0b10, .leaving = -1}),
            "2 groups do not leave their sums -1 at a time");
}

}  // namespace
}  // namespace strata
