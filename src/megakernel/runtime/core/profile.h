// Begin and end of tasks, by worker and role. Where kProfile is false nothing of it is compiled.
#pragma once

#include "megakernel/runtime/core/spin.h"

namespace strata::megakernel {

/// Of one role; its leader alone uses it.
template <bool kProfile, class Platform>
class Profile {
 public:
  STRATA_DEVICE explicit Profile(Context<Platform>& c) : c_(c) {}

  STRATA_DEVICE void begin() {
    if constexpr (kProfile) began_ = c_.platform.clock();
  }
  /// Records the task of the context; what does not fit is counted.
  STRATA_DEVICE void end() {
    if constexpr (kProfile) {
      const Program<Platform>& program = c_.program;
      if (program.profile == nullptr) return;
      const int buffer = c_.index * (kWorkerRoles - 1) + static_cast<int>(c_.role) - 1;
      if (count_ < program.profile_capacity) {
        program.profile[static_cast<unsigned long long>(buffer) * program.profile_capacity + count_] = {
            c_.task, c_.epoch, began_, c_.platform.clock()};
      }
      program.profiled[buffer] = ++count_;
    }
  }

 private:
  Context<Platform>& c_;
  unsigned long long began_ = 0;
  unsigned count_ = 0;
};

}  // namespace strata::megakernel
