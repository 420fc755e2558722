// `strata measure-worker` without the rest of Strata, for tests of the process that starts it. The first argument may
// be a way to go wrong.
#include "runtime/measure_worker.h"

#include <unistd.h>

#include <cstdio>
#include <string>

int main(int count, char** arguments) {
  const std::string mode = count > 1 ? arguments[1] : "";
  if (mode == "silent") pause();
  if (mode == "ends") return 7;
  if (mode == "nonsense") std::puts("[1, 2]");
  if (mode == "babbles") {
    std::puts(R"({"device": "a GPU", "driver": 1})");
    std::fflush(stdout);
    char request = 0;
    if (read(STDIN_FILENO, &request, 1) == 1) std::puts("42");
    std::fflush(stdout);
    pause();
  }
  return mode.empty() ? strata::run_measure_worker(STDIN_FILENO, STDOUT_FILENO) : 0;
}
