#include "superopt/codegen/kernel_text.h"

#include "superopt/codegen/emit.h"

namespace strata {

std::string team_of(const BlockCode& code) { return team_text(code.team(), code.ring ? 1 : 0); }

std::string part_team_of(const BlockCode& code) { return team_text(code.team(), 1); }

std::string preparation_text(const BlockCode& code) {
  if (!code.ring) return "";
  return fmt::format("strata_device::prepare_ring<{}, {}, {}>", code.ring->slots, code.ring->done,
                     code.cluster * code.sharers > 1);
}

std::string block_statements(const BlockCode& code, const BlockCall& call, const std::string& team) {
  const auto arguments = [&](std::vector<std::string> list, std::initializer_list<std::string> more) {
    list.insert(list.end(), more);
    return fmt::format("{}", fmt::join(list, ", "));
  };
  const std::string function = fmt::format("{}<{}, {}>", call.function, team, call.math);
  if (!code.ring) return fmt::format("  {}({});\n", function, arguments(call.tensors, {call.coordinates, call.shared}));
  const RingPlan& ring = *code.ring;
  std::vector<std::string> loaded = call.tensors;
  loaded.insert(loaded.end(), call.maps.begin(), call.maps.end());
  const auto registers = [&](const char* what, int64_t count) {
    return ring.team_registers == 0 ? std::string() : fmt::format("strata_device::{}_registers<{}>();\n", what, count);
  };
  std::string text = "  strata_device::Ring ring = ";
  // What is packed comes through a ring such as a mega-kernel has.
  if (code.packing) text = fmt::format("  strata_device::SlotRing<{}, {}> ring{{", ring.slots, ring.slot_bytes);
  text += fmt::format("strata_device::ring_at<{}>({}, {}){};\n", ring.slots, call.shared,
                      ring.barrier_bytes + ring.page_bytes, code.packing ? "}" : "");
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

std::string typed_names(const std::vector<std::string>& types, const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) text += fmt::format("{}{} {}", i == 0 ? "" : ", ", types[i], names[i]);
  return text;
}

std::string block_function(const KernelLaunch& launch, std::string declaration, const std::string& statements) {
  for (size_t n = 0; n < launch.tensor_maps.size(); ++n)
    declaration += fmt::format(", const strata_device::TensorMap* map_{}", n);
  return fmt::format("static STRATA_DEVICE void {}({}, {}, unsigned char* shared) {{\n{}}}\n\n", launch.function,
                     declaration, kBlockCoordinates, statements);
}

void set_overlap(GeneratedProgram& program, const Target& target, const Passes& passes) {
  if (program.launches.empty()) return;
  bool behind_library = program.launches.back().library.has_value();
  for (KernelLaunch& made : program.launches) {
    made.overlaps_previous = target.overlapping_kernels && passes.overlap && !made.library && !behind_library;
    behind_library = made.library.has_value();
  }
}

std::string kernel_text(const KernelLaunch& launch) {
  std::string all = typed_names(launch.types, launch.parameters);
  std::vector<std::string> names = launch.parameters;
  for (size_t n = 0; n < launch.tensor_maps.size(); ++n) {
    all += fmt::format(", const __grid_constant__ strata_device::TensorMap map_{}", n);
    names.push_back(fmt::format("&map_{}", n));
  }
  names.push_back(launch.coordinates({"blockIdx.x", "blockIdx.y", "blockIdx.z"}));
  names.emplace_back(kSharedMemory);
  const std::string preparation =
      launch.preparation.empty() ? "" : fmt::format("  {}({});\n", launch.preparation, kSharedMemory);
  return fmt::format(
      "#if defined(__CUDACC__) || defined(__CUDACC_RTC__)\n"
      "STRATA_KERNEL void __launch_bounds__({}{}) {}({}) {{\n"
      "  extern __shared__ __align__(1024) unsigned char {}[];\n{}  {}({});\n}}\n#endif\n\n",
      launch.threads, launch.resident_blocks > 0 ? fmt::format(", {}", launch.resident_blocks) : "", launch.kernel, all,
      kSharedMemory, kernel_order(preparation), launch.function, fmt::join(names, ", "));
}

std::string kernel_order(const std::string& preparation) {
  return "  strata_device::let_next_kernel_start();\n" + preparation + "  strata_device::wait_for_previous_kernel();\n";
}

}  // namespace strata
