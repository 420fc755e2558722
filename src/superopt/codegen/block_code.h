// What every emitter of block functions makes. generate.cpp asks them in turn: products on tensor cores (tiles), rows
// of elementwise operators and reductions (rows), and the emitter that takes every legal graph (block_function).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "machine/target.h"
#include "runtime/launch_manifest.h"
#include "superopt/codegen/operand_place.h"

namespace strata {

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// How the kernel that reads the results of a block graph follows it.
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
  int64_t packed = 0;       ///< operands, a bit each, whose tiles are constants that lie packed (packed_loads.cpp)
  int64_t piece = 0;        ///< beside these: iterations of a group whose other tiles are brought at once; 0: all
  int64_t leaving = 0;      ///< groups that leave at once, after the loop, what they added up; 0: all

  /// Whether tiles come through a ring that a thread beside the team fills.
  bool has_ring() const { return bulk || packed != 0; }
  /// Groups of warps that take iterations in turn, in all blocks of a cluster.
  int64_t groups() const { return loop_warps * cluster; }
  /// Blocks of a cluster of the launch.
  int64_t cluster_blocks() const { return cluster * sharers; }
  friend bool operator==(const BlockSchedule&, const BlockSchedule&) = default;
};

/// A tensor core instruction of four warps: 64 rows and this many columns, whose side of the product lies across the
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
  double products_after = 0;    ///< both, after the loop
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

/// Shared memory of a block function whose tiles come through a ring (device/strata_bulk.h). A block that runs it alone
/// has barriers first, then the page of tiles that stay, then the slots.
struct RingPlan {
  int64_t slots = 0;
  int64_t slot_bytes = 0;
  int64_t done = 0;  ///< arrivals that empty a slot
  int64_t page_bytes = 0;
  int64_t barrier_bytes = 0;
  int64_t loading_threads = 0;    ///< of a block, after the team's; one of them runs NAME_load
  int64_t loading_registers = 0;  ///< of each of these and of the team's threads, once their ways part; 0: as launched
  int64_t team_registers = 0;
};

/// Constants that a block function reads packed: NAME_pack, a function of all blocks like NAME itself but for a pointer
/// to this many bytes after the tensors, is run once before the first call.
struct Packing {
  /// A packed tile as it lies in each stage.
  struct Tile {
    int64_t operand = 0;  ///< number of it
    std::string type;     ///< the device library's SharedTile
    int64_t offset = 0;   ///< bytes, from the stage's beginning
  };
  int64_t bytes = 0;  ///< of all blocks
  std::vector<Tile> tiles;
};
/// The pointer's name: a parameter of NAME_pack and NAME_load after the tensors.
inline constexpr const char* kPackedConstants = "packed";

/// A block function in CUDA C++, to be called by all threads of a team:
///     template <class Team, class Math> NAME(inputs…, outputs…, block_x, block_y, block_z, unsigned char* shared)
/// or, where its tiles come through a ring, by one thread more for the first:
///     NAME_load(inputs…, outputs…, tensor maps…, block_x, block_y, block_z, Ring&, Page&)
///     template <class Team, class Math> NAME(inputs…, outputs…, block_x, block_y, block_z, Ring&, Page&,
///                                            unsigned char* shared)
/// Team is a BlockTeam (device/strata_device.h), Math how functions of floats are computed (device/strata_cuda.h), and
/// `shared` is for what groups of warps leave for each other: a block may take the page and the slots for it where
/// nothing comes after the call.
struct BlockCode {
  std::string text;
  int64_t threads = 128;      ///< of a block
  int64_t barriers = 1;       ///< named barriers of the team
  int64_t shared_bytes = 0;   ///< dynamic shared memory of a block that runs it alone
  int64_t scratch_bytes = 0;  ///< of these, what `shared` points to
  int64_t cluster = 1;        ///< blocks of the launch for each block of the graph
  int64_t sharers = 1;        ///< blocks of the graph, neighbours along `shared_along`, in each cluster of the launch
  size_t shared_along = 0;    ///< dimension of the grid
  std::optional<RingPlan> ring;
  std::optional<Packing> packing;
  std::vector<GpuTensorMap> maps;  ///< arguments are numbers of the operator's operands
  int64_t registers = 0;           ///< estimate of what a thread needs; 0 where unknown
  int64_t resident_blocks = 0;     ///< blocks that share a multiprocessor's registers; 0: the compiler chooses
  BlockWork work;
  std::vector<WideProduct> wide;
  LayoutSearch layouts;     ///< not in the text: sources are the same in every run
  std::string description;  ///< one line: emitter, layout, why

  /// Threads of the team.
  int64_t team() const { return threads - (ring ? ring->loading_threads : 0); }
  /// Threads that share the block's registers.
  int64_t computing_threads() const { return ring && ring->team_registers > 0 ? team() : threads; }
};

}  // namespace strata
