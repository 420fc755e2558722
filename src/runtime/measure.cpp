#include "runtime/measure.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>

extern char** environ;

namespace strata {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

/// The length of a wait, so that a request to stop is seen soon.
constexpr int kSliceMilliseconds = 50;
/// Seconds to wait for a killed process; one that the kernel does not let go is left behind.
constexpr double kPatience = 60;

Measurement verdict_of(MeasureVerdict verdict, std::string reason) {
  Measurement measurement;
  measurement.verdict = verdict;
  measurement.reason = std::move(reason);
  return measurement;
}

tl::unexpected<Error> stopped() { return tl::unexpected(Error{ErrorCode::Interrupted, "interrupted", {}, {}}); }

/// Not finite numbers come as null.
double number(const Json& json) {
  return json.is_number() ? json.get<double>() : std::numeric_limits<double>::quiet_NaN();
}

/// Throws Json::exception where the answer is none.
Measurement read_answer(const Json& json) {
  if (json.contains("failed")) return verdict_of(MeasureVerdict::Failed, json.at("failed").get<std::string>());
  Measurement measurement;
  measurement.verdict = MeasureVerdict::Right;
  for (const auto& [name, output] : json.at("outputs").items()) {
    const double error = number(output.at("error"));
    const double allowed = output.at("tolerance").get<double>();
    if (std::isnan(error) || error > measurement.error) measurement.error = error;
    if (error <= allowed || measurement.verdict == MeasureVerdict::Wrong) continue;  // NaN is not
    measurement.verdict = MeasureVerdict::Wrong;
    measurement.reason = std::isnan(error) ? fmt::format("{} holds NaN", name)
                                           : fmt::format("{}: error {:.2e}, above {:.0e}", name, error, allowed);
    if (json.contains("note")) measurement.reason += "; " + json.at("note").get<std::string>();
  }
  if (measurement.verdict != MeasureVerdict::Right) return measurement;
  measurement.cold_us = json.at("cold_us").get<double>();
  measurement.hot_us = json.at("hot_us").get<double>();
  return measurement;
}

/// Whether the process ended within this many seconds.
bool wait_for(pid_t child, double seconds, int& status) {
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (Clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace

std::string_view name_of(MeasureVerdict verdict) {
  switch (verdict) {
    case MeasureVerdict::Right:
      return "right";
    case MeasureVerdict::Wrong:
      return "wrong";
    case MeasureVerdict::Failed:
      return "failed";
    case MeasureVerdict::Timeout:
      return "timeout";
    case MeasureVerdict::NotMeasured:
      return "not measured";
  }
  return {};
}

Result<void> MeasureWorker::spawn() {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return environment("cannot make a socket: {}", std::strerror(errno));
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::vector<char*> arguments;
  for (std::string& word : options_.command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const int failed = posix_spawn(&child_, arguments.front(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (failed != 0) {
    close(ends[0]);
    child_ = -1;
    return environment("cannot start '{}': {}", options_.command.front(), std::strerror(failed));
  }
  socket_ = ends[0];
  received_.clear();
  ++starts_;
  return {};
}

std::string MeasureWorker::end(double patience) {
  if (socket_ >= 0) close(socket_);
  socket_ = -1;
  if (child_ < 0) return {};
  const pid_t child = std::exchange(child_, -1);
  int status = 0;
  if (wait_for(child, patience, status)) {
    return WIFSIGNALED(status) ? fmt::format("its process died: {}", strsignal(WTERMSIG(status)))
                               : fmt::format("its process ended with exit code {}", WEXITSTATUS(status));
  }
  kill(child, SIGKILL);
  wait_for(child, kPatience, status);
  return "its process was killed";
}

bool MeasureWorker::send(const std::string& line) {
  for (size_t at = 0; at < line.size();) {
    const ssize_t sent = ::send(socket_, line.data() + at, line.size() - at, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    at += static_cast<size_t>(sent);
  }
  return true;
}

MeasureWorker::Wait MeasureWorker::receive(double seconds, const std::stop_token& stop, std::string& line) {
  const auto end_time = Clock::now() + std::chrono::duration<double>(seconds);
  std::array<char, 4096> block{};
  for (;;) {
    if (const size_t end = received_.find('\n'); end != std::string::npos) {
      line = received_.substr(0, end);
      received_.erase(0, end + 1);
      return Wait::Line;
    }
    if (stop.stop_requested()) return Wait::Stopped;
    // What has come in time counts, however late this process gets to see it.
    const bool late = Clock::now() > end_time;
    pollfd waiting{socket_, POLLIN, 0};
    if (poll(&waiting, 1, kSliceMilliseconds) <= 0) {
      if (late) return Wait::Timeout;
      continue;
    }
    const ssize_t count = recv(socket_, block.data(), block.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return Wait::Ended;
    received_.append(block.data(), static_cast<size_t>(count));
  }
}

Result<MeasureDevice> MeasureWorker::start(const std::stop_token& stop) {
  if (child_ >= 0) return device_;
  STRATA_CHECK(spawn());
  std::string line;
  const Wait came = receive(options_.start_timeout, stop, line);
  if (came == Wait::Stopped) {
    end();
    return stopped();
  }
  if (came == Wait::Timeout) {
    end();
    return environment("the process that measures did not start in {:g} s", options_.start_timeout);
  }
  if (came != Wait::Line) return environment("the process that measures does not start: {}", end(kPatience));
  const Json hello = Json::parse(line, nullptr, false);
  if (hello.is_object() && hello.contains("device") && hello["device"].is_string() && hello.contains("driver") &&
      hello["driver"].is_number_integer()) {
    const auto text = [&](const char* key) {
      return hello.contains(key) && hello[key].is_string() ? hello[key].get<std::string>() : std::string();
    };
    device_ = {hello["device"].get<std::string>(),
               hello["driver"].get<int>(),
               text("cublas_lt"),
               text("without_cublas_lt"),
               text("cudnn"),
               text("without_cudnn")};
    return device_;
  }
  end();
  const bool reason = hello.is_object() && hello.contains("failed") && hello["failed"].is_string();
  return environment("the process that measures does not start: {}",
                     reason ? hello["failed"].get<std::string>() : "it says '" + line + "'");
}

Result<Measurement> MeasureWorker::measure(const MeasureRequest& request, const std::stop_token& stop) {
  STRATA_CHECK(start(stop));
  const Json json = {{"cubin", request.cubin},
                     {"manifest", request.manifest},
                     {"inputs", request.inputs},
                     {"expected", request.expected},
                     {"save", request.save}};
  double patience = options_.start_timeout;
  Wait came = send(json.dump() + "\n") ? Wait::Line : Wait::Ended;
  while (came == Wait::Line) {
    std::string line;
    came = receive(patience, stop, line);
    if (came != Wait::Line) break;
    const Json answer = Json::parse(line, nullptr, false);
    if (answer.is_object() && answer.contains("ready")) {
      patience = options_.timeout;
      continue;
    }
    try {
      Measurement measurement = read_answer(answer);
      if (answer.contains("lost")) end();
      return measurement;
    } catch (const Json::exception&) {
      end();
      return verdict_of(MeasureVerdict::Failed, "its process answers with nonsense");
    }
  }
  const std::string how = end(came == Wait::Ended ? kPatience : 0);
  if (came == Wait::Stopped) return stopped();
  if (came == Wait::Timeout) {
    return verdict_of(MeasureVerdict::Timeout, fmt::format("no answer in {:g} s", patience));
  }
  return verdict_of(MeasureVerdict::Failed, how);
}

}  // namespace strata
