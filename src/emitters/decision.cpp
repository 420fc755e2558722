#include "emitters/decision.h"

#include <fmt/format.h>

namespace strata::emitters {

std::string to_string(const Decision& decision) {
  std::string text;
  const auto line = [&](const std::string& name, const std::string& fact) {
    text += fmt::format("  {:<16} {}\n", name, fact);
  };
  line("emitter", fmt::format("{}: {}", decision.emitter, decision.reason));
  line("launch", decision.blocks == 0
                     ? "nothing to do"
                     : fmt::format("{} block{} of {} threads, {} bytes of shared memory", decision.blocks,
                                   decision.blocks == 1 ? "" : "s", decision.threads, decision.shared_bytes));
  for (const auto& [name, fact] : decision.details) line(name, fact);
  for (const Preparation& one : decision.preparations) {
    line("before", one.kind == Preparation::Kind::Copy
                       ? fmt::format("copy input {} to output {}", one.input, one.output)
                       : fmt::format("fill output {} with its initial value", one.output));
  }
  for (const auto& [name, why] : decision.refused) line("not " + name, why);
  return text;
}

}  // namespace strata::emitters
