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
      text += copy(tile, "shared", team_threads(), "static_cast<int>(Team::rank())", "  ");
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
  std::string group_barrier() const {
    if (block_.schedule.row_warps == 1) return "strata_device::warp_barrier();";
    if (block_.schedule.loop_warps == 1) return "Team::meet();";
    return fmt::format("Team::meet(1 + crew, {});", group_threads());
  }
};

}  // namespace

std::unique_ptr<TileLoads> copied_loads(const TileLoads::Block& block) { return std::make_unique<CopiedLoads>(block); }

}  // namespace strata
