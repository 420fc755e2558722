// How the work of a reduction is cut into blocks and threads, from a model of bytes in flight.
#pragma once

#include <string>

#include "emitters/kinds/decision.h"
#include "emitters/kinds/reduction_shape.h"
#include "emitters/kinds/tiled.h"
#include "machine/target.h"

namespace strata::emitters {

/// What the choice depends on besides shapes.
struct ReductionLoad {
  int64_t element_bytes = 4;       ///< of the widest array that is read or written element by element
  int64_t all_bytes = 0;           ///< of all of these together, for one element
  bool rereads = false;            ///< rows are gone through several times: then they should stay in registers
  int64_t kept_bytes = 0;          ///< of one element of each parameter that lies as what is reduced does, together
  int64_t kept_registers = 0;      ///< that these take, of 32 bits
  int64_t repeated_registers = 0;  ///< the same of parameters that all rows read, such as weights
  bool may_split = false;          ///< several blocks may share an output
  bool one_slot = false;           ///< a thread may accumulate one output only: of complex numbers there are no vectors
  // Of short rows, which may be computed longer than they are on their way.
  double operations = 0;      ///< of an element of what is reduced, but loads
  double loads = 0;           ///< that an element needs, of arrays that caches may have
  int64_t load_bytes = 1;     ///< of the widest of them
  int64_t store_bytes = 0;    ///< of an element of all that is written element by element
  double row_operations = 0;  ///< of what is computed once a row
  double moved_bytes = 0;     ///< of all arrays
};

struct ReductionTiling {
  TiledReduction tiled;
  std::string emitter;  ///< "row reduction", "multi-row reduction", "column reduction"
  std::string reason;
  int min_blocks = 0;  ///< Launch::min_blocks
};

/// Of columns that are gone through twice, what a block can keep in registers.
struct ColumnPart {
  int64_t lanes = 1;  ///< vectors of columns: a line of memory
  int64_t rows = 1;
};
/// Bytes that a thread may have of a row that it goes through several times, of all arrays, to keep them in registers.
constexpr int64_t kRowRegisterBytes = 128;
constexpr int64_t kMostRepetitions = 8;  ///< of its loops, which disappear then

/// Bytes of a row that is gone through twice and stays in the registers and the shared memory of a multiprocessor.
int64_t most_kept_row(const Target& target);
ColumnPart most_column_part(int64_t columns, int64_t vector, int64_t element_bytes);

/// Rows where the innermost dimension in memory is reduced: several rows a warp where a row is at most a vector a lane,
/// or would be if it began at multiples of vectors, with fewer lanes and more vectors each where a row takes less time
/// so, else warps along a row. Columns where it is
/// kept: lanes along it, warps along the reduced one. All accesses are as wide as 16 bytes where sizes allow it;
/// threads of a block times elements in flight cover the latency of memory; blocks share outputs where else too few
/// would run. Long rows that are gone through again are kept in registers as far as these reach, the rest in shared
/// memory: two blocks a multiprocessor where that is possible, with as many threads as then can have all of their row.
/// Rows that registers have as a whole have fewer threads where more rows are resident so.
/// Of rows of several short pieces threads share the pieces, where rows are too few for all threads of the GPU.
ReductionTiling choose_reduction_tiling(const ReductionHeroes& heroes, const ReductionLoad& load, const Target& target);

}  // namespace strata::emitters
