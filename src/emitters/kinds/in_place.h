// What emitters have in common that write part of an output which holds something else before: scatter and
// dynamic-update-slice.
#pragma once

#include <optional>

#include "emitters/dialect/dialect.h"
#include "emitters/elemental/function_emitter.h"
#include "emitters/kinds/access_width.h"
#include "machine/target.h"

namespace strata::emitters {

/// How an output (number 0), of shape `output`, comes to hold `operand`: a copy of a parameter, or one value
/// everywhere. Unsupported for what is computed, and for an array that lies otherwise.
Result<Preparation> preparation_in_place(const hlo::Computation& computation, hlo::InstructionId operand,
                                         const hlo::Shape& output);

/// (block, thread)[unroll, vector] → index of the shape: all elements once, in the order in which they lie.
indexing::IndexingMap visits_of(const hlo::Shape& shape, const AccessWidth& width);

/// Whether the device adds vectors of such floats in memory by one instruction.
bool has_vector_sums(const Target& target, hlo::ElementType type);

/// Elements a second that atomic updates take of so many elements beside each other; without a name, or where the
/// device has no instruction, they are loops of compare-and-swap.
double atomics_rate(const Target& target, std::optional<Combiner> combiner, hlo::ElementType type, int64_t vector);

/// A start index as an index, and the values that it may have. Unsigned ones of 64 bits that are too large for an index
/// are negative.
mlir::Value index_of(mlir::ImplicitLocOpBuilder& builder, mlir::Value integer, hlo::ElementType type);
indexing::Interval values_of_index(hlo::ElementType type);

}  // namespace strata::emitters
