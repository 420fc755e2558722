#include "megakernel/tgraph/simulate.h"

#include <deque>
#include <limits>
#include <queue>

namespace strata::megakernel {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// A worker: what it loads and computes is one sequence of tasks.
struct Worker {
  std::vector<int> sequence;
  size_t queue_at = 0;  ///< next task of its queue
  std::deque<int> just_in_time;

  size_t load_at = 0;     ///< of the sequence
  bool loading = false;   ///< gets its share of the memory now
  double load_left = 0;   ///< bytes of the task at load_at that were not granted yet
  double granted = 0;     ///< bytes that are being loaded
  double granted_at = 0;  ///< what every loader had got then
  uint64_t grant = 0;     ///< number of the grant: older ones in the heap are void

  size_t run_at = 0;
  bool running = false;
  double began = 0;
  double free_at = 0;                ///< when its last task ended
  double ring_used = 0;              ///< bytes of tasks that have not begun
  double ahead = 0;                  ///< those of the task at load_at
  std::vector<double> loaded_ahead;  ///< of each task of the sequence: bytes that came before it began
  std::vector<double> loaded_at;     ///< of each task of the sequence; kNever until then

  double computing = 0, waiting_for_memory = 0, waiting_for_events = 0;
};

class Simulation {
 public:
  Simulation(const Plan& plan, const OperatorGraph& operators, const Machine& machine)
      : plan_(plan),
        operators_(operators),
        machine_(machine),
        ring_(static_cast<double>(machine.ring_bytes)),
        workers_(plan.queues.size()),
        worker_of_(plan.tasks.size(), -1),
        out_(plan.events.size()) {
    for (size_t w = 0; w < plan.queues.size(); ++w) {
      for (int task : plan.queues[w]) worker_of_[static_cast<size_t>(task)] = static_cast<int>(w);
    }
    for (size_t t = 0; t < plan.tasks.size(); ++t) {
      waits_left_.push_back(plan.tasks[t].waits.size());
      for (int event : plan.tasks[t].waits) out_[static_cast<size_t>(event)].push_back(static_cast<int>(t));
    }
    for (const Event& event : plan.events) triggers_left_.push_back(event.triggers);
  }

  Result<Estimate> run() {
    for (size_t e = 0; e < triggers_left_.size(); ++e) {
      if (triggers_left_[e] == 0) times_.push({0, Kind::Active, static_cast<int>(e)});
    }
    for (size_t w = 0; w < workers_.size(); ++w) advance(w);
    while (step()) {
    }
    if (ended_ < plan_.tasks.size())
      return invalid("{} of {} tasks never run: they wait for each other", plan_.tasks.size() - ended_,
                     plan_.tasks.size());
    Estimate estimate;
    double bytes = 0;
    for (const Task& task : plan_.tasks) bytes += bytes_of(task);
    estimate.floor = bytes / machine_.rates.stream_bandwidth;
    for (const Worker& worker : workers_) estimate.seconds = std::max(estimate.seconds, worker.free_at);
    const auto count = static_cast<double>(workers_.size());
    for (const Worker& worker : workers_) {
      estimate.computing += worker.computing / count;
      estimate.waiting_for_memory += worker.waiting_for_memory / count;
      estimate.waiting_for_events += worker.waiting_for_events / count;
      estimate.idle += (estimate.seconds - worker.free_at) / count;
    }
    return estimate;
  }

 private:
  enum class Kind { Ended, Active, Dispatched };
  struct Moment {
    double time;
    Kind kind;
    int number;  ///< worker, event or task
    bool operator>(const Moment& other) const {
      return std::tie(time, kind, number) > std::tie(other.time, other.kind, other.number);
    }
  };
  /// When every loader has got so many bytes, a worker's grant is there.
  struct Grant {
    double at;
    size_t worker;
    uint64_t number;
    bool operator>(const Grant& other) const { return std::tie(at, worker) > std::tie(other.at, other.worker); }
  };

