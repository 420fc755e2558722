#include "megakernel/tgraph/check.h"

#include "megakernel/plan_end.h"
#include "megakernel/plan_relations.h"
#include "megakernel/tgraph/hand_offs.h"
#include "megakernel/tgraph/replay.h"

namespace strata::megakernel {
namespace {

std::string to_text(const TaskFunction& function) {
  return fmt::format("'{}' of {} stages of {} bytes and {} bytes of scratch memory{}", function.name, function.stages,
                     function.stage_bytes, function.scratch_bytes,
                     function.stores_for_copies ? ", which stores for copies" : "");
}

class PlanCheck {
 public:
  PlanCheck(const Plan& plan, const OperatorGraph& operators, const Machine& machine)
      : plan_(plan), operators_(operators), machine_(machine) {}

  Result<void> run() {
    STRATA_CHECK(check_numbers(plan_));
    STRATA_CHECK(check_names());
    STRATA_CHECK(check_blocks());
    STRATA_CHECK(check_queues());
    STRATA_CHECK(check_events());
    precedence_ = precedence_of(plan_, /*queues=*/true);
    const auto order = precedence_.order();
    if (!order) return invalid("the events and the queues' order make a cycle");
    order_ = *order;
    STRATA_CHECK(check_launch());
    STRATA_TRY(dependences_, dependences(operators_));
    STRATA_CHECK(check_hand_offs());
    STRATA_CHECK(check_order());
    STRATA_CHECK(check_end());
    return replay(plan_, machine_);
  }

 private:
  const Task& task(size_t number) const { return plan_.tasks[number]; }

  Result<void> check_names() const {
    if (static_cast<int64_t>(plan_.tasks.size()) > kMostTasks)
      return unsupported("the plan has {} tasks; at most {} are checked", plan_.tasks.size(), kMostTasks);
    if (plan_.operators.size() != operators_.operators.size())
      return invalid("the plan has {} operators, not {}", plan_.operators.size(), operators_.operators.size());
    for (size_t o = 0; o < plan_.operators.size(); ++o) {
      if (plan_.operators[o] != operators_.operators[o].name)
        return invalid("operator {} of the plan is '{}', not '{}'", o, plan_.operators[o],
                       operators_.operators[o].name);
    }
    for (size_t t = 0; t < plan_.tasks.size(); ++t) {
      for (int event : task(t).waits) {
        if (std::count(task(t).waits.begin(), task(t).waits.end(), event) > 1)
          return invalid("task {} waits twice for event {}", t, event);
      }
    }
    return {};
  }

  Result<void> check_blocks() const {
    std::vector<std::vector<bool>> seen;
    for (const Operator& op : operators_.operators)
      seen.emplace_back(static_cast<size_t>(*indexing::element_count(op.grid)), false);
    for (size_t t = 0; t < plan_.tasks.size(); ++t) {
      if (task(t).op < 0) {
        if (task(t).function >= 0) return invalid("task {} has a function but no operator", t);
        continue;
      }
      const auto o = static_cast<size_t>(task(t).op);
      const Operator& op = operators_.operators[o];
      if (task(t).function < 0) return invalid("task {} of '{}' has no function", t, op.name);
      const TaskFunction& function = plan_.functions[static_cast<size_t>(task(t).function)];
      const TaskFunction expected = function_of(operators_, op);
      if (function != expected)
        return invalid("task {} of '{}' has function {}; expected {}", t, op.name, to_text(function),
                       to_text(expected));
      if (function.stage_bytes > machine_.ring_bytes)
        return invalid("a task of '{}' has stages of {} bytes; the ring has {}", op.name, function.stage_bytes,
                       machine_.ring_bytes);
      if (function.scratch_bytes > machine_.scratch_bytes)
        return invalid("a task of '{}' takes {} bytes of scratch memory; a worker has {}", op.name,
                       function.scratch_bytes, machine_.scratch_bytes);
      Coordinates block(task(t).coordinates.begin(), task(t).coordinates.end());
      for (size_t g = 0; g < block.size(); ++g) {
        const int64_t size = g < op.grid.size() ? op.grid[g] : 1;
        if (block[g] < 0 || block[g] >= size)
          return invalid("task {} is block [{}] of '{}', whose grid is [{}]", t, fmt::join(block, ", "), op.name,
                         fmt::join(op.grid, ", "));
      }
      const auto number = static_cast<size_t>(number_of(block, op.grid));
      if (seen[o][number]) return invalid("block [{}] of '{}' is two tasks", fmt::join(block, ", "), op.name);
      seen[o][number] = true;
    }
    for (size_t o = 0; o < seen.size(); ++o) {
      const auto missing = std::find(seen[o].begin(), seen[o].end(), false);
      if (missing == seen[o].end()) continue;
      const Operator& op = operators_.operators[o];
      return invalid("block [{}] of '{}' is no task", fmt::join(block_of(missing - seen[o].begin(), op.grid), ", "),
                     op.name);
    }
    return {};
  }

