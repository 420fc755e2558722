#include "emitters/kinds/decision.h"

#include <fmt/format.h>

namespace strata::emitters {

std::string to_string(const Decision& decision) {
  std::string text;
  const auto line = [&](const std::string& name, const std::string& fact) {
    text += fmt::format("  {:<16} {}\n", name, fact);
  };
  line("emitter", fmt::format("{}: {}", decision.emitter, decision.reason));
  for (const Launch& launch : decision.launches) {
    std::string what = launch.blocks == 0
                           ? "nothing to do"
                           : fmt::format("{} block{} of {} threads, {} bytes of shared memory", launch.blocks,
                                         launch.blocks == 1 ? "" : "s", launch.threads, launch.shared_bytes);
    if (launch.min_blocks > 0) what += fmt::format(", room for {} on a multiprocessor", launch.min_blocks);
    line("launch", launch.name.empty() ? what : fmt::format("{}: {}", launch.name, what));
  }
  for (const auto& [name, fact] : decision.details) line(name, fact);
  for (size_t i = 0; i < decision.temporaries.size(); ++i) {
    line(fmt::format("temporary {}", i), hlo::to_string(decision.temporaries[i]));
  }
  for (const Preparation& one : decision.preparations) {
    const std::string to = fmt::format("{} {}", one.temporary ? "temporary" : "output", one.output);
    line("before", one.kind == Preparation::Kind::Copy ? fmt::format("copy input {} to {}", one.input, to)
                                                       : fmt::format("fill {} with its initial value", to));
  }
  for (const auto& [name, why] : decision.refused) line("not " + name, why);
  return text;
}

}  // namespace strata::emitters
