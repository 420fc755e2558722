// Tiles of constants that lie packed in device memory: a stage's bytes beside each other, as warps want them in shared
// memory; first the first stage of all blocks, block after block, then the second one of all, and so on. So a stage is
// one bulk copy without a tensor map, and blocks that run side by side read neighbouring places: each has its share of
// fast and of slow ones, where a block with a region of its own would have either. What the
// loop cuts and is no constant, each group of warps brings for all of its iterations before the first: the form of a
// task of a mega-kernel, whose constants come long before its activations. What is too large for that comes in pieces:
// a group brings its next one when it is done with the one before, and waits for no other group.
//
// The text is a template over what its tensors are and over the ring, so that one function serves a kernel of its own
// (pointers, slots of one size) and a mega-kernel (tagged words, stages of any size): see device/strata_bulk.h,
// SlotRing, for what a ring is. The number of iterations is an argument: a task may know only at run time how many of
// the loop's tiles hold anything, and leaves out the rest.
#include "superopt/codegen/tiles/load_kinds.h"
#include "superopt/codegen/tiles/ring_loads.h"

namespace strata {
namespace {

constexpr int64_t kCopyAlignment = 16;  // of bulk copies, in bytes

class PackedLoads : public RingLoads {
 public:
  using RingLoads::RingLoads;

  Result<void> plan(NameScope& scope) {
    if (!loops()) return unsupported("no loop whose tiles could be packed");
    if (schedule().cluster_blocks() > 1) return unsupported("packed tiles are a block's own, not a cluster's");
    if (!block_.plan.wide.empty()) return unsupported("wide products read no tiles that threads copied");
    place(kCopyAlignment, true);
    if (stage_bytes() == 0) return unsupported("the loop cuts no constant");
    if (schedule().piece < 0) return unsupported("pieces of {} iterations", schedule().piece);
    for (const char* name : {kPackedConstants, "gathered", "gathered_now", "of_piece", "bring_piece"}) scope.add(name);
    return {};
  }

  std::string load_parameters() const override { return fmt::format("const unsigned char* {}, ", kPackedConstants); }

  bool is_template() const override { return true; }
  std::string ring_parameters() const override {
    return "[[maybe_unused]] int iterations, Ring& ring, [[maybe_unused]] strata_device::Page& page";
  }
  std::string iterations() const override { return "iterations"; }

  std::string load() const override {
    return fmt::format("  push_stages(ring, {} + {}, iterations, {}, {});\n", kPackedConstants, block_offset(),
                       stage_bytes(), stage_stride());
  }

  std::string before_loop() const override {
    std::string text;
    if (gathered_bytes() > 0) {
      text += fmt::format("  unsigned char* const gathered = page.memory + {} + crew * {};\n", once_bytes(),
                          iterations_of_piece() * gathered_bytes());
    }
    // In the order of the block: what waits for nothing, or was made long ago, should come first there, and so comes
    // while the rest is still awaited.
    for (const Operation& op : block_.body.operations()) {
      if (!is_loaded(op)) continue;
      if (plan_of(&op).once) text += bring(&op, "page.memory", team_threads(), "Team::rank()");
      if (is_gathered(&op) && !in_pieces()) text += bring(&op, "group", "iterations");
    }
    const char* const barrier = warps_are_alone() ? "strata_device::warp_barrier();" : "Team::meet();";
    if (in_pieces()) return text + (once_bytes() == 0 ? "" : copies_landed(barrier)) + piece_lambda();
    return text + copies_landed(barrier);
  }

  std::string staying_memory() const override { return "page.memory"; }

  std::string loop_head() const override { return ""; }
  std::string iteration_begin() const override {
    std::string text;
    if (in_pieces()) {
      // While the stage is on its way.
      text +=
          fmt::format("    const int of_piece = iteration / {} % {};\n", schedule().groups(), iterations_of_piece());
      text += fmt::format("    if (of_piece == 0) bring_piece(iteration, iterations < iteration + {0} ? iterations : ",
                          iterations_of_piece() * schedule().groups());
      text += fmt::format("iteration + {});\n", iterations_of_piece() * schedule().groups());
    }
    text += fmt::format("    const unsigned char* const stage = ring.stage(iteration, {});\n", stage_bytes());
    if (gathered_bytes() == 0) return text;
    return text + fmt::format("    const unsigned char* const gathered_now = gathered + {} * {};\n",
                              in_pieces() ? "of_piece" : fmt::format("iteration / {}", schedule().groups()),
                              gathered_bytes());
  }
  std::string iteration_end(bool done) const override { return done ? release("    ", "iteration") : ""; }
  std::string release_previous() const override {
    return fmt::format("    if (iteration != group) {{\n{}    }}\n",
                       release("      ", fmt::format("iteration - {}", schedule().groups())));
  }
  std::string after_all() const override { return fmt::format("  ring.advance(iterations, {});\n", stage_bytes()); }

  std::string place_of(TensorId id) const override {
    const Operation& tile = block_.body.operations()[static_cast<size_t>(block_.body.tensor(id).producer)];
    return fmt::format("{} + {}", is_gathered(&tile) ? "gathered_now" : "stage", offset(id));
  }

  std::string pack() const override {
    std::string text = fmt::format("  unsigned char* stage = {} + {};\n", kPackedConstants, block_offset());
    text += fmt::format("  for (int iteration = 0; iteration < {}; ++iteration, stage += {}) {{\n",
                        block_.body.launch().loop, stage_stride());
    for (Tile tile : tiles(false)) {
      if (is_gathered(tile)) continue;
      const Source from = source(tile);
      text += fmt::format("    // {}\n    strata_device::pack_tile<Team, {}, {}, {}>(stage + {}, {});\n",
                          statement_text(block_.body, *tile), from.type, from.row_stride, from.batch_stride,
                          offset(tile->results[0]), from.pointer);
    }
    return text + "  }\n";
  }

