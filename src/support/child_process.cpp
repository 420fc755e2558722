#include "support/child_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "support/write_file.h"

namespace strata {
namespace {

/// All that comes until the other end is closed.
std::string read_all(int file) {
  std::string text;
  std::array<char, 4096> part{};
  for (;;) {
    const ssize_t got = read(file, part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(part.data(), static_cast<size_t>(got));
  }
}

/// In the child, from which it never returns: destructors and exit handlers are the parent's.
[[noreturn]] void report(int to, pid_t parent, const std::function<std::string()>& work) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // the parent had died before it was asked
  signal(SIGINT, SIG_IGN);            // the parent decides
  try {
    _exit(write_all(to, work()) == 0 ? 0 : 1);
  } catch (...) {
    _exit(1);
  }
}

}  // namespace

std::optional<std::string> in_child_process(const std::stop_token& stop, const std::function<std::string()>& work) {
  if (stop.stop_requested()) return std::nullopt;
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return std::nullopt;
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) report(ends[1], parent, work);
  close(ends[1]);
  std::string text;
  int status = -1;
  if (child > 0) {
    {
      const std::stop_callback end(stop, [child] { kill(child, SIGKILL); });
      text = read_all(ends[0]);
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
  }
  close(ends[0]);
  if (child < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0) return std::nullopt;
  return text;
}

}  // namespace strata
