// What a fusion computes after its heroes, the instructions around which an emitter builds its kernel.
#pragma once

#include "emitters/elemental/fusion_functions.h"
#include "emitters/kinds/plan.h"

namespace strata::emitters {

/// Whether each element of an instruction is computed from the element of operand `operand` that lies at the same place
/// in memory, and from no other: elementwise operators, movements that only rename places, and the arrays of a
/// reduce-window of several.
bool keeps_places(const hlo::Module& module, hlo::ComputationId computation, hlo::InstructionId user, int operand);

/// The instructions whose values a fusion returns: its root, or the operands of its root's tuple.
std::vector<hlo::InstructionId> root_values(const hlo::Computation& computation);

/// A fusion cut at its heroes.
struct HeroSplit {
  std::shared_ptr<const hlo::Module> module;
  hlo::ComputationId computation = 0;
  std::vector<hlo::InstructionId> heroes;
  std::vector<bool> has_hero;  ///< for each array of the root: whether it is computed from heroes at its own places
  indexing::PartitionOptions options;
  indexing::FunctionPartition partition;  ///< by the options

  size_t hero_number(hlo::InstructionId hero) const;  ///< among `heroes`
};

/// Which arrays of the root may be results of one function.
enum class SharedRoots {
  All,   ///< those that have heroes, and the others
  None,  ///< each has its own
};

/// Finds heroes: from each root up through instructions that keep places (keeps_places) to the first ones that
/// `is_hero` takes. What is needed on both sides of them, as a hero's value at its places and for itself at other
/// indices, is there twice in the module of the result. A fusion without heroes has none in the result, and no module.
/// Roots with and without heroes do not share functions. An error (Unsupported) where heroes are used in a way that has
/// no code: at other indices by what a root computes.
Result<HeroSplit> split_at_heroes(const Fusion& fusion, const std::function<bool(hlo::InstructionId)>& is_hero,
                                  SharedRoots shared = SharedRoots::All);

/// The function's indices at a place in memory of its first result: of what it computes at places. One result for each
/// index, over the dimension that is the place.
indexing::IndexingMap index_at_place(const HeroSplit& split, int function);

/// The functions that compute roots: those that are given heroes' values, or the others.
std::vector<int> root_functions(const HeroSplit& split, bool with_heroes);

}  // namespace strata::emitters
