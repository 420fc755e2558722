#include <algorithm>
#include <numeric>

#include "superopt/codegen/emit.h"
#include "superopt/codegen/tiles/load_kinds.h"
#include "superopt/codegen/tiles/ring_loads.h"

namespace strata {
namespace {

constexpr int64_t kLine = 128;     ///< bytes of a row of a panel
constexpr int64_t kChunk = 16;     ///< bytes that swizzling keeps together
constexpr int64_t kMostBox = 256;  ///< elements of a box along one dimension
constexpr size_t kMostDimensions = 5;
constexpr int64_t kSwizzledRows = 8;  ///< rows after which a pattern repeats
constexpr int64_t kWarpsTogether = 4;
constexpr int64_t kLoadingRegisters = 24;  ///< of a thread that only asks for tiles

/// The boxes that make a tile: panels of one line, each cut into slices of rows.
struct Boxes {
  GpuTensorMap map;
  std::vector<size_t> dimensions;  ///< of the tensor, by those of the map: of a folded one, of its pieces first
  std::string name;                ///< of the map in the text
  std::optional<GpuTensorMap> front;
  std::string front_name;
  int64_t panels = 1;
  int64_t slices = 1;
  size_t sliced = 0;  ///< dimension of the map
  int64_t box_bytes = 0;
  int64_t box_step = 0;  ///< bytes in shared memory from box to box
  bool shared = false;   ///< neighbours bring parts of it to each other
  int64_t count() const { return panels * slices; }
};

class BulkLoads : public RingLoads {
 public:
  using RingLoads::RingLoads;

  Result<void> plan(NameScope& scope) {
    if (!loops()) return unsupported("no loop whose tiles TMA could bring ahead");
    place(kTileAlignment);
    STRATA_CHECK(choose_neighbours());
    for (const bool once : {true, false}) {
      for (Tile tile : tiles(once)) {
        STRATA_TRY(Boxes boxes, boxes_of(tile));
        boxes.name = scope.add(block_.body.tensor(tile->results[0]).name + "_map");
        if (boxes.front) boxes.front_name = scope.add(block_.body.tensor(tile->results[0]).name + "_front_map");
        (once ? once_transfer_ : stage_transfer_) += boxes.count() * boxes.box_bytes;
        if (boxes.shared && !once) shared_bytes_ += boxes.count() * boxes.box_bytes;
        boxes_.emplace(tile->results[0], std::move(boxes));
      }
    }
    if (schedule().sharers > 1 && shared_bytes_ == 0) return unsupported("no tile that neighbours share can be cut");
    return {};
  }

  std::string load_parameters() const override {
    std::string text;
    for (const Operation& op : block_.body.operations()) {
      if (!is_loaded(op)) continue;
      text += fmt::format("const strata_device::TensorMap* {}, ", boxes(&op).name);
      if (boxes(&op).front) text += fmt::format("const strata_device::TensorMap* {}, ", boxes(&op).front_name);
    }
    return text;
  }

  std::string load() const override {
    std::string text = cluster_variables();
    if (stay()) {
      text += "  if (page.empty != nullptr) strata_device::wait(page.empty, page.phase ^ 1);\n";
      text += fmt::format("  strata_device::expect_bytes(page.full, {});\n", once_transfer_);
      for (Tile tile : tiles(true))
        text += transfer(tile, "  ", fmt::format("page.memory + {}", offset(tile->results[0])), "page.full");
      text += "  page.phase ^= 1;\n";
    }
    std::string requests;
    for (Tile tile : tiles(false))
      requests +=
          transfer(tile, "      ", fmt::format("stage + {}", offset(tile->results[0])), "ring.full + ring.slot");
    return text + fill_slots(requests, stage_transfer_);
  }

  std::string before_loop() const override { return stay() ? "  strata_device::wait(page.full, page.phase);\n" : ""; }

  std::string staying_memory() const override { return "page.memory"; }

  std::string after_all() const override {
    if (!stay()) return RingLoads::after_all();
    return RingLoads::after_all() +
           "  if (page.empty != nullptr) {\n    strata_device::warp_barrier();\n"
           "    if (strata_device::lane() == 0) strata_device::arrive(page.empty);\n  }\n  page.phase ^= 1;\n";
  }