  const TaskCost* cost_of(const Task& task) const {
    return task.op < 0 ? nullptr : &operators_.operators[static_cast<size_t>(task.op)].cost;
  }
  double bytes_of(const Task& task) const {
    const TaskCost* cost = cost_of(task);
    return cost == nullptr ? 0 : static_cast<double>(cost->constant_bytes);
  }
  double seconds_of(const Task& task) const {
    return task.op < 0 ? 0 : std::max(cost_of(task)->seconds, machine_.rates.task_interval);
  }
  /// The part of a task's time that its last load must be there for.
  double tail_of(const Task& task) const {
    return bytes_of(task) > 0 ? seconds_of(task) / static_cast<double>(std::max<int64_t>(cost_of(task)->stages, 1)) : 0;
  }
  const Task& task_at(const Worker& worker, size_t at) const {
    return plan_.tasks[static_cast<size_t>(worker.sequence[at])];
  }

  /// Of each worker that loads, bytes per second.
  double rate() const {
    return std::min(machine_.rates.worker_bandwidth,
                    machine_.rates.stream_bandwidth / static_cast<double>(std::max(loaders_, 1)));
  }

  /// Goes on to what happens next; false if nothing does.
  bool step() {
    while (!grants_.empty() && grants_.top().number != workers_[grants_.top().worker].grant) grants_.pop();
    const double next_grant = grants_.empty() ? kNever : now_ + std::max(0.0, grants_.top().at - got_) / rate();
    const double next_moment = times_.empty() ? kNever : times_.top().time;
    if (next_grant == kNever && next_moment == kNever) return false;
    const double next = std::min(next_grant, next_moment);
    if (next_grant <= next_moment) {
      got_ = std::max(got_, grants_.top().at);
    } else {
      got_ += (next - now_) * rate();
    }
    now_ = std::max(now_, next);
    if (next_grant <= next_moment) {
      const size_t worker = grants_.top().worker;
      grants_.pop();
      arrived(worker);
      advance(worker);
      return true;
    }
    const Moment moment = times_.top();
    times_.pop();
    if (moment.kind == Kind::Ended) {
      ended(static_cast<size_t>(moment.number));
      advance(static_cast<size_t>(moment.number));
    } else if (moment.kind == Kind::Active) {
      active(moment.number);
    } else {
      dispatch(moment.number);
    }
    return true;
  }

  void active(int event) {
    for (int task : out_[static_cast<size_t>(event)]) {
      if (--waits_left_[static_cast<size_t>(task)] > 0) continue;
      if (plan_.tasks[static_cast<size_t>(task)].mode == LaunchMode::JustInTime) {
        times_.push({now_ + machine_.rates.dispatch, Kind::Dispatched, task});
      } else if (worker_of_[static_cast<size_t>(task)] >= 0) {
        advance(static_cast<size_t>(worker_of_[static_cast<size_t>(task)]));
      }
    }
  }

  void dispatch(int task) {
    size_t best = 0;
    const auto to_do = [&](size_t w) {
      return workers_[w].just_in_time.size() + workers_[w].sequence.size() - workers_[w].run_at;
    };
    for (size_t w = 1; w < workers_.size(); ++w) {
      if (to_do(w) < to_do(best)) best = w;
    }
    workers_[best].just_in_time.push_back(task);
    advance(best);
  }

  /// Lets a worker do what it can do now.
  void advance(size_t w) {
    Worker& worker = workers_[w];
    for (;;) {
      take_next(worker);
      load(w);
      if (worker.load_at < worker.sequence.size() && worker.load_left == 0 && worker.granted == 0) {
        worker.loaded_at[worker.load_at] = now_;
        worker.loaded_ahead[worker.load_at] = worker.ahead;
        worker.ahead = 0;
        if (worker.running && worker.load_at == worker.run_at) finish_at(w);
        ++worker.load_at;
        continue;
      }
      if (begin(w)) continue;
      return;
    }
  }

  /// Control: the loader is given its next task.
  void take_next(Worker& worker) {
    if (worker.load_at < worker.sequence.size()) return;
    const auto& queue = plan_.queues[static_cast<size_t>(&worker - workers_.data())];
    int task = -1;
    if (!worker.just_in_time.empty()) {
      task = worker.just_in_time.front();
      worker.just_in_time.pop_front();
    } else if (worker.queue_at < queue.size()) {
      const int next = queue[worker.queue_at];
      if (plan_.tasks[static_cast<size_t>(next)].after_just_in_time && waits_left_[static_cast<size_t>(next)] > 0)
        return;
      task = next;
      ++worker.queue_at;
    }
    if (task < 0) return;
    worker.sequence.push_back(task);
    worker.loaded_at.push_back(kNever);
    worker.loaded_ahead.push_back(0);
    worker.load_left = bytes_of(plan_.tasks[static_cast<size_t>(task)]);
    worker.ahead = 0;
  }

