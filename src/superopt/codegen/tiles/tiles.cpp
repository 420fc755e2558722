#include "superopt/codegen/tiles/tiles.h"

#include <algorithm>

#include "superopt/codegen/tiles/block.h"

namespace strata {

Result<BlockCode> TileBlock::run(TilePlan planned) {
  if (loop_ == 1 && schedule_.groups() > 1) return unsupported("no loop whose iterations could be dealt to groups");
  plan_ = std::move(planned);
  STRATA_CHECK(check_sizes());
  STRATA_TRY(loads_, TileLoads::plan({body_, plan_, strides_, schedule_, target_, names_, fronts_}, scope_));
  STRATA_CHECK(fits(loads_->reserved_bytes() + loads_->bytes()));
  name_tensors();
  BlockCode code;
  is_template_ = loads_->is_template();
  const std::string ring = loads_->ring_parameters();
  const std::string load = loads_->load();
  if (!load.empty()) text_ += load_head(loads_->load_parameters(), ring) + load + "}\n\n";
  if (const std::string pack = loads_->pack(); !pack.empty()) text_ += pack_head() + pack + "}\n\n";
  text_ += team_head(load.empty() ? "" : fmt::format("{}, ", ring)) + loads_->variables() + loads_->before_loop();
  indent_ = "  ";
  for (const Operation& op : body_.operations()) {
    if (op.kind == OpKind::InIter && !is_counted(body_, op) && plan(op.results[0]).once) {
      pointers_[op.results[0]] = fmt::format("{} + {}", loads_->staying_memory(), loads_->offset(op.results[0]));
    }
  }
  STRATA_CHECK(loop());
  STRATA_CHECK(after());
  text_ += loads_->after_all() + "}\n\n";
  code.text = std::move(text_);
  code.wide = wide_;
  code.shared_bytes = loads_->reserved_bytes() + std::max(loads_->bytes(), partial_bytes_);
  code.scratch_bytes = schedule_.has_ring() ? partial_bytes_ : code.shared_bytes;
  code.registers = register_estimate();
  code.work = work();
  code.layouts = plan_.layouts;
  loads_->describe(code);
  if (takes_turns()) code.barriers += 2;
  code.description = fmt::format(
      "tiles: {} blocks a cluster, {} groups of {} warps, {} stages of {} bytes{}; layouts: best of {}, {} products "
      "a warp",
      schedule_.cluster_blocks(), schedule_.loop_warps, schedule_.row_warps, schedule_.stages, loads_->stage_bytes(),
      schedule_.packed != 0 ? " packed"
      : schedule_.bulk      ? " by TMA"
                            : "",
      plan_.layouts.choices, plan_.layout_cost);
  STRATA_CHECK(fits(code.shared_bytes));
  return code;
}

Result<void> TileBlock::fits(int64_t bytes) const {
  if (bytes <= target_.shared_memory) return {};
  return unsupported("{} bytes of shared memory; {} has {}", bytes, target_.name, target_.shared_memory);
}

std::string TileBlock::tile_type(TensorId id, bool transposed, bool after) const {
  const TileDims dims = local(id, after);
  return fmt::format("strata_device::Tile<{}, {}, {}>", dims.batches, transposed ? dims.columns : dims.rows,
                     transposed ? dims.rows : dims.columns);
}

Result<void> TileBlock::loop() {
  for (size_t i = 0; i < body_.operations().size(); ++i) {
    const Operation& op = body_.operations()[i];
    if (stages_[i] == LoopStage::Body && !op.body && op_def(op.kind).traits.accumulates) declare_sum(op);
  }
  for (const auto& [reference, state] : references_) {
    line(fmt::format("strata_device::Rescaling<Math, {}> {};", tile_type(reference), state));
  }
  if (loop_ == 1) return body();
  STRATA_CHECK(invariants());
  keep_sides();
  values_.clear();
  text_ += loads_->loop_head();
  find_loop_products();
  if (schedule_.turns && !takes_turns()) return unsupported("there are no products to take turns with");
  line("#pragma unroll 1");
  line(fmt::format("for (int iteration = group; iteration < {}; iteration += {}) {{", loads_->iterations(),
                   schedule_.groups()));
  text_ += loads_->iteration_begin();
  indent_ = "    ";
  STRATA_CHECK(body());
  text_ += loads_->iteration_end(!ahead_);
  indent_ = "  ";
  line("}");
  if (takes_turns()) line(fmt::format("if ({} == 0) {}", turn_taker(), turn("give")));
  if (ahead_) {
    line("strata_device::wide_products_end();");
    end_products_behind();
  }
  settle_references();
  return {};
}

std::string TileBlock::pointer(TensorId id) {
  const auto at = pointers_.find(id);
  return at != pointers_.end() ? at->second : loads_->place_of(id);
}

std::string TileBlock::value(TensorId id, bool down) {
  if (!plan(id).loaded) return names_[id];
  std::string& name = values_[{id, down}];
  if (!name.empty()) return name;
  name = scope_.add(names_[id] + "_values");
  const TensorPlan& tile = plan(id);
  const TileDims dims = local(id, false);
  const auto place = [&](TilePosition position, int64_t size) {
    return plan_.row_axis != kNoAxis && tile.axes[position] == plan_.row_axis ? fmt::format("part * {}", size) : "";
  };
  std::string row = place(tile.pairs_down ? kColumnPosition : kRowPosition, tile.pairs_down ? dims.columns : dims.rows);
  std::string column =
      place(tile.pairs_down ? kRowPosition : kColumnPosition, tile.pairs_down ? dims.rows : dims.columns);
  const Operation& in_iter = *producer(id);
  if (is_counted(body_, in_iter)) {
    const Iota& iota = *body_.type(in_iter.operands[0]).iota;
    const Shape& shape = body_.type(id).shape;
    const auto dim = static_cast<size_t>(iota.dim);
    const bool last = dim + 1 == shape.size();
    std::string first = tile_start(tile_region(body_, in_iter), dim);
    const std::string& part = last ? column : row;  // iotas lie row-major
    if (!part.empty()) first += " + " + part;
    const char* along = shape[dim] == 1 ? "Nothing" : last != down ? "Columns" : "Rows";
    line(fmt::format("const auto {} = strata_device::counted<{}, strata_device::Along{}>({}, {}.0f);", name,
                     tile_type(id, down, false), along, counted_text(iota, first, DType::F32), iota.step));
    return name;
  }
  const std::string batch = place(kBatchPosition, dims.batches * stored_rows(id));
  if (!batch.empty()) row = batch;  // one axis lies in one dimension
  line(fmt::format("const auto {} = strata_device::load<{}, {}, {}>({}, {}, {});", name, tile_type(id, down, false),
                   shared_type(id), down != tile.pairs_down, pointer(id), row.empty() ? "0" : row,
                   column.empty() ? "0" : column));
  return name;
}

Result<void> TileBlock::body() {
  for (size_t i = 0; i < body_.operations().size(); ++i) {
    const Operation& op = body_.operations()[i];
    if (stages_[i] == LoopStage::Body && !is_invariant(op)) STRATA_CHECK(operation(op));
  }
  values_.clear();
  return {};
}

Result<bool> TileBlock::reduces_columns(const Operation& op) const {
  const size_t rank = body_.type(op.operands[0]).shape.size();
  const auto dim = static_cast<size_t>(op.attributes.integer("dim"));
  if (dim + 2 < rank) return unsupported("{} reduces a batch dimension", body_.tensor(op.results[0]).name);
  return (dim + 1 == rank) != plan(op.results[0]).transposed;
}

std::string TileBlock::reduce_call(const Operation& op, bool columns, bool in_lane, const std::string& from) {
  return fmt::format("strata_device::reduce{}<strata_device::{}, {}>({})", in_lane ? "_in_lane" : "",
                     op.kind == OpKind::Sum ? "Adding" : "Taking", columns, from);
}

std::string TileBlock::across_call(bool columns, const std::string& from) const {
  return fmt::format("strata_device::reduce_across_lanes<strata_device::Adding, {}>({})", columns, from);
}

Result<BlockCode> emit_tiles(const Operation& op, const std::string& name, const OperandPlaces& strides,
                             const BlockSchedule& schedule, const Target& target) {
  STRATA_TRY(TilePlan plan, plan_tiles(*op.body, strides, schedule));
  return TileBlock(op, name, strides, schedule, target).run(std::move(plan));
}

}  // namespace strata
