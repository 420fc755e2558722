#include "superopt/codegen/tiles/loads.h"

#include <algorithm>
#include <bit>

#include "superopt/codegen/emit.h"
#include "superopt/codegen/tiles/load_kinds.h"

namespace strata {
namespace {

constexpr int64_t kLine = 128;  // bytes in which each bank of shared memory comes once

}  // namespace

Result<std::unique_ptr<TileLoads>> TileLoads::plan(const Block& block, NameScope& scope) {
  const auto& operations = block.body.operations();
  const bool counts = std::any_of(operations.begin(), operations.end(),
                                  [&](const Operation& op) { return is_counted(block.body, op); });
  if (block.schedule.packed != 0 && counts) return unsupported("tiles of an iota beside packed constants");
  const bool fronts = std::any_of(block.strides.begin(), block.strides.end(),
                                  [](const OperandPlace& place) { return place.front.has_value(); });
  if (block.schedule.packed != 0 && fronts) return unsupported("tiles of two memories beside packed constants");
  if (block.schedule.packed != 0) return packed_loads(block, scope);
  if (block.schedule.piece != 0) return unsupported("only what is read beside packed constants comes in pieces");
  if (block.schedule.bulk) return bulk_loads(block, scope);
  if (block.schedule.sharers > 1) return unsupported("neighbours share tiles that TMA brings alone");
  return copied_loads(block);
}

std::vector<TileLoads::Tile> TileLoads::tiles(bool once) const {
  std::vector<Tile> found;
  for (const Operation& op : block_.body.operations()) {
    if (is_loaded(op) && block_.plan.tensors[static_cast<size_t>(op.results[0])].once == once) {
      found.push_back(&op);
    }
  }
  return found;
}

bool TileLoads::is_loaded(const Operation& op) const {
  return op.kind == OpKind::InIter && !is_counted(block_.body, op);
}

const TensorPlan& TileLoads::plan_of(Tile tile) const {
  return block_.plan.tensors[static_cast<size_t>(tile->results[0])];
}

const OperandPlace& TileLoads::strides_of(Tile tile) const {
  const auto& inputs = block_.body.inputs();
  return block_
      .strides[static_cast<size_t>(std::find(inputs.begin(), inputs.end(), tile->operands[0]) - inputs.begin())];
}

TileLoads::Source TileLoads::source(Tile tile, bool in_front) const {
  const TensorId id = tile->results[0];
  const Shape& shape = block_.body.type(id).shape;
  const OperandPlace& place = strides_of(tile);
  const std::vector<int64_t>& strides = in_front ? place.front->strides : place.strides;
  const size_t rank = shape.size();
  const int64_t row_stride = plan_of(tile).pairs_down ? strides[rank - 1] : rank > 1 ? strides[rank - 2] : 0;
  const auto between = strata::batch_stride(shape, strides);
  const std::string base = tile_base(tile_region(block_.body, *tile), place, in_front);
  const auto& names = in_front ? block_.fronts : block_.names;
  return {shared_tile_type(plan_of(tile), block_.body.type(id).dtype),
          fmt::format("{} + {}", names.at(tile->operands[0]), base), row_stride, between ? *between : 0};
}

std::string TileLoads::copy(Tile tile, const std::string& place, int64_t threads, const std::string& rank,
                            const std::string& indent) const {
  const auto call = [&](const Source& from) {
    return fmt::format("strata_device::copy_tile<{}, {}, {}, {}, {}>({} + {}, {}, {});\n", from.type,
                       copy_bytes(block_.body, *tile, plan_of(tile), strides_of(tile)), threads, from.row_stride,
                       from.batch_stride, place, offset(tile->results[0]), from.pointer, rank);
  };
  const std::string text = fmt::format("{0}// {1}\n{0}", indent, statement_text(block_.body, *tile));
  const auto& front = strides_of(tile).front;
  if (!front) return text + call(source(tile));
  return text + fmt::format("if ({}) {}{}else {}", before_seam(tile_region(block_.body, *tile), *front),
                            call(source(tile, true)), indent, call(source(tile)));
}

void TileLoads::place(int64_t least, bool by_size) {
  int64_t alignment = least;
  for (const Operation& op : block_.body.operations()) {
    if (!is_loaded(op)) continue;
    const TensorId id = op.results[0];
    int64_t& bytes = plan_of(&op).once ? once_bytes_ : is_gathered(&op) ? gathered_bytes_ : stage_bytes_;
    const int64_t size = shared_tile_bytes(plan_of(&op), block_.body.type(id).dtype);
    // Lines of shared memory are as long; what has less than a line lies in one.
    if (by_size)
      alignment = std::clamp<int64_t>(static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(size))), least, kLine);
    bytes = ceil_div(bytes, alignment) * alignment;
    if (size >= kTileAlignment) bytes = ceil_div(bytes, kTileAlignment) * kTileAlignment;
    offsets_[id] = bytes;
    bytes += size;
  }
  if (by_size) alignment = least;
  // Rings and stages begin where their tiles may.
  once_bytes_ = ceil_div(aligned_tile(once_bytes_), alignment) * alignment;
  if (once_bytes_ > 0 && once_bytes_ < kTileAlignment && stage_bytes_ >= kTileAlignment) once_bytes_ = kTileAlignment;
  stage_bytes_ = ceil_div(aligned_tile(stage_bytes_), alignment) * alignment;
  gathered_bytes_ = ceil_div(by_size ? gathered_bytes_ : aligned_tile(gathered_bytes_), alignment) * alignment;
}

int64_t TileLoads::bytes() const {
  return once_bytes_ +
         block_.schedule.loop_warps * (block_.schedule.stages * stage_bytes_ + iterations_of_piece() * gathered_bytes_);
}

std::string TileLoads::variables() const {
  const BlockSchedule& schedule = block_.schedule;
  const int64_t group_threads = kWarp * schedule.row_warps;
  std::string text = "  [[maybe_unused]] const int warp = Team::warp();\n";
  text += fmt::format("  [[maybe_unused]] const int crew = warp / {};  // of this block's\n", schedule.row_warps);
  text += cluster_variables();
  text += fmt::format("  [[maybe_unused]] const int group = {}crew;  // takes iterations group, group + {}, ...\n",
                      schedule.cluster > 1 ? fmt::format("split * {} + ", schedule.loop_warps) : "", schedule.groups());
  text += fmt::format("  [[maybe_unused]] const int part = warp % {};   // of the group's axis\n", schedule.row_warps);
  text += fmt::format("  [[maybe_unused]] const int rank = static_cast<int>(Team::rank()) % {};\n", group_threads);
  return text;
}

std::string TileLoads::cluster_variables() const {
  const BlockSchedule& schedule = block_.schedule;
  std::string text;
  if (schedule.cluster > 1) {
    text += fmt::format(
        "  [[maybe_unused]] const int split = strata_device::cluster_rank(){};  // of the blocks that share the loop\n",
        schedule.sharers > 1 ? fmt::format(" % {}", schedule.cluster) : "");
  }
  if (schedule.sharers > 1) {
    text += fmt::format(
        "  [[maybe_unused]] const int share = strata_device::cluster_rank(){};  // of the blocks that share tiles\n",
        schedule.cluster > 1 ? fmt::format(" / {}", schedule.cluster) : "");
  }
  return text;
}

void TileLoads::describe(BlockCode& code) const {
  code.threads = kWarp * block_.schedule.row_warps * block_.schedule.loop_warps;
  code.barriers = 1;
  code.cluster = block_.schedule.cluster;
}

}  // namespace strata
