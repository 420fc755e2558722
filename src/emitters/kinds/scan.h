// Cumulative reductions: the plan of a scan and its kernels. docs/emitters.md says how they work.
#pragma once

#include <vector>

#include "emitters/elemental/fusion_functions.h"
#include "emitters/kinds/epilogue.h"
#include "emitters/kinds/plan.h"
#include "machine/target.h"

namespace strata::emitters {

/// How threads share a scan. The result's elements are `outer` × `length` × `inner` in the order in which they lie in
/// memory; the middle dimension is scanned. A line is what one thread scans side by side: `columns` elements of the
/// inner dimension. Positions along a line are counted in the order of the scan, in vectors of `vector` elements: from
/// the end where it is reversed. A block scans its lines tile by tile; chunks are scanned by blocks of their own.
struct ScanTiling {
  int64_t outer = 1, length = 1, inner = 1;
  bool reverse = false;
  int64_t columns = 1;  ///< elements of a line side by side, which a thread reads together; 1 if inner is 1
  int64_t vector = 1;   ///< elements along the scan that a thread reads together; 1 if inner is not 1
  int64_t unroll = 1;   ///< vectors of a thread in a tile, `lanes` vectors apart
  int64_t lanes = 32;   ///< of a warp that share a line: a power of two
  int64_t warps = 1;    ///< of a block that share a line
  int64_t groups = 1;   ///< warps of a block that have lines of their own; 1 if `warps` is more
  int64_t tiles = 1;    ///< of a chunk
  int64_t chunks = 1;   ///< of a line; with more than one, their totals are found by a kernel before

  int64_t lines() const { return outer * (inner / columns); }
  int64_t vectors() const { return length / vector; }  ///< of a line
  int64_t lines_of_warp() const { return 32 / lanes; }
  int64_t lines_of_block() const { return lines_of_warp() * groups; }
  int64_t line_blocks() const { return indexing::ceil_div(lines(), lines_of_block()); }
  int64_t threads() const { return 32 * warps * groups; }
  int64_t tile() const { return warps * unroll * lanes; }  ///< vectors of a line
  /// Elements that a thread has of each operand, over all tiles.
  int64_t elements_of_thread() const { return tiles * unroll * vector * columns; }
};

constexpr int64_t kScanThreadsToFill = 1024;  ///< of a multiprocessor, which chunks are cut for

/// Element bytes of the widest array that is read or written; the combiner must not have MLIR vectors if `scalar`.
ScanTiling choose_scan_tiling(int64_t outer, int64_t length, int64_t inner, int64_t element_bytes, bool scalar,
                              const Target& target);

struct ScanPlan {
  HeroSplit split;  ///< the scans are its heroes
  ScanTiling tiling;
};

/// Bytes of shared memory of a block.
int64_t scan_shared_bytes(const ScanPlan& plan);

/// The kernels of the plan. Errors: Unsupported where an operand has no code.
Result<void> emit_scan(FusionFunctions& functions, const ScanPlan& plan, const std::string& name,
                       const Decision& decision);

}  // namespace strata::emitters
