#include "megakernel/tgraph/precedence.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <set>

namespace strata::megakernel {
namespace {

/// Tasks that wait for events of tasks with smaller numbers, each in a queue with some before it.
Precedence random_precedence(int tasks) {
  Precedence made;
  made.waits.resize(static_cast<size_t>(tasks));
  made.previous.assign(static_cast<size_t>(tasks), -1);
  for (int task = 1; task < tasks; ++task) {
    if (*rc::gen::inRange(0, 3) == 0) made.previous[static_cast<size_t>(task)] = *rc::gen::inRange(0, task);
    const int events = *rc::gen::inRange(0, 3);
    for (int n = 0; n < events; ++n) {
      // Some share an event of those before them.
      if (!made.triggers.empty() && *rc::gen::inRange(0, 2) == 0) {
        made.waits[static_cast<size_t>(task)].push_back(*rc::gen::inRange(0, static_cast<int>(made.triggers.size())));
        continue;
      }
      made.waits[static_cast<size_t>(task)].push_back(static_cast<int>(made.triggers.size()));
      std::vector<int>& in = made.triggers.emplace_back();
      const int count = *rc::gen::inRange(0, 4);
      for (int k = 0; k < count; ++k) in.push_back(*rc::gen::inRange(0, task));
    }
  }
  return made;
}

/// By definition: a task comes after its previous, and after what triggers an event that it waits for.
std::set<int> before(const Precedence& precedence, int task) {
  std::set<int> found;
  std::vector<int> stack;
  const auto add = [&](int one) {
    if (found.insert(one).second) stack.push_back(one);
  };
  const auto expand = [&](int of) {
    const auto t = static_cast<size_t>(of);
    if (precedence.previous[t] >= 0) add(precedence.previous[t]);
    for (int event : precedence.waits[t]) {
      for (int one : precedence.triggers[static_cast<size_t>(event)]) add(one);
    }
  };
  for (expand(task); !stack.empty();) {
    const int next = stack.back();
    stack.pop_back();
    expand(next);
  }
  return found;
}

RC_GTEST_PROP(Ancestors, AreTheSourcesThatComeBefore, ()) {
  const int tasks = *rc::gen::inRange(1, 150);
  const Precedence precedence = random_precedence(tasks);
  const auto order = precedence.order();
  RC_ASSERT(order.has_value());
  const int first = *rc::gen::inRange(0, tasks);
  const int count = *rc::gen::inRange(1, tasks - first + 1);
  const auto until = static_cast<size_t>(*rc::gen::inRange(0, tasks + 1));
  const Ancestors ancestors(precedence, *order, first, count, until);
  std::set<int> ordered;
  for (size_t at = 0; at < until; ++at) {
    const int task = (*order)[at];
    ordered.insert(task);
    const std::set<int> expected = before(precedence, task);
    const uint64_t* row = ancestors.before_task(task);
    for (int source = first; source < first + count; ++source) {
      RC_ASSERT(ancestors.has_all(row, source, source) == expected.contains(source));
      RC_ASSERT(ancestors.has_any(row, source, source) == expected.contains(source));
    }
  }
  for (size_t e = 0; e < precedence.triggers.size(); ++e) {
    const std::vector<int>& in = precedence.triggers[e];
    if (!std::ranges::all_of(in, [&](int task) { return ordered.contains(task); })) continue;
    std::set<int> expected(in.begin(), in.end());
    for (int task : in) expected.merge(before(precedence, task));
    for (int source = first; source < first + count; ++source)
      RC_ASSERT(ancestors.has_all(ancestors.before_event(static_cast<int>(e)), source, source) ==
                expected.contains(source));
  }
}

/// Each question is asked of each window that has some of its sources, with the rows that it needs.
TEST(ForEachWindow, AnswersQuestionsAboutTasksFarApart) {
  constexpr int kTasks = 5000;  // a chain of three windows
  Precedence chain;
  chain.waits.resize(kTasks);
  for (int task = 0; task < kTasks; ++task) chain.previous.push_back(task - 1);
  const auto order = chain.order();
  ASSERT_TRUE(order);
  const std::vector<SourceQuestion> questions{{0, kTasks - 2, kTasks}, {10, 20, 31}, {4000, 4001, 4003}, {5, 4, 10}};
  const std::vector<int> readers{kTasks - 1, 30, 4002, 9};
  std::vector<int> windows(questions.size(), 0);
  for_each_window(chain, *order, questions, [&](const Ancestors& ancestors, const std::vector<size_t>& asked) {
    for (const size_t n : asked) {
      ++windows[n];
      EXPECT_TRUE(ancestors.has_all(ancestors.before_task(readers[n]), questions[n].first, questions[n].last));
      EXPECT_FALSE(ancestors.has_any(ancestors.before_task(readers[n]), readers[n], kTasks - 1));
    }
    return true;
  });
  EXPECT_EQ(windows, (std::vector<int>{3, 1, 1, 1}));
  int calls = 0;
  for_each_window(chain, *order, questions, [&](const Ancestors&, const std::vector<size_t>&) {
    ++calls;
    return false;
  });
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace strata::megakernel
