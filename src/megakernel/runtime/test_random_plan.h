// Small random plans for tests of the runtime: tasks that read and write real memory, and the same tasks one after the
// other, which say what every task must see in every epoch.
#pragma once

#include <algorithm>
#include <memory>

#include "megakernel/runtime/host_target.h"
#include "support/hash.h"
#include "support/random.h"

namespace strata::megakernel::testing {

enum class Modes { AheadOfTime, JustInTime, Mixed };

constexpr int kMostWords = 16;  ///< of a task's output

/// Stages of equally many words each.
struct TestRun {
  std::vector<std::vector<uint32_t>> stages;
  bool shared = false;  ///< all warps use each stage; else one warp each
};

/// What one task does: its output is a hash of its number, the epoch, what it loads (constants, then rows that others
/// wrote in the epoch before) and the outputs of all that trigger the events it waits for.
struct TestTask {
  std::vector<TestRun> runs;
  std::vector<int> history;  ///< tasks; so many of their rows are loaded as the length says that is known at run time
  std::vector<int> counted;  ///< producers whose outputs are read in memory, in this order
  std::vector<int> tagged;   ///< then those that are read in tagged words
  int words = 1;
};

struct TestCase {
  Plan plan;
  HostOptions options;
  std::vector<TestTask> tasks;
  std::vector<uint32_t> launches;  ///< steps of each
  uint32_t finish = 0;             ///< the epoch that ends the last launch early; 0: none
  int length = 0;                  ///< of the one sequence, before the first launch
  uint32_t epochs() const {
    uint32_t sum = 0;
    for (const uint32_t steps : launches) sum += steps;
    return finish > 0 ? finish : sum;
  }
};

/// What an element adds to a hash that does not depend on the order of its elements.
inline uint64_t mixed(size_t source, size_t i, uint32_t value) {
  return mix(static_cast<uint64_t>(source * 4096 + i) << 32 | value);
}
inline uint64_t mix_word(uint64_t hash, uint32_t word) { return mix(hash * 0x9e3779b97f4a7c15ull + word); }
inline uint64_t mix_words(uint64_t hash, const uint32_t* words, int count) {
  for (int i = 0; i < count; ++i) hash = mix_word(hash, words[i]);
  return hash;
}

/// The case of a seed. Queues are sometimes shuffled, as far as they stay runnable.
TestCase random_case(uint64_t seed, Modes modes);

/// Memory of a run: outputs are overwritten in each epoch, rows are kept.
struct TestMemory {
  explicit TestMemory(const TestCase& test);
  std::vector<std::vector<uint32_t>> output;                       ///< by task
  std::vector<std::unique_ptr<HostTaggedWord[]>> tagged;           ///< by task
  std::vector<std::vector<std::array<uint32_t, kMostWords>>> row;  ///< by task and epoch
  std::vector<std::vector<uint64_t>> seen;                         ///< by task and epoch: the hash
  std::vector<std::unique_ptr<std::atomic<int>[]>> runs;           ///< by task and epoch
  std::atomic<int> wrong{0};  ///< arguments or positions that a block function was not to see
};

/// The block functions, one for each task, and none for empty ones. `memory` outlives them.
std::vector<HostFunction> test_functions(const TestCase& test, TestMemory& memory);

/// Tasks one after the other; the token of each epoch.
std::vector<int> run_serially(const TestCase& test, TestMemory& memory);

/// Runs the case on the host target and compares it with the serial run. "" or what differs.
std::string run_and_compare(const TestCase& test);

}  // namespace strata::megakernel::testing
