#include "ir/target.h"

namespace strata {

const std::vector<Target>& targets() {
  // sm_90a: bandwidth, matrix rate, launch cost and room for clusters as measured on an H200; the rest, and sm_80, from
  // datasheets.
  static const std::vector<Target> table = {
      {"sm_80", 108, 163 * 1024, 1, 2, 108, false, false, false, int64_t{80} << 30, 65536, 1.8e12, 250e12, 19.5e12,
       1.6e-6},
      {"sm_90a", 132, 227 * 1024, 8, 4, 120, true, true, true, int64_t{141} << 30, 65536, 4.39e12, 680e12, 60e12,
       1.4e-6},
  };
  return table;
}

Result<const Target*> find_target(std::string_view name) {
  for (const Target& target : targets()) {
    if (target.name == name) return &target;
  }
  return with_remedy(invalid("unknown target '{}'; expected sm_80 or sm_90a", name), "write one of the two");
}

}  // namespace strata
