#include "emitters/library/fastest.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "runtime/convolution.h"
#include "runtime/launch_manifest.h"
#include "runtime/matrix_product.h"
#include "support/deadline.h"

namespace strata::emitters {
namespace {

/// Of convolutions of 17 × 17 by 72 channels the fastest of cuDNN's first eight are mostly the last two.
constexpr int64_t kMostAlgorithms = std::max(strata::kMostAlgorithms, kMostConvolutionAlgorithms);
constexpr int64_t kFewAlgorithms = 8;  ///< that are tried however long it takes
constexpr double kSeconds = 1;         ///< after which no more are
constexpr int kRuns = 5;
constexpr double kHopeless = 1.5;  ///< times the shortest: one that takes so long is not timed again
/// So much faster another must be than the library's guess: times of one algorithm differ by less.
constexpr double kFaster = 0.97;
/// Work that takes longer is timed fewer times.
constexpr double kLongMicroseconds = 20'000;
/// Another kind than choices among eight, whose numbers were places in other lists.
constexpr std::string_view kKind = "algorithm of a library";

LibraryWork with_algorithm(LibraryWork work, int64_t algorithm) {
  std::visit([&](auto& of) { of.algorithm = algorithm; }, work);
  return work;
}

/// Arrays for one kind of work.
class Arrays {
 public:
  static Result<Arrays> allocate(const GpuDevice& device, const std::vector<int64_t>& bytes) {
    Arrays made;
    for (const int64_t size : bytes) {
      STRATA_TRY(GpuMemory memory, GpuMemory::allocate(device, std::max<int64_t>(size, 1)));
      STRATA_CHECK(memory.clear());
      made.pointers_.push_back(memory.pointer());
      made.memory_.push_back(std::move(memory));
    }
    return made;
  }

  /// Microseconds of the shortest of some runs; of few where these take much longer than `least`.
  Result<double> time(const GpuDevice& device, const PreparedWork& work, double least) const {
    STRATA_TRY(const GpuMemory workspace, GpuMemory::allocate(device, std::max<int64_t>(work.workspace_bytes(), 1)));
    double shortest = 0;
    for (int run = 0; run <= kRuns; ++run) {
      GpuEvent begin(device), end(device);
      STRATA_CHECK(begin.record());
      STRATA_CHECK(work.run(device.stream(), pointers_, workspace.pointer()));
      STRATA_CHECK(end.record());
      STRATA_TRY(const double microseconds, begin.microseconds_until(end));
      if (run > 0) shortest = run == 1 ? microseconds : std::min(shortest, microseconds);  // the first warms up
      if (run > 0 && microseconds > kLongMicroseconds) break;
      if (run > 1 && microseconds > kHopeless * least) break;
    }
    return shortest;
  }

 private:
  std::vector<GpuMemory> memory_;
  std::vector<CudaPointer> pointers_;
};

std::optional<int64_t> looked_up(ResultCache* cache, const std::string& key) {
  const auto entry = cache != nullptr ? cache->find(kKind, key) : std::nullopt;
  if (!entry) return std::nullopt;
  int64_t algorithm = 0;
  const auto [end, error] = std::from_chars(entry->value.data(), entry->value.data() + entry->value.size(), algorithm);
  const bool whole = error == std::errc() && end == entry->value.data() + entry->value.size();
  return whole && algorithm >= 0 && algorithm < kMostAlgorithms ? std::optional(algorithm) : std::nullopt;
}

}  // namespace

Result<PreparedLibraryWork> fastest_algorithm(const GpuDevice& device, LibraryWork work,
                                              const std::vector<int64_t>& bytes, ResultCache* cache) {
  const LibraryWork first = with_algorithm(std::move(work), 0);
  const std::string key = fmt::format("{}\n{}", device.name(), identity_of(first));
  if (const auto known = looked_up(cache, key)) {
    LibraryWork chosen = with_algorithm(first, *known);
    if (auto prepared = device.prepare(chosen)) return PreparedLibraryWork{std::move(chosen), *std::move(prepared)};
    cache->forget(kKind, key);  // another version of the library
  }
  STRATA_TRY(auto prepared, device.prepare(first));
  PreparedLibraryWork best{first, std::move(prepared)};
  const auto arrays = Arrays::allocate(device, bytes);
  if (!arrays) return best;  // too little memory to measure
  const auto first_time = arrays->time(device, *best.prepared, std::numeric_limits<double>::infinity());
  if (!first_time) return tl::unexpected(first_time.error());
  double shortest = kFaster * *first_time;
  int64_t chosen = 0;
  const Deadline deadline(kSeconds);
  for (int64_t algorithm = 1; algorithm < kMostAlgorithms; ++algorithm) {
    if (algorithm >= kFewAlgorithms && deadline.passed()) break;
    LibraryWork other = with_algorithm(first, algorithm);
    auto made = device.prepare(other);
    if (!made) break;  // there are no more
    const auto microseconds = arrays->time(device, **made, shortest);
    if (!microseconds || *microseconds >= shortest) continue;
    shortest = *microseconds;
    chosen = algorithm;
    best = {std::move(other), *std::move(made)};
  }
  if (cache != nullptr) cache->store(kKind, key, std::to_string(chosen));
  return best;
}

}  // namespace strata::emitters
