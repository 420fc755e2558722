#include "runtime/loop_buffers.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace strata {
namespace {

using Leaf = LoopFlow::Leaf;

/// A value of the state.
struct LoopValue {
  int64_t bytes = 0;
  int64_t written = -1;  ///< by this iteration; -1: before the loop
  int64_t read = -1;     ///< by this iteration last; after the loop: their number
  LoopPlace place;
  bool placed = false;  ///< by what it is
  int result = -1;      ///< of this leaf
};

class Planner {
 public:
  explicit Planner(const LoopFlow& flow) : flow_(flow) {}

  LoopBuffers plan() {
    follow();
    share_in_place();
    place();
    LoopBuffers buffers;
    buffers.scratch_bytes = std::move(scratch_bytes_);
    for (int64_t k = 0; k <= flow_.count; ++k) {
      auto& places = buffers.states.emplace_back();
      for (size_t leaf = 0; leaf < flow_.leaves.size(); ++leaf) {
        if (flow_.leaves[leaf].counter) {
          places.push_back({LoopPlace::Kind::Counter, static_cast<int>(k)});
        } else {
          places.push_back(values_[static_cast<size_t>(representative(states_[static_cast<size_t>(k)][leaf]))].place);
        }
      }
    }
    return buffers;
  }

 private:
  int add(LoopValue value) {
    values_.push_back(value);
    same_.push_back(static_cast<int>(values_.size()) - 1);
    return static_cast<int>(values_.size()) - 1;
  }

  /// The values of all iterations.
  void follow() {
    std::vector<int> state;
    for (size_t leaf = 0; leaf < flow_.leaves.size(); ++leaf) {
      const Leaf& it = flow_.leaves[leaf];
      const auto kind = it.fresh ? LoopPlace::Kind::Result : LoopPlace::Kind::Initial;
      state.push_back(add({it.bytes, -1, 0, {kind, static_cast<int>(leaf)}, true}));
    }
    std::map<int, int> constants;
    for (int64_t k = 0; k < flow_.count; ++k) {
      states_.push_back(state);
      std::map<int, int> written;
      std::vector<int> next;
      for (const Leaf& it : flow_.leaves) {
        if (it.next == Leaf::Next::Carried) {
          next.push_back(state[static_cast<size_t>(it.from)]);
        } else {
          const bool constant = it.next == Leaf::Next::Constant;
          auto& known = constant ? constants : written;
          auto at = known.find(it.from);
          if (at == known.end()) {
            LoopValue value{it.bytes, k, k, {LoopPlace::Kind::Constant, it.from}, constant};
            at = known.emplace(it.from, add(value)).first;
          }
          next.push_back(at->second);
        }
      }
      for (const int value : state) values_[static_cast<size_t>(value)].read = k;
      state = std::move(next);
    }
    states_.push_back(state);
    for (size_t leaf = 0; leaf < state.size(); ++leaf) {
      LoopValue& value = values_[static_cast<size_t>(state[leaf])];
      value.read = flow_.count;
      const bool wanted = flow_.leaves[leaf].wanted && !flow_.leaves[leaf].counter;
      if (wanted && !value.placed && value.result < 0) value.result = static_cast<int>(leaf);
    }
  }

  int representative(int value) const {
    while (same_[static_cast<size_t>(value)] != value) value = same_[static_cast<size_t>(value)];
    return value;
  }

