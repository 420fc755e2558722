// Every schedule of a whole µGraph that is worth measuring.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "superopt/codegen/libraries.h"

namespace strata {

/// The schedules of the operator that has the most, the best guess first, each with the other operators' own choice;
/// where the kernel after it reads its results, each also with both in one launch.
/// After them, where the model gives operators to libraries (libraries.h), the first of these schedules with the first
/// algorithm for all such operators, and other algorithms for those of one kind at a time. Never empty:
/// where no operator has any, or the passes leave no choice, the emitters' own is all.
std::vector<Schedules> all_schedules(const Graph& graph, const Target& target, const Passes& passes = {},
                                     const AvailableLibraries& available = {});

/// "r1g8s3c2" for 1 row warp, 8 groups, 3 stages and clusters of 2 blocks, with a "w" after it for wide products, "b2"
/// for tiles by TMA that 2 neighbours share and "t" for groups in turns, "+last" and "+wait" where the kernel after it
/// is part of the launch (Handover); "own" for the emitters' own choice; "lt0" and
/// "lt0.2" after that for operators by algorithms 0 and 2 of their libraries.
std::string label(const Schedules& schedules);

/// The schedule of generated code in a label: "r1g8s3c2" and what follows it, or "r1g8s3c2 lt0" without the library's
/// part. None for "own", "lt0" and what no label is.
std::optional<BlockSchedule> read_label(const std::string& text);

}  // namespace strata
