#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <csignal>
#include <ctime>
#include <utility>

#include "python/bindings.h"
#include "run_commands.h"

namespace strata::python {
namespace {

/// While it lives, signals do to the process what they do to one of a command alone: Python handles SIGINT between
/// instructions of its own, which a command has none of, and ignores SIGPIPE. What was ignored otherwise stays so.
class CommandSignals {
 public:
  CommandSignals() {
    for (auto& [signal, before] : kept_) {
      sigaction(signal, nullptr, &before);
      if (signal == SIGPIPE || before.sa_handler != SIG_IGN) std::signal(signal, SIG_DFL);
    }
    pthread_sigmask(SIG_SETMASK, nullptr, &mask_);
  }
  ~CommandSignals() {
    sigset_t waiting;
    sigpending(&waiting);
    // Those that a command waited for (InterruptWatch) and that came after its end are too late for anything.
    for (const auto& [signal, before] : kept_) {
      sigset_t one;
      sigemptyset(&one);
      sigaddset(&one, signal);
      const timespec at_once{};
      if (sigismember(&waiting, signal) == 1 && sigismember(&mask_, signal) == 0) sigtimedwait(&one, nullptr, &at_once);
      sigaction(signal, &before, nullptr);
    }
    pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
  }
  CommandSignals(const CommandSignals&) = delete;
  CommandSignals& operator=(const CommandSignals&) = delete;

 private:
  std::array<std::pair<int, struct sigaction>, 3> kept_{{{SIGINT, {}}, {SIGTERM, {}}, {SIGPIPE, {}}}};
  sigset_t mask_{};
};

/// Findings of Python as it gives them: (name, version, path, why it is missing, what it is for).
std::vector<Finding> findings_of(const nb::callable& function) {
  const nb::gil_scoped_acquire locked;
  std::vector<Finding> findings;
  for (const nb::handle one : function()) {
    const auto word = [&](size_t i) { return nb::cast<std::string>(one[i]); };
    findings.push_back({word(0), word(1), word(2), word(3), word(4)});
  }
  return findings;
}

int run_command(const std::vector<nb::bytes>& words, const std::vector<std::string>& command,
                const nb::callable& findings) {
  std::vector<std::string> kept{"strata"};
  for (const nb::bytes& word : words) kept.emplace_back(word.c_str(), word.size());
  std::vector<char*> arguments;
  for (std::string& word : kept) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const nb::gil_scoped_release unlocked;
  const CommandSignals signals;
  return cli::run_commands(static_cast<int>(kept.size()), arguments.data(),
                           {command, [&findings] { return findings_of(findings); }});
}

}  // namespace

void bind_commands(nb::module_& module) {
  using namespace nb::literals;
  module.def("run_command", &run_command, "words"_a, "command"_a, "findings"_a,
             "Runs a command of the command line as the process's own; the exit code. `command`: the words that start "
             "the command line in another process. `findings`: what `doctor` says beside the machine, a list of (name, "
             "version, path, why it is missing, what it is for).");
}

}  // namespace strata::python