  /// Starts loading what there is room for.
  void load(size_t w) {
    Worker& worker = workers_[w];
    if (worker.loading || worker.load_at == worker.sequence.size() || worker.load_left == 0) return;
    const bool begun = worker.running && worker.load_at == worker.run_at;
    const double room = begun ? worker.load_left : std::min(worker.load_left, ring_ - worker.ring_used);
    if (room < 1) return;
    worker.loading = true;
    worker.granted = room;
    worker.granted_at = got_;
    worker.load_left -= room;
    ++loaders_;
    grants_.push({got_ + room, w, ++worker.grant});
  }

  void arrived(size_t w) {
    Worker& worker = workers_[w];
    const bool begun = worker.running && worker.load_at == worker.run_at;
    if (!begun) {
      worker.ring_used += worker.granted;
      worker.ahead += worker.granted;
    }
    worker.granted = 0;
    worker.loading = false;
    ++worker.grant;
    --loaders_;
  }

  bool begin(size_t w) {
    Worker& worker = workers_[w];
    if (worker.running || worker.run_at == worker.sequence.size()) return false;
    const int task = worker.sequence[worker.run_at];
    if (waits_left_[static_cast<size_t>(task)] > 0) return false;
    worker.running = true;
    worker.began = now_;
    worker.waiting_for_events += now_ - worker.free_at;
    if (worker.run_at < worker.load_at) {
      worker.ring_used -= worker.loaded_ahead[worker.run_at];
      finish_at(w);
    } else {
      worker.ring_used -= worker.ahead;
      worker.ahead = 0;
    }
    return true;
  }

  void finish_at(size_t w) {
    const Worker& worker = workers_[w];
    const Task& task = task_at(worker, worker.run_at);
    const double end = std::max(worker.began + seconds_of(task), worker.loaded_at[worker.run_at] + tail_of(task));
    times_.push({std::max(end, now_), Kind::Ended, static_cast<int>(w)});
  }

  void ended(size_t w) {
    Worker& worker = workers_[w];
    const Task& task = task_at(worker, worker.run_at);
    const double computing = std::min(seconds_of(task), now_ - worker.began);
    worker.computing += computing;
    worker.waiting_for_memory += now_ - worker.began - computing;
    worker.running = false;
    worker.free_at = now_;
    ++worker.run_at;
    ++ended_;
    if (task.signal < 0) return;
    const auto event = static_cast<size_t>(task.signal);
    if (--triggers_left_[event] == 0) times_.push({now_ + latency(plan_.events[event]), Kind::Active, task.signal});
  }

  double latency(const Event& event) const {
    const double share = static_cast<double>(loaders_) * rate() / machine_.rates.stream_bandwidth;
    switch (event.hand_off) {
      case HandOff::Counter:
        return machine_.counter().seconds(event.triggers, share);
      case HandOff::Tagged:
        return machine_.tagged().seconds(event.triggers, share);
      case HandOff::Worker:
        return machine_.rates.worker_hand_off;
    }
    return 0;
  }

  const Plan& plan_;
  const OperatorGraph& operators_;
  const Machine& machine_;
  const double ring_;
  std::vector<Worker> workers_;
  std::vector<int> worker_of_;
  std::vector<std::vector<int>> out_;  ///< of each event
  std::vector<size_t> waits_left_;
  std::vector<int64_t> triggers_left_;
  std::priority_queue<Moment, std::vector<Moment>, std::greater<>> times_;
  std::priority_queue<Grant, std::vector<Grant>, std::greater<>> grants_;
  double now_ = 0;
  double got_ = 0;   ///< bytes that one who had loaded all the time would have
  int loaders_ = 0;  ///< who share the memory now
  size_t ended_ = 0;
};

}  // namespace

Result<Estimate> simulate(const Plan& plan, const OperatorGraph& operators, const Machine& machine) {
  if (plan.queues.empty()) return invalid("the plan has no queues; schedule it before");
  return Simulation(plan, operators, machine).run();
}

}  // namespace strata::megakernel
