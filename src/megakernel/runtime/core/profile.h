// Begin and end of tasks, by worker and role. Where kProfile is false nothing of it is compiled.
//
// A role leaves its times in the task's entry of the list, in shared memory, and control brings them to device memory
// when both roles are done with the entry. So the roles that a step waits for only read the clock.
#pragma once

#include "megakernel/runtime/core/spin.h"

namespace strata::megakernel {

/// By one thread of load or of compute.
template <bool kProfile, class Platform>
STRATA_DEVICE void note_begin(Context<Platform>& c, Descriptor& entry) {
  if constexpr (kProfile) entry.begin[static_cast<int>(c.role) - 1] = c.platform.now();
}
/// Before the role gives the entry back.
template <bool kProfile, class Platform>
STRATA_DEVICE void note_end(Context<Platform>& c, Descriptor& entry) {
  if constexpr (kProfile) entry.end[static_cast<int>(c.role) - 1] = c.platform.now();
}

/// Of a worker, for control.
template <bool kProfile, class Platform>
class Profile {
 public:
  STRATA_DEVICE explicit Profile(Context<Platform>& c) : c_(c) {}

  /// Records what both roles have left in an entry, over the oldest where there is no room.
  STRATA_DEVICE void record(const Descriptor& entry) {
    if constexpr (kProfile) {
      const Program<Platform>& program = c_.program;
      if (program.profile == nullptr || program.profile_capacity == 0) return;
      for (int role = 0; role < kWorkerRoles - 1; ++role) {
        const int buffer = c_.index * (kWorkerRoles - 1) + role;
        program.profile[static_cast<unsigned long long>(buffer) * program.profile_capacity + next_] = {
            entry.record.task, entry.epoch, entry.begin[role], entry.end[role]};
        program.profiled[buffer] = count_ + 1;
      }
      ++count_;
      if (++next_ == program.profile_capacity) next_ = 0;
    }
  }

 private:
  Context<Platform>& c_;
  unsigned count_ = 0;
  unsigned next_ = 0;  ///< count_ modulo the capacity
};

}  // namespace strata::megakernel
