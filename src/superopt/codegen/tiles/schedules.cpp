#include <algorithm>
#include <array>

#include "superopt/codegen/schedule_cost.h"
#include "superopt/codegen/tiles/block.h"
#include "superopt/codegen/tiles/tiles.h"

namespace strata {

std::vector<BlockSchedule> tile_schedules(const Operation& op, const OperandPlaces& strides, const Target& target) {
  constexpr int64_t kMostWarps = 16;
  constexpr int64_t kMostRegisters = 232;  // of a thread, less what the estimate may miss
  std::vector<std::pair<double, BlockSchedule>> rated;
  const int64_t loop = op.body->launch().loop;
  int64_t blocks = 1;
  for (int64_t size : op.body->launch().grid) blocks *= size;
  const auto rate = [&](const TilePlan& plan, const BlockSchedule& schedule) {
    const auto code = TileBlock(op, "candidate", strides, schedule, target).run(plan);
    if (!code || code->registers > kMostRegisters || code->registers * code->computing_threads() > target.registers)
      return false;
    rated.emplace_back(schedule_seconds(op, strides, *code, schedule, target), schedule);
    return true;
  };
  for (int64_t cluster = 1; cluster <= target.cluster; cluster *= 2) {
    // A cluster for what one block cannot fill.
    if (cluster > 1 && blocks * cluster > target.multiprocessors) break;
    for (int64_t rows = 1; rows <= kMostWarps; rows *= 2) {
      for (int64_t groups = 1; groups * rows <= kMostWarps && groups * cluster <= loop; groups *= 2) {
        if (loop % (groups * cluster) != 0) continue;  // the last round would leave groups idle
        std::array<std::optional<TilePlan>, 2> plans;  // by wide
        for (const bool wide : {false, true}) {
          if (wide && (!target.wide_products || rows % 4 != 0)) continue;
          auto plan = plan_tiles(*op.body, strides, {rows, groups, 2, wide, cluster});
          if (plan) plans[wide] = std::move(*plan);
        }
        for (const int64_t stages : {8, 6, 4, 3, 2}) {
          if (loop == 1 && stages != 2) continue;
          if (stages > 2 && stages > loop / (groups * cluster) + 1) continue;
          for (const bool wide : {false, true}) {
            if (!plans[wide]) continue;
            const BlockSchedule schedule{rows, groups, stages, wide, cluster};
            rate(*plans[wide], schedule);
            if (!target.bulk_copies || loop == 1) continue;
            for (int64_t sharers = 1; cluster * sharers <= target.cluster; sharers *= 2) {
              BlockSchedule bulk = schedule;
              bulk.bulk = true;
              bulk.sharers = sharers;
              // Two groups, or two halves of the rows, four warps each at least.
              if (!rate(*plans[wide], bulk) || !wide || (groups != 2 && groups * rows != 8)) continue;
              bulk.turns = true;
              rate(*plans[wide], bulk);
            }
          }
        }
      }
    }
  }
  std::stable_sort(rated.begin(), rated.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<BlockSchedule> schedules;
  for (const auto& [seconds, schedule] : rated) schedules.push_back(schedule);
  return schedules;
}

}  // namespace strata
