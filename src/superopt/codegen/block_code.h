// What every emitter of block functions makes. generate.cpp asks them in turn: products on tensor cores (tiles), rows
// of elementwise operators and reductions (rows), and the emitter that takes every legal graph (block_function).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "machine/target.h"
#include "runtime/launch_manifest.h"

namespace strata {

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// How the kernel behind a block graph that reads its results follows it.
enum class Handover : uint8_t {
  Launch,  ///< in a launch of its own
  Last,    ///< in the same one: the last block of a group to end makes what the group's results are needed for
  Wait,    ///< in the same one: blocks wait until all of their group have ended, and share that
};

/// How an operator's work is laid out: variables that the optimizer sets for each graph and target. An emitter reads
/// those that mean something to it.
struct BlockSchedule {
  int64_t row_warps = 1;   ///< warps that share an iteration, each with rows (or columns) of its own
  int64_t loop_warps = 1;  ///< groups of warps that take iterations in turn; their accumulators are added at the end
  int64_t stages = 1;      ///< iterations of a group whose tiles are in flight or in use
  bool wide = false;       ///< products of four warps together (wgmma) where they can be
  int64_t cluster = 1;     ///< blocks that do the work of one block of the graph: they share its loop's iterations
  bool bulk = false;       ///< tiles come by TMA, asked by a warp of its own; else by cp.async of all threads
  int64_t sharers = 1;     ///< neighbours in the grid, in one cluster, that bring each other the tiles they share
  bool turns = false;      ///< two groups, or halves of one, use tensor cores in turn, where products need products
  Handover handover = Handover::Launch;
  bool best_layout = true;  ///< of register tiles; else the first that is legal
  int64_t algorithm = -1;   ///< predefined operators: place in a library's list (libraries.h); −1: generated code

  /// Groups of warps that take iterations in turn, in all blocks of a cluster.
  int64_t groups() const { return loop_warps * cluster; }
  /// Blocks of a cluster of the launch.
  int64_t cluster_blocks() const { return cluster * sharers; }
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

/// What one block does, from which schedule_cost.h estimates its time. Counts are of one warp (instructions) or one
/// thread (elements); bytes are of one block.
struct BlockWork {
  int64_t iterations = 1;       ///< of one group of warps
  int64_t iteration_bytes = 0;  ///< tiles that one iteration of a group brings
  int64_t ahead = 0;            ///< iterations of a group whose tiles are in flight while it works
  int64_t once_bytes = 0;       ///< tiles that come before the loop
  double products = 0;          ///< tensor core instructions of an iteration
  double elements = 0;          ///< results of operators other than products, of an iteration
  double products_after = 0;    ///< both, behind the loop
  double elements_after = 0;
  int64_t partial_bytes = 0;  ///< what groups leave for each other
  int64_t shared_bytes = 0;   ///< of an iteration's tiles, those that neighbours bring each other
  double read_bytes = 0;      ///< that a warp reads of tiles in shared memory, of an iteration
  bool overlaps = false;      ///< products end in the next iteration, while its other operators run
};

/// What it took to choose the layouts of register tiles.
struct LayoutSearch {
  int64_t choices = 0;  ///< legal assignments that were compared; 0: no tiles in registers
  double seconds = 0;
};

/// A block function in CUDA C++: `static STRATA_DEVICE void NAME(inputs…, outputs…, tensor maps…, long long block_x,
/// long long block_y, long long block_z, unsigned char* shared)`, to be called by all `threads` threads of a block;
/// before it NAME_prepare with the same arguments, if it `prepares`: that reads no tensor, and may run before they are
/// written. With `asking_threads` the function is a bool: false in these.
struct BlockCode {
  std::string text;
  int64_t threads = 128;
  int64_t shared_bytes = 0;  ///< dynamic shared memory
  int64_t cluster = 1;       ///< blocks of the launch for each block of the graph
  int64_t sharers = 1;       ///< blocks of the graph, neighbours along `shared_along`, in each cluster of the launch
  size_t shared_along = 0;   ///< dimension of the grid
  bool prepares = false;
  std::vector<GpuTensorMap> maps;  ///< arguments are numbers of the operator's operands
  int64_t registers = 0;           ///< estimate of what a thread needs; 0 where unknown
  int64_t resident_blocks = 0;     ///< blocks that share a multiprocessor's registers; 0: the compiler chooses
  int64_t idle_threads = 0;        ///< that leave their registers to the others
  int64_t asking_threads = 0;      ///< the last ones, which ask for tiles alone and return early
  BlockWork work;
  std::vector<WideProduct> wide;
  LayoutSearch layouts;     ///< not in the text: sources are the same in every run
  std::string description;  ///< one line: emitter, layout, why

  /// Threads that share the block\'s registers.
  int64_t computing_threads() const { return threads - idle_threads; }
};

}  // namespace strata
