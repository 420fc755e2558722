#include "megakernel/tgraph/schedule.h"

#include <limits>
#include <queue>

#include "megakernel/tgraph/linearise.h"
#include "megakernel/tgraph/plan_precedence.h"

namespace strata::megakernel {
namespace {

/// A worker that triggered none of the events.
constexpr int kOther = -3;

/// When a worker's two timelines are free, as far as it has tasks.
struct Timeline {
  double loader = 0;
  double compute = 0;
  double last_begin = 0;  ///< of its last task: what that held of the ring is free then
};

struct Placement {
  double begin = 0;
  double load_end = 0;
  double end = 0;
};

class ListSchedule {
 public:
  ListSchedule(const Plan& plan, const OperatorGraph& operators, const Machine& machine)
      : plan_(plan),
        operators_(operators),
        machine_(machine),
        precedence_(precedence_of(plan, /*queues=*/false)),
        share_(std::min(machine.rates.worker_bandwidth, machine.rates.stream_bandwidth / machine.workers)) {}

  Result<std::vector<std::vector<int>>> run() {
    const auto order = precedence_.order();
    if (!order) return invalid("tasks wait for each other in a cycle");
    find_paths(*order);
    std::vector<std::vector<int>> out(plan_.events.size()), queues(static_cast<size_t>(machine_.workers));
    std::vector<size_t> waits_left, triggers_left;
    for (const auto& triggers : precedence_.triggers) triggers_left.push_back(triggers.size());
    const auto later = [&](int a, int b) {
      return std::pair(path_[static_cast<size_t>(a)], -a) < std::pair(path_[static_cast<size_t>(b)], -b);
    };
    std::priority_queue<int, std::vector<int>, decltype(later)> ready(later);
    for (size_t t = 0; t < plan_.tasks.size(); ++t) {
      waits_left.push_back(plan_.tasks[t].waits.size());
      for (int event : plan_.tasks[t].waits) out[static_cast<size_t>(event)].push_back(static_cast<int>(t));
    }
    const auto complete = [&](size_t event) {
      for (int task : out[event]) {
        if (--waits_left[static_cast<size_t>(task)] == 0) ready.push(task);
      }
    };
    timelines_.assign(queues.size(), {});
    event_end_.assign(plan_.events.size(), 0);
    event_worker_.assign(plan_.events.size(), -2);
    for (size_t t = 0; t < waits_left.size(); ++t) {
      if (waits_left[t] == 0) ready.push(static_cast<int>(t));
    }
    for (size_t e = 0; e < triggers_left.size(); ++e) {
      if (triggers_left[e] == 0) complete(e);
    }
    while (!ready.empty()) {
      const int task = ready.top();
      ready.pop();
      place(task, queues);
      const int signal = plan_.tasks[static_cast<size_t>(task)].signal;
      if (signal >= 0 && --triggers_left[static_cast<size_t>(signal)] == 0) complete(static_cast<size_t>(signal));
    }
    return queues;
  }

 private:
  double seconds_of(const Task& task) const {
    if (task.op < 0) return 0;
    return std::max(operators_.operators[static_cast<size_t>(task.op)].cost.seconds, machine_.rates.task_interval);
  }
  double bytes_of(const Task& task) const {
    return task.op < 0 ? 0
                       : static_cast<double>(operators_.operators[static_cast<size_t>(task.op)].cost.constant_bytes);
  }
  double latency(size_t event) const {
    return machine_.counter().seconds(static_cast<int64_t>(precedence_.triggers[event].size()), 0);
  }

  /// The longest path from the begin of each task to the end of the step.
  void find_paths(const std::vector<int>& order) {
    path_.assign(plan_.tasks.size(), 0);
    std::vector<double> from_event(plan_.events.size(), 0);
    for (size_t i = order.size(); i-- > 0;) {
      const auto t = static_cast<size_t>(order[i]);
      const Task& task = plan_.tasks[t];
      path_[t] = std::max(seconds_of(task), bytes_of(task) / share_);
      if (task.signal >= 0)
        path_[t] += latency(static_cast<size_t>(task.signal)) + from_event[static_cast<size_t>(task.signal)];
      for (int event : task.waits) {
        double& longest = from_event[static_cast<size_t>(event)];
        longest = std::max(longest, path_[t]);
      }
    }
  }

