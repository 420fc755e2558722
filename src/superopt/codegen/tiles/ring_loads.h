// Tiles that come through a ring of slots (device/strata_bulk.h), one slot an iteration: a thread beside the team fills
// them by bulk copies. bulk_loads.cpp fills them with boxes of tensors, packed_loads.cpp with what was packed before.
#pragma once

#include "superopt/codegen/tiles/loads.h"

namespace strata {

class RingLoads : public TileLoads {
 public:
  using TileLoads::TileLoads;

  std::string loop_head() const override;
  std::string iteration_begin() const override;
  std::string iteration_end(bool done) const override;
  std::string release_previous() const override { return release("previous", "iteration != group && "); }
  std::string after_all() const override;
  /// For barriers.
  int64_t reserved_bytes() const override;
  void describe(BlockCode& code) const override;

 protected:
  const BlockSchedule& schedule() const { return block_.schedule; }
  int64_t slots() const { return schedule().stages * schedule().loop_warps; }
  /// Bytes of the page.
  virtual int64_t page_bytes() const { return once_bytes(); }
  /// NAME_load's loop: for each iteration, when its slot is empty, `requests` for `bytes` that go to `stage`.
  std::string fill_slots(const std::string& requests, int64_t bytes) const;

 private:
  std::string release(const char* slot, const char* condition) const;
};

}  // namespace strata