  Result<void> check_queues() const {
    std::vector<int> times(plan_.tasks.size(), 0);
    for (const std::vector<int>& queue : plan_.queues) {
      for (int number : queue) ++times[static_cast<size_t>(number)];
    }
    bool just_in_time = false;
    for (size_t t = 0; t < times.size(); ++t) {
      const int wanted = task(t).mode == LaunchMode::AheadOfTime ? 1 : 0;
      just_in_time = just_in_time || wanted == 0;
      if (times[t] == wanted) continue;
      return invalid("task {}, which is {}, stands in queues {} times", t,
                     wanted == 1 ? "ahead of time" : "just in time", times[t]);
    }
    if (just_in_time != (plan_.schedulers > 0))
      return invalid("the plan has {} schedulers and {} tasks just in time", plan_.schedulers,
                     just_in_time ? "some" : "no");
    return {};
  }

  Result<void> check_events() const {
    std::vector<int64_t> signals(plan_.events.size(), 0);
    std::vector<bool> waited(plan_.events.size(), false);
    for (const Task& one : plan_.tasks) {
      if (one.signal >= 0) ++signals[static_cast<size_t>(one.signal)];
      for (int event : one.waits) waited[static_cast<size_t>(event)] = true;
    }
    std::vector<int> ranges(plan_.tasks.size(), 0);
    for (size_t e = 0; e < plan_.events.size(); ++e) {
      const Event& event = plan_.events[e];
      if (event.triggers != signals[e])
        return invalid("event {} has {} triggers, but {} tasks signal it", e, event.triggers, signals[e]);
      if (waited[e] && event.triggers == 0) return invalid("tasks wait for event {}, which no task signals", e);
      if (event.first < 0 || event.first > event.end || event.end > static_cast<int64_t>(plan_.tasks.size()))
        return invalid("event {} has tasks [{}, {}) of {}", e, event.first, event.end, plan_.tasks.size());
      for (int64_t t = event.first; t < event.end; ++t) {
        const std::vector<int>& waits = task(static_cast<size_t>(t)).waits;
        if (std::find(waits.begin(), waits.end(), static_cast<int>(e)) == waits.end())
          return invalid("task {} stands among those of event {}, but does not wait for it", t, e);
        ++ranges[static_cast<size_t>(t)];
      }
    }
    for (size_t t = 0; t < ranges.size(); ++t) {
      if (ranges[t] != (task(t).waits.empty() ? 0 : 1))
        return invalid("task {} waits for {} events and stands among those of {}", t, task(t).waits.size(), ranges[t]);
    }
    return {};
  }

  Result<void> check_launch() const {
    const std::vector<bool> waits = waits_for_late(plan_, precedence_, order_);
    for (size_t t = 0; t < plan_.tasks.size(); ++t) {
      const bool just_in_time = task(t).mode == LaunchMode::JustInTime;
      for (int event : task(t).waits) {
        if ((just_in_time || task(t).after_just_in_time) &&
            plan_.events[static_cast<size_t>(event)].hand_off != HandOff::Counter)
          return invalid("task {} is begun when event {} is active, which has no counter", t, event);
      }
      if (just_in_time && task(t).waits.empty()) return invalid("task {} is just in time, but no event starts it", t);
      if (just_in_time && task(t).after_just_in_time)
        return invalid("task {} is just in time, and marked as ahead of time", t);
      if (waits[t] && !just_in_time && !task(t).after_just_in_time)
        return invalid(
            "task {} waits for what comes after a task just in time, and is not marked: its loads may keep the other "
            "from running",
            t);
    }
    return {};
  }

