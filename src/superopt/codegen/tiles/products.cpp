#include <algorithm>

#include "superopt/codegen/tiles/block.h"

namespace strata {
namespace {

/// Registers of a lane for a side of a product that stays while the loop runs.
constexpr int64_t kMostKept = 64;

}  // namespace

void TileBlock::find_loop_products() {
  if (!schedule_.has_ring()) return;  // others copy over a tile as soon as the iteration has ended
  ahead_ = loop_products(
      body_, stages_, [&](const Operation& op) { return is_invariant(op); },
      [&](const Operation& op) { return is_wide(op); },
      [&](const Operation& op) { return only_accumulator(op.results[0]) != nullptr && rows_can_wait(op); });
  if (!ahead_) return;
  for (const Operation* op : ahead_->behind) {
    for (TensorId id : row_sides(*op)) {
      if (plan(id).loaded || rows_.count(id) != 0) continue;
      rows_[id] = scope_.add(names_[id] + "_rows");
      line(fmt::format("decltype(strata_device::pack<{}>(strata_device::filled<{}>(0.0f))) {}{{}};",
                       storage_type(plan_.operand), tile_type(id), rows_[id]));
    }
  }
  if (!takes_turns()) return;
  line("// Two of them take turns: one starts products while the other computes with the results of its own.");
  line(fmt::format("if ({} == 1) {}", turn_taker(), turn("give")));
  line(turn("take"));
}

std::vector<TensorId> TileBlock::row_sides(const Operation& op) const {
  const auto middle = op.operands.begin() + std::ssize(op.operands) / 2;
  return plan(op.results[0]).transposed ? std::vector<TensorId>(middle, op.operands.end())
                                        : std::vector<TensorId>(op.operands.begin(), middle);
}

bool TileBlock::rows_can_wait(const Operation& op) const {
  const std::vector<TensorId> sides = row_sides(op);
  return std::all_of(sides.begin(), sides.end(), [&](TensorId id) {
    return plan(id).loaded ? !plan(id).once && rows_lie_in_lines(id) : invariant_.count(id) == 0;
  });
}

bool TileBlock::rows_lie_in_lines(TensorId id) const {
  constexpr int64_t kLine = 128;
  return plan(id).loaded && row_elements(plan(id)) * size_of(plan_.operand) % kLine == 0;
}

bool TileBlock::kept(const Operation& op, size_t pair) const {
  const bool left = !plan(op.results[0]).transposed;
  return kept_.count({row_sides(op)[pair], left}) != 0;
}

std::string TileBlock::turn_taker() const {
  return schedule_.loop_warps == 2 ? "crew" : fmt::format("warp / {}", schedule_.row_warps / 2);
}

std::string TileBlock::turn(const char* what) const {
  const int64_t warps = schedule_.row_warps * schedule_.loop_warps / 2;
  return fmt::format("strata_device::{}_turn<Team, 1, {}>({});", what, kWarp * warps, turn_taker());
}

void TileBlock::end_products_behind() {
  for (const Operation* op : ahead_->behind) {
    line(fmt::format("strata_device::hold_all({});", names_[only_accumulator(op->results[0])->results[0]]));
  }
  for (const auto& [id, rows] : rows_) line(fmt::format("strata_device::hold_all({});", rows));
}

void TileBlock::keep_sides() {
  for (const Operation& op : body_.operations()) {
    if (!multiplies_matrices(op.kind)) continue;
    const size_t pairs = op.operands.size() / 2;
    for (size_t n = 0; n < op.operands.size(); ++n) {
      const TensorId id = op.operands[n];
      const bool left = n < pairs;
      const bool stays = plan(id).loaded ? plan(id).once : invariant_.count(id) != 0;
      if (!stays || read_by_tensor_cores(op, left) || is_invariant(op) || kept_.count({id, left}) != 0) continue;
      // Products that run ahead read rows from shared memory as fast, and faster for 64 columns.
      if (schedule_.bulk && is_wide(op) && rows_lie_in_lines(id)) continue;
      const TileDims dims = local(id, false);
      const int64_t rows = left ? dims.rows : dims.columns;
      const int64_t depth = left ? dims.columns : dims.rows;
      if (dims.batches * ceil_div(rows, 8) * (depth / 8) > kMostKept) continue;
      const std::string name = scope_.add(names_[id] + "_side");
      if (!plan(id).loaded) {
        line(fmt::format("auto {} = {};", name, side(op, n)));
        kept_[{id, left}] = name;
        continue;
      }
      line(fmt::format("auto {} = strata_device::keep<{}, {}, {}, {}>({});", name, storage_type(plan_.operand),
                       dims.batches, rows, depth, side(op, n)));
      kept_[{id, left}] = name;
      kept_registers_ += dims.batches * ceil_div(rows, 8) * (depth / 8);
    }
  }
}

bool TileBlock::is_wide(const Operation& op) const {
  return std::find(plan_.wide.begin(), plan_.wide.end(), op.results[0]) != plan_.wide.end();
}

bool TileBlock::read_by_tensor_cores(const Operation& op, bool left) const {
  return is_wide(op) && left == plan(op.results[0]).transposed;
}

std::string TileBlock::side(const Operation& op, size_t n) {
  const TensorId id = op.operands[n];
  const bool left = n < op.operands.size() / 2;
  // Another product may have kept what a wide one reads from shared memory.
  if (const auto kept = kept_.find({id, left}); kept != kept_.end() && !read_by_tensor_cores(op, left)) {
    return kept->second;
  }
  if (!plan(id).loaded) return fmt::format("strata_device::pack<{}>({})", storage_type(plan_.operand), names_[id]);
  const TensorPlan& tile = plan(id);
  const TileDims dims = local(id, false);
  const bool across = left == tile.pairs_down;
  const int64_t rows = left ? dims.rows : dims.columns;
  const auto position = left ? kRowPosition : kColumnPosition;
  const bool divided = plan_.row_axis != kNoAxis && tile.axes[position] == plan_.row_axis;
  const bool batched = plan_.row_axis != kNoAxis && tile.axes[kBatchPosition] == plan_.row_axis;
  return fmt::format("strata_device::SharedOperand<{}, {}, {}, {}>{{{}, {}, {}}}", shared_type(id), across, rows,
                     tile.dims.batches == 1, pointer(id), divided ? fmt::format("part * {}", rows) : "0",
                     batched ? fmt::format("part * {}", dims.batches * stored_rows(id)) : "0");
}

Result<void> TileBlock::product(const Operation& op) {
  const TensorId result = op.results[0];
  const Operation* accumulator = only_accumulator(result);
  std::string target = names_[result];
  if (accumulator != nullptr) {
    const TensorId sum = accumulator->results[0];
    target = wide_sums_.count(sum) != 0 ? wide_sums_[sum] : names_[sum];
    if (accumulator->kind == OpKind::AccumRescale) scale_before(*accumulator, rescales_seldom());
    direct_.insert(sum);
  } else if (has_one_column(result)) {
    target = scope_.add(names_[result] + "_columns");
    line(fmt::format("auto {} = strata_device::filled<{}>(0.0f);", target, two_columns(result)));
  } else {
    line(is_wide(op) ? fmt::format("{} {};", tile_type(result), target)
                     : fmt::format("auto {} = strata_device::filled<{}>(0.0f);", target, tile_type(result)));
  }
  const bool wide = is_wide(op);
  const bool front = ahead_ && !is_invariant(op) && wide && contains(ahead_->front, op);
  const bool behind = ahead_ && wide && contains(ahead_->behind, op);
  if (behind) {
    for (TensorId id : row_sides(op)) {
      // Another `behind` product may read the same rows, and may be under way.
      if (rows_.count(id) == 0 || !packed_.insert(id).second) continue;
      line(fmt::format("{} = strata_device::pack<{}>({});", rows_[id], storage_type(plan_.operand), names_[id]));
    }
    if (takes_turns() && &op == ahead_->behind.front()) line(turn("take"));
  }
  const size_t pairs = op.operands.size() / 2;
  for (size_t p = 0; p < pairs; ++p) {
    const int64_t depth = plan(op.operands[p]).dims.columns;
    std::string left = side(op, p);
    std::string right = side(op, p + pairs);
    if (plan(result).transposed) std::swap(left, right);
    if (behind && rows_.count(row_sides(op)[p]) != 0) left = rows_[row_sides(op)[p]];
    std::string call = "multiply<";
    const bool starts = behind || (front && p + 1 == pairs && (kept(op, p) || rows_lie_in_lines(row_sides(op)[p])));
    if (wide) {
      call = fmt::format("{}<strata_device::{}, ", starts ? "start_wide" : "multiply_wide", wide_product(op, p));
    }
    const bool fresh = accumulator == nullptr && p == 0;
    line(fmt::format("strata_device::{}{}, {}{}>({}, {}, {});", call, storage_type(plan_.operand), depth,
                     wide ? fmt::format(", {}", fresh) : "", target, left, right));
    if (front && p + 1 == pairs && takes_turns() && &op == ahead_->front.back()) line(turn("give"));
    if (starts && front) {
      line("strata_device::wide_products_end();");
      line(fmt::format("strata_device::hold_all({});", target));
    }
  }
  if (accumulator == nullptr && has_one_column(result)) {
    line(
        fmt::format("const auto {} = strata_device::first_column<{}>({});", names_[result], tile_type(result), target));
  }
  if (front) {
    if (&op == ahead_->front.front()) {
      end_products_behind();
      text_ += loads_->release_previous();
    }
  }
  return {};
}

bool TileBlock::has_one_column(TensorId id) const {
  const TileDims dims = local(id, false);
  return (plan(id).transposed ? dims.rows : dims.columns) == 1;
}

std::string TileBlock::two_columns(TensorId id) const {
  const TileDims dims = local(id, false);
  return fmt::format("strata_device::Tile<{}, {}, 2>", dims.batches, plan(id).transposed ? dims.columns : dims.rows);
}

void TileBlock::declare_sum(const Operation& accumulator) {
  const TensorId sum = accumulator.results[0];
  const bool adds_product = std::any_of(body_.operations().begin(), body_.operations().end(), [&](const Operation& op) {
    return multiplies_matrices(op.kind) && only_accumulator(op.results[0]) == &accumulator;
  });
  if (!adds_product || !has_one_column(sum)) return declare(accumulator);
  wide_sums_[sum] = scope_.add(names_[sum] + "_columns");
  line(fmt::format("auto {} = strata_device::filled<{}>(0.0f);", wide_sums_[sum], two_columns(sum)));
}

void TileBlock::narrow_sums() {
  for (const auto& [sum, columns] : wide_sums_)
    line(fmt::format("auto {} = strata_device::first_column<{}>({});", names_[sum], tile_type(sum), columns));
}

bool TileBlock::contains(const std::vector<const Operation*>& operations, const Operation& op) {
  return std::find(operations.begin(), operations.end(), &op) != operations.end();
}

std::string TileBlock::wide_product(const Operation& op, size_t pair) {
  const TensorId result = op.results[0];
  const bool transposed = plan(result).transposed;
  const TensorPlan& side = plan(op.operands[transposed ? pair : pair + op.operands.size() / 2]);
  const TileDims dims = local(result, false);
  const WideProduct product{transposed ? dims.rows : dims.columns, transposed == side.pairs_down};
  if (std::find(wide_.begin(), wide_.end(), product) == wide_.end()) wide_.push_back(product);
  return product.name();
}

}  // namespace strata
