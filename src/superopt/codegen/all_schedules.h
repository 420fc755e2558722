// Every schedule of a whole µGraph that is worth measuring.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "superopt/codegen/libraries.h"

namespace strata {

<<<<<<< HEAD
/// The schedules of the operator that has the most, the best guess first, each with the other operators' own choice.
/// Behind them, where the model gives operators to libraries (libraries.h), the first of these schedules with the first
/// algorithm for all such operators, and other algorithms for those of one kind at a time. Never empty:
=======
/// The schedules of the operator that has the most, the best guess first, each with the other operators' own choice;
/// where the kernel behind it reads its results, each also with both in one launch.
/// Behind them, where the model gives products to cuBLASLt (libraries.h), the first of these schedules with its first
/// algorithm for all such products, and the others of its algorithms for products of one kind at a time. Never empty:
>>>>>>> combine
/// where no operator has any, or the passes leave no choice, the emitters' own is all.
std::vector<Schedules> all_schedules(const Graph& graph, const Target& target, const Passes& passes = {},
                                     const AvailableLibraries& available = {});

/// "r1g8s3c2" for 1 row warp, 8 groups, 3 stages and clusters of 2 blocks, with a "w" behind for wide products, "b2"
<<<<<<< HEAD
/// for tiles by TMA that 2 neighbours share and "t" for groups in turns; "own" for the emitters' own choice; "lt0" and
/// "lt0.2" behind that for operators by algorithms 0 and 2 of their libraries.
=======
/// for tiles by TMA that 2 neighbours share, "t" for groups in turns, "+last" and "+wait" where the kernel behind is
/// part of the launch (Handover); "own" for the emitters' own choice; "lt0" and
/// "lt0.2" behind that for products by algorithms 0, and 0 and 2, of cuBLASLt.
>>>>>>> combine
std::string label(const Schedules& schedules);

/// The schedule of generated code in a label: "r1g8s3c2" and what follows it, or "r1g8s3c2 lt0" without the library's
/// part. None for "own", "lt0" and what no label is.
std::optional<BlockSchedule> read_label(const std::string& text);

}  // namespace strata
