// One unit of the search's work: all block graphs of one space that make wanted values.
#pragma once

#include "superopt/search/checkpoint.h"
#include "superopt/search/context.h"

namespace strata {

/// Block graphs over some kernel values in one space.
struct Unit {
  std::string name;
  std::vector<int> inputs;   ///< kernel classes
  std::vector<int> targets;  ///< kernel classes
  bool whole = false;        ///< makes the program's outputs from its inputs: everything found is kept
  /// One dimension of the grid cuts an axis that the targets lack: blocks make partial results, and a second kernel
  /// combines them.
  bool split = false;
  const BlockSpace* space = nullptr;
  size_t group = 0;
};

/// The kernels that the unit's block graphs make, each with all launch shapes that fit. Units may be searched in
/// parallel.
UnitResult search_unit(const Unit& unit, SearchContext& context);

/// A choice of the unit from outside, checked for all that the search relies on: classes of the unit, a legal graph of
/// blocks over their tensors. Its cost is estimated again. The error in a few words.
tl::expected<KernelChoice, std::string> restored_choice(int result, const std::vector<int>& inputs,
                                                        const std::string& graph, const Unit& unit,
                                                        const SearchContext& context);

/// The split half of search_unit: pairs of kernels (split_search.cpp).
void search_split(const Unit& unit, SearchContext& context, ClassGraph& graph, const std::vector<std::string>& names,
                  int target, std::vector<KernelChoice>& choices);

/// Whether a unit of this space can make a value with these axes; `split` as in Unit.
bool space_fits(const BlockSpace& space, const std::vector<int>& target_axes, bool split);

/// Graphs read off one space for one value, and how many of the resulting kernels are kept for graphs of several.
constexpr int64_t kDerivedGraphs = 1000;
constexpr int64_t kDerivedGraphsOfPart = 100;
constexpr size_t kChoicesOfPart = 8;

}  // namespace strata
