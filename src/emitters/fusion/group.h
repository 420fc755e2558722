// A group of instructions that may become one kernel.
#pragma once

#include <algorithm>
#include <vector>

#include "hlo/hlo.h"

namespace strata::emitters {

/// In order, each once.
template <class T>
std::vector<T> distinct(std::vector<T> items) {
  std::sort(items.begin(), items.end());
  items.erase(std::unique(items.begin(), items.end()), items.end());
  return items;
}

/// Instructions in ascending order.
class Group {
 public:
  Group() = default;
  explicit Group(hlo::InstructionId only) : ids_{only} {}
  Group(const Group& a, const Group& b) {
    ids_.reserve(a.size() + b.size());
    std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(ids_));
  }

  bool contains(hlo::InstructionId id) const { return std::binary_search(ids_.begin(), ids_.end(), id); }
  size_t size() const { return ids_.size(); }
  bool empty() const { return ids_.empty(); }
  std::vector<hlo::InstructionId>::const_iterator begin() const { return ids_.begin(); }
  std::vector<hlo::InstructionId>::const_iterator end() const { return ids_.end(); }
  void clear() { ids_ = {}; }

 private:
  std::vector<hlo::InstructionId> ids_;
};

}  // namespace strata::emitters
