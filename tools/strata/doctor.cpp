// `strata doctor`: what of this machine Strata can use.
#include "runtime/doctor.h"

#include "commands.h"
#include "emitters.h"

namespace strata::cli {

void add_doctor(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("doctor", "What of this machine Strata can use: GPU, CUDA's libraries, LLVM");
  command->callback([&action] {
    action = []() -> Result<int> {
      std::vector<Finding> findings = examine_machine();
      findings.push_back(emitters_finding());
      fmt::print("{}", describe(findings));
      return kSuccess;
    };
  });
}

}  // namespace strata::cli
