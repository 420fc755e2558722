// What every emitter of block functions makes. generate.cpp asks them in turn: products on tensor cores (tiles), rows
// of elementwise operators and reductions (rows), and the emitter that takes every legal graph (block_function).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/target.h"

namespace strata {

/// How a block function's work is laid out: variables that the optimizer sets for each graph and target. An emitter
/// reads those that mean something to it.
struct BlockSchedule {
  int64_t row_warps = 1;   ///< warps that share an iteration, each with rows (or columns) of its own
  int64_t loop_warps = 1;  ///< groups of warps that take iterations in turn; their accumulators are added at the end
  int64_t stages = 1;      ///< iterations of a group whose tiles are in flight or in use
  bool wide = false;       ///< products of four warps together (wgmma) where they can be
  int64_t cluster = 1;     ///< blocks that do the work of one block of the graph: they share its loop's iterations

  /// Groups of warps that take iterations in turn, in all blocks of a cluster.
  int64_t groups() const { return loop_warps * cluster; }
  friend bool operator==(const BlockSchedule&, const BlockSchedule&) = default;
};

/// A tensor core instruction of four warps: 64 rows and so many columns, whose side of the product lies across the
/// stored rows or along them.
struct WideProduct {
  int64_t columns;
  bool across;
  std::string name() const;  ///< of the device library's struct
  std::string text() const;  ///< its definition, with function run(d, a, descriptor, type)
  friend bool operator==(const WideProduct&, const WideProduct&) = default;
};

/// A block function in CUDA C++: `static STRATA_DEVICE void NAME(inputs…, outputs…, long long block_x, long long
/// block_y, long long block_z, unsigned char* shared)`, to be called by all `threads` threads of a block.
struct BlockCode {
  std::string text;
  int64_t threads = 128;
  int64_t shared_bytes = 0;  ///< dynamic shared memory
  int64_t cluster = 1;       ///< blocks of the launch for each block of the graph, along x
  int64_t products = 0;      ///< instructions of tensor cores, of all warps of a block and its cluster
  int64_t registers = 0;     ///< estimate of what a thread needs; 0 where unknown
  std::vector<WideProduct> wide;
  std::string description;  ///< one line: emitter, layout, why
};

}  // namespace strata
