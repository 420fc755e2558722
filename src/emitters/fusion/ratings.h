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

/// estimated_microseconds (pass.h), remembered by structure (hlo/structure_key.h): kernels that differ in names alone
/// take the same time. Layers of a model and the updates of its parameters are alike, and a fusion pass over a changed
/// module forms most groups again that the pass before it has formed. Not for several threads at once.
class Ratings {
 public:
  explicit Ratings(const Target& target) : target_(target) {}

  /// Of the module's entry as one kernel.
  double microseconds(const hlo::Module& module);

  /// A number for an instruction and all that it calls, but for its operands: equal where hlo::structure_key is.
  int64_t kind_of(const hlo::Module& module, const hlo::Instruction& instruction);

  /// Of a group of instructions, described by numbers that determine the kernel's module; `rate` is called where no
  /// group with these numbers has been asked for before.
  template <class Rate>
  double of_group(std::vector<int64_t> numbers, const Rate& rate) {
    ++asked_;
    const auto [place, is_new] = groups_.try_emplace(std::move(numbers), 0.0);
    if (is_new) place->second = rate();
    return place->second;
  }

  /// Groups of which of_group was asked.
  int64_t asked() const { return asked_; }
  /// How many kernels of different structure there were.
  int64_t computed() const { return static_cast<int64_t>(known_.size()); }

 private:
  const Target& target_;
  struct NumbersHash {
    size_t operator()(const std::vector<int64_t>& numbers) const { return Hasher().add_all(numbers).value(); }
  };
  std::unordered_map<std::string, double> known_;
  std::unordered_map<std::string, int64_t> kinds_;
  std::unordered_map<std::vector<int64_t>, double, NumbersHash> groups_;
  int64_t asked_ = 0;
};

}  // namespace strata::emitters
