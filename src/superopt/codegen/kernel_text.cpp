#include "superopt/codegen/kernel_text.h"

#include "superopt/codegen/emit.h"

namespace strata {

std::string team_of(const BlockCode& code) { return team_text(code.team(), code.ring ? 1 : 0); }

std::string preparation_text(const BlockCode& code) {
  if (!code.ring) return "";
  return fmt::format("strata_device::start_ring<{}, {}, {}>", code.ring->slots, code.ring->done,
                     code.cluster * code.sharers > 1);
}

std::string block_statements(const BlockCode& code, const BlockCall& call) {
  const auto arguments = [&](std::vector<std::string> list, std::initializer_list<std::string> more) {
    list.insert(list.end(), more);
    return fmt::format("{}", fmt::join(list, ", "));
  };
  const std::string function = fmt::format("{}<{}, {}>", call.function, team_of(code), call.math);
  if (!code.ring) return fmt::format("  {}({});\n", function, arguments(call.tensors, {call.coordinates, call.shared}));
  const RingPlan& ring = *code.ring;
  std::vector<std::string> loaded = call.tensors;
  loaded.insert(loaded.end(), call.maps.begin(), call.maps.end());
  const auto registers = [&](const char* what, int64_t count) {
    return ring.team_registers == 0 ? std::string() : fmt::format("strata_device::{}_registers<{}>();\n", what, count);
  };
  std::string text = fmt::format("  strata_device::Ring ring = strata_device::ring_at<{}>({}, {});\n", ring.slots,
                                 call.shared, ring.barrier_bytes + ring.page_bytes);
  text += fmt::format("  strata_device::Page page = strata_device::page_at<{}>({}, {});\n", ring.slots, call.shared,
                      ring.barrier_bytes);
  text += fmt::format("  if (strata_device::thread() >= {}) {{\n", code.team());
  if (ring.team_registers > 0) text += "    " + registers("leave", ring.loading_registers);
  text += fmt::format("    if (strata_device::thread() == {}) {}_load({});\n    return;\n  }}\n", code.team(),
                      call.function, arguments(loaded, {call.coordinates, "ring", "page"}));
  if (ring.team_registers > 0) text += "  " + registers("take", ring.team_registers);
  return text + fmt::format("  {}({});\n", function,
                            arguments(call.tensors, {call.coordinates, "ring", "page",
                                                     fmt::format("{} + {}", call.shared, ring.barrier_bytes)}));
}

}  // namespace strata
