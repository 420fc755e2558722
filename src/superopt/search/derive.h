// Reading graphs off a class graph: every choice of one derivation for each class that a wanted value needs.
#pragma once

#include <functional>

#include "superopt/search/class_graph.h"

namespace strata {

/// One graph: the chosen derivation of each class that it uses, by class number, operands first.
struct Derived {
  struct Step {
    int result;
    const Derivation* derivation;
  };
  std::vector<int> inputs;  ///< input classes, in increasing number
  std::vector<Step> steps;
};

/// For max_visits: no limit. The effort is counted in multiples of it.
constexpr int64_t kAllGraphs = std::numeric_limits<int64_t>::max() / 128;

/// Visits every acyclic graph of at most `max_ops` operators that makes all `targets` (classes with derivations, each
/// once), those of fewer operators first.
/// Each value is made once, by one derivation: a graph that computes one value twice is never cheaper than one that
/// does not. False where the visit ended early, after `max_visits` graphs (or a proportional effort), or on stop.
bool derive(const ClassGraph& graph, const std::vector<int>& targets, int max_ops, int64_t max_visits,
            const std::stop_token& stop, const std::function<void(const Derived&)>& visit);

}  // namespace strata
