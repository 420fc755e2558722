#include "hlo/scan_window.h"

namespace strata::hlo {

std::optional<ScanWindow> scan_window(const Computation& computation, const Instruction& it) {
  if (it.opcode != Opcode::ReduceWindow) return std::nullopt;
  const Shape& operand = computation.operand_shape(it, 0);
  const auto& window = it.as<WindowAttributes>().window;
  if (!operand.is_array() || window.size() != operand.dims.size()) return std::nullopt;
  std::optional<ScanWindow> found;
  for (size_t d = 0; d < window.size(); ++d) {
    const WindowDimension& one = window[d];
    if (one.stride != 1 || one.lhs_dilate != 1 || one.rhs_dilate != 1) return std::nullopt;
    if (one.size == 1 && one.pad_low == 0 && one.pad_high == 0) continue;
    const int64_t length = operand.dims[d];
    const bool forward = one.pad_low == length - 1 && one.pad_high == 0;
    const bool reverse = one.pad_low == 0 && one.pad_high == length - 1;
    if (found || one.reversed || one.size != length || (!forward && !reverse)) return std::nullopt;
    found = ScanWindow{static_cast<int64_t>(d), length, reverse};
  }
  return found;
}

}  // namespace strata::hlo
