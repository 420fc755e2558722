// Which threads scan what.
#include <algorithm>

#include "emitters/kinds/scan.h"

namespace strata::emitters {
namespace {

constexpr int64_t kVectorBytes = 16;
constexpr int64_t kWarp = 32;
constexpr int64_t kMostUnroll = 8;
constexpr int64_t kElementsOfTile = 16;  ///< of a thread: so many stay in registers
constexpr int64_t kLeastLaneBytes = 4;   ///< of a column scan: 128 of a warp
constexpr int64_t kFewTiles = 4;         ///< a block goes through them faster than another kernel starts

int64_t power_of_two_from(int64_t n) {
  int64_t power = 1;
  while (power < n) power *= 2;
  return power;
}

/// The largest power of two up to `most` that divides n.
int64_t power_of_two_in(int64_t n, int64_t most) {
  int64_t power = 1;
  while (power * 2 <= most && n % (power * 2) == 0) power *= 2;
  return power;
}

/// Lanes, warps and unrolling for lines of so many vectors.
void share_line(ScanTiling& tiling, int64_t most_lanes, int64_t most_unroll, int64_t most_warps) {
  const int64_t vectors = tiling.vectors();
  tiling.lanes = std::min(most_lanes, power_of_two_from(vectors));
  const int64_t of_lane = indexing::ceil_div(vectors, tiling.lanes);
  if (of_lane <= most_unroll) {
    tiling.unroll = of_lane;
    const int64_t warps = indexing::ceil_div(tiling.lines(), tiling.lines_of_warp());
    tiling.groups = std::min<int64_t>(8, power_of_two_from(warps));
    return;
  }
  tiling.warps = std::min(most_warps, power_of_two_from(indexing::ceil_div(of_lane, most_unroll)));
  tiling.unroll = std::min(most_unroll, indexing::ceil_div(of_lane, tiling.warps));
}

}  // namespace

ScanTiling choose_scan_tiling(int64_t outer, int64_t length, int64_t inner, int64_t element_bytes, bool scalar,
                              const Target& target) {
  ScanTiling tiling;
  tiling.outer = outer, tiling.length = length, tiling.inner = inner;
  const int64_t widest = scalar ? 1 : std::max<int64_t>(kVectorBytes / element_bytes, 1);
  if (inner == 1) {
    tiling.vector = power_of_two_in(length, widest);
    const int64_t unroll = std::clamp<int64_t>(kElementsOfTile / tiling.vector, 2, kMostUnroll);
    share_line(tiling, kWarp, unroll, /*most_warps=*/8);
  } else {
    // Narrower vectors, down to 4 bytes, where lines are few: then more blocks have some.
    tiling.columns = power_of_two_in(inner, widest);
    while (tiling.columns > 1 && tiling.columns * element_bytes > kLeastLaneBytes &&
           tiling.lines() < 2 * kWarp * target.multiprocessors) {
      tiling.columns /= 2;
    }
    const int64_t side_by_side = std::min(kWarp, power_of_two_from(inner / tiling.columns));
    const int64_t unroll = std::clamp<int64_t>(kElementsOfTile / tiling.columns, 2, kMostUnroll);
    share_line(tiling, kWarp / side_by_side, unroll, /*most_warps=*/16);
  }
  const int64_t tiles = indexing::ceil_div(tiling.vectors(), tiling.tile());
  const int64_t wanted = kScanThreadsToFill * target.multiprocessors;
  const int64_t threads = tiling.line_blocks() * tiling.threads();
  tiling.tiles = tiles;
  if (tiles > kFewTiles && threads * 2 <= wanted) {
    // A thread of the second kernel reads at most kMostUnroll totals.
    const int64_t most = std::min({wanted / threads, tiles / 2, tiling.warps * tiling.lanes * kMostUnroll});
    tiling.tiles = indexing::ceil_div(tiles, most);
    tiling.chunks = indexing::ceil_div(tiles, tiling.tiles);
  }
  // Tiles of about one length: what lies beyond a line is computed too.
  tiling.unroll = indexing::ceil_div(tiling.vectors(), tiling.warps * tiling.lanes * tiling.tiles * tiling.chunks);
  return tiling;
}

}  // namespace strata::emitters