  Result<void> check_hand_offs() const {
    const auto any_of = [&](HandOff hand_off) {
      return std::any_of(plan_.events.begin(), plan_.events.end(),
                         [&](const Event& event) { return event.hand_off == hand_off; });
    };
    const bool tagged = any_of(HandOff::Tagged), worker = any_of(HandOff::Worker);
    if (!tagged && !worker) return {};
    const std::vector<EventTasks> events = tasks_of_events(plan_, operators_);
    const std::vector<bool> one_worker = of_one_worker(plan_);
    const std::vector<bool> stays = stays_with_worker(plan_, operators_, dependences_);
    for (size_t e = 0; e < plan_.events.size(); ++e) {
      if (plan_.events[e].hand_off == HandOff::Worker && !one_worker[e])
        return invalid("event {} is handed over in shared memory, but its tasks are not of one worker", e);
      if (plan_.events[e].hand_off == HandOff::Tagged && !reads_of_all(events[e], dependences_))
        return invalid(
            "event {} is handed over in tagged words, but not all tasks that wait for it read something of "
            "all that trigger it",
            e);
    }
    // Readers must know the form of what they read.
    enum Form : int8_t { None, Tagged, Other };
    std::vector<Form> forms(operators_.tensors.size(), None);
    for (size_t t = 0; t < plan_.tasks.size(); ++t) {
      if (task(t).op < 0) continue;
      const HandOff* const hand_off =
          task(t).signal < 0 ? nullptr : &plan_.events[static_cast<size_t>(task(t).signal)].hand_off;
      if (hand_off != nullptr && *hand_off == HandOff::Worker && !stays[t])
        return invalid("task {} hands over in shared memory what other workers read", t);
      const Form form = hand_off != nullptr && *hand_off == HandOff::Tagged ? Tagged : Other;
      for (const Access& write : operators_.operators[static_cast<size_t>(task(t).op)].writes) {
        Form& known = forms[static_cast<size_t>(write.tensor)];
        const StepTensor& tensor = operators_.tensors[static_cast<size_t>(write.tensor)];
        if (tensor.kind != TensorClass::Activation) continue;  // which is seen in the next step: check_end
        if (tensor.untagged && form == Tagged)
          return invalid("tensor '{}' lies in memory without tags, and is handed over by them", tensor.name);
        if (known != None && known != form)
          return invalid("tensor '{}' is written in tagged words by some tasks, and not by others", tensor.name);
        known = form;
      }
    }
    for (const Dependence& one : dependences_) {
      if (one.kind != DependenceKind::WriteAfterWrite) continue;
      for (int op : {one.from, one.to}) {
        for (const Access& write : operators_.operators[static_cast<size_t>(op)].writes) {
          if (forms[static_cast<size_t>(write.tensor)] == Tagged)
            return invalid("'{}' and '{}' write the same memory in a step, and tagged words do not say which was last",
                           name_of(one.from), name_of(one.to));
        }
      }
    }
    STRATA_TRY(const std::optional<size_t> unseen, unseen_dependence(plan_, operators_, dependences_));
    if (!unseen) return {};
    return invalid("tasks of '{}' and '{}' are ordered only through tagged words that carry other data",
                   name_of(dependences_[*unseen].from), name_of(dependences_[*unseen].to));
  }

  const std::string& name_of(int op) const { return operators_.operators[static_cast<size_t>(op)].name; }

