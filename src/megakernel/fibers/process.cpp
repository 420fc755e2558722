#include "megakernel/fibers/process.h"

#include <fmt/format.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

namespace strata::megakernel {
namespace {

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (const std::string& text : texts) all.push_back(const_cast<char*>(text.c_str()));
  return all;
}

}  // namespace

OpenFile::~OpenFile() {
  if (number_ >= 0) close(number_);
}

HeldSignals::HeldSignals() {
  sigset_t held;
  sigemptyset(&held);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&held, signal);
  pthread_sigmask(SIG_BLOCK, &held, &before_);
}

HeldSignals::~HeldSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

Result<Process> Process::start(const std::vector<std::string>& command, const std::vector<std::string>& settings,
                               Interrupts interrupts) {
  OpenFile output(memfd_create("output", MFD_CLOEXEC));
  if (output.number() < 0) return environment("a file in memory: {}", std::strerror(errno));
  std::vector<char*> arguments = pointers(command);
  arguments.push_back(nullptr);
  std::vector<char*> variables = pointers(settings);
  for (char** one = environ; *one != nullptr; ++one) variables.push_back(*one);
  variables.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, output.number(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output.number(), STDERR_FILENO);
  sigset_t blocked;
  sigemptyset(&blocked);
  if (interrupts == Interrupts::Wait) {
    sigaddset(&blocked, SIGINT);
    sigaddset(&blocked, SIGTERM);
  }
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigmask(&attributes, &blocked);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t id = -1;
  const int error = posix_spawnp(&id, arguments[0], &actions, &attributes, arguments.data(), variables.data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return environment("cannot start {}: {}", command[0], std::strerror(error));
  return Process(id, std::move(output));
}

Process::~Process() {
  if (id_ < 0) return;
  if (running()) kill(id_, SIGKILL);
  look(0);
}

void Process::look(int options) {
  while (!ended_) {
    const pid_t found = waitpid(id_, &status_, options);
    if (found == 0) return;
    ended_ = found == id_ || errno != EINTR;
  }
}

bool Process::running() {
  look(WNOHANG);
  return !ended_;
}

Result<Process::End> Process::wait() {
  look(0);
  End end{status_, {}};
  std::array<char, 4096> part{};
  for (off_t at = 0;;) {
    const ssize_t got = pread(output_.number(), part.data(), part.size(), at);
    if (got <= 0) break;
    end.text.append(part.data(), static_cast<size_t>(got));
    at += got;
  }
  if (WIFSIGNALED(status_)) end.text += fmt::format("ended by signal {}", WTERMSIG(status_));
  return end;
}

}  // namespace strata::megakernel
