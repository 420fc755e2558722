#include "superopt/search/derive.h"

#include <algorithm>
#include <set>

namespace strata {
namespace {

class Deriver {
 public:
  Deriver(const ClassGraph& graph, int max_ops, int64_t max_visits, const std::stop_token& stop,
          const std::function<void(const Derived&)>& visit)
      : graph_(graph),
        max_ops_(max_ops),
        budget_(max_visits),
        stop_(stop),
        visit_(visit),
        choice_(graph.classes().size()) {}

  bool run(const std::vector<int>& targets) {
    exact_ops_ = static_cast<int>(targets.size());
    for (int target : targets) exact_ops_ = std::max(exact_ops_, graph_.at(target).min_ops);
    for (; exact_ops_ <= max_ops_; ++exact_ops_) {
      open_ = {targets.begin(), targets.end()};
      if (!expand(0)) return false;
    }
    return true;
  }

 private:
  static constexpr int64_t kStatesPerVisit = 64;

  bool is_input(int c) const { return graph_.at(c).derivations.empty() || graph_.at(c).kernel_tensor >= 0; }

  /// Decides the open class with the highest number; `ops` classes are decided.
  bool expand(int ops) {
    if (++states_ > budget_ * kStatesPerVisit || stop_.stop_requested()) return false;
    if (ops + static_cast<int>(open_.size()) > exact_ops_) return true;
    if (open_.empty()) return ops < exact_ops_ || finish();
    const int c = *open_.rbegin();
    open_.erase(c);
    for (const Derivation& derivation : graph_.at(c).derivations) {
      choice_[static_cast<size_t>(c)] = &derivation;
      std::vector<int> opened;
      for (int operand : derivation.operands) {
        if (is_input(operand) || choice_[static_cast<size_t>(operand)] != nullptr) continue;
        if (open_.insert(operand).second) opened.push_back(operand);
      }
      if (!expand(ops + 1)) return false;
      for (int operand : opened) open_.erase(operand);
    }
    choice_[static_cast<size_t>(c)] = nullptr;
    open_.insert(c);
    return true;
  }

  bool finish() {
    Derived derived;
    std::set<int> inputs;
    std::vector<int> state(choice_.size(), 0);  // 1: on the path, 2: placed
    const std::function<bool(int)> place = [&](int c) {
      if (is_input(c)) {
        inputs.insert(c);
        return true;
      }
      int& s = state[static_cast<size_t>(c)];
      if (s != 0) return s == 2;
      s = 1;
      const Derivation* derivation = choice_[static_cast<size_t>(c)];
      for (int operand : derivation->operands) {
        if (!place(operand)) return false;
      }
      s = 2;
      derived.steps.push_back({c, derivation});
      return true;
    };
    for (size_t c = 0; c < choice_.size(); ++c) {
      if (choice_[c] != nullptr && !place(static_cast<int>(c))) return true;  // a cycle of derivations
    }
    derived.inputs.assign(inputs.begin(), inputs.end());
    visit_(derived);
    return ++visits_ < budget_;
  }

  const ClassGraph& graph_;
  int max_ops_;
  int exact_ops_ = 0;  ///< graphs of this many operators are being visited
  int64_t budget_;
  const std::stop_token& stop_;
  const std::function<void(const Derived&)>& visit_;
  std::vector<const Derivation*> choice_;
  std::set<int> open_;
  int64_t visits_ = 0;
  int64_t states_ = 0;
};

}  // namespace

bool derive(const ClassGraph& graph, const std::vector<int>& targets, int max_ops, int64_t max_visits,
            const std::stop_token& stop, const std::function<void(const Derived&)>& visit) {
  return Deriver(graph, max_ops, max_visits, stop, visit).run(targets);
}

}  // namespace strata