  Result<void> check_order() const {
    // Sources are numbered by operator, so that the producers of a dependence are few intervals.
    const std::vector<std::vector<int>> tasks = tasks_of_operators(plan_, operators_);
    std::vector<int> number(plan_.tasks.size(), -1), base;
    int count = 0;
    for (const std::vector<int>& of_operator : tasks) {
      base.push_back(count);
      for (int one : of_operator) number[static_cast<size_t>(one)] = count++;
    }
    for (int& one : number) {
      if (one < 0) one = count++;
    }
    Precedence renumbered;
    renumbered.waits.resize(plan_.tasks.size());
    renumbered.previous.assign(plan_.tasks.size(), -1);
    renumbered.triggers.resize(plan_.events.size());
    for (size_t t = 0; t < plan_.tasks.size(); ++t) {
      const auto n = static_cast<size_t>(number[t]);
      renumbered.waits[n] = precedence_.waits[t];
      if (precedence_.previous[t] >= 0) renumbered.previous[n] = number[static_cast<size_t>(precedence_.previous[t])];
      if (task(t).signal >= 0) renumbered.triggers[static_cast<size_t>(task(t).signal)].push_back(number[t]);
    }
    std::vector<int> order;
    for (int one : order_) order.push_back(number[static_cast<size_t>(one)]);
    std::vector<size_t> place(order.size());
    for (size_t at = 0; at < order.size(); ++at) place[static_cast<size_t>(order[at])] = at;
    std::vector<std::pair<const Dependence*, const std::pair<GridSet, GridSet>*>> pairs;
    std::vector<SourceQuestion> questions;
    for (const Dependence& one : dependences_) {
      const auto from = static_cast<size_t>(one.from), to = static_cast<size_t>(one.to);
      for (const auto& pair : one.pairs) {
        SourceQuestion question{count, -1, 0};
        pair.first.for_each_run(operators_.operators[from].grid, [&](int64_t lo, int64_t hi) {
          question.first = std::min(question.first, base[from] + static_cast<int>(lo));
          question.last = std::max(question.last, base[from] + static_cast<int>(hi));
        });
        pair.second.for_each_run(operators_.operators[to].grid, [&](int64_t lo, int64_t hi) {
          for (int64_t n = lo; n <= hi; ++n)
            question.until = std::max(question.until, place[static_cast<size_t>(base[to] + n)] + 1);
        });
        pairs.emplace_back(&one, &pair);
        questions.push_back(question);
      }
    }
    Result<void> checked;
    for_each_window(renumbered, order, questions, [&](const Ancestors& ancestors, const std::vector<size_t>& asked) {
      for (const size_t n : asked) {
        const auto& [dependence, pair] = pairs[n];
        checked = check_pair(*dependence, pair->first, pair->second, ancestors, base);
        if (!checked) return false;
      }
      return true;
    });
    return checked;
  }

  Result<void> check_pair(const Dependence& one, const GridSet& in, const GridSet& out, const Ancestors& ancestors,
                          const std::vector<int>& base) const {
    const auto from = static_cast<size_t>(one.from), to = static_cast<size_t>(one.to);
    std::vector<std::pair<int, int>> runs;
    in.for_each_run(operators_.operators[from].grid, [&](int64_t lo, int64_t hi) {
      runs.emplace_back(base[from] + static_cast<int>(lo), base[from] + static_cast<int>(hi));
    });
    std::optional<int64_t> lost;
    out.for_each_run(operators_.operators[to].grid, [&](int64_t lo, int64_t hi) {
      for (int64_t n = lo; n <= hi && !lost; ++n) {
        const uint64_t* row = ancestors.before_task(base[to] + static_cast<int>(n));
        for (const auto& [a, b] : runs) {
          if (!ancestors.has_all(row, a, b)) lost = n;
        }
      }
    });
    if (!lost) return {};
    return invalid("block [{}] of '{}' need not come after all blocks of '{}' whose elements of '{}' it touches",
                   fmt::join(block_of(*lost, operators_.operators[to].grid), ", "), name_of(one.to), name_of(one.from),
                   operators_.tensors[static_cast<size_t>(one.tensor)].name);
  }

  Result<void> check_end() const {
    const std::vector<int> running = running_at_end(plan_);
    if (running.empty()) return {};
    return invalid("task {} may run into the next step: no counters and queues lead from it to the last task",
                   running.back());
  }

  const Plan& plan_;
  const OperatorGraph& operators_;
  const Machine& machine_;
  std::vector<Dependence> dependences_;
  Precedence precedence_;  ///< with the queues' order
  std::vector<int> order_;
};

}  // namespace

Result<void> check(const Plan& plan, const OperatorGraph& operators, const Machine& machine) {
  return PlanCheck(plan, operators, machine).run();
}

}  // namespace strata::megakernel
