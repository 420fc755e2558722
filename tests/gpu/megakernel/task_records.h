// What the tasks of the GPU tests do, as records that the host writes and the device reads. A task's hash is a sum over
// all words that it sees (constants and rows through the ring, then the outputs of the tasks that it waits for), so
// that warps may add their parts in any order; its output is made of the hash. Part of the device code as text.
#pragma once

#include "megakernel/runtime/core/program.h"

namespace strata::megakernel::testing {

constexpr int kRowWords = 64;  ///< of what a task leaves for the next step, of which there are two in turn

/// A run of stages. `sharing`: how many warps use each stage.
struct TestRun {
  int first;  ///< of the case's sources
  int stages;
  unsigned bytes;
  int sharing;
  int history;  ///< its sources are rows that the step before wrote
};

/// Outputs of one task, or of several that lie together.
struct TestInput {
  unsigned long long address;
  int count;  ///< 32-bit words, or tagged words
  int is_tagged;
};

enum class TestFault : int { None, FewerStages, NoTaggedWords, NeverEnds };

struct TestRecord {
  unsigned long long runs;     ///< TestRun
  unsigned long long sources;  ///< addresses of stages
  unsigned long long inputs;   ///< TestInput
  unsigned long long output;   ///< `words`; or else `tagged`
  unsigned long long tagged;   ///< words of 2 words each; 0: none
  unsigned long long rows;     ///< 2 · kRowWords
  unsigned long long seen;     ///< a hash of all hashes of the task
  unsigned long long count;    ///< how often it ran
  int run_count;
  int input_count;
  int words;
  int last;                       ///< it puts tokens
  unsigned finish;                ///< the epoch in which it ends the launch; 0: none
  unsigned most_delay;            ///< nanoseconds that each role of it waits at most
  unsigned fault_epoch;           ///< from which on
  TestFault fault;                ///< it behaves so
  unsigned long long fault_word;  ///< NeverEnds: it does when this is not 0
};

/// The finaliser of SplitMix64.
STRATA_DEVICE unsigned long long test_mix(unsigned long long x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}
/// What the word at a place of all that a task sees adds to its hash.
STRATA_DEVICE unsigned long long test_term(unsigned place, unsigned word) {
  return test_mix(static_cast<unsigned long long>(place) << 32 | word);
}
/// What a hash is before the words: the record, the arguments of the operator and the position of sequence 0.
STRATA_DEVICE unsigned long long test_begin(const TaskRecord& record, unsigned long long first_argument,
                                            unsigned long long last_argument, int position, unsigned epoch) {
  unsigned long long hash = test_mix(static_cast<unsigned long long>(record.task) << 32 | epoch);
  for (const long long coordinate : record.coordinates)
    hash = test_mix(hash + static_cast<unsigned long long>(coordinate));
  hash = test_mix(hash + first_argument);
  hash = test_mix(hash + last_argument);
  return test_mix(hash + static_cast<unsigned>(position));
}
STRATA_DEVICE unsigned test_output(unsigned long long hash, int word) {
  return static_cast<unsigned>(test_mix(hash + static_cast<unsigned>(word)));
}

}  // namespace strata::megakernel::testing
