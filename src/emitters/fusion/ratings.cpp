#include "emitters/fusion/ratings.h"

#include "emitters/fusion/pass.h"
#include "hlo/structure_key.h"

namespace strata::emitters {

double Ratings::microseconds(const hlo::Module& module) {
  ++asked_;
  std::string key = hlo::structure_key(module);
  if (const auto found = known_.find(key); found != known_.end()) return found->second;
  const double time = estimated_microseconds(module, target_);
  known_.emplace(std::move(key), time);
  return time;
}

}  // namespace strata::emitters
