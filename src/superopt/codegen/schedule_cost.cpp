#include "superopt/codegen/schedule_cost.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "superopt/optimize/cost.h"

namespace strata {
namespace {

constexpr int64_t kUnknownRegisters = 64;
constexpr int64_t kQuarters = 4;  // of a multiprocessor, with a tensor core each

constexpr int64_t kWarp = 32;
constexpr double kWide = 0.539;  // of a product's latency and share, in products of four warps; fitted

/// What overlaps takes as long as its longest part, and a little longer where two are as long.
double together(std::initializer_list<double> parts) {
  double cubes = 0;
  for (double part : parts) cubes += part * part * part;
  return std::cbrt(cubes);
}

double doublings(int64_t count) { return count > 1 ? std::log2(static_cast<double>(count)) : 0; }

/// Blocks that one multiprocessor holds at a time.
int64_t resident_blocks(const BlockCode& code, const Target& target) {
  const int64_t registers =
      code.registers > 0 ? std::min(kMostThreadRegisters, int64_t{code.registers}) : kUnknownRegisters;
  return std::clamp<int64_t>(
      std::min({target.multiprocessor_shared_memory / (code.shared_bytes + target.reserved_shared_memory),
                target.registers / (registers * code.computing_threads()),
                target.threads_per_multiprocessor / code.threads}),
      1, target.blocks_per_multiprocessor);
}

/// Blocks of a multiprocessor, of those that have the most. Clusters lie within a group of multiprocessors, and do not
/// fill every group.
int64_t blocks_each(int64_t blocks, const BlockSchedule& schedule, const Target& target) {
  const int64_t multiprocessors =
      schedule.cluster_blocks() >= target.large_cluster ? target.cluster_multiprocessors : target.multiprocessors;
  return ceil_div(blocks, multiprocessors);
}

/// One warp waits for its own results; many (of a quarter) wait for their quarter.
double computing_seconds(double products, double elements, double warps, bool overlaps, const Rates& rates) {
  const auto both = [&](double a, double b) { return overlaps ? together({a, b}) : a + b; };
  const double alone = both(products * rates.product_latency, elements * rates.element_latency);
  const double shared = both(products * rates.product_share, elements * rates.element_share);
  return together({alone, std::max(1.0, warps) * shared});
}

/// Bytes that memory moves for a byte of a tile; `strides` are those of the whole tensor in memory.
double line_waste(const TensorType& tile, const TensorType& whole, const std::vector<int64_t>& strides) {
  const auto along = std::find(strides.begin(), strides.end(), 1);
  if (along == strides.end()) return 1;
  const auto d = static_cast<size_t>(along - strides.begin());
  const int64_t run = tile.shape[d] * size_of(tile.dtype);
  return line_bytes(run, run, tile.shape[d] == whole.shape[d]) / static_cast<double>(run);
}

}  // namespace

int64_t blocks_of(const Operation& op, const BlockSchedule& schedule) {
  int64_t blocks = schedule.cluster;
  for (int64_t size : op.body->launch().grid) blocks *= size;
  return blocks;
}

int64_t spreading_bytes(int64_t blocks, const BlockSchedule& schedule, const Target& target) {
  constexpr int64_t kMostEach = 4;  // with more, an uneven share is a small one
  const int64_t each = blocks_each(blocks, schedule, target);
  if (2 * blocks < target.multiprocessors || each > kMostEach) return 0;
  return target.multiprocessor_shared_memory / (each + 1) - target.reserved_shared_memory + 1;
}

double device_bytes(const Operation& op, const OperandPlaces& strides) {
  const Graph& body = *op.body;
  double bytes = 0;
  for (size_t n = 0; n < body.inputs().size(); ++n) {
    double waste = 1;
    for (const Operation& inner : body.operations()) {
      if (inner.kind != OpKind::InIter || inner.operands[0] != body.inputs()[n]) continue;
      waste = std::max(waste, line_waste(body.type(inner.results[0]), body.type(inner.operands[0]), strides[n]));
    }
    bytes += waste * static_cast<double>(body.type(body.inputs()[n]).bytes());
  }
  for (TensorId id : body.outputs()) bytes += static_cast<double>(body.type(id).bytes());
  return bytes;
}

double handover_seconds(const BlockCode& code, int64_t rounds, bool clusters, const Target& target) {
  const Rates& rates = target.rates;
  const BlockWork& work = code.work;
  const double warps = static_cast<double>(code.threads / kWarp) / kQuarters;
  const double compute = computing_seconds(work.products, work.elements, warps, false, rates);
  const double bytes = static_cast<double>(work.once_bytes + work.iterations * work.iteration_bytes);
  const auto iterations = static_cast<double>(work.iterations);
  // Loads of iterations that are not in flight together come one after the other, from the L2 cache.
  const double trips = std::ceil(iterations / static_cast<double>(std::max<int64_t>(1, work.ahead))) - 1;
  const double loop = iterations * (rates.row_iteration + compute) + trips * rates.load_latency / 2;
  const double round = rates.load_latency + std::max(loop, bytes / rates.multiprocessor_bandwidth) +
                       computing_seconds(work.products_after, work.elements_after, warps, false, rates);
  return rates.handover + (clusters ? rates.handover_of_clusters : 0) + static_cast<double>(rounds) * round;
}

double schedule_seconds(const Operation& op, const OperandPlaces& strides, const BlockCode& code,
                        const BlockSchedule& schedule, const Target& target) {
  const Rates& rates = target.rates;
  const int64_t blocks = blocks_of(op, schedule);
  const BlockWork& work = code.work;
  const int64_t each = blocks_each(blocks, schedule, target);
  const int64_t resident = std::min(each, resident_blocks(code, target));
  const double rounds = std::ceil(static_cast<double>(each) / static_cast<double>(resident));
  const auto blocks_now = static_cast<double>(resident);
  // A warp that asks TMA for tiles computes nothing.
  const auto computing_warps =
      static_cast<double>(schedule.has_ring() ? schedule.row_warps * schedule.loop_warps : code.threads / kWarp);
  const double warps = blocks_now * computing_warps / kQuarters;  // of a quarter
  const double wide = code.wide.empty() ? 1 : kWide;

  const auto computing = [&](double products, double elements) {
    return computing_seconds(products * wide, elements, warps, work.overlaps, rates);
  };
  const auto iterations = static_cast<double>(work.iterations);
  const bool rows = work.products + work.products_after == 0;
  const double waiting = rows ? rates.row_iteration : schedule.has_ring() ? rates.bulk_iteration : rates.iteration;
  const double compute = iterations * (waiting + computing(work.products, work.elements));
  const double reading = blocks_now * computing_warps * iterations * work.read_bytes / rates.shared_bandwidth;

  const double groups = blocks_now * static_cast<double>(schedule.loop_warps);
  const double streamed = groups * iterations * static_cast<double>(work.iteration_bytes);
  // Products that end in the next iteration keep their tiles half of it.
  const double ahead = std::max(0.5, static_cast<double>(work.ahead) - (work.overlaps ? 0.5 : 0));
  const double in_flight = groups * ahead * static_cast<double>(work.iteration_bytes);
  const double latency = rates.load_latency + rates.sharing_wait * doublings(schedule.sharers);
  const double stream = streamed > 0 ? streamed / std::min(rates.multiprocessor_bandwidth, in_flight / latency) : 0;

  const double device = device_bytes(op, strides) / rates.memory_bandwidth;
  // What neighbours bring each other leaves the L2 cache once.
  const double brought = static_cast<double>(work.shared_bytes) * (1 - 1 / static_cast<double>(schedule.sharers));
  const double through_l2 =
      static_cast<double>(blocks) *
      (static_cast<double>(work.once_bytes) +
       static_cast<double>(schedule.loop_warps) * iterations * (static_cast<double>(work.iteration_bytes) - brought)) /
      rates.l2_bandwidth;
  const double start = rates.first_byte + (schedule.has_ring() ? rates.bulk_start : 0) +
                       (schedule.sharers > 1 ? rates.sharing_start : 0);
  const double once = blocks_now * static_cast<double>(work.once_bytes) / rates.multiprocessor_bandwidth;
  const double combine = rates.group_combination * doublings(schedule.loop_warps) +
                         blocks_now * static_cast<double>(work.partial_bytes) / rates.partial_bandwidth +
                         rates.cluster_combination * doublings(schedule.cluster);
  const double after = computing(work.products_after, work.elements_after);
  return std::max(0.0, target.kernel_seconds() - rates.first_byte) +
         together({rounds * compute, rounds * stream, rounds * reading, device, through_l2}) +
         rounds * (start + once + combine + after);
}

}  // namespace strata
