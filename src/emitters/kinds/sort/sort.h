// Sorts and the k largest elements of rows. docs/emitters.md says how.
#pragma once

#include <string>
#include <vector>

#include "emitters/elemental/function_emitter.h"
#include "emitters/kinds/kernel.h"
#include "emitters/kinds/plan.h"

namespace strata::emitters {

/// What is sorted. A row has the elements along the sorted dimension, one for each index of all other dimensions; it
/// consists of several arrays that move together. A place is an index along the sorted dimension.
struct SortShape {
  hlo::InstructionId sort = 0;
  bool top_k = false;                            ///< the arrays are the operand and the places of its elements, s32
  std::vector<hlo::ElementType> types;           ///< of the arrays
  int64_t rows = 0, length = 0;                  ///< number of rows, elements of one
  int64_t keep = 0;                              ///< so many elements at the beginning of a sorted row are written
  bool rows_inner = false;                       ///< rows that follow each other lie beside each other in memory
  std::vector<indexing::Interval> place_ranges;  ///< of rows and of places
  indexing::IndexingMap index;                   ///< (row, place) → index of the operands
  /// For each output of the fusion the array that it is, and (row, place) → position in the output's memory.
  std::vector<std::pair<int, indexing::IndexingMap>> outputs;

  int64_t element_bytes() const;  ///< of all arrays together
  int64_t words() const;          ///< registers of 32 bits that one element of all arrays takes
};

/// Unsupported unless the fusion's results are those of a sort or top-k.
Result<SortShape> sort_shape(const Fusion& fusion);

/// One kernel. It reads rows of `length` elements from the operands or temporaries, and writes rows of `written`
/// elements to temporaries or the outputs.
struct SortStep {
  enum class Kind {
    Tiles,  ///< sorts tiles of rows in shared memory, and writes the first `keep` elements of each
    Merge,  ///< merges pairs of sorted runs
  };
  Kind kind = Kind::Tiles;
  int64_t length = 0, written = 0;
  int64_t keep = 0;
  int threads = 0;
  int64_t items = 0;           ///< elements of a thread
  int64_t group = 0;           ///< threads that share a row: a power of two. Tiles of one row: all
  int64_t rows_per_block = 1;  ///< if more than one, a tile is a whole row
  int64_t tiles = 1;           ///< of a row
  int64_t run = 0;             ///< Merge: elements of the sorted runs that come in; the last one may be shorter
  int source = -1;             ///< the set of temporaries that is read, 0 or 1; -1: the operands
  int target = -1;             ///< the set that is written; -1: the outputs

  /// Elements of one array that fit into a row's part of the tile.
  int64_t span() const { return group * items; }
};

/// What the kernels of one fusion have in common while they are written.
struct SortEmission {
  FusionFunctions& functions;
  const SortShape& shape;
  const std::vector<SortStep>& steps;
  const Decision& decision;
  std::string name;
  mlir::func::FuncOp less;  ///< (a of array 0, b of array 0, a of array 1, …) → whether a comes before b
};

/// Kernel number `launch`.
Result<void> emit_tiles(const SortEmission& emission, size_t launch);
Result<void> emit_merge(const SortEmission& emission, size_t launch);

}  // namespace strata::emitters
