#include "megakernel/tgraph/hand_offs.h"

#include "megakernel/plan_end.h"
#include "megakernel/plan_relations.h"

namespace strata::megakernel {

std::vector<EventTasks> tasks_of_events(const Plan& plan, const OperatorGraph& operators) {
  std::vector<std::map<int, std::vector<int64_t>>> in(plan.events.size()), out(plan.events.size());
  std::vector<EventTasks> events(plan.events.size());
  for (const Task& task : plan.tasks) {
    int64_t number = 0;
    if (task.op >= 0) {
      const std::vector<int64_t>& grid = operators.operators[static_cast<size_t>(task.op)].grid;
      number = number_of({task.coordinates.begin(), task.coordinates.end()}, grid);
    }
    const auto add = [&](int event, std::map<int, std::vector<int64_t>>& numbers) {
      if (task.op < 0) {
        events[static_cast<size_t>(event)].has_empty = true;
      } else {
        numbers[task.op].push_back(number);
      }
    };
    if (task.signal >= 0) {
      add(task.signal, in[static_cast<size_t>(task.signal)]);
      ++events[static_cast<size_t>(task.signal)].in_count;
    }
    for (int event : task.waits) add(event, out[static_cast<size_t>(event)]);
  }
  for (size_t e = 0; e < events.size(); ++e) {
    const auto convert = [&](std::map<int, std::vector<int64_t>>& numbers, std::map<int, GridSet>& sets) {
      for (auto& [op, blocks] : numbers) {
        std::sort(blocks.begin(), blocks.end());
        sets[op] = GridSet::of(blocks, operators.operators[static_cast<size_t>(op)].grid);
      }
    };
    convert(in[e], events[e].in);
    convert(out[e], events[e].out);
  }
  return events;
}

bool reads_of_all(const EventTasks& event, const std::vector<Dependence>& dependences) {
  if (event.has_empty) return false;
  const auto covers = [&](const Dependence& dependence, const GridSet& producers, const GridSet& consumers) {
    if (dependence.kind != DependenceKind::ReadAfterWrite || !dependence.exact) return false;
    GridSet left = consumers;
    for (const auto& [in, out] : dependence.pairs) {
      const GridSet some = intersect(left, out);
      if (some.empty()) continue;
      if (!subtract(producers, in).empty()) return false;
      left = subtract(left, some);
    }
    return left.empty();
  };
  for (const auto& [from, producers] : event.in) {
    for (const auto& [to, consumers] : event.out) {
      const bool all = std::any_of(dependences.begin(), dependences.end(),
                                   [&, f = from, t = to, &p = producers, &c = consumers](const Dependence& one) {
                                     return one.from == f && one.to == t && covers(one, p, c);
                                   });
      if (!all) return false;
    }
  }
  return true;
}

std::vector<bool> stays_with_worker(const Plan& plan, const OperatorGraph& operators,
                                    const std::vector<Dependence>& dependences) {
  const std::vector<int> worker_of = PlanRelations(plan).worker;
  const std::vector<std::vector<int>> tasks = tasks_of_operators(plan, operators);
  std::vector<bool> stays(plan.tasks.size(), true);
  std::vector<bool> is_read(operators.tensors.size(), false);
  for (const Operator& op : operators.operators) {
    for (const Access& read : op.reads) is_read[static_cast<size_t>(read.tensor)] = true;
  }
  for (size_t o = 0; o < operators.operators.size(); ++o) {
    for (const Access& write : operators.operators[o].writes) {
      const auto tensor = static_cast<size_t>(write.tensor);
      if (is_read[tensor] && operators.tensors[tensor].kind == TensorClass::Activation) continue;
      for (int task : tasks[o]) stays[static_cast<size_t>(task)] = false;
    }
  }
  for (const Dependence& dependence : dependences) {
    if (dependence.kind != DependenceKind::ReadAfterWrite) continue;
    const auto from = static_cast<size_t>(dependence.from), to = static_cast<size_t>(dependence.to);
    for (const auto& [in, out] : dependence.pairs) {
      int worker = -2;  // of all consumers; −1: they have none, or several
      out.for_each_run(operators.operators[to].grid, [&](int64_t first, int64_t last) {
        for (int64_t n = first; n <= last; ++n) {
          const int mine = worker_of[static_cast<size_t>(tasks[to][static_cast<size_t>(n)])];
          worker = worker == -2 || worker == mine ? mine : -1;
        }
      });
      in.for_each_run(operators.operators[from].grid, [&](int64_t first, int64_t last) {
        for (int64_t n = first; n <= last; ++n) {
          const auto task = static_cast<size_t>(tasks[from][static_cast<size_t>(n)]);
          stays[task] = stays[task] && worker >= 0 && worker_of[task] == worker;
        }
      });
    }
  }
  return stays;
}

std::vector<bool> of_one_worker(const Plan& plan) {
  const std::vector<int> worker_of = PlanRelations(plan).worker;
  std::vector<int> worker(plan.events.size(), -2);
  for (size_t t = 0; t < plan.tasks.size(); ++t) {
    const auto visit = [&](int event) {
      int& known = worker[static_cast<size_t>(event)];
      known = known == -2 || known == worker_of[t] ? worker_of[t] : -1;
    };
    if (plan.tasks[t].signal >= 0) visit(plan.tasks[t].signal);
    std::for_each(plan.tasks[t].waits.begin(), plan.tasks[t].waits.end(), visit);
  }
  std::vector<bool> one;
  for (int number : worker) one.push_back(number >= 0);
  return one;
}

Result<std::optional<size_t>> unseen_dependence(const Plan& plan, const OperatorGraph& operators,
                                                const std::vector<Dependence>& dependences) {
  const bool tags = std::any_of(plan.events.begin(), plan.events.end(),
                                [](const Event& event) { return event.hand_off == HandOff::Tagged; });
  if (!tags) return std::nullopt;
  const Precedence precedence =
      precedence_of(plan, /*queues=*/true, [](const Event& event) { return event.hand_off != HandOff::Tagged; });
  const auto order = precedence.order();
  if (!order) return invalid("the queues' order and the events make a cycle");
  std::vector<size_t> place(plan.tasks.size());
  for (size_t at = 0; at < order->size(); ++at) place[static_cast<size_t>((*order)[at])] = at;

  // A dependence's pairs of producers and consumers. Readers of tagged words wait for these themselves.
  using Run = std::pair<int, int>;  // of tasks of the plan
  struct Pair {
    size_t dependence;
    std::vector<Run> sources;
    std::vector<int> consumers;
  };
  const std::vector<std::vector<int>> tasks = tasks_of_operators(plan, operators);
  std::vector<Pair> pairs;
  std::vector<SourceQuestion> questions;
  for (size_t d = 0; d < dependences.size(); ++d) {
    const Dependence& one = dependences[d];
    const auto from = static_cast<size_t>(one.from), to = static_cast<size_t>(one.to);
    for (const auto& [in, out] : one.pairs) {
      Pair pair{d, {}, {}};
      in.for_each_run(operators.operators[from].grid, [&](int64_t lo, int64_t hi) {
        for (int64_t n = lo; n <= hi; ++n) {
          const int task = tasks[from][static_cast<size_t>(n)];
          const int signal = plan.tasks[static_cast<size_t>(task)].signal;
          const bool tagged = signal >= 0 && plan.events[static_cast<size_t>(signal)].hand_off == HandOff::Tagged;
          if (one.kind == DependenceKind::ReadAfterWrite && tagged) continue;
          if (!pair.sources.empty() && pair.sources.back().second + 1 == task) {
            pair.sources.back().second = task;
          } else {
            pair.sources.emplace_back(task, task);
          }
        }
      });
      if (pair.sources.empty()) continue;
      SourceQuestion question{pair.sources[0].first, pair.sources[0].second, 0};
      for (const auto& [first, last] : pair.sources) {
        question.first = std::min(question.first, first);
        question.last = std::max(question.last, last);
      }
      out.for_each_run(operators.operators[to].grid, [&](int64_t lo, int64_t hi) {
        for (int64_t n = lo; n <= hi; ++n) {
          pair.consumers.push_back(tasks[to][static_cast<size_t>(n)]);
          question.until = std::max(question.until, place[static_cast<size_t>(pair.consumers.back())] + 1);
        }
      });
      pairs.push_back(std::move(pair));
      questions.push_back(question);
    }
  }
  std::optional<size_t> found;
  for_each_window(precedence, *order, questions, [&](const Ancestors& ancestors, const std::vector<size_t>& asked) {
    for (const size_t number : asked) {
      const Pair& pair = pairs[number];
      const bool all = std::ranges::all_of(pair.consumers, [&](int task) {
        const uint64_t* row = ancestors.before_task(task);
        return std::ranges::all_of(pair.sources,
                                   [&](const Run& run) { return ancestors.has_all(row, run.first, run.second); });
      });
      if (all) continue;
      found = pair.dependence;
      return false;
    }
    return true;
  });
  return found;
}

namespace {

/// History is not handed over in a step: whoever writes it may hand over in tagged words what else it writes, as long
/// as a counter follows before the step's end (running_at_end).
bool is_handed_over(const OperatorGraph& operators, const Access& write) {
  return operators.tensors[static_cast<size_t>(write.tensor)].kind == TensorClass::Activation;
}

/// What several operators write, as one tensor or before one event, is tagged by all of them or by none.
void agree(std::vector<bool>& tagged, const OperatorGraph& operators, const std::vector<EventTasks>& events) {
  std::vector<std::vector<int>> together(operators.tensors.size());
  for (size_t o = 0; o < operators.operators.size(); ++o) {
    for (const Access& write : operators.operators[o].writes) {
      if (is_handed_over(operators, write)) together[static_cast<size_t>(write.tensor)].push_back(static_cast<int>(o));
    }
  }
  for (const EventTasks& event : events) {
    std::vector<int>& of_event = together.emplace_back();
    for (const auto& [op, blocks] : event.in) of_event.push_back(op);
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (const std::vector<int>& group : together) {
      const auto is_tagged = [&](int op) { return tagged[static_cast<size_t>(op)]; };
      if (std::all_of(group.begin(), group.end(), is_tagged) || std::none_of(group.begin(), group.end(), is_tagged))
        continue;
      for (int op : group) tagged[static_cast<size_t>(op)] = false;
      changed = true;
    }
  }
}

/// Events that must have counters: a scheduler, or who begins tasks after those just in time, looks at them.
std::vector<bool> needs_counter(const Plan& plan) {
  std::vector<bool> by_counter(plan.events.size(), false);
  for (const Task& task : plan.tasks) {
    if (task.mode == LaunchMode::AheadOfTime && !task.after_just_in_time) continue;
    for (int event : task.waits) by_counter[static_cast<size_t>(event)] = true;
  }
  return by_counter;
}

/// Whether tasks of an operator may hand over in tagged words, as far as their events go.
std::vector<bool> may_be_tagged(const OperatorGraph& operators, const std::vector<Dependence>& dependences,
                                const std::vector<EventTasks>& events, const std::vector<bool>& by_counter,
                                const Machine& machine) {
  std::vector<bool> allowed(operators.operators.size(), true);
  // By tensor: readers read all of it in one form.
  for (const Dependence& one : dependences) {
    if (one.kind == DependenceKind::ReadAfterWrite &&
        activation_bytes(operators, one.from, one.to) > machine.tagged_bytes)
      allowed[static_cast<size_t>(one.from)] = false;
    // A tag says in which step a word was written, not by which of two operators.
    if (one.kind == DependenceKind::WriteAfterWrite)
      allowed[static_cast<size_t>(one.from)] = allowed[static_cast<size_t>(one.to)] = false;
  }
  for (size_t o = 0; o < operators.operators.size(); ++o) {
    for (const Access& write : operators.operators[o].writes)
      if (operators.tensors[static_cast<size_t>(write.tensor)].untagged) allowed[o] = false;
  }
  for (size_t e = 0; e < events.size(); ++e) {
    if (!by_counter[e] && reads_of_all(events[e], dependences)) continue;
    for (const auto& [op, blocks] : events[e].in) allowed[static_cast<size_t>(op)] = false;
  }
  agree(allowed, operators, events);
  return allowed;
}

}  // namespace

Result<Plan> choose_hand_offs(const Plan& plan, const OperatorGraph& operators, const Machine& machine) {
  STRATA_TRY(const std::vector<Dependence> found, dependences(operators));
  Plan result = plan;
  const std::vector<EventTasks> events = tasks_of_events(plan, operators);
  const std::vector<bool> by_counter = needs_counter(plan);
  std::vector<bool> tagged = may_be_tagged(operators, found, events, by_counter, machine);
  std::vector<bool> one_worker = of_one_worker(plan);
  for (size_t e = 0; e < one_worker.size(); ++e) one_worker[e] = one_worker[e] && !by_counter[e];
  const std::vector<bool> stays = stays_with_worker(plan, operators, found);
  // Shared memory is nearer than tagged words.
  std::vector<bool> leaves(tagged.size(), false);
  for (size_t t = 0; t < plan.tasks.size(); ++t) {
    const Task& task = plan.tasks[t];
    if (task.op >= 0 && !(task.signal >= 0 && one_worker[static_cast<size_t>(task.signal)] && stays[t]))
      leaves[static_cast<size_t>(task.op)] = true;
  }
  for (size_t o = 0; o < tagged.size(); ++o) tagged[o] = tagged[o] && leaves[o];
  agree(tagged, operators, events);
  for (;;) {
    for (size_t e = 0; e < result.events.size(); ++e)
      result.events[e].hand_off = one_worker[e] ? HandOff::Worker : HandOff::Counter;
    for (size_t t = 0; t < result.tasks.size(); ++t) {
      const Task& task = result.tasks[t];
      if (task.signal < 0) continue;
      HandOff& hand_off = result.events[static_cast<size_t>(task.signal)].hand_off;
      if (task.op >= 0 && tagged[static_cast<size_t>(task.op)]) {
        hand_off = HandOff::Tagged;
      } else if (task.op >= 0 && !stays[t] && hand_off == HandOff::Worker) {
        hand_off = HandOff::Counter;
      }
    }
    STRATA_TRY(const std::optional<size_t> unseen, unseen_dependence(result, operators, found));
    if (!unseen) {
      const std::vector<int> running = running_at_end(result);
      if (running.empty()) return result;
      // All that comes after the last of them ends in time, so a counter of its own is enough.
      const int op = result.tasks[static_cast<size_t>(running.back())].op;
      if (op < 0 || !tagged[static_cast<size_t>(op)])
        return invalid("task {} does not come before the end of the step", running.back());
      tagged[static_cast<size_t>(op)] = false;
      agree(tagged, operators, events);
      continue;
    }
    // Counters on the whole way from one operator to the other, and of the first where its order is what is needed.
    bool changed = false;
    for (int op = found[*unseen].from; op < found[*unseen].to; ++op) {
      changed = changed || tagged[static_cast<size_t>(op)];
      tagged[static_cast<size_t>(op)] = false;
    }
    if (!changed)
      return invalid("tasks of '{}' and '{}' are in no order",
                     operators.operators[static_cast<size_t>(found[*unseen].from)].name,
                     operators.operators[static_cast<size_t>(found[*unseen].to)].name);
    agree(tagged, operators, events);
  }
}

}  // namespace strata::megakernel
