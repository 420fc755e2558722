#include "hlo/fold_interior_pads.h"

#include <optional>

#include "hlo/combiner_operator.h"
#include "hlo/entry_rewriter.h"

namespace strata::hlo {
namespace {

class Folding : EntryRewriter {
 public:
  explicit Folding(const Module& module) : EntryRewriter(module) {}

  Module run() {
    return rewrite([&](const Instruction& it, const Instruction& copy) -> std::optional<InstructionId> {
      if (!may_fold(it)) return std::nullopt;
      const Instruction& pad = from_[it.operands[0]];
      auto attributes = it.as<WindowAttributes>();
      for (size_t d = 0; d < attributes.window.size(); ++d) {
        WindowDimension& window = attributes.window[d];
        const auto& padding = pad.as<PadAttributes>();
        window.pad_low += padding.low[d];
        window.pad_high += padding.high[d];
        window.lhs_dilate = padding.interior[d] + 1;
      }
      return add(it.name, Opcode::ReduceWindow, it.shape,
                 {moved_[static_cast<size_t>(pad.operands[0])], copy.operands[1]}, std::move(attributes), it.called);
    });
  }

 private:
  bool may_fold(const Instruction& it) const {
    if (it.opcode != Opcode::ReduceWindow || !it.shape.is_array() || it.operands.size() != 2) return false;
    const Instruction& pad = from_[it.operands[0]];
    if (pad.opcode != Opcode::Pad || !changes_nothing(it, from_[pad.operands[1]])) return false;
    const Shape& inside = from_.operand_shape(pad, 0);
    if (inside.element_count() == 0 || inside.minor_to_major != pad.shape.minor_to_major) return false;
    const auto& padding = pad.as<PadAttributes>();
    bool holes = false;
    for (size_t d = 0; d < padding.low.size(); ++d) {
      const WindowDimension& window = it.as<WindowAttributes>().window[d];
      if (window.lhs_dilate != 1) return false;
      // What is cut off is no element of the window's own padding.
      if ((padding.low[d] < 0 && window.pad_low != 0) || (padding.high[d] < 0 && window.pad_high != 0)) return false;
      holes = holes || padding.interior[d] > 0;
    }
    return holes;
  }

  /// Whether combining with a padding value leaves any number as it was.
  bool changes_nothing(const Instruction& window, const Instruction& value) const {
    if (value.opcode != Opcode::Constant || value.shape.type != window.shape.type) return false;
    const std::optional<Opcode> how = only_operator(result_[window.called[0]]);
    const std::optional<Literal> neutral = how ? neutral_value(*how, value.shape.type) : std::nullopt;
    return neutral && identical(*neutral, value.as<ConstantAttributes>().value);
  }
};

}  // namespace

Module fold_interior_pads(const Module& module) { return Folding(module).run(); }

}  // namespace strata::hlo
