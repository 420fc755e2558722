#include "emitters/flatten_module.h"

#include <functional>

#include "hlo/batch_loop_products.h"
#include "hlo/drop_decided.h"
#include "hlo/drop_identities.h"
#include "hlo/fold_constants.h"
#include "hlo/fold_interior_pads.h"
#include "hlo/inline_calls.h"
#include "hlo/join_updates.h"
#include "hlo/merge_equals.h"
#include "hlo/merge_scatters.h"
#include "hlo/stack_pieces.h"
#include "hlo/wrap_concatenations.h"

namespace strata::emitters {
namespace {

using hlo::InstructionId;
using hlo::Opcode;

/// Before layouts are assigned, those of a module's text mean nothing: only bitcasts, fusions, copies between layouts,
/// and texts that are one fusion or have parameters in other layouts, rest on them.
hlo::Module with_free_layouts(hlo::Module flat, const hlo::Module& original, bool one_kernel) {
  if (flat.fusion || one_kernel) return flat;
  for (const hlo::Computation& computation : original.computations) {
    for (const hlo::Instruction& it : computation.instructions) {
      if (it.opcode == Opcode::Bitcast || it.opcode == Opcode::Fusion) return flat;
      // A copy to another layout is there because layouts were assigned.
      if (it.opcode == Opcode::Copy && computation.operand_shape(it, 0) != it.shape) return flat;
    }
  }
  for (const InstructionId id : flat.entry_computation().parameters) {
    const hlo::Shape& shape = flat.entry_computation()[id].shape;
    for (int64_t leaf = 0; leaf < hlo::leaf_count(shape); ++leaf) {
      const hlo::Shape& one = hlo::leaf_of(shape, leaf);
      if (one.is_array() && !one.has_default_layout()) return flat;  // somebody chose layouts
    }
  }
  const std::function<void(hlo::Shape&)> reset = [&](hlo::Shape& shape) {
    shape.minor_to_major = hlo::default_layout(shape.dims.size());
    if (!shape.is_tuple()) return;
    std::vector<hlo::Shape> elements(shape.elements.begin(), shape.elements.end());
    for (hlo::Shape& element : elements) reset(element);
    shape.elements = std::move(elements);
  };
  for (hlo::Instruction& it : flat.computations[static_cast<size_t>(flat.entry)].instructions) {
    if (it.opcode != Opcode::Parameter && it.opcode != Opcode::Constant) reset(it.shape);
  }
  return flat;
}

hlo::Module flattened(const hlo::Module& module, bool one_kernel) {
  if (module.fusion) return hlo::inline_calls(module);
  const auto once = hlo::merge_equals(hlo::fold_constants(hlo::inline_calls(module)));
  const auto flat = hlo::fold_interior_pads(hlo::drop_identities(hlo::drop_decided(once)));
  return one_kernel ? flat
                    : hlo::batch_loop_products(
                          hlo::wrap_concatenations(hlo::stack_pieces(hlo::join_updates(hlo::merge_scatters(flat)))));
}

}  // namespace

hlo::Module flatten_module(const hlo::Module& module, bool one_kernel) {
  return with_free_layouts(flattened(module, one_kernel), module, one_kernel);
}

}  // namespace strata::emitters
