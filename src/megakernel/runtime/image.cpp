#include "megakernel/runtime/image.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <map>

#include "megakernel/plan_end.h"
#include "megakernel/plan_relations.h"

namespace strata::megakernel {
namespace {

Result<void> check_shape(const WorkerShape& shape) {
  const auto positive = [](int64_t value) { return value > 0 && value <= std::numeric_limits<int>::max(); };
  const auto power_of_two = [](int value) { return value > 0 && std::has_single_bit(static_cast<unsigned>(value)); };
  if (!positive(shape.ring_bytes) || shape.ring_bytes % kStageUnit != 0)
    return invalid("a ring of {} bytes; it must be a multiple of {}", shape.ring_bytes, kStageUnit);
  if (!positive(shape.window_bytes)) return invalid("a window of {} bytes", shape.window_bytes);
  if (!power_of_two(shape.warps)) return invalid("{} warps of compute; expected a power of two", shape.warps);
  if (!power_of_two(shape.ring_stages) || shape.ring_stages / 4 < shape.warps)
    return invalid("barriers for {} stages with {} warps; expected a power of two, and at least 4 for each warp",
                   shape.ring_stages, shape.warps);
  if (shape.ahead_bytes < 0 || shape.ahead_bytes > std::numeric_limits<int>::max() || shape.ahead_bytes % 16 != 0)
    return with_remedy(invalid("{} bytes ahead of the ring", shape.ahead_bytes),
                       "give a multiple of 16, or 0 for none");
  if (shape.scratch_bytes < 0) return invalid("scratch memory of {} bytes", shape.scratch_bytes);
  if (!positive(shape.listed)) return invalid("a list of {} tasks; it needs one entry at least", shape.listed);
  if (!power_of_two(shape.queue_capacity))
    return invalid("a queue of {} tasks; its capacity must be a power of two", shape.queue_capacity);
  return {};
}

Result<void> check_function(const TaskFunction& function, const WorkerShape& shape) {
  if (function.stages < 0 || function.stage_bytes < 0 || function.stage_bytes % 16 != 0 ||
      (function.stages > 0 && function.stage_bytes == 0))
    return invalid("function {} has {} stages of {} bytes; expected a multiple of 16", function.name, function.stages,
                   function.stage_bytes);
  if (function.stage_bytes > shape.ring_bytes)
    return invalid("function {} has stages of {} bytes; the ring has {}", function.name, function.stage_bytes,
                   shape.ring_bytes);
  if (function.scratch_bytes < 0 || function.scratch_bytes > shape.scratch_bytes)
    return invalid("function {} takes {} bytes of scratch memory; a worker has {}", function.name,
                   function.scratch_bytes, shape.scratch_bytes);
  return {};
}

/// What a plan says the other way round, and an order of its tasks.
struct Relations : PlanRelations {
  explicit Relations(const Plan& plan) : PlanRelations(plan) {}
  std::vector<int> order;  ///< tasks, after what they wait for and what is before them in a queue
};

Result<void> check_functions(const Plan& plan, const WorkerShape& shape) {
  if (plan.schedulers < 0) return invalid("plan '{}' has {} schedulers", plan.name, plan.schedulers);
  for (const TaskFunction& function : plan.functions) STRATA_CHECK(check_function(function, shape));
  if (plan.schedulers > 0) return {};
  for (size_t t = 0; t < plan.tasks.size(); ++t)
    if (plan.tasks[t].mode == LaunchMode::JustInTime)
      return with_remedy(invalid("task {} is just in time, and the plan has no scheduler", t), "give it one");
  return {};
}

Result<Relations> relate(const Plan& plan) {
  const size_t tasks = plan.tasks.size();
  Relations r(plan);
  for (size_t e = 0; e < plan.events.size(); ++e) {
    if (plan.events[e].triggers != static_cast<int64_t>(r.triggers[e].size()) || r.triggers[e].empty())
      return invalid("event {}: {} triggers, and {} tasks signal it", e, plan.events[e].triggers, r.triggers[e].size());
  }
  for (size_t w = 0; w < plan.queues.size(); ++w) {
    for (size_t i = 0; i < plan.queues[w].size(); ++i) {
      const int t = plan.queues[w][i];
      if (plan.tasks[t].mode == LaunchMode::JustInTime)
        return invalid("queue {}: task {} is just in time; a scheduler gives it to a worker", w, t);
      // The relations have the last of its places.
      if (r.worker[t] != static_cast<int>(w) || r.place[t] != static_cast<int>(i))
        return invalid("task {} is in queue {} and in queue {}", t, w, r.worker[t]);
    }
  }
  for (size_t t = 0; t < tasks; ++t)
    if (plan.tasks[t].mode == LaunchMode::AheadOfTime && r.worker[t] < 0)
      return invalid("task {} is ahead of time, and in no queue", t);

  std::vector<std::vector<int>> next(tasks);
  std::vector<int> open(tasks, 0);
  const auto after = [&](int before, int t) {
    next[before].push_back(t);
    ++open[t];
  };
  for (size_t t = 0; t < tasks; ++t)
    for (const int event : plan.tasks[t].waits)
      for (const int producer : r.triggers[event]) after(producer, static_cast<int>(t));
  for (const auto& queue : plan.queues)
    for (size_t i = 1; i < queue.size(); ++i) after(queue[i - 1], queue[i]);
  for (size_t t = 0; t < tasks; ++t)
    if (open[t] == 0) r.order.push_back(static_cast<int>(t));
  for (size_t i = 0; i < r.order.size(); ++i)
    for (const int t : next[r.order[i]])
      if (--open[t] == 0) r.order.push_back(t);
  if (r.order.size() != tasks) {
    const auto stuck = std::find_if(open.begin(), open.end(), [](int count) { return count > 0; }) - open.begin();
    return with_remedy(invalid("task {} waits for itself, by events and the order of queues", stuck),
                       "order each queue as the plan orders its tasks");
  }
  return r;
}

Result<void> check_end(const Plan& plan) {
  const std::vector<int> running = running_at_end(plan);
  if (running.empty()) return {};
  return with_remedy(invalid("task {} may still run when the last one, {}, ends the step: no counters and queues lead "
                             "from it to there",
                             running.back(), plan.tasks.size() - 1),
                     "let it, or a later task of its worker, signal a counter that the last task waits for, directly "
                     "or not");
}

}  // namespace

Result<Image> make_image(const Plan& plan, const WorkerShape& shape) {
  STRATA_CHECK(check_shape(shape));
  STRATA_CHECK(check_numbers(plan));
  STRATA_CHECK(check_functions(plan, shape));
  STRATA_TRY(const Relations r, relate(plan));

  // Whether a task can only end after some task just in time: one that it waits for, or that is before it in its queue.
  std::vector<bool> late(plan.tasks.size(), false);
  std::vector<bool> waits_for_late(plan.tasks.size(), false);
  for (const int t : r.order) {
    for (const int event : plan.tasks[t].waits)
      for (const int producer : r.triggers[event]) waits_for_late[t] = waits_for_late[t] || late[producer];
    const bool behind = r.previous[t] >= 0 && late[r.previous[t]];
    late[t] = plan.tasks[t].mode == LaunchMode::JustInTime || waits_for_late[t] || behind;
  }

  Image image;
  image.workers = plan.workers;
  image.schedulers = plan.schedulers;
  for (const Event& event : plan.events) image.triggers.push_back(static_cast<int>(event.triggers));
  for (size_t t = 0; t < plan.tasks.size(); ++t) {
    const Task& task = plan.tasks[t];
    TaskRecord record{};
    std::copy(task.coordinates.begin(), task.coordinates.end(), record.coordinates);
    record.task = static_cast<int>(t);
    record.function = task.function;
    record.op = task.op;
    record.signal = task.signal >= 0 && plan.events[task.signal].hand_off == HandOff::Counter ? task.signal : -1;
    unsigned flags = t + 1 == plan.tasks.size() ? kEndsStep : 0;
    if (task.function >= 0 && plan.functions[task.function].stores_for_copies) flags |= kStoresForCopies;
    if (task.mode == LaunchMode::AheadOfTime && (task.after_just_in_time || waits_for_late[t]))
      flags |= kAfterJustInTime;
    for (const int event : task.waits) {
      switch (plan.events[event].hand_off) {
        case HandOff::Counter:
          record.waits[record.wait_count++] = event;
          break;
        case HandOff::Tagged:
          // Nobody but compute sees that tagged words have come, so nobody else can wait for it.
          if (task.mode == LaunchMode::JustInTime ||
              std::any_of(r.triggers[event].begin(), r.triggers[event].end(), [&](int p) { return late[p]; }))
            return with_remedy(invalid("task {} waits for event {} by tagged words, just in time or for a task that is "
                                       "or waits for one",
                                       t, event),
                               "hand over by a counter there");
          break;
        case HandOff::Worker:
          for (const int producer : r.triggers[event])
            if (r.worker[t] < 0 || r.worker[producer] != r.worker[t] || r.place[producer] > r.place[t])
              return with_remedy(
                  invalid("task {} waits for task {} as a task of one worker, and is not after it in one queue", t,
                          producer),
                  "put both in one queue, ahead of time, or hand over by a counter");
          break;
      }
    }
    record.flags = static_cast<short>(flags);
    image.tasks.push_back(record);
  }

  STRATA_CHECK(check_end(plan));
  image.queue_first.push_back(0);
  for (const auto& queue : plan.queues) {
    image.queue_tasks.insert(image.queue_tasks.end(), queue.begin(), queue.end());
    image.queue_first.push_back(static_cast<int>(image.queue_tasks.size()));
  }

  // Tasks just in time by what they wait for, and these in the order of their first tasks.
  std::map<std::vector<int>, std::vector<int>> groups;
  for (size_t t = 0; t < plan.tasks.size(); ++t)
    if (plan.tasks[t].mode == LaunchMode::JustInTime) groups[plan.tasks[t].waits].push_back(static_cast<int>(t));
  std::vector<const std::pair<const std::vector<int>, std::vector<int>>*> sorted;
  for (const auto& group : groups) sorted.push_back(&group);
  // By the order of dependencies, not by number: the first launch must never wait for a later one.
  std::vector<int> rank(plan.tasks.size());
  for (size_t i = 0; i < r.order.size(); ++i) rank[r.order[i]] = static_cast<int>(i);
  const auto first_of = [&](const auto* group) {
    int first = std::numeric_limits<int>::max();
    for (const int t : group->second) first = std::min(first, rank[t]);
    return first;
  };
  std::sort(sorted.begin(), sorted.end(), [&](auto* a, auto* b) { return first_of(a) < first_of(b); });
  image.just_in_time = !sorted.empty();
  image.launch_first.push_back(0);
  for (int s = 0; s < plan.schedulers; ++s) {
    for (size_t g = s; g < sorted.size(); g += plan.schedulers) {
      LaunchRecord launch{};
      for (const int event : sorted[g]->first) launch.waits[launch.wait_count++] = event;
      launch.first = static_cast<int>(image.launch_tasks.size());
      image.launch_tasks.insert(image.launch_tasks.end(), sorted[g]->second.begin(), sorted[g]->second.end());
      launch.end = static_cast<int>(image.launch_tasks.size());
      image.launches.push_back(launch);
    }
    image.launch_first.push_back(static_cast<int>(image.launches.size()));
  }
  return image;
}

Result<void> check_limits(std::chrono::nanoseconds limit, std::chrono::nanoseconds start_limit) {
  if (start_limit.count() <= 0 || limit <= start_limit)
    return with_remedy(
        invalid("a limit of {} ns for waits and of {} ns for the start", limit.count(), start_limit.count()),
        "let both be positive, and the one for waits the longer one");
  return {};
}

std::vector<QueuedTask> queued_tasks(const Image& image, std::span<const OperatorRecord> operators) {
  std::vector<QueuedTask> queued;
  if (image.just_in_time) return queued;
  for (const int task : image.queue_tasks) {
    QueuedTask& made = queued.emplace_back();
    made.record = image.tasks[task];
    if (made.record.op >= 0)
      std::copy_n(operators[static_cast<size_t>(made.record.op)].arguments, kMostArguments, made.arguments);
  }
  return queued;
}

}  // namespace strata::megakernel
