// The block functions of the GPU tests: what their records say (task_records.h), on any platform. Part of the device
// code as text.
#pragma once

#include "megakernel/runtime/core/ring.h"
#include "task_records.h"

namespace strata::megakernel::testing {

STRATA_DEVICE const TestRecord& test_record(const Descriptor& task) {
  return static_cast<const TestRecord*>(task.arguments[0])[task.record.task];
}

template <class Platform>
STRATA_DEVICE void test_delay(Platform& platform, const Descriptor& task, unsigned most, unsigned salt) {
  if (most == 0) return;
  const unsigned long long wait = test_mix(static_cast<unsigned long long>(task.epoch) << 32 | salt) % most;
  const unsigned long long began = platform.clock();
  while (platform.clock() - began < wait) platform.pause();
}

template <class Platform>
STRATA_DEVICE void test_load(const Descriptor& task, LoadSide<Platform>& side) {
  const TestRecord& record = test_record(task);
  const auto* const runs = reinterpret_cast<const TestRun*>(record.runs);
  const auto* const sources = reinterpret_cast<const unsigned long long*>(record.sources);
  for (int r = 0; r < record.run_count; ++r) {
    const TestRun& run = runs[r];
    if (run.history != 0) side.wait_for_history();
    if (side.left()) return;
    const unsigned long long row = run.history != 0 ? (task.epoch - 1) % 2 * kRowWords * 4 : 0;
    for (int n = 0; n < run.stages; ++n)
      side.push(reinterpret_cast<const void*>(sources[run.first + n] + row), run.bytes);
  }
}

template <class Platform>
STRATA_DEVICE void test_compute(const Descriptor& task, ComputeSide<Platform>& side) {
  using TaggedWord = typename Platform::TaggedWord;
  Platform& platform = side.platform();
  const TestRecord& record = test_record(task);
  const bool faulty = record.fault != TestFault::None && task.epoch >= record.fault_epoch;
  test_delay(platform, task, record.most_delay,
             static_cast<unsigned>(task.record.task) * 8 + static_cast<unsigned>(platform.warp()));
  if (faulty && record.fault == TestFault::NeverEnds)
    while (platform.load_from_host(*reinterpret_cast<const typename Platform::Counter*>(record.fault_word)) == 0)
      platform.pause();

  unsigned long long sum = 0;
  unsigned place = 0;
  const auto* const runs = reinterpret_cast<const TestRun*>(record.runs);
  for (int r = 0; r < record.run_count; ++r) {
    const TestRun run = runs[r];
    const bool fewer = faulty && record.fault == TestFault::FewerStages && r + 1 == record.run_count;
    const int stages = fewer ? run.stages - 1 : run.stages;
    const int words = static_cast<int>(run.bytes / 4);
    const int groups = platform.warps() / run.sharing;
    const int part = platform.warp() / groups;
    for (int n = platform.warp() % groups; n < stages; n += groups) {
      const auto* const stage = reinterpret_cast<const unsigned*>(side.stage(n, run.bytes));
      for (int w = part * platform.lanes() + platform.lane(); w < words; w += run.sharing * platform.lanes())
        sum += test_term(place + static_cast<unsigned>(n * words + w), stage[w]);
      side.release(n, run.sharing);
    }
    side.advance(stages, run.bytes);
    place += static_cast<unsigned>(run.stages * words);
  }
  const auto* const inputs = reinterpret_cast<const TestInput*>(record.inputs);
  for (int i = 0; i < record.input_count; ++i) {
    const TestInput input = inputs[i];
    if (input.is_tagged != 0) {
      const int first = input.count * platform.warp() / platform.warps();
      const int end = input.count * (platform.warp() + 1) / platform.warps();
      side.read(reinterpret_cast<const TaggedWord*>(input.address) + first, end - first,
                [&](int n, const Tagged& word) {
                  const unsigned at = place + 2 * static_cast<unsigned>(first + n);
                  sum += test_term(at, word.data[0]) + test_term(at + 1, word.data[1]);
                });
      place += 2 * static_cast<unsigned>(input.count);
    } else {
      const auto* const words = reinterpret_cast<const unsigned*>(input.address);
      for (int w = platform.rank(); w < input.count; w += platform.size())
        sum += test_term(place + static_cast<unsigned>(w), words[w]);
      place += static_cast<unsigned>(input.count);
    }
  }

  auto* const sums = reinterpret_cast<unsigned long long*>(side.scratch());
  sums[platform.rank()] = sum;
  platform.meet();
  unsigned long long hash = test_begin(task.record, reinterpret_cast<unsigned long long>(task.arguments[1]),
                                       reinterpret_cast<unsigned long long>(task.arguments[kMostArguments - 1]),
                                       side.position(0), side.epoch());
  for (int rank = 0; rank < platform.size(); ++rank) hash += sums[rank];

  if (record.tagged != 0) {
    auto* const words = reinterpret_cast<TaggedWord*>(record.tagged);
    const bool silent = faulty && record.fault == TestFault::NoTaggedWords;
    for (int w = platform.rank(); 2 * w < record.words && !silent; w += platform.size())
      side.write(words[w], test_output(hash, 2 * w), test_output(hash, 2 * w + 1));
  } else {
    auto* const output = reinterpret_cast<unsigned*>(record.output);
    auto* const row = reinterpret_cast<unsigned*>(record.rows) + task.epoch % 2 * kRowWords;
    for (int w = platform.rank(); w < record.words; w += platform.size()) output[w] = test_output(hash, w);
    for (int w = platform.rank(); w < kRowWords; w += platform.size()) row[w] = test_output(hash, w);
  }
  if (platform.leads()) {
    auto& seen = *reinterpret_cast<unsigned long long*>(record.seen);
    seen = test_mix(seen + hash);
    ++*reinterpret_cast<unsigned*>(record.count);
    if (record.last != 0) {
      side.put_token(0, static_cast<int>(hash & 0xffffff));
      side.put_token(1, static_cast<int>(task.epoch));
      if (task.epoch == record.finish) side.finish();
    }
  }
}

}  // namespace strata::megakernel::testing
