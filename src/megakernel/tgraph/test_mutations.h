// Changes of plans, for tests of what is refused.
#pragma once

#include "megakernel/plan.h"
#include "support/random.h"

namespace strata::megakernel {

/// Changes something, and says what; nothing where there is nothing of the kind.
class Mutation {
 public:
  Mutation(Plan& plan, Random& random) : plan_(plan), random_(random) {}
  static constexpr uint64_t kKinds = 24;

  std::string apply(uint64_t kind) {
    if (plan_.events.empty()) return {};
    Task& task = any(plan_.tasks);
    Event& event = any(plan_.events);
    std::vector<int>& queue = any(plan_.queues);
    std::vector<int>& other = any(plan_.queues);
    const auto place = [&](const std::vector<int>& of) {
      return static_cast<std::ptrdiff_t>(random_.below(of.size()));
    };
    const int sign = random_.below(2) == 0 ? 1 : -1;
    switch (kind) {
      case 0:
        if (task.waits.empty()) return {};
        task.waits.erase(task.waits.begin() + place(task.waits));
        return "a wait less";
      case 1:
        task.waits.push_back(number(plan_.events));
        return "a wait more";
      case 2:
        if (task.waits.empty()) return {};
        any(task.waits) = number(plan_.events);
        return "another wait";
      case 3:
        if (queue.empty()) return {};
        std::swap(any(queue), any(queue));
        return "two tasks of a queue swapped";
      case 4: {
        if (queue.size() < 2) return {};
        const size_t at = random_.below(queue.size() - 1);
        std::swap(queue[at], queue[at + 1]);
        return "two neighbours of a queue swapped";
      }
      case 5: {
        if (queue.empty()) return {};
        const auto from = queue.begin() + place(queue);
        const int moved = *from;
        queue.erase(from);
        other.insert(other.begin() + static_cast<std::ptrdiff_t>(random_.below(other.size() + 1)), moved);
        return "a task moved to another queue";
      }
      case 6:
        if (queue.empty() || other.empty()) return {};
        std::swap(any(queue), any(other));
        return "tasks of two queues swapped";
      case 7:
        event.triggers += sign;
        return "another number of triggers";
      case 8:
        event.first += sign;
        return "another first task";
      case 9:
        event.end += sign;
        return "another end";
      case 10:
        std::swap(event, any(plan_.events));
        return "two events swapped";
      case 11:
        task.signal = number(plan_.events);
        return "another signal";
      case 12:
        task.signal = -1;
        return "no signal";
      case 13:
        task.after_just_in_time = !task.after_just_in_time;
        return "another mark";
      case 14:
        if (queue.empty()) return {};
        other.push_back(any(queue));
        return "a task twice in queues";
      case 15:
        if (queue.empty()) return {};
        queue.erase(queue.begin() + place(queue));
        return "a task in no queue";
      case 16:
        plan_.tasks.push_back(task);
        return "a task more";
      case 17:
        plan_.tasks.pop_back();
        return "a task less";
      case 18:
        event.hand_off = static_cast<HandOff>(random_.below(3));
        return "another hand-off";
      case 19:
        task.mode = task.mode == LaunchMode::JustInTime ? LaunchMode::AheadOfTime : LaunchMode::JustInTime;
        return "another launch mode";
      case 20:
        task.coordinates[random_.below(3)] += sign;
        return "another block";
      case 21:
        if (plan_.functions.empty()) return {};
        task.function = number(plan_.functions);
        return "another function";
      case 22:
        std::swap(task, any(plan_.tasks));
        return "two tasks swapped";
      default:
        plan_.schedulers = plan_.schedulers == 0 ? 1 : 0;
        return "schedulers";
    }
  }

 private:
  template <class T>
  T& any(std::vector<T>& of) {
    return of[random_.below(of.size())];
  }
  template <class T>
  int number(const std::vector<T>& of) {
    return static_cast<int>(random_.below(of.size()));
  }
  Plan& plan_;
  Random& random_;
};

}  // namespace strata::megakernel