  void describe(BlockCode& code) const override {
    RingLoads::describe(code);
    code.threads += kWarp;
    if (in_pieces() && schedule().row_warps > 1 && schedule().loop_warps > 1) code.barriers += schedule().loop_warps;
    code.packing = Packing{block_.body.launch().loop * stage_stride(), {}};
    for (Tile tile : tiles(false)) {
      if (!is_gathered(tile))
        code.packing->tiles.push_back({number_of(tile), source(tile).type, offset(tile->results[0])});
    }
  }

 protected:
  bool is_gathered(Tile tile) const override {
    return !plan_of(tile).once && (schedule().packed >> number_of(tile) & 1) == 0;
  }
  int64_t page_bytes() const override {
    return once_bytes() + schedule().loop_warps * iterations_of_piece() * gathered_bytes();
  }

 private:
  std::string release(const char* indent, const std::string& iteration) const {
    return fmt::format("{}ring.release({}, {});\n", indent, iteration, schedule().row_warps);
  }

  std::ptrdiff_t number_of(Tile tile) const {
    const auto& inputs = block_.body.inputs();
    return std::find(inputs.begin(), inputs.end(), tile->operands[0]) - inputs.begin();
  }

  /// Whether each warp reads in the loop only what it brought itself. Tiles that stay and are used after the loop are
  /// waited for there.
  bool warps_are_alone() const {
    if (schedule().row_warps > 1 || schedule().groups() == 1) return false;
    const auto stages = loop_stages(block_.body);
    for (Tile tile : tiles(true)) {
      for (size_t i = 0; i < block_.body.operations().size(); ++i) {
        const Operation& op = block_.body.operations()[i];
        const bool reads = std::find(op.operands.begin(), op.operands.end(), tile->results[0]) != op.operands.end();
        if (reads && stages[i] != LoopStage::After) return false;
      }
    }
    return true;
  }

  bool in_pieces() const { return gathered_bytes() > 0 && iterations_of_piece() < iterations_of_group(); }

  static std::string copies_landed(const std::string& barrier) {
    return fmt::format("  strata_device::commit_copies();\n  strata_device::wait_copies<0>();\n  {}\n", barrier);
  }

  /// A group's threads meet.
  std::string group_barrier() const {
    if (schedule().row_warps == 1) return "strata_device::warp_barrier();";
    if (schedule().loop_warps == 1) return "Team::meet();";
    return fmt::format("Team::meet(1 + crew, {});", group_threads());
  }

  /// A variable that brings the gathered tiles of a group's iterations first … last − 1.
  std::string piece_lambda() const {
    std::string text = "  const auto bring_piece = [&](int first, int last) {\n  ";
    text += group_barrier() + "  // all are done with the piece before\n";
    for (Tile tile : tiles(false)) {
      if (is_gathered(tile)) text += bring(tile, "first", "last");
    }
    return text + copies_landed(group_barrier()) + "  };\n";
  }

  /// A tile that stays.
  std::string bring(Tile tile, const std::string& place, int64_t threads, const std::string& rank) const {
    const Source from = source(tile);
    return fmt::format("  // {}\n  strata_device::bring_tile<{}, {}, {}, {}, {}>({} + {}, {}, static_cast<int>({}));\n",
                       statement_text(block_.body, *tile), from.type,
                       copy_bytes(block_.body, *tile, plan_of(tile), strides_of(tile)), threads, from.row_stride,
                       from.batch_stride, place, offset(tile->results[0]), from.pointer, rank);
  }

  /// Of those that are gathered, the tiles of a group's iterations from `first` on, before `last`.
  std::string bring(Tile tile, const char* first, const char* last) const {
    const Source from = source(tile);
    return fmt::format(
        "  // {}\n  strata_device::bring_tiles<{}, {}, {}, {}, {}, {}, {}, {}>(gathered + {}, [&](int iteration) {{ "
        "return {}; }}, {}, {}, rank);\n",
        statement_text(block_.body, *tile), from.type, copy_bytes(block_.body, *tile, plan_of(tile), strides_of(tile)),
        group_threads(), from.row_stride, from.batch_stride, schedule().groups(), gathered_bytes(),
        iterations_of_piece(), offset(tile->results[0]), from.pointer, first, last);
  }

  /// Bytes from a block's stage to its next one: all blocks' stages.
  int64_t stage_stride() const {
    int64_t blocks = 1;
    for (const int64_t size : block_.body.launch().grid) blocks *= size;
    return blocks * stage_bytes();
  }
  std::string block_offset() const {
    const auto& grid = block_.body.launch().grid;
    std::string number = "block_x";
    if (grid.size() > 1) number = fmt::format("({} + {} * block_y)", number, grid[0]);
    if (grid.size() > 2) number = fmt::format("({} + {} * block_z)", number, grid[0] * grid[1]);
    return fmt::format("{} * {}", number, stage_bytes());
  }
};

}  // namespace

Result<std::unique_ptr<TileLoads>> packed_loads(const TileLoads::Block& block, NameScope& scope) {
  auto loads = std::make_unique<PackedLoads>(block);
  STRATA_CHECK(loads->plan(scope));
  return loads;
}

}  // namespace strata
