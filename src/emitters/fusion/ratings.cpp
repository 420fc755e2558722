#include "emitters/fusion/ratings.h"

#include "emitters/fusion/pass.h"
#include "emitters/fusion/priced_kernel.h"
#include "hlo/structure_key.h"

namespace strata::emitters {

KernelTime Ratings::time(const hlo::Module& module) {
  std::string key = hlo::structure_key(module);
  if (const auto found = known_.find(key); found != known_.end()) return found->second;
  const KernelTime time = kernel_time(module, target_);
  ++computed_;
  known_.emplace(std::move(key), time);
  return time;
}

KernelTime Ratings::time(const PricedKernel& kernel, const ComputedOnce& together) {
  ++computed_;
  return time_of_work(kernel_work(kernel, together), target_);
}

int64_t Ratings::kind_of(const hlo::Module& module, const hlo::Instruction& instruction) {
  const auto next = static_cast<int64_t>(kinds_.size());
  return kinds_.try_emplace(hlo::structure_key(module, instruction), next).first->second;
}

}  // namespace strata::emitters
