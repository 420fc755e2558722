#include "superopt/codegen/tiles/ring_loads.h"

namespace strata {
namespace {

constexpr int64_t kBarrierBytes = 8;

}  // namespace

std::string RingLoads::fill_slots(const std::string& requests, int64_t bytes) const {
  std::string text = fmt::format("  for (int first = {}; first < {}; first += {}) {{\n",
                                 schedule().cluster > 1 ? fmt::format("split * {}", schedule().loop_warps) : "0",
                                 block_.body.launch().loop, schedule().groups());
  text +=
      fmt::format("    for (int iteration = first; iteration < first + {}; ++iteration) {{\n", schedule().loop_warps);
  text += "      strata_device::wait(ring.empty + ring.slot, ring.phase ^ 1);  // slots begin empty\n";
  text += fmt::format("      strata_device::expect_bytes(ring.full + ring.slot, {});\n", bytes);
  text += fmt::format("      unsigned char* const stage = ring.slots + ring.slot * {};\n", stage_bytes());
  return text + requests +
         fmt::format(
             "      if (++ring.slot == {}) {{\n        ring.slot = 0;\n        ring.phase ^= 1;\n      }}\n"
             "    }}\n  }}\n",
             slots());
}

std::string RingLoads::loop_head() const {
  std::string text = fmt::format("  // The ring: {} slots of {} bytes.\n", slots(), stage_bytes());
  text += "  int slot = ring.slot + crew;\n  int phase = ring.phase;\n  [[maybe_unused]] int previous = 0;\n";
  if (schedule().loop_warps > 1)
    text += fmt::format("  if (slot >= {0}) {{\n    slot -= {0};\n    phase ^= 1;\n  }}\n", slots());
  return text;
}

std::string RingLoads::iteration_begin() const {
  return fmt::format(
      "    strata_device::wait(ring.full + slot, phase);\n"
      "    const unsigned char* const stage = ring.slots + slot * {};\n",
      stage_bytes());
}

std::string RingLoads::iteration_end(bool done) const {
  return (done ? release("slot", "") : "    previous = slot;\n") +
         fmt::format("    slot += {};\n    if (slot >= {}) {{\n      slot -= {};\n      phase ^= 1;\n    }}\n",
                     schedule().loop_warps, slots(), slots());
}

std::string RingLoads::release(const char* slot, const char* condition) const {
  std::string text = "    strata_device::warp_barrier();  // all lanes are done with the slot\n";
  if (schedule().sharers == 1) {
    return text + fmt::format("    if ({}strata_device::lane() == 0) strata_device::arrive(ring.empty + {});\n",
                              condition, slot);
  }
  return text + fmt::format(
                    "    if ({}strata_device::lane() < {}) strata_device::arrive_at(ring.empty + {}, "
                    "strata_device::lane(){});\n",
                    condition, schedule().sharers, slot,
                    schedule().cluster > 1 ? fmt::format(" * {} + split", schedule().cluster) : "");
}

std::string RingLoads::after_all() const {
  return fmt::format("  strata_device::advance<{}>(ring, {});\n", slots(),
                     block_.body.launch().loop / schedule().cluster);
}

int64_t RingLoads::reserved_bytes() const {
  return ceil_div((2 * slots() + 2) * kBarrierBytes, kTileAlignment) * kTileAlignment;
}

void RingLoads::describe(BlockCode& code) const {
  TileLoads::describe(code);
  RingPlan ring;
  ring.slots = slots();
  ring.slot_bytes = stage_bytes();
  ring.done = schedule().row_warps * schedule().sharers;
  ring.page_bytes = page_bytes();
  ring.barrier_bytes = reserved_bytes();
  ring.loading_threads = kWarp;
  code.ring = ring;
}

}  // namespace strata
