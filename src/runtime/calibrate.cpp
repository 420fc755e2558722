#include "runtime/calibrate.h"

#include <algorithm>
#include <array>

#include "runtime/calibrate_event_kernels.h"
#include "runtime/calibrate_events.h"
#include "runtime/calibrate_kernels.h"
#include "runtime/compile.h"
#include "runtime/replay.h"

namespace strata {
namespace {

constexpr int64_t kVector = 16;  // bytes of a load
constexpr int64_t kUnrolled = 4;
constexpr int64_t kChunkVectors = 608;  // of a bulk copy of strata_stream
constexpr size_t kFlagBytes = 4096;     // of strata_handover
constexpr unsigned kThreads = 1024;
constexpr double kMemoryShare = 0.4;  // of what is free, for each of two arrays

/// One measurement: what a launch does, and what is told from its time.
struct Microbenchmark {
  std::string name;  ///< of the rate, or what is observed
  const char* kernel = "";
  int64_t blocks = 1;
  unsigned threads = kThreads;
  int64_t count = 0;
  int passes = 1;
  double amount = 1;  ///< bytes, operations or steps of a launch
  bool per_second = false;
  bool overlaps = false;
};

/// The calibration's kernels on a device.
class Bench {
 public:
  Bench(const GpuDevice& device, const CalibrateOptions& options) : device_(device), options_(options) {}
  ~Bench() {
    if (module_ != nullptr) device_.driver().unload_module(module_);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  Result<void> load(const Target& target) {
    const std::string source = calibration_source();
    STRATA_TRY(std::vector<char> cubin,
               options_.compile ? options_.compile(source, target) : compile_cubin(source, target));
    cubin.push_back('\0');  // the driver takes the length from the image
    const CudaDriver& driver = device_.driver();
    STRATA_CHECK(driver.check(driver.load_module(&module_, cubin.data()), "loading the calibration's kernels"));
    STRATA_TRY(const int64_t free, device_.free_bytes());
    bytes_ = std::min(options_.memory_bytes, static_cast<int64_t>(kMemoryShare * static_cast<double>(free)));
    if (const int64_t least = kVector * kUnrolled * 2 * target.multiprocessors * kThreads; bytes_ < least) {
      return with_remedy(
          environment("{} has {} bytes of free memory", device_.name(), free),
          fmt::format("end the programs that use it; a little more than twice {} bytes are needed", least));
    }
    for (auto& array : arrays_) {
      STRATA_TRY(GpuMemory memory, GpuMemory::allocate(device_, bytes_));
      array = std::move(memory);
    }
    return {};
  }

  /// Vectors of as much memory as `share` says, all of which are read: whole rounds of this many threads.
  int64_t vectors(double share, int64_t threads) const {
    const auto all = static_cast<int64_t>(share * static_cast<double>(bytes_) / kVector);
    const int64_t round = kUnrolled * threads;
    return std::max<int64_t>(1, all / round) * round;
  }
  int64_t bytes() const { return bytes_; }

  Result<MeasuredRate> measure(const Microbenchmark& one) {
    if (options_.progress) options_.progress(one.name);
    const CudaDriver& driver = device_.driver();
    // The flags of blocks that wait for each other are 0 at first.
    for (auto& array : arrays_) STRATA_CHECK(driver.check(driver.fill(array->pointer(), 0, kFlagBytes), "clearing"));
    CudaFunction function = nullptr;
    STRATA_CHECK(driver.check(driver.get_function(&function, module_, one.kernel), one.kernel));
    return repeated(one, [&](int64_t set) -> Result<void> {
      CudaPointer from = arrays_[static_cast<size_t>(set)]->pointer();
      CudaPointer to = arrays_[static_cast<size_t>(1 - set)]->pointer();
      int64_t count = one.count;
      int passes = one.passes;
      std::array<void*, 4> arguments{&from, &to, &count, &passes};
      CudaLaunchAttribute attribute;
      attribute.id = CudaLaunchAttribute::kOverlapsPrevious;
      attribute.value = {1};
      CudaLaunchConfig config;
      config.grid[0] = static_cast<unsigned>(one.blocks);
      config.block[0] = one.threads;
      config.stream = device_.stream();
      config.attributes = &attribute;
      config.attribute_count = one.overlaps ? 1 : 0;
      return driver.check(driver.launch(&config, function, arguments.data(), nullptr), one.kernel);
    });
  }

  Result<MeasuredRate> measure_product(const std::string& name) {
    if (options_.progress) options_.progress(name);
    const int64_t n = options_.product_size;
    MatrixProduct product;
    product.type = DType::F16;
    product.m = product.n = product.k = n;
    product.a = product.b = {false, n, 0};
    STRATA_TRY(const std::unique_ptr<PreparedWork> work, device_.prepare(product));
    STRATA_TRY(const GpuMemory a, GpuMemory::allocate(device_, 2 * n * n));
    STRATA_TRY(const GpuMemory b, GpuMemory::allocate(device_, 2 * n * n));
    STRATA_TRY(const GpuMemory c, GpuMemory::allocate(device_, 2 * n * n));
    STRATA_TRY(const GpuMemory workspace, GpuMemory::allocate(device_, std::max<int64_t>(1, work->workspace_bytes())));
    // Numbers that are all zero take less power than others, and the clock would be higher.
    std::string halves(static_cast<size_t>(2 * n * n), '\0');
    uint64_t state = 1;
    for (size_t i = 0; i < halves.size(); i += 2) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      halves[i] = static_cast<char>(state >> 40);
      halves[i + 1] = static_cast<char>(0x34 | ((state >> 56) & 0x83));  // 0.25 to 0.5, of both signs
    }
    for (const GpuMemory* operand : {&a, &b}) {
      const CudaDriver& driver = device_.driver();
      STRATA_CHECK(driver.check(driver.copy_to_device(operand->pointer(), halves.data(), halves.size()), "operands"));
    }
    Microbenchmark one;
    one.name = name;
    one.amount = 2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
    one.per_second = true;
    const std::vector<CudaPointer> arguments{a.pointer(), b.pointer(), c.pointer()};
    return repeated(one, [&](int64_t) { return work->run(device_.stream(), arguments, workspace.pointer()); });
  }

