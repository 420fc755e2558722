// Tiles by TMA, on the host's stand-in for it: random shapes of tiles, schedules and neighbours. The stand-in refuses
// what TMA refuses, permutes by address as TMA does, and lets bytes arrive as late as barriers allow.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "ir/validate.h"
#include "runtime/storage.h"
#include "superopt/codegen/all_schedules.h"
#include "superopt/codegen/test_host.h"
#include "superopt/codegen/tiles/tiles.h"
#include "support/random.h"

namespace strata {
namespace {

int64_t one_of(Random& random, std::initializer_list<int64_t> choices) {
  return choices.begin()[random.below(choices.size())];
}

/// O = (X ∘ g)·W, of tiles of random sizes: rows of W of 32 to 256 bytes along either dimension, 1 to 72 rows of X, in
/// a batch or not.
std::string random_product(Random& random) {
  const int64_t rows = one_of(random, {1, 3, 8, 16, 24, 64, 72});
  const int64_t depth = one_of(random, {16, 32, 64, 128});
  const int64_t columns = one_of(random, {16, 32, 64, 128});
  const int64_t batch = one_of(random, {0, 0, 2});
  const int64_t loop = one_of(random, {2, 4, 8});
  const int64_t across = one_of(random, {2, 4});  // blocks along columns
  const bool transposed = random.below(2) == 1;
  const bool batched = batch > 0;
  const std::string b = batched ? fmt::format("{}, ", batch) : "";
  const std::string type = random.below(2) == 1 ? "f16" : "bf16";
  const int dim = batched ? 1 : 0;  // of rows
  std::string text = "graph product {\n";
  text += fmt::format("  input X: {}[{}{}, {}]\n", type, b, rows, depth * loop);
  text += transposed ? fmt::format("  input Wt: {}[{}{}, {}]\n", type, b, columns * across, depth * loop)
                     : fmt::format("  input W: {}[{}{}, {}]\n", type, b, depth * loop, columns * across);
  text += fmt::format("  input G: {}[{}]\n", type, depth * loop);
  if (transposed) text += fmt::format("  W = transpose(Wt, perm={})\n", batched ? "[0, 2, 1]" : "[1, 0]");
  const std::string grid = batched ? fmt::format("[{}, {}]", batch, across) : fmt::format("[{}]", across);
  const auto map = [&](int column) {
    const std::string last = column < 0 ? "_" : std::to_string(column);
    return batched ? fmt::format("[0, {}]", last) : fmt::format("[{}]", last);
  };
  text += fmt::format("  O = block(X, W, G, grid={}, loop={}) {{\n", grid, loop);
  text += fmt::format("    x = in_iter(X, imap={}, fmap={})\n", map(-1), dim + 1);
  text += fmt::format("    w = in_iter(W, imap={}, fmap={})\n", map(dim + 1), dim);
  text += fmt::format("    g = in_iter(G, imap={}, fmap=0)\n", batched ? "[_, _]" : "[_]");
  text += "    y = mul(x, g)\n    p = matmul(y, w)\n    a = accum(p, kind=sum)\n";
  text += fmt::format("    O = out_saver(a, omap={})\n  }}\n  output O\n}}\n", map(dim + 1));
  return text;
}

class BulkLoads : public testing::TestWithParam<int> {};

TEST_P(BulkLoads, BringWhatTheInterpreterReads) {
  Random random(static_cast<uint64_t>(GetParam()));
  const Target& target = targets().back();
  size_t checked = 0;
  for (int tries = 0; checked < 2 && tries < 40; ++tries) {
    const std::string text = random_product(random);
    const auto graph = parse_graph(text);
    ASSERT_TRUE(graph) << graph.error().to_string() << text;
    const auto valid = validate(**graph, target);
    ASSERT_TRUE(valid) << valid.error().to_string() << text;
    const auto number = (*graph)->operations().size() - 1;
    const Operation& op = (*graph)->operations()[number];
    std::vector<BlockSchedule> bulk = block_schedules(op, operand_strides(**graph, op), target);
    std::erase_if(bulk, [](const BlockSchedule& schedule) { return !schedule.bulk; });
    // Half of the time neighbours share, where they can.
    if (random.below(2) == 1) {
      const auto shares = [](const BlockSchedule& schedule) { return schedule.sharers > 1; };
      if (std::any_of(bulk.begin(), bulk.end(), shares)) std::erase_if(bulk, std::not_fn(shares));
    }
    if (bulk.empty()) continue;
    Schedules schedules(number + 1);
    schedules[number] = bulk[random.below(bulk.size())];
    SCOPED_TRACE(text + label(schedules));
    const auto program = generate_cuda(**graph, target, schedules);
    ASSERT_TRUE(program) << program.error().to_string();
    ASSERT_THAT(program->source, testing::HasSubstr("load_box<"));
    const HostOutputs outputs =
        host_outputs(**graph, *program, uniform_inputs(**graph, -1, 1, random()), kSanitizedHost);
    EXPECT_LT(relative_error(outputs.found[0], outputs.expected[0]), 1.5e-2);
    ++checked;
  }
  EXPECT_EQ(checked, 2U);
}

INSTANTIATE_TEST_SUITE_P(Seeds, BulkLoads, testing::Range(1, 5));

}  // namespace
}  // namespace strata
