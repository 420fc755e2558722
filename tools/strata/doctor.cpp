// `strata doctor`: what of this machine Strata can use.
#include "compiler/doctor.h"

#include "commands.h"

namespace strata::cli {

void add_doctor(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("doctor", "What of this machine Strata can use: GPU, CUDA's libraries, LLVM");
  command->callback([&action] {
    action = []() -> Result<int> {
      fmt::print("{}", compiler::describe(compiler::examine_machine()));
      return kSuccess;
    };
  });
}

}  // namespace strata::cli