  /// When all events of a task are active, for a worker: those that it alone triggers sooner than others.
  double ready_at(const Task& task, int worker) const {
    double ready = 0;
    for (int event : task.waits) {
      const auto e = static_cast<size_t>(event);
      ready =
          std::max(ready, event_end_[e] + (event_worker_[e] == worker ? machine_.rates.worker_hand_off : latency(e)));
    }
    return ready;
  }

  Placement on(const Timeline& timeline, const Task& task, double ready) const {
    const double seconds = seconds_of(task), bytes = bytes_of(task);
    const double ring = static_cast<double>(machine_.ring_bytes);
    Placement placed;
    placed.begin = std::max(timeline.compute, ready);
    const double start = std::max(timeline.loader, timeline.last_begin);
    const double ahead = std::min({bytes, ring, std::max(0.0, placed.begin - start) * share_});
    placed.load_end =
        ahead >= bytes ? start + bytes / share_ : std::max(start, placed.begin) + (bytes - ahead) / share_;
    placed.end = std::max(placed.begin + seconds, placed.load_end);
    return placed;
  }

  void place(int number, std::vector<std::vector<int>>& queues) {
    const Task& task = plan_.tasks[static_cast<size_t>(number)];
    int best = -1;
    Placement placed;
    if (task.mode == LaunchMode::JustInTime) {
      placed = on({}, task, ready_at(task, kOther) + machine_.rates.dispatch);
    } else {
      const double remote = ready_at(task, kOther);
      for (int w = 0; w < machine_.workers; ++w) {
        const bool near = std::any_of(task.waits.begin(), task.waits.end(),
                                      [&](int event) { return event_worker_[static_cast<size_t>(event)] == w; });
        const Timeline& timeline = timelines_[static_cast<size_t>(w)];
        const Placement here = on(timeline, task, near ? ready_at(task, w) : remote);
        // Of equals, the one whose loader is free first: its memory pipe stands still.
        const bool better = best < 0 || here.end < placed.end ||
                            (here.end == placed.end && timeline.loader < timelines_[static_cast<size_t>(best)].loader);
        if (!better) continue;
        best = w;
        placed = here;
      }
      Timeline& timeline = timelines_[static_cast<size_t>(best)];
      timeline = {std::max(timeline.loader, placed.load_end), placed.end, placed.begin};
      queues[static_cast<size_t>(best)].push_back(number);
    }
    if (task.signal < 0) return;
    const auto event = static_cast<size_t>(task.signal);
    event_end_[event] = std::max(event_end_[event], placed.end);
    event_worker_[event] = event_worker_[event] == -2 || event_worker_[event] == best ? best : -1;
  }

  const Plan& plan_;
  const OperatorGraph& operators_;
  const Machine& machine_;
  const Precedence precedence_;
  const double share_;  ///< of device memory's bandwidth, for one worker
  std::vector<double> path_;
  std::vector<Timeline> timelines_;
  std::vector<double> event_end_;
  std::vector<int> event_worker_;  ///< the worker of all its triggers; −1: several; −2: none yet
};

}  // namespace

Result<Scheduled> schedule(const Plan& plan, const OperatorGraph& operators, const Machine& machine, Policy policy) {
  if (machine.workers < 1) return invalid("the machine has {} workers", machine.workers);
  Scheduled result{plan, {}};
  result.plan.workers = machine.workers;
  if (policy == Policy::LongestPath) {
    STRATA_TRY(result.plan.queues, ListSchedule(plan, operators, machine).run());
  } else {
    result.plan.queues.assign(static_cast<size_t>(machine.workers), {});
    size_t next = 0;
    for (size_t t = 0; t < plan.tasks.size(); ++t) {
      if (plan.tasks[t].mode == LaunchMode::AheadOfTime)
        result.plan.queues[next++ % result.plan.queues.size()].push_back(static_cast<int>(t));
    }
  }
  STRATA_TRY(result.plan, mark_after_just_in_time(result.plan));
  STRATA_TRY(result.estimate, simulate(result.plan, operators, machine));
  return result;
}

}  // namespace strata::megakernel