  void describe(BlockCode& code) const override {
    RingLoads::describe(code);
    RingPlan& ring = *code.ring;
    ring.loading_threads = kWarp * loading_warps();
    if (moves_registers()) {
      ring.loading_registers = kLoadingRegisters;
      ring.team_registers = computing_registers();
      // Unless a minimum of blocks is stated, ptxas ignores what sets the number of registers (C7508).
      code.resident_blocks = 1;
    }
    code.threads += ring.loading_threads;
    code.sharers = schedule().sharers;
    code.shared_along = neighbours_;
    code.work.shared_bytes = shared_bytes_;
    for (const Operation& op : block_.body.operations()) {
      if (!is_loaded(op)) continue;
      code.maps.push_back(boxes(&op).map);
      if (boxes(&op).front) code.maps.push_back(*boxes(&op).front);
    }
  }

 private:
  bool stay() const { return !tiles(true).empty(); }
  /// Whether the loading warps leave registers to those that compute: where one block lies on a multiprocessor, and
  /// more than two warps on a quarter of it, the compiler would have to do with 168. Four warps move them together.
  bool moves_registers() const {
    constexpr int64_t kLeastWarps = 8;
    const bool alone = 2 * (reserved_bytes() + bytes()) > block_.target.shared_memory;
    return alone && !block_.plan.wide.empty() && computing_warps() >= kLeastWarps && computing_registers() > 0;
  }
  int64_t loading_warps() const { return moves_registers() ? kWarpsTogether : 1; }
  /// Of those that a block of this many warps is launched with, what the loading warps leave; 0 where that is no gain.
  int64_t computing_registers() const {
    constexpr int64_t kStep = 8;
    constexpr int64_t kMost = 240;
    const int64_t warps = computing_warps() + kWarpsTogether;
    const int64_t launched = block_.target.registers / (warps * kWarp) / kStep * kStep;
    const int64_t left = launched * warps - kLoadingRegisters * kWarpsTogether;
    const int64_t each = std::min(kMost, left / computing_warps() / kStep * kStep);
    return each > launched ? each : 0;
  }
  int64_t computing_warps() const { return schedule().row_warps * schedule().loop_warps; }
  const Boxes& boxes(Tile tile) const { return boxes_.at(tile->results[0]); }

  bool same_for_neighbours(Tile tile) const {
    const std::vector<int64_t>& map = tile->attributes.list("imap");
    return neighbours_ >= map.size() || map[neighbours_] < 0;
  }

  /// The dimension of the grid along which blocks have the most bytes in common.
  Result<void> choose_neighbours() {
    if (schedule().sharers == 1) return {};
    const std::vector<int64_t>& grid = block_.body.launch().grid;
    int64_t most = 0;
    size_t best = 0;
    for (neighbours_ = 0; neighbours_ < grid.size(); ++neighbours_) {
      if (grid[neighbours_] % schedule().sharers != 0) continue;
      int64_t bytes = 0;
      for (Tile tile : tiles(false)) {
        if (same_for_neighbours(tile)) bytes += block_.body.type(tile->results[0]).bytes();
      }
      if (bytes > most) best = neighbours_;
      most = std::max(most, bytes);
    }
    neighbours_ = best;
    if (most == 0) return unsupported("no {} neighbours in the grid share a tile", schedule().sharers);
    return {};
  }

