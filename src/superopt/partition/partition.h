// Splits a program into parts that the search can take and operators that stay as they are.
//
// A searchable part is a convex set of connected operators with at most one exponentiation on a path, within the limits
// below, and inside the Lax fragment if so asked; all other operators are parts of one operator each. Parts are
// disjoint, cover the program, and depend on each other without cycles. They are maximal: no two neighbours could be
// one part. Where a value crosses from one part to another no kernel can fuse across it, so every such value is
// reported with the reason.
//
// Left apart on purpose: operators that regroup dimensions (reshape, repeat, concat, slice), since no tile of their
// result is a tile of their operands; and siblings that share inputs alone, since a block graph has one output.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"

namespace strata {

struct PartitionLimits {
  /// Operators of a part, a normalisation X / √(factor · Σ X²) counted as one. Up to here the search ends, or comes
  /// far, within a minute.
  int max_operators = 16;
  /// Values that a part reads: more than this many block inputs are not searched.
  int max_inputs = 7;
  /// A reduction over the columns of a product makes every block of a fused kernel read the product's whole matrix.
  /// Up to this size (a head's keys in attention) that pays; beyond (a layer's weights) the two are cut apart.
  int64_t max_repeated_bytes = int64_t{8} << 20;
  /// Whether parts may hold operators outside the fragment (maxima, relu): only the solver proves what they become.
  bool outside_lax = true;
  /// Whether parts without a product or a reduction stay as they are, beside others: emitters write their kernels.
  bool glue_apart = false;
  /// By operator: those that a library computes and that stay as they are; none where it is empty.
  std::vector<bool> apart = {};
  /// By operator: a number of the part that it belongs to, which is a part of the result whatever the other limits say,
  /// or −1; none where it is empty. Parts of a partition of the same program.
  std::vector<int> given = {};
};

struct Part {
  std::vector<int> operations;    ///< indices in the program, ascending
  std::vector<TensorId> inputs;   ///< of the program: what it reads from outside, ascending
  std::vector<TensorId> outputs;  ///< what others or the program's outputs read, ascending
  GraphPtr graph;                 ///< the part as a program, with the program's names
  std::string predefined;         ///< why it is not searched; empty for searchable parts

  bool searchable() const { return predefined.empty(); }
};

/// A value that goes from one part to another, and why the two are not one.
struct Cut {
  TensorId tensor;
  int from, to;  ///< indices of parts
  std::string reason;
};

struct Partition {
  /// What was taken apart: ids and numbers below are of this program, which need not be the one that the user wrote.
  GraphPtr program;
  std::vector<Part> parts;  ///< in an order in which they can be executed
  std::vector<Cut> cuts;    ///< by tensor, then reader

  const std::string& name_of(const Cut& cut) const { return program->tensor(cut.tensor).name; }
};

/// How many operators of the program these are, a normalisation counted as one.
int counted_operators(const Graph& program, const std::vector<int>& operations);

/// Deterministic. Error where the program has graph-defined operators.
Result<Partition> partition(const GraphPtr& program, const PartitionLimits& limits = {});

/// The partition's program with each part computed by the kernel graph in its place: one a part, with the part's inputs
/// by name and its outputs in order. Values between parts keep the program's names; others are renamed where they
/// clash.
Result<GraphPtr> compose(const Partition& partition, const std::vector<GraphPtr>& replacements);

}  // namespace strata
