// Random plans for the GPU tests, the memory of their tasks, and what a serial run leaves in it.
#pragma once

#include <string>
#include <vector>

#include "megakernel/runtime/cuda/cuda_target.h"
#include "task_records.h"

namespace strata::megakernel::testing {

enum class Modes { AheadOfTime, JustInTime, Mixed };

/// How large a random plan may be.
struct CaseSize {
  int least_workers = 1;
  int most_workers = 8;
  int most_schedulers = 3;
  int most_layers = 6;
  int most_tasks = 8;   ///< of a layer
  bool whole = false;   ///< each layer has a task for each worker, and waits for all of the layer before
  int most_words = 80;  ///< of an output
  unsigned most_stage_bytes = 6144;
  unsigned most_delay = 3000;
};

struct CaseTask {
  std::vector<TestRun> runs;
  std::vector<unsigned long long> sources;  ///< of its runs: bytes from the begin of the constants, or of the state
  std::vector<int> counted;                 ///< producers whose outputs it reads in memory
  std::vector<int> tagged;                  ///< then those whose tagged words it reads
  int words = 1;
  TestFault fault = TestFault::None;
  // Bytes from the begin of the state.
  size_t output = 0;
  size_t tagged_words = 0;
  size_t rows = 0;
  size_t seen = 0;
  size_t count = 0;
};

struct Case {
  Plan plan;
  KernelOptions options;
  std::vector<CaseTask> tasks;
  std::vector<uint32_t> constants;
  size_t state_bytes = 0;
  std::vector<uint32_t> launches;  ///< steps of each
  uint32_t finish = 0;             ///< the epoch that ends the last launch early; 0: none
  unsigned most_delay = 0;
  unsigned fault_epoch = 1;
  unsigned long long fault_word = 0;

  bool writes_tagged(int task) const;
  uint32_t epochs() const;
};

Case random_case(uint64_t seed, Modes modes, const CaseSize& size);

struct Outcome {
  std::vector<unsigned char> state;  ///< outputs, tagged words, rows, hashes
  std::vector<int> tokens;           ///< two a step
};

/// Tasks one after the other.
Outcome run_serially(const Case& test);

/// What the tasks' arguments point to. Addresses of runs, sources and inputs count from 0 until they have a base.
struct CaseRecords {
  std::vector<TestRecord> records;
  std::vector<TestRun> runs;
  std::vector<unsigned long long> sources;
  std::vector<TestInput> inputs;
  void add_bases(unsigned long long of_runs, unsigned long long of_sources, unsigned long long of_inputs);
};
CaseRecords records_of(const Case& test, unsigned long long constants, unsigned long long state);
std::vector<OperatorRecord> operators_of(const Case& test, unsigned long long records);

/// The case's tasks in memory of the GPU.
class CaseMemory {
 public:
  static Result<CaseMemory> make(const GpuDevice& device, const Case& test);
  /// The case's options with the arguments of its operators.
  const KernelOptions& options() const { return options_; }
  Result<std::vector<unsigned char>> state() const;

 private:
  CaseMemory(GpuMemory constants, GpuMemory state, GpuMemory records, KernelOptions options)
      : constants_(std::move(constants)),
        state_(std::move(state)),
        records_(std::move(records)),
        options_(std::move(options)) {}
  GpuMemory constants_;
  GpuMemory state_;
  GpuMemory records_;
  KernelOptions options_;
};

/// All launches of the case. `elapsed`: where not null, seconds of them.
Result<Outcome> run_on_gpu(const GpuDevice& device, const CudaCode& code, const Case& test, double* elapsed = nullptr);

/// "" or what differs first.
std::string difference(const Case& test, const Outcome& found, const Outcome& expected);

}  // namespace strata::megakernel::testing
