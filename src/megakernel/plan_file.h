// Plans for several batch sizes in one file: a decode step of other sequences than the plan was made for needs another
// division into tasks. The runtime takes the smallest batch that the sequences of a step fit in.
#pragma once

#include <map>

#include "megakernel/plan.h"

namespace strata::megakernel {

struct PlanFile {
  static constexpr int kVersion = 1;
  std::string name;
  std::map<int64_t, Plan> by_batch;  ///< batch sizes are positive; usually powers of two

  /// The plan for a step of so many sequences: that of the smallest batch that holds them; null where none does.
  const Plan* find(int64_t sequences) const;
};

/// One JSON object, with a version; parse_plan_file reads it. Errors (InvalidInput) name the place.
std::string print_plan_file(const PlanFile& file);
Result<PlanFile> parse_plan_file(const std::string& text);

}  // namespace strata::megakernel
