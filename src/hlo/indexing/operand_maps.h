// Which elements of its operands each element of an HLO instruction is computed from, and the reverse.
#pragma once

#include <memory>
#include <vector>

#include "hlo/hlo.h"
#include "indexing/indexing_map.h"

namespace strata::indexing {

/// What one element of an instruction reads of one element of an operand's tuple, or of an operand that is no tuple.
/// What is read is the union of the maps' images. Element [d0, d1, …] of the result has the maps' dimensions; range
/// variables run over what is combined (reduced, contracted).
struct Read {
  int operand = 0;
  int tuple_element = 0;  ///< of an operand that is a tuple, else 0
  /// Whether any element may be read: then there are no maps.
  bool unknown = false;
  std::vector<IndexingMap> maps;
};

/// The identity of an instruction within its module that runtime variables have.
int64_t instruction_key(hlo::ComputationId computation, hlo::InstructionId instruction);

/// What element `tuple_element` of the result of an instruction (0 where it is no tuple) reads of its operands: no
/// entry for an operand of which nothing is read, and simplified maps that keep no unused range variables. Runtime
/// variables are elements of the operands that hold indices, in the ranges to which gather, dynamic-slice and
/// dynamic-update-slice clamp them; scatter drops updates outside them. The operands with the indices are read too, and
/// have maps of their own.
///
/// Operators whose reads depend on more than that (while, conditional, select-and-scatter, custom calls, collectives)
/// read everything: `unknown`. An error (Unsupported) where a shape's size is no int64_t, or where a computation that
/// reads by runtime variables has more than one caller, so that the variables would have more than one meaning.
Result<std::vector<Read>> operand_reads(const hlo::Module& module, hlo::ComputationId computation,
                                        hlo::InstructionId instruction, int tuple_element = 0);

/// The same without a copy, where instructions of one form share it.
using SharedReads = std::shared_ptr<const std::vector<Read>>;
Result<SharedReads> shared_operand_reads(const hlo::Module& module, hlo::ComputationId computation,
                                         hlo::InstructionId instruction, int tuple_element = 0);

/// The reverse: the elements of that element of the result that read an element of operand `operand`, for each of the
/// maps of operand_reads, over the operand's indices. Runtime variables are written over the result's indices.
Result<std::vector<Read>> result_uses(const hlo::Module& module, hlo::ComputationId computation,
                                      hlo::InstructionId instruction, int operand, int tuple_element = 0);

/// What an element of a computation's root (of its `tuple_element`) reads of the computation's parameters: by
/// composition along every path, maps that are equal counted once. Read::operand is a parameter's number. More than
/// `max_maps` maps for one instruction, or one that costs thousands of additions, make it, and what it is computed
/// from, unknown.
Result<std::vector<Read>> computation_reads(const hlo::Module& module, hlo::ComputationId computation,
                                            int tuple_element = 0, int max_maps = 64);

/// The shape of an array, or of one element of a tuple.
const hlo::Shape& element_shape(const hlo::Shape& shape, int tuple_element);

}  // namespace strata::indexing
