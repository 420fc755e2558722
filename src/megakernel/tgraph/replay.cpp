#include "megakernel/tgraph/replay.h"

#include <algorithm>
#include <deque>

#include "indexing/interval.h"

namespace strata::megakernel {
namespace {

/// The ring's bytes, as the runtime's loader counts them (runtime/core/ring.h).
class Ring {
 public:
  explicit Ring(const Machine& machine) : bytes_(machine.ring_bytes), most_(machine.ring_stages) {}

  bool push(int64_t stage_bytes) {
    const int64_t room = indexing::ceil_div(stage_bytes, kStageUnit) * kStageUnit;
    const int64_t begin = at_ + room <= bytes_ ? at_ : 0;
    const int64_t taken = begin == at_ || used_ == 0 ? room : room + bytes_ - at_;
    if (static_cast<int64_t>(taken_.size()) == most_ || used_ + taken > bytes_) return false;
    taken_.push_back(taken);
    used_ += taken;
    at_ = begin + room;
    return true;
  }
  void pop() {
    used_ -= taken_.front();
    taken_.pop_front();
  }

 private:
  static constexpr int64_t kStageUnit = 1024;
  int64_t bytes_, most_;
  int64_t at_ = 0, used_ = 0;
  std::deque<int64_t> taken_;  ///< by stage
};

struct Worker {
  explicit Worker(const Machine& machine) : ring(machine) {}
  std::vector<int> order;
  size_t queue_at = 0;
  std::deque<int> just_in_time;
  size_t load_at = 0;
  size_t run_at = 0;
  int64_t stages_left = 0;  ///< of the task at load_at, to be filled
  Ring ring;
  std::vector<int64_t> held;  ///< stages of each task of the order
};

class Replay {
 public:
  Replay(const Plan& plan, const Machine& machine)
      : plan_(plan),
        machine_(machine),
        workers_(plan.queues.size(), Worker(machine)),
        counters_(plan.events.size(), 0),
        given_(plan.tasks.size(), false) {}

  Result<void> run() {
    size_t ended = 0;
    for (bool progress = true; progress;) {
      progress = give();
      for (size_t w = 0; w < workers_.size(); ++w) {
        while (load(w) || compute(w, ended)) progress = true;
      }
    }
    if (ended == plan_.tasks.size()) return {};
    return stuck();
  }

 private:
  bool is_active(int event) const {
    return counters_[static_cast<size_t>(event)] >= plan_.events[static_cast<size_t>(event)].triggers;
  }
  bool can_run(int number) const {
    const Task& task = plan_.tasks[static_cast<size_t>(number)];
    return std::all_of(task.waits.begin(), task.waits.end(), [&](int event) { return is_active(event); });
  }

  /// Schedulers: tasks of ranges of active events go to workers.
  bool give() {
    bool any = false;
    if (plan_.schedulers == 0) return any;
    for (size_t e = 0; e < plan_.events.size(); ++e) {
      if (!is_active(static_cast<int>(e))) continue;
      for (int64_t t = plan_.events[e].first; t < plan_.events[e].end; ++t) {
        const auto task = static_cast<size_t>(t);
        if (plan_.tasks[task].mode != LaunchMode::JustInTime || given_[task] || !can_run(static_cast<int>(t))) continue;
        given_[task] = true;
        workers_[next_worker_++ % workers_.size()].just_in_time.push_back(static_cast<int>(t));
        any = true;
      }
    }
    return any;
  }

  bool load(size_t w) {
    Worker& worker = workers_[w];
    bool any = false;
    if (worker.load_at == worker.order.size()) {
      const std::vector<int>& queue = plan_.queues[w];
      int task = -1;
      if (!worker.just_in_time.empty()) {
        task = worker.just_in_time.front();
        worker.just_in_time.pop_front();
      } else if (worker.queue_at < queue.size()) {
        task = queue[worker.queue_at];
        if (plan_.tasks[static_cast<size_t>(task)].after_just_in_time && !can_run(task)) return false;
        ++worker.queue_at;
      }
      if (task < 0) return false;
      const int function = plan_.tasks[static_cast<size_t>(task)].function;
      worker.order.push_back(task);
      worker.held.push_back(0);
      worker.stages_left = function < 0 ? 0 : plan_.functions[static_cast<size_t>(function)].stages;
      any = true;
    }
    const int number = plan_.tasks[static_cast<size_t>(worker.order[worker.load_at])].function;
    while (worker.stages_left > 0 && worker.ring.push(plan_.functions[static_cast<size_t>(number)].stage_bytes)) {
      --worker.stages_left;
      ++worker.held[worker.load_at];
      any = true;
    }
    if (worker.stages_left > 0) return any;
    ++worker.load_at;
    return true;
  }

  bool compute(size_t w, size_t& ended) {
    Worker& worker = workers_[w];
    if (worker.run_at == worker.order.size() || !can_run(worker.order[worker.run_at])) return false;
    // What it holds is read; then there is room for the rest.
    int64_t& held = worker.held[worker.run_at];
    const bool read = held > 0;
    for (; held > 0; --held) worker.ring.pop();
    if (worker.load_at <= worker.run_at) return read;
    const int signal = plan_.tasks[static_cast<size_t>(worker.order[worker.run_at])].signal;
    if (signal >= 0) ++counters_[static_cast<size_t>(signal)];
    ++worker.run_at;
    ++ended;
    return true;
  }

  tl::unexpected<Error> stuck() const {
    for (size_t w = 0; w < workers_.size(); ++w) {
      const Worker& worker = workers_[w];
      const bool begun = worker.run_at < worker.order.size();
      if (!begun && worker.queue_at == plan_.queues[w].size()) continue;
      const int number = begun ? worker.order[worker.run_at] : plan_.queues[w][worker.queue_at];
      for (int event : plan_.tasks[static_cast<size_t>(number)].waits) {
        if (!is_active(event))
          return invalid("worker {} waits for ever: task {} for event {}, which has {} of {} triggers", w, number,
                         event, counters_[static_cast<size_t>(event)],
                         plan_.events[static_cast<size_t>(event)].triggers);
      }
      return invalid("worker {} waits for ever: task {} for {} stages of a ring of {} bytes", w, number,
                     worker.stages_left, machine_.ring_bytes);
    }
    return invalid("tasks just in time are given to no worker");
  }

  const Plan& plan_;
  const Machine& machine_;
  std::vector<Worker> workers_;
  std::vector<int64_t> counters_;
  std::vector<bool> given_;
  size_t next_worker_ = 0;
};

}  // namespace

Result<void> replay(const Plan& plan, const Machine& machine) { return Replay(plan, machine).run(); }

}  // namespace strata::megakernel
