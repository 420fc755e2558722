// The estimated times of kernels, each computed once.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "hlo/hlo.h"
#include "machine/target.h"

namespace strata::emitters {

/// estimated_microseconds (pass.h), remembered by structure (hlo/structure_key.h): kernels that differ in names alone
/// take the same time. Layers of a model and the updates of its parameters are alike, and a fusion pass over a changed
/// module forms most groups again that the pass before it has formed. Not for several threads at once.
class Ratings {
 public:
  explicit Ratings(const Target& target) : target_(target) {}

  /// Of the module's entry as one kernel.
  double microseconds(const hlo::Module& module);

  int64_t asked() const { return asked_; }
  /// How many kernels of different structure there were.
  int64_t computed() const { return static_cast<int64_t>(known_.size()); }

 private:
  const Target& target_;
  std::unordered_map<std::string, double> known_;
  int64_t asked_ = 0;
};

}  // namespace strata::emitters
