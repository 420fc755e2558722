// The random plans of the GPU tests on the host: so what differs on a GPU is the GPU's platform, and not the plans, the
// block functions or the serial run.
#include <gtest/gtest.h>

#include "../gpu/megakernel/cases.h"
#include "../gpu/megakernel/task_functions.h"
#include "megakernel/runtime/host_target.h"

namespace strata::megakernel::testing {
namespace {

unsigned long long address(const void* place) { return reinterpret_cast<unsigned long long>(place); }

std::string run_and_compare(const Case& test) {
  Outcome found;
  // As aligned as the GPU's memory.
  std::vector<Tagged> state((test.state_bytes + sizeof(Tagged) - 1) / sizeof(Tagged));
  CaseRecords records = records_of(test, address(test.constants.data()), address(state.data()));
  records.add_bases(address(records.runs.data()), address(records.sources.data()), address(records.inputs.data()));
  HostOptions options;
  options.shape = test.options.shape;
  options.lanes = 1;
  options.operators = operators_of(test, address(records.records.data()));
  options.lengths = test.options.lengths;
  options.placement = test.options.placement;
  options.tokens_per_step = test.options.tokens_per_step;
  // A hang is an error of this test and not of the machine's speed.
  options.limit = std::chrono::seconds(60);
  options.start_limit = std::chrono::seconds(50);
  const HostFunction function{.load = test_load<HostPlatform>, .compute = test_compute<HostPlatform>};
  auto kernel = HostKernel::make(test.plan, std::vector(test.plan.functions.size(), function), options);
  if (!kernel) return kernel.error().to_string();
  for (const uint32_t steps : test.launches) {
    if (auto launched = (*kernel)->launch(steps); !launched) return launched.error().to_string();
    const auto done = (*kernel)->wait();
    if (!done) return done.error().to_string();
    for (uint32_t step = 0; step < *done; ++step)
      found.tokens.insert(found.tokens.end(), (*kernel)->tokens(step).begin(), (*kernel)->tokens(step).end());
  }
  const auto* const bytes = reinterpret_cast<const unsigned char*>(state.data());
  found.state.assign(bytes, bytes + test.state_bytes);
  return difference(test, found, run_serially(test));
}

void run_cases(Modes modes, uint64_t count) {
  for (uint64_t seed = 0; seed < count; ++seed) {
    Case test = random_case(seed, modes, {.most_workers = 3, .most_stage_bytes = 2048});
    test.most_delay = 0;
    ASSERT_EQ(run_and_compare(test), "") << "seed " << seed;
  }
}

TEST(GpuCases, AheadOfTime) { run_cases(Modes::AheadOfTime, 12); }
TEST(GpuCases, JustInTime) { run_cases(Modes::JustInTime, 12); }
TEST(GpuCases, Mixed) { run_cases(Modes::Mixed, 12); }

/// The cases are not all of one kind.
TEST(GpuCases, CoverEveryHandOffAndMode) {
  int hand_offs[3] = {};
  int history = 0;
  int wraps = 0;
  int merged = 0;
  int sharing[9] = {};
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const Case test = random_case(seed, static_cast<Modes>(seed % 3), {});
    for (const Event& event : test.plan.events) ++hand_offs[static_cast<int>(event.hand_off)];
    for (const CaseTask& task : test.tasks) {
      int64_t bytes = 0;
      for (const TestRun& run : task.runs) {
        ++sharing[run.sharing];
        history += run.history;
        bytes += run.stages * static_cast<int64_t>(stage_room(run.bytes));
      }
      wraps += bytes > test.options.shape.ring_bytes;
      merged += task.tagged.size() > 1;
    }
  }
  for (const int count : {hand_offs[0], hand_offs[1], hand_offs[2], history, wraps, merged, sharing[1], sharing[2],
                          sharing[4], sharing[8]})
    EXPECT_GE(count, 20);
}

}  // namespace
}  // namespace strata::megakernel::testing
