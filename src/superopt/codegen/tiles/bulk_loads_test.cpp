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
#include "superopt/codegen/tiles/test_products.h"
#include "superopt/codegen/tiles/tiles.h"
#include "support/random.h"

namespace strata {
namespace {

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