  Result<Boxes> boxes_of(Tile tile) const {
    const TensorId id = tile->results[0];
    const std::string& name = block_.body.tensor(id).name;
    const Shape& shape = block_.body.type(id).shape;
    const Shape& whole = block_.body.type(tile->operands[0]).shape;
    const OperandPlace& place = strides_of(tile);
    const std::vector<int64_t>& strides = place.strides;
    const int64_t element = size_of(block_.body.type(id).dtype);
    const size_t rank = shape.size();
    if (rank == 0 || copy_bytes(block_.body, *tile, plan_of(tile), place) != kChunk) {
      return unsupported("{} does not lie in pieces of {} bytes", name, kChunk);
    }
    const bool down = plan_of(tile).pairs_down;
    std::vector<size_t> order{down ? rank - 2 : rank - 1};
    if (rank >= 2) order.push_back(down ? rank - 1 : rank - 2);
    for (size_t d = rank; d-- > 2;) order.push_back(d - 2);

    Boxes boxes;
    const int64_t row = shape[order[0]] * element;
    const int64_t all_rows = block_.body.type(id).elements() / shape[order[0]];
    const bool lines = row % kLine == 0;
    if (all_rows == 1) {  // no row to permute differently
      boxes.panels = ceil_div(shape[order[0]], kMostBox);
    } else {
      boxes.panels = lines ? row / kLine : 1;
      boxes.map.swizzle = row == kChunk ? 0 : std::min(row, kLine);
    }
    const bool as_stored = all_rows == 1 || lines || kLine % row == 0;
    if (!as_stored || row % boxes.panels != 0) {
      return unsupported("rows of {}, {} bytes, are not permuted as TMA does", name, row);
    }
    boxes.map.element_bytes = element;
    const std::vector<TensorId> inputs = arguments_of(block_.body, block_.body.inputs());
    boxes.map.argument =
        static_cast<size_t>(std::find(inputs.begin(), inputs.end(), tile->operands[0]) - inputs.begin());
    int64_t rows = 1;  // of a slice
    for (size_t d : order) {
      const bool first = d == order[0];
      if (!first && whole[d] == 1) continue;
      if (first ? strides[d] != 1 : strides[d] < 1 || strides[d] * element % kChunk != 0) {
        return unsupported("a stride of {} is not one that TMA takes", name);
      }
      const Fold* const fold = fold_of(place, d);
      const int64_t left = place.front && place.front->dim == d ? whole[d] - place.front->size : whole[d];
      boxes.dimensions.push_back(d);
      boxes.map.sizes.push_back(fold != nullptr ? fold->size : left);
      boxes.map.strides.push_back(strides[d] * element);
      boxes.map.box.push_back(first ? row / boxes.panels / element : shape[d]);
      if (!first) rows *= shape[d];
      if (fold == nullptr) continue;
      if (fold->stride < 1 || fold->stride * element % kChunk != 0)
        return unsupported("a stride of {} is not one that TMA takes", name);
      boxes.dimensions.push_back(d);
      boxes.map.sizes.push_back(whole[d] / fold->size);
      boxes.map.strides.push_back(fold->stride * element);
      boxes.map.box.push_back(1);
    }
    if (boxes.dimensions.size() > kMostDimensions) return unsupported("{} has too many dimensions for TMA", name);
    const bool wanted = schedule().sharers > 1 && same_for_neighbours(tile);
    // Slices: so many that every neighbour brings some boxes, and that no box is too large.
    std::vector<int64_t>& box = boxes.map.box;
    for (size_t d = 1; d < box.size(); ++d) {
      if (box[d] > 1) boxes.sliced = d;  // the outermost one: slices lie one after the other
    }
    const auto cut = [&](int64_t slices) {
      const size_t d = boxes.sliced;
      if (d == 0 || box[d] % slices != 0 || rows / slices % kSwizzledRows != 0) return false;
      box[d] /= slices;
      rows /= slices;
      boxes.slices *= slices;
      return true;
    };
    if (wanted) boxes.shared = boxes.panels % schedule().sharers == 0 || cut(schedule().sharers);
    while (std::any_of(box.begin(), box.end(), [](int64_t size) { return size > kMostBox; })) {
      if (!cut(2)) return unsupported("{} has boxes of more than {} elements", name, kMostBox);
    }
    if (place.front) {
      STRATA_TRY(boxes.front, front_map(tile, boxes));
    }
    boxes.box_bytes = rows * row / boxes.panels;
    boxes.box_step =
        all_rows == 1 ? boxes.box_bytes : ceil_div(rows, kSwizzledRows) * kSwizzledRows * row / boxes.panels;
    return boxes;
  }

  static const Fold* fold_of(const OperandPlace& place, size_t dim) {
    const auto found =
        std::find_if(place.folds.begin(), place.folds.end(), [&](const Fold& fold) { return fold.dim == dim; });
    return found == place.folds.end() ? nullptr : &*found;
  }