  /// Streams the first array beside what waits for events.
  void measure_events(const Target& target, CalibrationRun& run) const {
    strata::measure_events({device_, options_, module_, arrays_[0]->pointer(),
                            vectors(1, target.multiprocessors * kThreads), target.bulk_copies},
                           run);
  }

  /// Memory that a product needs is not there beside the arrays.
  void release_arrays() {
    for (auto& array : arrays_) array.reset();
  }

 private:
  /// Launches in turn read what the one before wrote.
  Result<MeasuredRate> repeated(const Microbenchmark& one, const std::function<Result<void>(int64_t)>& launch) {
    STRATA_TRY(std::vector<double> values, repeated_seconds(device_, one.name, options_.repeats, 2, launch));
    if (one.per_second) {
      for (double& value : values) value = one.amount / value;
    } else {
      for (double& value : values) value /= one.amount;
    }
    return measured_rate(one.name, std::move(values));
  }

  const GpuDevice& device_;
  const CalibrateOptions& options_;
  CudaModule module_ = nullptr;
  int64_t bytes_ = 0;
  std::array<std::optional<GpuMemory>, 2> arrays_;
};

std::vector<Microbenchmark> microbenchmarks(const Bench& bench, const Target& target) {
  const int64_t all = target.multiprocessors;
  const int64_t few = std::max<int64_t>(1, all / 4);  // fewer than would share what memory gives
  const int64_t vectors = bench.vectors(1, 2 * all * kThreads);
  const int64_t vectors_of_few = bench.vectors(0.25, few * kThreads);
  const double l2_share = 0.25 * static_cast<double>(target.l2_bytes) / static_cast<double>(bench.bytes());
  const int64_t vectors_of_l2 = bench.vectors(std::min(1.0, l2_share), all * kThreads);
  constexpr int kPasses = 64;
  constexpr int64_t kSteps = 1 << 17;
  constexpr int64_t kLongSteps = 1 << 14;
  constexpr int64_t kHandovers = 256;
  const auto bytes = [](int64_t of) { return static_cast<double>(of * kVector); };
  const auto threads = static_cast<double>(2 * all * kThreads);
  std::vector<Microbenchmark> list = {
      {"memory_bandwidth", "strata_read", 2 * all, kThreads, vectors, 1, bytes(vectors), true},
      {"copy_bandwidth", "strata_copy", 2 * all, kThreads, vectors, 1, 2 * bytes(vectors), true},
      {"writing device memory, B/s", "strata_write", 2 * all, kThreads, vectors, 1, bytes(vectors), true},
      {"multiprocessor_bandwidth", "strata_read", few, kThreads, vectors_of_few, 1,
       bytes(vectors_of_few) / static_cast<double>(few), true},
      {"l2_bandwidth", "strata_read", all, kThreads, vectors_of_l2, kPasses, kPasses * bytes(vectors_of_l2), true},
      {"launch", "strata_empty", 1, 32},
      {"kernel", "strata_touch", all, 256},
      {"handover", "strata_handover", 2, 256, kHandovers, 1, 2.0 * kHandovers},
      {"scalar_rate", "strata_fma", 2 * all, kThreads, kLongSteps, 1, 2 * 8 * threads * kLongSteps, true},
      {"dependent_operation", "strata_fma_chain", 1, 32, kSteps, 1, static_cast<double>(kSteps)},
      {"ex2.approx, operations/s", "strata_exp", 2 * all, kThreads, kLongSteps, 1, 8 * threads * kLongSteps, true},
      {"barrier of 8 warps, s", "strata_barrier", 1, 256, kSteps, 1, static_cast<double>(kSteps)},
  };
  if (target.overlapping_kernels) {
    Microbenchmark overlapped{"overlapped_kernel", "strata_touch_overlapped", all, 256};
    overlapped.overlaps = true;
    list.push_back(overlapped);
  }
  if (target.bulk_copies) {
    const auto stream = [&](const char* name, int64_t blocks, double share) {
      const int64_t count = bench.vectors(share, blocks * kChunkVectors / kUnrolled);
      list.push_back({name, "strata_stream", blocks, 32, count, 1, bytes(count), true});
    };
    stream("stream_bandwidth", all, 1);
    stream("worker_bandwidth", 1, 0.25);
  }
  return list;
}

}  // namespace

std::string calibration_source() {
  std::string text = kCalibrationSource;
  for (const auto& [name, value] : {std::pair("TEAM", static_cast<int>(kEventTeam)),
                                    {"FAILED", kEventFailed},
                                    {"COUNTERS", kEventCounters},
                                    {"DATA", kEventData},
                                    {"WORDS", kEventWords},
                                    {"WAITED_LONG", static_cast<int>(kEventWaitedLong)},
                                    {"DATA_MISSING", static_cast<int>(kEventDataMissing)}})
    text += fmt::format("#define STRATA_EVENT_{} {}\n", name, value);
  return text + kEventSource;
}

Result<CalibrationRun> calibrate(const GpuDevice& device, const Target& target, const std::string& date,
                                 const CalibrateOptions& options) {
  CalibrationRun run;
  run.calibration = {device.name(), device.driver_version(), std::string(target.name), date, {}};
  Bench bench(device, options);
  STRATA_CHECK(bench.load(target));
  for (const Microbenchmark& one : microbenchmarks(bench, target)) {
    STRATA_TRY(MeasuredRate rate, bench.measure(one));
    run.calibration.rates.push_back(std::move(rate));
  }
  bench.measure_events(target, run);
  bench.release_arrays();
  if (auto product = bench.measure_product("matrix_rate")) {
    run.calibration.rates.push_back(*std::move(product));
  } else {
    run.notes.push_back(fmt::format("matrix_rate was not measured: {}", product.error().to_string()));
  }
  return run;
}

}  // namespace strata
