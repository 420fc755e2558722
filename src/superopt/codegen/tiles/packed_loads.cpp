// Tiles of constants that lie packed in device memory: a stage's bytes beside each other, as warps want them in shared
// memory, stages in the order in which a block uses them. So a stage is one bulk copy without a tensor map. What the
// loop cuts and is no constant, each group of warps brings for all of its iterations before the first: the form of a
// task of a mega-kernel, whose constants come long before its activations.
#include "superopt/codegen/tiles/load_kinds.h"
#include "superopt/codegen/tiles/ring_loads.h"

namespace strata {
namespace {

class PackedLoads : public RingLoads {
 public:
  using RingLoads::RingLoads;

  Result<void> plan(NameScope& scope) {
    if (!loops()) return unsupported("no loop whose tiles could be packed");
    if (schedule().cluster_blocks() > 1) return unsupported("packed tiles are a block's own, not a cluster's");
    if (!block_.plan.wide.empty()) return unsupported("wide products read no tiles that threads copied");
    place(kTileAlignment);
    if (stage_bytes() == 0) return unsupported("the loop cuts no constant");
    scope.add(kPackedConstants);
    return {};
  }

  std::string load_parameters() const override { return fmt::format("const unsigned char* {}, ", kPackedConstants); }

  std::string load() const override {
    return fmt::format("  const unsigned char* from = {} + {};\n", kPackedConstants, block_offset()) +
           fill_slots(fmt::format("      strata_device::load_bytes(stage, from, {0}, ring.full + ring.slot);\n"
                                  "      from += {0};\n",
                                  stage_bytes()),
                      stage_bytes());
  }

  std::string before_loop() const override {
    std::string text;
    for (Tile tile : tiles(true))
      text += copy(tile, "page.memory", team_threads(), "static_cast<int>(Team::rank())", "  ");
    const int64_t bytes = gathered_bytes();
    if (bytes > 0) {
      text += fmt::format("  unsigned char* const gathered = page.memory + {} + crew * {};\n", once_bytes(),
                          iterations_of_group() * bytes);
      text += fmt::format("  for (int iteration = group; iteration < {}; iteration += {}) {{\n",
                          block_.body.launch().loop, schedule().groups());
      text +=
          fmt::format("    unsigned char* const stage = gathered + iteration / {} * {};\n", schedule().groups(), bytes);
      for (Tile tile : tiles(false)) {
        if (is_gathered(tile)) text += copy(tile, "stage", group_threads(), "rank", "    ");
      }
      text += "  }\n";
    }
    return text + "  strata_device::commit_copies();\n  strata_device::wait_copies<0>();\n  Team::meet();\n";
  }

  std::string staying_memory() const override { return "page.memory"; }

  std::string iteration_begin() const override {
    if (gathered_bytes() == 0) return RingLoads::iteration_begin();
    return RingLoads::iteration_begin() +
           fmt::format("    const unsigned char* const gathered_now = gathered + iteration / {} * {};\n",
                       schedule().groups(), gathered_bytes());
  }

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
    code.packing = Packing{blocks * bytes_of_block()};
  }

 protected:
  bool is_gathered(Tile tile) const override {
    const auto& inputs = block_.body.inputs();
    const auto number = std::find(inputs.begin(), inputs.end(), tile->operands[0]) - inputs.begin();
    return !plan_of(tile).once && (schedule().packed >> number & 1) == 0;
  }
  int64_t page_bytes() const override {
    return once_bytes() + schedule().loop_warps * iterations_of_group() * gathered_bytes();
  }

 private:
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
