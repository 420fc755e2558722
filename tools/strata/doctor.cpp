// `strata doctor`: what of this machine Strata can use.
#include "runtime/doctor.h"

#include "commands.h"
#include "emitters.h"

namespace strata::cli {

void add_doctor(CLI::App& app, Action& action, const Process& process) {
  auto* command = app.add_subcommand("doctor", "What of this machine Strata can use: GPU, CUDA's libraries, LLVM");
  command->callback([&action, more = process.findings] {
    action = [more]() -> Result<int> {
      std::vector<Finding> findings = examine_machine();
      findings.push_back(emitters_finding());
      for (Finding& one : more ? more() : std::vector<Finding>()) findings.push_back(std::move(one));
      fmt::print("{}", describe(findings));
      return kSuccess;
    };
  });
}

}  // namespace strata::cli
