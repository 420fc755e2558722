// What a mega-kernel executes: tasks in a linear order, the events between them, and a queue for each worker. The
// compiler (tgraph) makes it, the runtime reads it, and both check it. docs/megakernel.md explains the terms.
//
// All of it holds for one step (one token for each sequence of a batch); steps are numbered by epochs, and nothing is
// reset between them: an event's counter has reached `triggers` · epoch when it is active in that epoch, the first of
// which is 1.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "megakernel/max_waits.h"
#include "support/error.h"

namespace strata::megakernel {

/// How what a task makes comes to those that wait for it.
enum class HandOff : uint8_t {
  Counter,  ///< through device memory; a counter there says that all who trigger the event have written
  /// Through device memory, in words that carry the epoch of their data: no event is signalled or waited for. All that
  /// the tasks store that trigger it are such words, each of them written once a step.
  Tagged,
  /// All are tasks of one worker, in order: nothing is signalled or waited for. Their data lie in device memory as any
  /// other's, or in scratch memory, which only that worker's compute team touches.
  Worker,
};

/// In the order of HandOff, as files and reports name them.
inline constexpr std::array<const char*, 3> kHandOffs{"counter", "tagged", "worker"};

/// When a task comes into a worker's queue.
enum class LaunchMode : uint8_t {
  AheadOfTime,  ///< before the kernel starts: into the queue of a worker that the plan names
  JustInTime,   ///< when its events are active: a scheduler gives it to a worker
};

/// A block function as the tasks of an image call it.
struct TaskFunction {
  std::string name;
  /// Of the ring, that a task's loads fill, one after the other, of stage_bytes each: at most so many and so large ones
  /// where a length is known at run time alone. 0: it loads no constants.
  int64_t stages = 0;
  int64_t stage_bytes = 0;         ///< a multiple of 16
  int64_t scratch_bytes = 0;       ///< of the worker's scratch memory
  bool stores_for_copies = false;  ///< loads of later steps read what it stores, such as a row of a cache
  bool operator==(const TaskFunction&) const = default;
};

struct Event {
  int64_t triggers = 0;  ///< tasks that signal it, in each epoch
  int64_t first = 0;     ///< tasks [first, end) wait for it
  int64_t end = 0;
  HandOff hand_off = HandOff::Counter;
  bool operator==(const Event&) const = default;
};

struct Task {
  int function = -1;  ///< of Plan::functions; −1: an empty task, which only waits and signals
  int op = -1;        ///< of Plan::operators, for reports; −1: an empty task
  std::array<int64_t, 3> coordinates{};
  std::vector<int> waits;  ///< events, at most kMaxWaits
  int signal = -1;         ///< the event that it triggers; −1: none
  LaunchMode mode = LaunchMode::AheadOfTime;
  /// Ahead of time, but some task that it waits for may only end after one just in time: it is one, comes after one by
  /// events, or stands after such a one in a queue. It may only be begun, its loads included, when its events are
  /// active, lest it keep the worker from what it waits for. It and tasks just in time wait for counters alone.
  bool after_just_in_time = false;
  bool operator==(const Task&) const = default;
};

struct Plan {
  static constexpr int kVersion = 1;
  std::string name;
  int workers = 0;
  int schedulers = 0;  ///< 0 where no task is just in time
  std::vector<TaskFunction> functions;
  std::vector<std::string> operators;
  std::vector<Event> events;
  std::vector<Task> tasks;               ///< linear order: those of an event are neighbours (paper, Algorithm 1)
  std::vector<std::vector<int>> queues;  ///< by worker: its tasks ahead of time, in the order in which it runs them
};

/// One JSON object, with a version; parse_plan reads it. Errors (InvalidInput) name the place.
std::string print_plan(const Plan& plan);
Result<Plan> parse_plan(const std::string& text);

}  // namespace strata::megakernel
