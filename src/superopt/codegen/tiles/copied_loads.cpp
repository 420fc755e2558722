#include <algorithm>

#include "superopt/codegen/tiles/load_kinds.h"

namespace strata {
namespace {

class CopiedLoads : public TileLoads {
 public:
  explicit CopiedLoads(const Block& block) : TileLoads(block) { place(1); }

  std::string before_loop() const override {
    const BlockSchedule& schedule = block_.schedule;
    const int64_t loop = block_.body.launch().loop;
    const auto once = tiles(true);
    std::string text;
    for (Tile tile : once) {
      text += copy(tile, "shared", group_threads() * schedule.loop_warps, "static_cast<int>(Team::rank())", "  ");
    }
    if (!once.empty()) text += "  strata_device::commit_copies();\n";
    if (loops()) {
      text += fmt::format("  // Each group's ring: {} stages of {} bytes.\n", schedule.stages, stage_bytes());
      text += fmt::format("  unsigned char* const ring = shared + {} + crew * {};\n", once_bytes(),
                          schedule.stages * stage_bytes());
      text += "  const auto copy_iteration = [&](int iteration) {\n";
      text += fmt::format("    unsigned char* const stage = ring + iteration / {} % {} * {};\n", schedule.groups(),
                          schedule.stages, stage_bytes());
      for (Tile tile : tiles(false)) text += copy(tile, "stage", group_threads(), "rank", "    ");
      text += "  };\n";
      text += fmt::format("  for (int ahead = 0; ahead < {}; ++ahead) {{\n", schedule.stages - 1);
      text += fmt::format("    if (group + ahead * {0} < {1}) copy_iteration(group + ahead * {0});\n",
                          schedule.groups(), loop);
      text += "    strata_device::commit_copies();\n  }\n";
    }
    if (!once.empty()) {
      text += fmt::format("  strata_device::wait_copies<{}>();\n", loops() ? schedule.stages - 1 : 0);
      if (!block_.plan.wide.empty()) text += "  strata_device::fence_for_wide_products();\n";
      text += "  Team::meet();\n";
    }
    return text;
  }

  void describe(BlockCode& code) const override {
    TileLoads::describe(code);
    if (block_.schedule.row_warps > 1 && block_.schedule.loop_warps > 1) code.barriers += block_.schedule.loop_warps;
  }

  std::string iteration_begin() const override {
    const BlockSchedule& schedule = block_.schedule;
    std::string text = fmt::format("    strata_device::wait_copies<{}>();\n", schedule.stages - 2);
    if (!block_.plan.wide.empty()) text += "    strata_device::fence_for_wide_products();\n";
    text += fmt::format("    {}  // the tiles are there, and all are done with the stage that is copied to next\n",
                        group_barrier());
    text += fmt::format("    if (iteration + {0} < {1}) copy_iteration(iteration + {0});\n",
                        (schedule.stages - 1) * schedule.groups(), block_.body.launch().loop);
    text += "    strata_device::commit_copies();\n";
    return text + fmt::format("    const unsigned char* const stage = ring + iteration / {} % {} * {};\n",
                              schedule.groups(), schedule.stages, stage_bytes());
  }

 private:
  int64_t group_threads() const { return kWarp * block_.schedule.row_warps; }

  std::string group_barrier() const {
    if (block_.schedule.row_warps == 1) return "strata_device::warp_barrier();";
    if (block_.schedule.loop_warps == 1) return "Team::meet();";
    return fmt::format("Team::meet(1 + crew, {});", group_threads());
  }

  struct Source {
    std::string type;  ///< of the tile in shared memory
    std::string pointer;
    int64_t row_stride;
    int64_t batch_stride;
  };
  Source source(Tile tile) const {
    const TensorId id = tile->results[0];
    const Shape& shape = block_.body.type(id).shape;
    const std::vector<int64_t>& strides = strides_of(tile);
    const size_t rank = shape.size();
    const int64_t row_stride = plan_of(tile).pairs_down ? strides[rank - 1] : rank > 1 ? strides[rank - 2] : 0;
    const auto between = strata::batch_stride(shape, strides);
    const std::string base = tile_base(tile_region(block_.body, *tile), strides);
    return {shared_tile_type(plan_of(tile), block_.body.type(id).dtype),
            fmt::format("{} + {}", block_.names.at(tile->operands[0]), base), row_stride, between ? *between : 0};
  }

  std::string copy(Tile tile, const std::string& place, int64_t threads, const std::string& rank,
                   const std::string& indent) const {
    const Source from = source(tile);
    return fmt::format("{0}// {1}\n{0}strata_device::copy_tile<{2}, {3}, {4}, {5}, {6}>({7} + {8}, {9}, {10});\n",
                       indent, statement_text(block_.body, *tile), from.type,
                       copy_bytes(block_.body, *tile, plan_of(tile), strides_of(tile)), threads, from.row_stride,
                       from.batch_stride, place, offset(tile->results[0]), from.pointer, rank);
  }
};

}  // namespace

std::unique_ptr<TileLoads> copied_loads(const TileLoads::Block& block) { return std::make_unique<CopiedLoads>(block); }

}  // namespace strata