  /// The map of a tensor's front: the same boxes.
  Result<GpuTensorMap> front_map(Tile tile, const Boxes& boxes) const {
    const Front& front = *strides_of(tile).front;
    const Shape& whole = block_.body.type(tile->operands[0]).shape;
    const int64_t element = boxes.map.element_bytes;
    GpuTensorMap map = boxes.map;
    for (size_t i = 0; i < boxes.dimensions.size(); ++i) {
      const size_t d = boxes.dimensions[i];
      map.sizes[i] = d == front.dim ? front.size : whole[d];
      map.strides[i] = front.strides[d] * element;
      if (i == 0 ? front.strides[d] != 1 : map.strides[i] < kChunk || map.strides[i] % kChunk != 0)
        return unsupported("a stride of {} is not one that TMA takes", block_.body.tensor(tile->operands[0]).name);
    }
    // Fronts are the last arguments.
    const auto& inputs = block_.body.inputs();
    map.argument = arguments_of(block_.body, inputs).size() + block_.body.outputs().size();
    for (size_t n = 0; inputs[n] != tile->operands[0]; ++n) map.argument += block_.strides[n].front ? 1 : 0;
    return map;
  }

  /// Asks for a tile's way to `place`, counted at `barrier`.
  std::string transfer(Tile tile, const std::string& indent, const std::string& place,
                       const std::string& barrier) const {
    const Boxes& b = boxes(tile);
    const AccessRegion region = tile_region(block_.body, *tile);
    const OperandPlace& lies = strides_of(tile);
    const bool many = b.count() > 1 || b.shared;
    const auto box_at = [&](bool in_front) {
      std::vector<std::string> at;
      for (size_t i = 0; i < b.dimensions.size(); ++i) {
        const size_t d = b.dimensions[i];
        const Fold* const fold = fold_of(lies, d);
        const bool pieces = i > 0 && b.dimensions[i - 1] == d;
        std::string position = fold == nullptr ? tile_start(region, d)
                               : pieces        ? tile_piece(region, *fold)
                                               : tile_in_piece(region, *fold);
        position = position == "0" ? "" : fmt::format("static_cast<int>({})", position);
        const auto add = [&](const std::string& more) { position += (position.empty() ? "" : " + ") + more; };
        if (i == 0 && b.panels > 1) add(fmt::format("piece / {} * {}", b.slices, b.map.box[0]));
        if (i == b.sliced && b.slices > 1) add(fmt::format("piece % {} * {}", b.slices, b.map.box[i]));
        if (lies.front && lies.front->dim == d && !in_front) add(fmt::format("-{}", lies.front->size));
        at.push_back(position.empty() ? "0" : position);
      }
      return fmt::format("{{{}}}", fmt::join(at, ", "));
    };
    std::string text = fmt::format("{0}// {1}\n{0}", indent, statement_text(block_.body, *tile));
    if (many) {
      text += fmt::format("for (int piece = {}; piece < {}; piece += {}) ", b.shared ? "share" : "0", b.count(),
                          b.shared ? schedule().sharers : 1);
    }
    // Slices lie one after the other, panels where the pattern of 8 rows begins.
    const auto load = [&](bool in_front) {
      return fmt::format("strata_device::load_box<{}>({}{}, {}, {}, {}, {});\n", b.shared, place,
                         many ? fmt::format(" + piece * {}", b.box_step) : "", in_front ? b.front_name : b.name,
                         barrier, b.shared ? blocks_sharing() : "0", box_at(in_front));
    };
    if (!lies.front) return text + load(false);
    return text + fmt::format("if ({}) {}{}else {}", before_seam(region, *lies.front), load(true), indent, load(false));
  }

  /// A bit for each block of the cluster that shares tiles with this one, itself among them.
  std::string blocks_sharing() const {
    int64_t bits = 0;
    for (int64_t share = 0; share < schedule().sharers; ++share) bits |= int64_t{1} << share * schedule().cluster;
    return schedule().cluster > 1 ? fmt::format("{} << split", bits) : fmt::format("{}", bits);
  }

  std::map<TensorId, Boxes> boxes_;
  size_t neighbours_ = 0;  ///< dimension of the grid along which blocks share tiles
  int64_t once_transfer_ = 0;
  int64_t stage_transfer_ = 0;
  int64_t shared_bytes_ = 0;
};

}  // namespace

Result<std::unique_ptr<TileLoads>> bulk_loads(const TileLoads::Block& block, NameScope& scope) {
  auto loads = std::make_unique<BulkLoads>(block);
  STRATA_CHECK(loads->plan(scope));
  return loads;
}

}  // namespace strata
