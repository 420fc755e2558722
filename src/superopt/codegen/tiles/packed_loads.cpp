// Tiles of constants that lie packed in device memory: a stage's bytes beside each other, as warps want them in shared
// memory, stages in the order in which a block uses them. So a stage is one bulk copy without a tensor map. What the
// loop cuts and is no constant, each group of warps brings for all of its iterations before the first: the form of a
// task of a mega-kernel, whose constants come long before its activations.
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
    scope.add(kPackedConstants);
    return {};
  }

  std::string load_parameters() const override { return fmt::format("const unsigned char* {}, ", kPackedConstants); }

  bool is_template() const override { return true; }
  std::string ring_parameters() const override {
    return "[[maybe_unused]] int iterations, Ring& ring, [[maybe_unused]] strata_device::Page& page";
  }
  std::string iterations() const override { return "iterations"; }

  std::string load() const override {
    return fmt::format(
        "  const unsigned char* from = {0} + {1};\n"
        "  for (int iteration = 0; iteration < iterations; ++iteration, from += {2}) ring.push(from, {2});\n",
        kPackedConstants, block_offset(), stage_bytes());
  }

  std::string before_loop() const override {
    std::string text;
    if (gathered_bytes() > 0) {
      text += fmt::format("  unsigned char* const gathered = page.memory + {} + crew * {};\n", once_bytes(),
                          iterations_of_group() * gathered_bytes());
    }
    // In the order of the block: what waits for nothing should come first there. What stays was mostly made long ago,
    // and is brought while the rest is still awaited.
    for (Tile tile : tiles(true)) text += bring(tile, "page.memory", team_threads(), "Team::rank()");
    for (Tile tile : tiles(false)) {
      if (is_gathered(tile)) text += bring(tile, "gathered", group_threads(), "rank");
    }
    text += "  strata_device::commit_copies();\n  strata_device::wait_copies<0>();\n";
    return text + (warps_are_alone() ? "  strata_device::warp_barrier();\n" : "  Team::meet();\n");
  }

  std::string staying_memory() const override { return "page.memory"; }

  std::string loop_head() const override { return ""; }
  std::string iteration_begin() const override {
    std::string text =
        fmt::format("    const unsigned char* const stage = ring.stage(iteration, {});\n", stage_bytes());
    if (gathered_bytes() == 0) return text;
    return text + fmt::format("    const unsigned char* const gathered_now = gathered + iteration / {} * {};\n",
                              schedule().groups(), gathered_bytes());
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
                        block_.body.launch().loop, stage_bytes());
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
    const auto& grid = block_.body.launch().grid;
    int64_t blocks = 1;
    for (const int64_t size : grid) blocks *= size;
    code.packing = Packing{blocks * bytes_of_block(), {}};
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
    return once_bytes() + schedule().loop_warps * iterations_of_group() * gathered_bytes();
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

  /// A tile that stays, or, of those that are gathered, the tiles of all iterations of a group.
  std::string bring(Tile tile, const std::string& place, int64_t threads, const std::string& rank) const {
    const Source from = source(tile);
    const TensorId id = tile->results[0];
    const int64_t bytes = copy_bytes(block_.body, *tile, plan_of(tile), strides_of(tile));
    std::string text = fmt::format("  // {}\n", statement_text(block_.body, *tile));
    if (!is_gathered(tile)) {
      return text + fmt::format("  strata_device::bring_tile<{}, {}, {}, {}, {}>({} + {}, {}, static_cast<int>({}));\n",
                                from.type, bytes, threads, from.row_stride, from.batch_stride, place, offset(id),
                                from.pointer, rank);
    }
    return text +
           fmt::format(
               "  strata_device::bring_tiles<{}, {}, {}, {}, {}, {}, {}, {}>({} + {}, [&](int iteration) {{ return "
               "{}; }}, group, iterations, {});\n",
               from.type, bytes, threads, from.row_stride, from.batch_stride, schedule().groups(), gathered_bytes(),
               iterations_of_group(), place, offset(id), from.pointer, rank);
  }

  int64_t bytes_of_block() const { return block_.body.launch().loop * stage_bytes(); }
  std::string block_offset() const {
    const auto& grid = block_.body.launch().grid;
    std::string number = "block_x";
    if (grid.size() > 1) number = fmt::format("({} + {} * block_y)", number, grid[0]);
    if (grid.size() > 2) number = fmt::format("({} + {} * block_z)", number, grid[0] * grid[1]);
    return fmt::format("{} * {}", number, bytes_of_block());
  }
};

}  // namespace

Result<std::unique_ptr<TileLoads>> packed_loads(const TileLoads::Block& block, NameScope& scope) {
  auto loads = std::make_unique<PackedLoads>(block);
  STRATA_CHECK(loads->plan(scope));
  return loads;
}

}  // namespace strata
