// Which dimensions of a kernel graph's tensors are walked together: the axes of a program.
#pragma once

#include <vector>

#include "ir/graph.h"

namespace strata {

/// A partition of 0 … n − 1.
class UnionFind {
 public:
  int add() {
    parent_.push_back(static_cast<int>(parent_.size()));
    return parent_.back();
  }
  int find(int x) {
    while (parent_[static_cast<size_t>(x)] != x) {
      x = parent_[static_cast<size_t>(x)] = parent_[static_cast<size_t>(parent_[static_cast<size_t>(x)])];
    }
    return x;
  }
  void unite(int a, int b) { parent_[static_cast<size_t>(find(a))] = find(b); }
  int size() const { return static_cast<int>(parent_.size()); }

 private:
  std::vector<int> parent_;
};

/// Unites the dimensions that one operator's labels tie. `nodes` gives a tensor's first node.
void unite_labels(const Graph& graph, const Operation& op, const std::vector<int>& nodes, UnionFind& axes);

}  // namespace strata