  /// Values that are written over the one before them are one from here on: the last of them.
  void share_in_place() {
    for (int64_t k = flow_.count - 1; k >= 0; --k) {
      for (size_t leaf = 0; leaf < flow_.leaves.size(); ++leaf) {
        const Leaf& it = flow_.leaves[leaf];
        if (it.next != Leaf::Next::Written || it.in_place_of < 0) continue;
        const int before = states_[static_cast<size_t>(k)][static_cast<size_t>(it.in_place_of)];
        const int after = representative(states_[static_cast<size_t>(k) + 1][leaf]);
        LoopValue& from = values_[static_cast<size_t>(before)];
        LoopValue& to = values_[static_cast<size_t>(after)];
        const bool fresh = from.placed && from.place.kind == LoopPlace::Kind::Result;
        const auto& state = states_[static_cast<size_t>(k)];
        if (std::count(state.begin(), state.end(), before) > 1) continue;  // another leaf has the same value
        if ((from.placed && !fresh) || from.read != k || from.result >= 0 || before == after) continue;
        if (fresh && to.result != from.place.number) continue;
        if (same_[static_cast<size_t>(before)] != before) continue;
        to.written = from.written;
        if (fresh) to.place = from.place, to.placed = true;
        same_[static_cast<size_t>(before)] = after;
      }
    }
  }

  void place() {
    std::vector<int> order;
    for (int value = 0; value < static_cast<int>(values_.size()); ++value) {
      const LoopValue& it = values_[static_cast<size_t>(value)];
      if (representative(value) == value && !it.placed) order.push_back(value);
    }
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      return values_[static_cast<size_t>(a)].written > values_[static_cast<size_t>(b)].written;
    });
    // Of each place, the iteration that writes it next, and until when its first value is read.
    std::map<int, int64_t> results;
    std::map<int, int64_t> fresh;
    std::vector<int64_t> scratch;
    for (const LoopValue& it : values_) {
      if (it.placed && it.place.kind == LoopPlace::Kind::Result) {
        int64_t& until = fresh.try_emplace(it.place.number, -1).first->second;
        until = std::max(until, it.read);
      }
    }
    const auto is_free = [&](int leaf, const LoopValue& value) {
      const auto first = fresh.find(leaf);
      if (first != fresh.end() && value.written <= first->second) return false;
      const auto next = results.find(leaf);
      return next == results.end() ? flow_.leaves[static_cast<size_t>(leaf)].wanted : next->second > value.read;
    };
    // Results are written where they are to lie.
    for (const int one : order) {
      LoopValue& value = values_[static_cast<size_t>(one)];
      if (value.result < 0) continue;
      const auto first = fresh.find(value.result);
      if (first != fresh.end() && value.written <= first->second) continue;
      value.place = {LoopPlace::Kind::Result, value.result};
      value.placed = true;
      results[value.result] = value.written;
    }
    // A result that is copied at the end: until then others may lie there, but not be read after the copy.
    for (const int one : order) {
      LoopValue& value = values_[static_cast<size_t>(one)];
      if (value.placed) continue;
      for (size_t leaf = 0; leaf < flow_.leaves.size() && !value.placed; ++leaf) {
        const Leaf& it = flow_.leaves[leaf];
        if (it.bytes != value.bytes || it.counter || value.read >= flow_.count) continue;
        if (!is_free(static_cast<int>(leaf), value)) continue;
        value.place = {LoopPlace::Kind::Result, static_cast<int>(leaf)};
        value.placed = true;
        results[static_cast<int>(leaf)] = value.written;
      }
      for (size_t n = 0; n < scratch.size() && !value.placed; ++n) {
        if (scratch_bytes_[n] != value.bytes || scratch[n] <= value.read) continue;
        value.place = {LoopPlace::Kind::Scratch, static_cast<int>(n)};
        value.placed = true;
        scratch[n] = value.written;
      }
      if (value.placed) continue;
      value.place = {LoopPlace::Kind::Scratch, static_cast<int>(scratch.size())};
      value.placed = true;
      scratch.push_back(value.written);
      scratch_bytes_.push_back(value.bytes);
    }
  }

  const LoopFlow& flow_;
  std::vector<LoopValue> values_;
  std::vector<int> same_;                 ///< the value that it is one with
  std::vector<std::vector<int>> states_;  ///< by iteration, then by leaf
  std::vector<int64_t> scratch_bytes_;
};

}  // namespace

LoopBuffers plan_loop_buffers(const LoopFlow& flow) { return Planner(flow).plan(); }

}  // namespace strata
