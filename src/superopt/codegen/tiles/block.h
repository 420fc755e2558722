// The emitter of block functions with matrix products (tiles.h). Its parts: tiles.cpp is the function and its loop,
// products.cpp the products, results.cpp what follows the loop, work.cpp what it needs and does.
#pragma once

#include <optional>

#include "superopt/codegen/register_block.h"
#include "superopt/codegen/tiles/loads.h"
#include "superopt/codegen/tiles/loop_products.h"
#include "superopt/codegen/tiles/plan.h"

namespace strata {

class TileBlock : public RegisterBlock {
 public:
  using RegisterBlock::RegisterBlock;
  /// `planned` is what plan_tiles makes of the block and the schedule. It depends on no stages and no loads, and may be
  /// that of a schedule that differs in these.
  Result<BlockCode> run(TilePlan planned);

 private:
  using RegisterBlock::tile_type;
  using RegisterBlock::value;
  const TensorPlan& plan(TensorId id) const { return plan_.tensors[static_cast<size_t>(id)]; }
  bool transposed(TensorId id) const override { return plan(id).transposed; }
  bool loaded(TensorId id) const override { return plan(id).loaded; }
  bool stays(TensorId id) const override { return plan(id).loaded && plan(id).once; }
  TileDims local(TensorId id, bool after) const { return warp_dims(plan_, plan(id), schedule_, after); }
  /// The register tile of a tensor in one warp, in a layout.
  std::string tile_type(TensorId id, bool transposed, bool after) const override;
  int64_t registers(TensorId id, bool after) const;

  std::string shared_type(TensorId id) const { return shared_tile_type(plan(id), body_.type(id).dtype); }
  Result<void> check_sizes() const;
  Result<void> fits(int64_t bytes) const;

  BlockWork work() const;
  /// Tensor core instructions of a warp; a wide one does the work of several in less than their time.
  int64_t instructions(const Operation& op) const;
  /// Bytes that one warp reads of a loaded operand in shared memory.
  double read_bytes(const Operation& op, TensorId id) const;
  /// Registers of a lane: accumulators and kept sides stay, and the two largest of the rest are live together.
  int64_t register_estimate() const;
  /// Whether an operator is taken element by element and is the last to read an operand as large as its result.
  bool takes_place_of_operand(const Operation& op) const;

  Result<void> loop();

  /// Products that end in the next iteration, and the registers that they read.
  void find_loop_products();
  /// The sides of a wide product's pairs that are rows of its instructions.
  std::vector<TensorId> row_sides(const Operation& op) const;
  /// Whether nobody writes a product's rows before it ends: tensor cores read them from shared memory, or they have
  /// registers of their own.
  bool rows_can_wait(const Operation& op) const;
  /// Whether tensor cores can read the rows of a product from a tile in shared memory.
  bool rows_lie_in_lines(TensorId id) const;
  /// Whether the rows of a pair stay in registers while the loop runs.
  bool kept(const Operation& op, size_t pair) const;
  bool takes_turns() const {
    return ahead_ && schedule_.turns && (schedule_.loop_warps == 2 || schedule_.row_warps * schedule_.loop_warps == 8);
  }
  std::string turn(const char* what) const;
  /// Which of the two that take turns a warp belongs to: a group, or one half of the only group's rows.
  std::string turn_taker() const;
  /// The `behind` products of the iteration before have ended as well, and so has its use of its tiles.
  void end_products_behind();

  /// Sides of products that do not change are read once, where registers allow.
  void keep_sides();
  bool is_wide(const Operation& op) const;
  /// Whether tensor cores read a side of a product from shared memory: the columns of a wide one.
  bool read_by_tensor_cores(const Operation& op, bool left) const;
  /// One side of a product as multiply() takes it.
  std::string side(const Operation& op, size_t n);
  int64_t stored_rows(TensorId id) const { return plan(id).pairs_down ? plan(id).dims.columns : plan(id).dims.rows; }
  std::string pointer(TensorId id);
  /// A tensor in registers: the name of its tile. Loaded tiles come from shared memory at their first use.
  std::string value(TensorId id, bool down) override;

  Result<void> body();
  Result<bool> reduces_columns(const Operation& op) const override;
  std::string reduce_call(const Operation& op, bool columns, bool in_lane, const std::string& from) override;
  std::string across_call(bool columns, const std::string& from) const override;

  Result<void> product(const Operation& op) override;
  /// Products with one column: the instructions of tensor cores have eight, of which the accumulators keep a pair while
  /// they add up. declare_sum declares an accumulator, and narrow_sums takes the column after the loop.
  bool has_one_column(TensorId id) const;
  std::string two_columns(TensorId id) const;
  void declare_sum(const Operation& accumulator);
  void narrow_sums();
  static bool contains(const std::vector<const Operation*>& operations, const Operation& op);
  /// The instruction of a pair of a wide product, by name.
  std::string wide_product(const Operation& op, size_t pair);

  /// The accumulators' values, of the whole block or of this group's share, and what follows the loop.
  Result<void> after();
  /// "share_0" where a tensor's dimension has the axis that the groups divide so, "0" where they do not.
  std::string share_of(TensorId id, TilePosition position) const;
  /// Where this group's part of a tensor begins, in parts along the tile's batches, rows and columns.
  std::string place(TensorId id) const;
  Result<void> gather(const std::vector<const Operation*>& accumulators);
  /// Groups that leave at once what they added up; the others do so in turns before them.
  int64_t leaving_groups() const;
  /// How the device library names the way in which groups' parts of an accumulator are combined.
  static const char* combination(const Operation& accumulator);
  std::string every_barrier() const;
  /// Where groups leave what they added up, over tiles that are done with.
  std::string partial_memory(const char* type) const;
  Result<void> save(const Operation& op) override;

  TilePlan plan_;
  std::unique_ptr<TileLoads> loads_;
  std::map<TensorId, std::string> pointers_;               ///< of tiles that stay
  std::map<TensorId, std::string> wide_sums_;              ///< sums of products with one column: what is added up
  std::map<std::pair<TensorId, bool>, std::string> kept_;  ///< sides of products, by tile and left
  std::vector<WideProduct> wide_;                          ///< instructions that the text uses
  int64_t kept_registers_ = 0;
  std::optional<LoopProducts> ahead_;     ///< products that end in the next iteration
  std::map<TensorId, std::string> rows_;  ///< what these read in registers
  std::set<TensorId> packed_;             ///< of these, what the iteration has written there
  int64_t partial_bytes_ = 0;
};

}  // namespace strata
