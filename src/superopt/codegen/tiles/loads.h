// How the tiles of a block graph come from device memory to shared memory, and when warps may read and overwrite them:
// by cp.async of all threads (copied_loads.cpp), by TMA, which a warp of its own asks for them (bulk_loads.cpp), or by
// such a warp from where they were packed before (packed_loads.cpp).
// Both make the text around a loop whose body reads tiles at `stage` and tiles that stay at `shared`.
#pragma once

#include <algorithm>
#include <map>
#include <memory>

#include "superopt/codegen/emit.h"
#include "superopt/codegen/tiles/memory.h"

namespace strata {

constexpr int64_t kWarp = 32;

class TileLoads {
 public:
  /// What a block function consists of. All outlive this object.
  struct Block {
    const Graph& body;
    const TilePlan& plan;
    const OperandPlaces& strides;  ///< of the operands in device memory
    const BlockSchedule& schedule;
    const Target& target;
    std::map<TensorId, std::string>& names;   ///< of tensors in the text
    std::map<TensorId, std::string>& fronts;  ///< of inputs' fronts
  };

  /// Those that the schedule asks for. Error (Unsupported) with the reason where TMA cannot bring a tile.
  static Result<std::unique_ptr<TileLoads>> plan(const Block& block, NameScope& scope);

  explicit TileLoads(const Block& block) : block_(block) {}
  virtual ~TileLoads() = default;
  TileLoads(const TileLoads&) = delete;
  TileLoads& operator=(const TileLoads&) = delete;

  /// Whether the functions are templates over the types of their tensors and of the ring.
  virtual bool is_template() const { return false; }
  /// The last parameters of both functions, after the coordinates, where tiles come through a ring.
  virtual std::string ring_parameters() const {
    return "strata_device::Ring& ring, [[maybe_unused]] strata_device::Page& page";
  }
  /// How often a block runs its loop, all groups together.
  virtual std::string iterations() const { return fmt::format("{}", block_.body.launch().loop); }
  /// NAME_load's parameters beside tensors, coordinates and the ring: a list that ends in ", ".
  virtual std::string load_parameters() const { return ""; }
  /// Its statements, for one thread; empty where the block function brings its tiles itself.
  virtual std::string load() const { return ""; }
  /// Statements of NAME_pack, which packs a block's constants for NAME_load; empty where nothing is packed.
  virtual std::string pack() const { return ""; }
  /// Statements before the loop, which start the first loads and wait for tiles that stay.
  virtual std::string before_loop() const = 0;
  /// Where these lie.
  virtual std::string staying_memory() const { return "shared"; }
  /// Where a tile lies that comes with its iteration.
  virtual std::string place_of(TensorId id) const { return fmt::format("stage + {}", offset(id)); }
  /// Statements right before the loop, at the begin of its body, which declare `stage`, and at its end.
  virtual std::string loop_head() const { return ""; }
  virtual std::string iteration_begin() const = 0;
  /// The tiles of the iteration may be overwritten from here on if it is `done` with them, else from release_previous()
  /// of the next iteration on.
  virtual std::string iteration_end([[maybe_unused]] bool done) const { return ""; }
  virtual std::string release_previous() const { return ""; }
  /// Statements at the end of the block function.
  virtual std::string after_all() const { return ""; }
  /// Bytes of a block's shared memory that are not for tiles, at the front.
  virtual int64_t reserved_bytes() const { return 0; }
  /// What the launch must know.
  virtual void describe(BlockCode& code) const;

  /// Variables that all statements may use: warp, crew, group, part, rank, and of a cluster split and share.
  std::string variables() const;
  /// Those of a cluster alone.
  std::string cluster_variables() const;
  int64_t offset(TensorId id) const { return offsets_.at(id); }
  int64_t once_bytes() const { return once_bytes_; }
  int64_t stage_bytes() const { return stage_bytes_; }
  /// All tiles: those that stay, those that are gathered, and the rings.
  int64_t bytes() const;

 protected:
  using Tile = const Operation*;  ///< the in_iter
  std::vector<Tile> tiles(bool once) const;
  /// Whether an operator brings a tile from memory: tiles of iotas are computed.
  bool is_loaded(const Operation& op) const;
  const TensorPlan& plan_of(Tile tile) const;
  const OperandPlace& strides_of(Tile tile) const;
  bool loops() const { return block_.body.launch().loop > 1; }
  /// Whether a group brings a tile for several of its iterations, a piece, before the first of these.
  virtual bool is_gathered([[maybe_unused]] Tile tile) const { return false; }
  int64_t gathered_bytes() const { return gathered_bytes_; }  ///< of an iteration
  int64_t iterations_of_group() const { return ceil_div(block_.body.launch().loop, block_.schedule.groups()); }
  /// Iterations of a group for which it brings gathered tiles at once.
  int64_t iterations_of_piece() const {
    const int64_t piece = block_.schedule.piece;
    return piece == 0 ? iterations_of_group() : std::min(piece, iterations_of_group());
  }
  int64_t group_threads() const { return kWarp * block_.schedule.row_warps; }
  int64_t team_threads() const { return group_threads() * block_.schedule.loop_warps; }
  /// Places: tiles that stay, then those of a stage, and those that are gathered; all aligned to `least` bytes at
  /// least, and, `by_size`, so that small ones lie in one line and do not take more than they need.
  void place(int64_t least, bool by_size = false);

  /// Where a tile is read from.
  struct Source {
    std::string type;  ///< of the tile in shared memory
    std::string pointer;
    int64_t row_stride;
    int64_t batch_stride;
  };
  Source source(Tile tile, bool in_front = false) const;
  /// A statement that starts its copy by threads, of which each has a `rank`.
  std::string copy(Tile tile, const std::string& place, int64_t threads, const std::string& rank,
                   const std::string& indent) const;

  Block block_;

 private:
  std::map<TensorId, int64_t> offsets_;  ///< in their stage, or after what is reserved at the front
  int64_t once_bytes_ = 0;
  int64_t stage_bytes_ = 0;
  int64_t gathered_bytes_ = 0;
};

}  // namespace strata
