// What a program computes before its hard part, set apart for the search: normalised operands of matrix products, and
// what depends on iotas alone, such as masks.
//
// A program that normalises what it multiplies, such as attention with QK norm, has many operators, but its hard part
// is what follows the norms. So the search gets that core, with the normalised values as inputs, and its graphs get the
// norms back: each block computes them from the tiles that it reads, which is possible wherever the tiles span what the
// norm reduces. A mask is an input of the core as well, and each block computes its tile of it.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"

namespace strata {

struct PeeledProgram {
  /// The program from the peeled values on, which are inputs of it. It has no iotas: those that it reads are inputs
  /// like others, and what is found for any input is right for them.
  GraphPtr core;
  /// Of the program: operands of products that are reduced and elementwise from inputs; elementwise values of iotas.
  std::vector<TensorId> values;
};

/// Nothing where the program has no iotas and no operand of a product reduces anything (or `norms` says to leave those
/// in the core), or where nothing but such operands would be left.
std::optional<PeeledProgram> peel_prologues(const Graph& program, bool norms = true);

enum class PrologueForm {
  InPlace,         ///< the operand of the product is normalised
  BehindProducts,  ///< where the loop cuts the operand and all its readers are products, they are divided instead
};

/// A kernel graph for the core as one for the program. Error (Unsupported) where a block cuts what a norm reduces.
/// Equivalent over the reals wherever the program divides by what is not 0; whoever uses it proves it.
Result<GraphPtr> with_prologues(const Graph& program, const PeeledProgram& peeled, const Graph& core_graph,
                                PrologueForm form);

}  // namespace strata
