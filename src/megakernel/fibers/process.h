// A program that runs beside this one: a launch of the mega-kernel on the host, or its compiler.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "support/error.h"

namespace strata::megakernel {

/// An open file that is closed with its owner.
class OpenFile {
 public:
  explicit OpenFile(int number = -1) : number_(number) {}
  OpenFile(OpenFile&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  OpenFile& operator=(OpenFile&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~OpenFile();

  int number() const { return number_; }

 private:
  int number_;
};

/// While it lives, signals that end this process wait, and those of the terminal reach the programs that it started
/// alone: what it made by then can be removed before it ends.
class HeldSignals {
 public:
  HeldSignals();
  ~HeldSignals();
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

 private:
  sigset_t before_{};
};

class Process {
 public:
  /// How it ended.
  struct End {
    int status = 0;    ///< as of waitpid
    std::string text;  ///< what it said on its outputs, and, where it was ended by a signal, which
    bool succeeded() const { return status == 0; }
  };

  /// What SIGINT and SIGTERM do that a terminal or a shell sends to this process and those that it started.
  enum class Interrupts : uint8_t {
    End,   ///< the program
    Wait,  ///< nothing in it: this process says how it ends
  };
  /// Starts command[0], which is searched for as a shell does, with those arguments, and `settings` ("NAME=value") in
  /// front of this process's environment. It inherits open files that are not closed on exec, and no other signal is
  /// blocked in it. Error (Environment) where it cannot be started.
  static Result<Process> start(const std::vector<std::string>& command, const std::vector<std::string>& settings,
                               Interrupts interrupts = Interrupts::End);
  /// Ends it where it runs.
  ~Process();
  Process(Process&& other) noexcept
      : id_(std::exchange(other.id_, -1)),
        ended_(other.ended_),
        status_(other.status_),
        output_(std::move(other.output_)) {}
  Process& operator=(Process&&) = delete;

  bool running();
  /// Until it has ended.
  Result<End> wait();

 private:
  Process(pid_t id, OpenFile output) : id_(id), output_(std::move(output)) {}
  void look(int options);

  pid_t id_;
  bool ended_ = false;
  int status_ = 0;
  OpenFile output_;
};

}  // namespace strata::megakernel
