// The estimated times of kernels, each computed once.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "hlo/hlo.h"
#include "machine/target.h"
#include "support/hash.h"

namespace strata::emitters {

struct ComputedOnce;  // priced_kernel.h
struct PricedKernel;

/// What a kernel is estimated to take (kernel_time in pass.h): the launch and the longest of four, each of which is all
/// that something has to do. Microseconds.
struct KernelTime {
  double all = 0;
  double launch = 0;
  double memory = 0;      ///< bytes between caches and memory, by all of its blocks
  double all_memory = 0;  ///< the same bytes at memory's full rate
  double cache = 0;       ///< bytes that caches serve
  double operations = 0;  ///< of all threads
  double computing = 0;   ///< operations but loads, of all multiprocessors
  double thread = 0;      ///< the longest one
};

/// kernel_time (pass.h), remembered by structure (hlo/structure_key.h): kernels that differ in names alone
/// take the same time. Layers of a model and the updates of its parameters are alike, and a fusion pass over a changed
/// module forms most groups again that the pass before it has formed. Not for several threads at once.
class Ratings {
 public:
  explicit Ratings(const Target& target) : target_(target) {}

  const Target& target() const { return target_; }

  /// Of the module's entry as one kernel.
  KernelTime time(const hlo::Module& module);

  /// Of a kernel whose threads compute this together; it is not remembered.
  KernelTime time(const PricedKernel& kernel, const ComputedOnce& together);

  /// Of so many bytes that all blocks of a GPU read or write.
  double microseconds_of(double bytes) const { return bytes / (target_.rates.memory_bandwidth / 1e6); }

  /// Of the launch of a kernel that nothing has to be prepared for.
  double launch() const { return 1e6 * target_.kernel_seconds(); }

  /// A number for an instruction and all that it calls, but for its operands: equal where hlo::structure_key is.
  int64_t kind_of(const hlo::Module& module, const hlo::Instruction& instruction);

  /// Of a group of instructions, described by numbers that determine the kernel's module; `rate` is called where no
  /// group with these numbers has been asked for before.
  template <class Rate>
  KernelTime of_group(const std::vector<int32_t>& numbers, const Rate& rate) {
    ++asked_;
    if (const auto known = groups_.find(numbers); known != groups_.end()) return known->second;
    std::vector<int32_t> key = numbers;
    return groups_.emplace(std::move(key), rate()).first->second;
  }

  /// Groups of which of_group was asked.
  int64_t asked() const { return asked_; }
  /// How many kernels of different structure there were.
  int64_t computed() const { return computed_; }

 private:
  const Target& target_;
  struct NumbersHash {
    size_t operator()(const std::vector<int32_t>& numbers) const { return Hasher().add_all(numbers).value(); }
  };
  std::unordered_map<std::string, KernelTime> known_;
  std::unordered_map<std::string, int64_t> kinds_;
  std::unordered_map<std::vector<int32_t>, KernelTime, NumbersHash> groups_;
  int64_t asked_ = 0, computed_ = 0;
};

}  // namespace strata::emitters
