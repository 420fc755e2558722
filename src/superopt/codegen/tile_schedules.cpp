#include <algorithm>
#include <tuple>

#include "superopt/codegen/tiles.h"

namespace strata {

std::vector<BlockSchedule> tile_schedules(const Operation& op, const std::vector<std::vector<int64_t>>& strides,
                                          const Target& target) {
  constexpr int64_t kMostWarps = 16;
  constexpr int64_t kMostRegisters = 232;  // of a thread, less what the estimate may miss
  struct Rated {
    BlockSchedule schedule;
    int64_t idle;      ///< multiprocessors
    int64_t products;  ///< warps may repeat each other's work
    int64_t warps_missing;
    int64_t bytes_missing;
  };
  std::vector<Rated> rated;
  const int64_t loop = op.body->launch().loop;
  int64_t blocks = 1;
  for (int64_t size : op.body->launch().grid) blocks *= size;
  for (int64_t cluster = 1; cluster <= target.cluster; cluster *= 2) {
    // A cluster for what one block cannot fill; more blocks than multiprocessors would run one after the other.
    if (cluster > 1 && blocks * cluster > target.multiprocessors) break;
    for (int64_t rows = 1; rows <= kMostWarps; rows *= 2) {
      for (int64_t groups = 1; groups * rows <= kMostWarps && groups * cluster <= loop; groups *= 2) {
        if (loop % (groups * cluster) != 0) continue;  // the last round would leave groups idle
        for (const int64_t stages : {8, 6, 4, 3, 2}) {
          if (loop == 1 && stages != 2) continue;
          if (stages > 2 && stages > loop / (groups * cluster) + 1) continue;
          for (const bool wide : {false, true}) {
            if (wide && (!target.wide_products || rows % 4 != 0)) continue;
            const BlockSchedule schedule{rows, groups, stages, wide, cluster};
            const auto code = emit_tiles(op, "candidate", strides, schedule, target);
            if (!code) continue;
            if (code->registers > kMostRegisters || code->registers * code->threads > target.registers) continue;
            // Every multiprocessor at work; enough warps for the tensor cores' latency; enough bytes in flight for the
            // memory's.
            constexpr int64_t kGoodWarps = 8;
            constexpr int64_t kGoodBytes = 96 << 10;
            rated.push_back({schedule, std::max<int64_t>(0, target.multiprocessors - blocks * cluster), code->products,
                             std::max<int64_t>(0, kGoodWarps - rows * groups),
                             std::max<int64_t>(0, kGoodBytes - code->shared_bytes)});
          }
        }
      }
    }
  }
  std::stable_sort(rated.begin(), rated.end(), [](const Rated& a, const Rated& b) {
    const auto key = [](const Rated& r) {
      return std::tuple(r.idle, r.products, r.warps_missing, r.bytes_missing,
                        r.schedule.row_warps * r.schedule.loop_warps);
    };
    return key(a) < key(b);
  });
  std::vector<BlockSchedule> schedules;
  for (const Rated& r : rated) schedules.push_back(r.schedule);
  return schedules;
}

}  // namespace strata
