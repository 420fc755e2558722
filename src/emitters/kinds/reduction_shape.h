// Reductions as their emitters see them: dimensions merged in the order in which they lie in memory.
#pragma once

#include "hlo/hlo.h"
#include "indexing/indexing_map.h"

namespace strata::emitters {

/// Dimensions of an array that follow each other in memory and that are all reduced, or all kept.
struct DimensionGroup {
  int64_t size = 1;
  bool reduced = false;
  std::vector<int64_t> dims;  ///< the outermost first; none of size 1
};

/// The outermost in memory first; reduced and kept ones in turn. [kept, reduced] is a reduction of rows, [reduced,
/// kept] one of columns. None if all sizes are 1.
std::vector<DimensionGroup> dimension_groups(const hlo::Shape& shape, const std::vector<int64_t>& reduced);

/// (an index a group) → an index into the array, and into the array without the reduced dimensions.
indexing::IndexingMap operand_index(const std::vector<DimensionGroup>& groups, const hlo::Shape& shape);
indexing::IndexingMap result_index(const std::vector<DimensionGroup>& groups, const hlo::Shape& shape,
                                   const std::vector<int64_t>& reduced);

/// One reduction of a fusion that a kernel computes by itself.
struct ReductionHero {
  hlo::InstructionId id = 0;
  int stage = 0;                  ///< heroes of one stage need none of each other's results
  indexing::IndexingMap operand;  ///< from the groups to an index of what it reads
  indexing::IndexingMap result;   ///< from the groups to an index of its result
};

/// An input whose elements a kernel keeps in shared memory after it has read them once.
struct StagedInput {
  hlo::InstructionId id = 0;    ///< the copy of a parameter that all its users read
  indexing::IndexingMap index;  ///< from the groups to an index of it
};

/// The heroes of a fusion: its largest reduction and all others of the same groups. Those of few terms (at most
/// indexing::kFewTerms), which threads read without gaps, are heroes only where none is longer. A run of reduced
/// dimensions may be two groups, where what is broadcast along some of them would be read element by element otherwise.
struct ReductionHeroes {
  std::vector<DimensionGroup> groups;
  std::vector<ReductionHero> heroes;  ///< in order of stages
  int stages = 0;
  std::vector<StagedInput> staged;

  int64_t rows() const;                         ///< results of a hero
  int64_t length() const;                       ///< elements of each
  std::vector<hlo::InstructionId> ids() const;  ///< of heroes and staged inputs
  const ReductionHero* find(hlo::InstructionId id) const;
  const StagedInput* find_staged(hlo::InstructionId id) const;
};

/// Unsupported if there is none, or if another reduction of about that size remains.
Result<ReductionHeroes> find_reductions(const hlo::Computation& computation);

}  // namespace strata::emitters
