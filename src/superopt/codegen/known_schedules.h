// Schedules that many kernel graphs share.
#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>

#include "superopt/codegen/generate.h"

namespace strata {

/// The schedules of block graphs on one target (block_schedules), each made once: that rates code of every schedule,
/// and many kernel graphs have the same block graphs. Thread-safe.
class KnownSchedules {
 public:
  explicit KnownSchedules(const Target& target) : target_(target) {}
  const Target& target() const { return target_; }
  /// Of an operator of a kernel graph. Valid as long as this object.
  const std::vector<BlockSchedule>& of(const Graph& graph, const Operation& op);
  /// Where its operands are known to lie so.
  const std::vector<BlockSchedule>& of(const Operation& op, OperandPlaces strides);

 private:
  struct Entry {
    GraphPtr body;
    OperandPlaces strides;
    std::once_flag made;
    std::vector<BlockSchedule> schedules;
  };
  Entry& entry(const Operation& op, OperandPlaces strides);

  const Target& target_;
  std::mutex mutex_;
  std::unordered_multimap<uint64_t, std::unique_ptr<Entry>> entries_;  ///< by the body's structural_hash
};

}  // namespace strata
