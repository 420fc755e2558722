#include "runtime/measure_worker.h"

#include <unistd.h>

#include "commands.h"

namespace strata::cli {

void add_measure_worker(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand(kMeasureWorker, "Measure programs for `strata optimize`, as it asks on the input");
  command->group("");  // not listed
  command->callback([&action] {
    action = []() -> Result<int> {
      return run_measure_worker(STDIN_FILENO, STDOUT_FILENO) == 0 ? kSuccess : kEnvironment;
    };
  });
}

}  // namespace strata::cli
