// The maps of single operators, by family; operand_maps.h is the way in.
#pragma once

#include <map>
#include <utility>

#include "hlo/indexing/operand_maps.h"

namespace strata::indexing {

/// What called computations read, by computation and element of the result: those that call each other are many paths.
using CalledReads = std::map<std::pair<hlo::ComputationId, int>, std::vector<Read>>;

/// An instruction with what surrounds it.
struct Site {
  const hlo::Module& module;
  const hlo::Computation& computation;
  const hlo::Instruction& instruction;
  int64_t key;              ///< of the instruction, for runtime variables
  const hlo::Shape& shape;  ///< of the element of the result that is asked for
  CalledReads& called;

  const hlo::Shape& operand(size_t i) const { return computation.operand_shape(instruction, i); }
  /// A map from the result's indices, without results yet.
  IndexingMap map() const;
};

/// The map with the variables of `dims` one after the other as results.
std::vector<Expr> dim_variables(size_t count);
/// A range variable over [0, extent - 1], added to the map.
Expr add_range(IndexingMap& map, int64_t extent);
/// A runtime variable in [0, last], added to the map.
Expr add_runtime(IndexingMap& map, const Site& site, int operand, std::vector<Expr> element, int64_t last);

// Each returns the maps of all operands that are read, not simplified.
std::vector<Read> movement_reads(const Site& site);     ///< broadcast … transpose, except for those below
std::vector<Read> indexed_reads(const Site& site);      ///< dynamic-slice, dynamic-update-slice, gather, scatter
std::vector<Read> contraction_reads(const Site& site);  ///< dot, convolution
std::vector<Read> combining_reads(const Site& site);    ///< reduce, reduce-window, map, sort, topk

/// A map that reads a tensor of shape `to` where one of shape `from` is indexed, both lying in memory in their layouts
/// and having as many elements.
IndexingMap bitcast_map(const hlo::Shape& from, const hlo::Shape& to);

}  // namespace strata::indexing
