// By hand: any number of random programs through superoptimize, each in a process of its own, so that a crash, a hang
// or a heap that grows is that program's and not the run's. Usage:
//
//   optimize_random [--iotas] [COUNT [FIRST_SEED [SECONDS]]]
//
// SECONDS is the time limit of a program. Fails where one crashes, is refused, is wrong (see mistake()), takes more
// than 1.1 × SECONDS + 2 s of the one processor that it has, or needs more than 2 GiB; prints those programs, and what
// fails them, on stdout.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <cstring>
#include <string>
#include <string_view>

#include "superopt/test_optimized.h"

namespace {

using namespace strata;

constexpr int64_t kMostKibibytes = int64_t{2} << 20;
constexpr unsigned kSecondsUntilHung = 120;
constexpr double kMostSeconds = 100;  ///< a longer run would be called hung
constexpr std::string_view kUsage =
    "optimize_random [--iotas] [COUNT [FIRST_SEED [SECONDS]]]\n"
    "  superoptimizes COUNT random programs (100) from FIRST_SEED (0) on, each within SECONDS (0.5, at most 100);\n"
    "  with --iotas programs that have masks\n";

/// In the child: what is wrong, on the descriptor; nothing where nothing is.
void optimize(uint64_t seed, Iotas iotas, double seconds, int report) {
  const RandomProgram program = random_program(seed, iotas);
  const auto result = superoptimize(program.graph, hasty_options(seconds));
  const std::string text = result ? mistake(program, *result) : "refused: " + result.error().to_string();
  if (write(report, text.data(), text.size()) < 0) _exit(2);
  _exit(0);
}

/// The whole text as a number; false where it is none.
template <class Number>
bool parse(std::string_view text, Number& number) {
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  return status == std::errc() && end == text.data() + text.size();
}

struct Outcome {
  std::string failure;
  double seconds = 0;  ///< of the processor: a loaded machine is not the program's fault
  int64_t kibibytes = 0;
};

Outcome run(uint64_t seed, Iotas iotas, double seconds) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) return {"no pipe", 0, 0};
  const pid_t child = fork();
  if (child < 0) return {"no process", 0, 0};
  if (child == 0) {
    close(ends[0]);
    alarm(kSecondsUntilHung);
    optimize(seed, iotas, seconds, ends[1]);
  }
  close(ends[1]);
  Outcome outcome;
  std::array<char, 4096> buffer{};
  for (ssize_t got = 0; (got = read(ends[0], buffer.data(), buffer.size())) > 0;) {
    outcome.failure.append(buffer.data(), static_cast<size_t>(got));
  }
  close(ends[0]);
  int status = 0;
  rusage used{};
  wait4(child, &status, 0, &used);
  const auto in_seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  outcome.seconds = in_seconds(used.ru_utime) + in_seconds(used.ru_stime);
  outcome.kibibytes = used.ru_maxrss;
  if (WIFSIGNALED(status)) outcome.failure = fmt::format("killed: {}", strsignal(WTERMSIG(status)));
  if (WIFEXITED(status) && WEXITSTATUS(status) != 0) outcome.failure = "ended with an exception";
  if (!outcome.failure.empty()) return outcome;
  const double allowed = 1.1 * seconds + 2;
  if (outcome.seconds > allowed) outcome.failure = fmt::format("{:.1f} s, not {:.1f}", outcome.seconds, allowed);
  if (outcome.kibibytes > kMostKibibytes) outcome.failure = fmt::format("{} MiB", outcome.kibibytes >> 10);
  return outcome;
}

}  // namespace

int main(int argc, char** argv) {
  Iotas iotas = Iotas::Without;
  if (argc > 1 && std::string_view(argv[1]) == "--iotas") {
    iotas = Iotas::With;
    ++argv;
    --argc;
  }
  uint64_t count = 100;
  uint64_t first = 0;
  double seconds = 0.5;
  const bool read = (argc <= 1 || parse(argv[1], count)) && (argc <= 2 || parse(argv[2], first)) &&
                    (argc <= 3 || (parse(argv[3], seconds) && seconds > 0 && seconds <= kMostSeconds)) && argc <= 4;
  if (!read) {
    const bool asked = argc == 2 && (std::string_view(argv[1]) == "--help" || std::string_view(argv[1]) == "-h");
    fmt::print(asked ? stdout : stderr, "{}", kUsage);
    return asked ? 0 : 2;
  }
  uint64_t failed = 0;
  double slowest = 0;
  int64_t largest = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const Outcome outcome = run(seed, iotas, seconds);
    slowest = std::max(slowest, outcome.seconds);
    largest = std::max(largest, outcome.kibibytes);
    if (outcome.failure.empty()) continue;
    ++failed;
    fmt::print("seed {}: {}\n{}\n", seed, outcome.failure, print(*random_program(seed, iotas).graph));
    std::fflush(stdout);
  }
  fmt::print("{} programs, {} failed; at most {:.1f} s and {} MiB\n", count, failed, slowest, largest >> 10);
  return failed == 0 ? 0 : 1;
}
