// A generated program as one persistent kernel: the block functions of its launches in one switch, which the blocks of
// one launch, all of them resident, go through launch by launch. It is the first form of a mega-kernel: what it shows
// is that functions of both back ends run again and again, in one image, for a team and with rings that are handed in.
#pragma once

#include "superopt/codegen/generate.h"

namespace strata {

/// The same program with one launch. Each multiprocessor has one block, which takes its share of the blocks of each
/// launch; before the next one all blocks meet at a counter in device memory. One thread more than the team's brings
/// the tiles of functions that have rings. Error (Unsupported), with the reason, where a launch is a library's or none
/// of block functions alone, has clusters, or registers that move, or where rings do not fit shared memory beside each
/// other.
Result<GeneratedProgram> as_one_kernel(GeneratedProgram program, const Target& target);

}  // namespace strata
