// Why a kernel ended before its time: what each role of each worker waited for, as its words in device memory say it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "megakernel/plan.h"
#include "megakernel/runtime/core/base.h"

namespace strata::megakernel {

/// One role's report; see Activity for object, have and want.
struct RoleReport {
  Role role = Role::Control;
  int index = 0;  ///< of the worker or the scheduler
  Activity activity = Activity::None;
  int task = -1;  ///< −1: none
  uint32_t epoch = 0;
  int object = -1;
  uint32_t have = 0;
  uint32_t want = 0;
};

struct AbortReport {
  RoleReport cause;
  std::vector<RoleReport> roles;  ///< of all workers, then schedulers
};

/// `abort` is not 0; `words` are those of Program::reports.
AbortReport read_report(uint32_t abort, std::span<const uint32_t> words, int workers);

/// "worker 2 compute, task 7 (O projection), epoch 3: waits for event 4, counter 11 of 12".
std::string describe(const RoleReport& report, const Plan& plan);
/// The cause, and a line for each role that has not left.
std::string describe(const AbortReport& report, const Plan& plan);

}  // namespace strata::megakernel
