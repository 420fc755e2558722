#include "emitters/kinds/reduction_tiling.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <optional>
#include <tuple>

namespace strata::emitters {
namespace {

using indexing::ceil_div;
using indexing::kWarpSize;

constexpr int64_t kVectorBytes = 16;
constexpr int64_t kThreads = 256;  ///< of a block where nothing asks for more or fewer
constexpr int64_t kMaxThreads = kMostBlockThreads;
constexpr int64_t kColumnThreads = 512;    ///< of a block that keeps columns in registers
constexpr int64_t kColumnRows = 8;         ///< of such a thread
constexpr int64_t kColumnRegisters = 128;  ///< that these may take
constexpr int64_t kFlightBytes = 128;      ///< of columns, that a thread has on their way

// Of columns that blocks share, on an H200, 2026-11-29, sums of 13 shapes by 1 to 1,000 blocks a column:
constexpr double kVectorSeconds = 0.052e-9;  ///< a vector that a thread loads, where a block has kMaxThreads
constexpr double kUpdateSeconds = 10e-9;     ///< of a block that updates what other blocks update too

// Of rows that stay in registers: 11 norms and softmaxes of 2048 to 8192 elements in blocks of 128 to 1024 threads, on
// an H200, 2026-11-29. Multiprocessors that hold less take up to 1.4 times as long, of 16-bit floats twice.
constexpr int64_t kResidentBytes = int64_t{48} << 10;  ///< of one array, by all blocks of a multiprocessor
constexpr int64_t kRowRegisters = 26;                  ///< of a thread, for all but what it has of arrays
constexpr int64_t kRegisterUnit = 8;                   ///< registers that a thread is given together

constexpr int64_t kOtherRegisters = 36;  ///< of it, for all but its elements
// Of blocks that keep a row.
constexpr int64_t kOtherBytes = 1024;  ///< of shared memory: parts of results

int64_t power_above(int64_t x) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(x, 1))));
}
int64_t power_below(int64_t x) {
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(x, 1))));
}

class Choice {
 public:
  Choice(const ReductionHeroes& heroes, const ReductionLoad& load, const Target& target)
      : groups_(heroes.groups),
        heroes_(heroes.heroes),
        rows_(heroes.rows()),
        load_(load),
        processors_(target.multiprocessors),
        target_(target) {
    const size_t rank = groups_.size();
    for (const DimensionGroup& group : groups_) {
      tiling_.shape.push_back(group.size);
      result_.tiled.reduced.push_back(group.reduced);
    }
    tiling_.threads.assign(rank, 1);
    tiling_.vector.assign(rank, 1);
    tiling_.unroll.assign(rank, 1);
    for (size_t i = 0; i < rank; ++i) {
      if (groups_[i].reduced) tiling_.unroll[i] = groups_[i].size;
    }
  }

  ReductionTiling run() {
    choose_vector();
    if (!groups_.back().reduced) {
      columns();
    } else if (is_short()) {
      short_rows();
    } else {
      long_rows();
    }
    return std::move(result_);
  }

 private:
  int64_t vector() const { return tiling_.vector.back(); }
  bool enough_blocks(int64_t blocks) const { return blocks >= 2 * processors_; }

  int64_t most_vector() const {
    if (!groups_.back().reduced && load_.one_slot) return 1;
    return std::max<int64_t>(std::min<int64_t>(kVectorBytes / load_.element_bytes, 8), 1);
  }

  void choose_vector() {
    while (vector() * 2 <= most_vector() && groups_.back().size % (vector() * 2) == 0 &&
           registers(vector() * 2) <= kMostThreadRegisters)
      tiling_.vector.back() *= 2;
  }

  /// Of a thread that has a vector of each array: all of them are loaded before what is computed of them is stored.
  int64_t registers(int64_t vector) const {
    const int64_t sums = std::ssize(heroes_) * (groups_.back().reduced ? 1 : vector);
    return kOtherRegisters + ceil_div(vector * load_.all_bytes, 4) + sums;
  }

  /// Of a block, so that registers suffice for 16 bytes of each array, in one vector or several elements: few where a
  /// fusion has many arrays, which may have little to do with each other.
  int64_t most_threads() const {
    const int64_t on_their_way = std::max(vector(), kVectorBytes / std::min(load_.element_bytes, kVectorBytes));
    return std::clamp(power_below(target_.registers / registers(on_their_way)), kThreads, kMaxThreads);
  }

  /// Whether rows that begin anywhere are long enough for whole vectors and edges.
  bool should_align() const {
    constexpr int64_t kLeastLength = 1024;
    return vector() < most_vector() && groups_.back().size >= kLeastLength;
  }

  /// The widest that registers allow.
  int64_t aligned_vector() const {
    int64_t width = vector();
    while (width * 2 <= most_vector() && registers(width * 2) <= kMostThreadRegisters) width *= 2;
    return width;
  }

  /// Rows of at most a vector a lane, or of a few vectors, narrow because rows begin anywhere.
  bool is_short() const {
    const int64_t size = groups_.back().size;
    if (ceil_div(size, vector()) <= kWarpSize) return true;
    return groups_.size() > 1 && outer_reduced() == 1 && size <= kWarpSize * std::min(most_vector(), kMostRepetitions);
  }

  void short_rows() {
    const size_t last = groups_.size() - 1;
    // A row of 3, no longer than a vector of 4, is one thread's, too: of four lanes one would be idle, and all would
    // exchange what they have and compute what comes of the sum.
    const bool is_alone = last > 0 && groups_[last].size <= most_vector();
    const int64_t vectors = ceil_div(groups_[last].size, vector());
    tiling_.threads[last] = is_alone                           ? 1
                            : last == 0 || outer_reduced() > 1 ? power_above(vectors)
                                                               : lanes_of_row(vectors);
    tiling_.unroll[last] = ceil_div(vectors, tiling_.threads[last]);
    int64_t rows = std::max<int64_t>(kThreads / tiling_.threads[last], 1);
    if (last > 0) {
      while (rows * tiling_.threads[last] > kWarpSize && !enough_blocks(ceil_div(rows_, rows))) rows /= 2;
      if (outer_reduced() > 1) rows = share_pieces(rows);
      tiling_.threads[last - 1] = rows;
      int64_t& repeat = tiling_.unroll[last - 1];
      const int64_t bytes = tiling_.unroll[last] * vector() * load_.element_bytes;
      while (!load_.one_slot && repeat < 4 && repeat * 2 * bytes <= 64 &&
             enough_blocks(ceil_div(groups_[last - 1].size, rows * repeat * 2) / 4)) {
        repeat *= 2;
      }
    } else {
      tiling_.threads[last] = kWarpSize;
    }
    finish("multi-row reduction",
           is_alone ? fmt::format("a row of {} is no more than a thread reads at once", groups_[last].size)
           : vectors > kWarpSize
               ? fmt::format("a row of {} is few vectors of {} for each lane of a warp", groups_[last].size, vector())
               : fmt::format("a row of {} is at most a vector of {} for each lane of a warp", groups_[last].size,
                             vector()));
  }

  /// The lanes that share a row of so many vectors. With one for each vector, lanes without any are idle, sums take
  /// most shuffles, and all lanes wait while what comes of a sum is computed; with fewer, loads of neighbouring rows
  /// lie apart, and registers hold fewer threads. Of equal times most lanes, which have most loads on their way.
  int64_t lanes_of_row(int64_t vectors) const {
    constexpr double kLess = 0.97;  // the model is not exact
    int64_t best = std::min<int64_t>(power_above(vectors), kWarpSize);
    double least = row_cycles(vectors, best);
    for (int64_t lanes = best / 2; lanes > 0 && ceil_div(vectors, lanes) <= kMostRepetitions; lanes /= 2) {
      const double cycles = row_cycles(vectors, lanes);
      if (cycles >= kLess * least) continue;
      least = cycles;
      best = lanes;
    }
    return best;
  }

  /// Cycles that a row takes a multiprocessor: what takes longest of memory, instructions, and the nearest cache, and a
  /// share of the others. Fitted to 15 norms, softmaxes, gradients, quantisations and losses of rows of 7 to 256
  /// elements by 1 to 32 lanes on an H200, 2026-11-30: what it chooses takes 1 % longer than the fastest, 7 % at most.
  double row_cycles(int64_t vectors, int64_t lanes) const {
    constexpr double kLanesOfCycle = 128;  // four warps begin an instruction
    constexpr double kLineBytes = 128;     // of the nearest cache, which gives as many in a cycle
    constexpr double kLinesOfCycle = 4;    // of which these are
    constexpr double kSectorBytes = 32;    // of which it stores two in a cycle, or parts of two
    constexpr double kSectorsOfCycle = 2;
    constexpr double kExchange = 6;          // operations that a shuffle and combining take as long as
    constexpr double kRest = 0.5;            // of what takes less time than the longest, and is not hidden by it
    constexpr double kElementRegisters = 2;  // as it comes and as it is computed with
    constexpr double kTogether = 4;          // arrays of which loads are on their way
    constexpr double kSideBySide = 2;        // operations of a thread that need not wait for each other
    const Rates& rates = target_.rates;
    const double cycles = rates.scalar_rate / 2 / kLanesOfCycle;  // of all multiprocessors in a second
    const auto rows = static_cast<double>(rows_), each = static_cast<double>(lanes);
    const double memory = load_.moved_bytes / rows / rates.memory_bandwidth * cycles;

    const auto steps = static_cast<double>(ceil_div(vectors, lanes));
    const double exchanged = kExchange * std::log2(each) * static_cast<double>(heroes_.size());
    const double of_lane =
        steps * (load_.operations * static_cast<double>(vector()) + load_.loads) + exchanged + load_.row_operations;
    // Of so many threads some issue an instruction in each cycle. Those that registers hold may be fewer.
    const auto kept = static_cast<double>(load_.kept_registers);
    // Of what is loaded again, a few arrays are on their way together.
    const double arrays = kept > 0 ? kept : std::clamp(load_.loads, 1.0, kTogether);
    const double registers =
        static_cast<double>(kRowRegisters) + kElementRegisters * arrays * steps * static_cast<double>(vector());
    const double resident = std::min(static_cast<double>(target_.registers) / registers,
                                     static_cast<double>(target_.threads_per_multiprocessor)) *
                            static_cast<double>(processors_);
    const double busy = rates.dependent_operation * rates.scalar_rate / kSideBySide;
    const double idle = std::max(busy / std::min(rows * each, resident), 1.0);
    const double instructions = of_lane * each / kLanesOfCycle * idle;

    const auto loaded = static_cast<double>(vector() * load_.load_bytes);
    const auto stored = static_cast<double>(vector() * load_.store_bytes);
    double loading = 0, storing = 0;  // of one array, of all arrays
    for (int64_t first = 0; first < vectors; first += lanes) {
      const auto together = static_cast<double>(std::min(lanes, vectors - first));
      const double run = together * loaded;
      const double lines = 1 + (run - loaded) / kLineBytes;
      loading += std::max({run / kLineBytes, lines / kLinesOfCycle, each / kWarpSize});
      if (stored > 0) storing += std::max(together * stored / kSectorBytes, 1.0) / kSectorsOfCycle;
    }
    // What stays in registers is loaded once.
    const double cached = loading * (kept > 0 ? kept : load_.loads) + storing;
    const double longest = std::max({memory, instructions, cached});
    return longest + kRest * (memory + instructions + cached - longest);
  }

  /// Of rows of several short pieces, as many as `rows` in a block: where these are too few for all threads of the GPU,
  /// threads share the pieces of a row, too. A block then has fewer rows, as long as their pieces that lie together are
  /// a line of memory, so that more blocks run. Returns how many it has.
  int64_t share_pieces(int64_t rows) {
    constexpr int64_t kLineBytes = 128;
    const size_t last = groups_.size() - 1;
    const size_t along = largest_outer();
    const int64_t size = groups_[along].size;
    const int64_t lanes = tiling_.threads[last];
    rows = std::min(rows, power_above(groups_[last - 1].size));
    const auto warps = [&] { return std::max<int64_t>(kWarpSize / (rows * lanes), 1); };  // pieces of a whole warp
    const auto line = [&] { return rows / 2 * groups_[last].size * load_.element_bytes >= kLineBytes; };
    while (rows > 1 && line() && warps() * 2 <= size && !enough_blocks(ceil_div(rows_, rows))) rows /= 2;
    const int64_t blocks = ceil_div(rows_, rows);
    const int64_t repeat = load_.rereads ? 2 : 8;  // pieces of a thread
    int64_t threads = warps();
    while (ceil_div(size, threads) > repeat && threads * 2 * rows * lanes <= most_threads() &&
           !enough_blocks(blocks * threads * rows * lanes / kThreads))
      threads *= 2;
    const int64_t busy = ceil_div(size, ceil_div(size, threads));
    tiling_.threads[along] = ceil_div(busy, warps()) * warps();
    tiling_.unroll[along] = ceil_div(size, tiling_.threads[along]);
    return rows;
  }

  void long_rows() {
    const size_t last = groups_.size() - 1;
    const bool align = should_align() && aligned_vector() > vector();
    result_.tiled.aligned_rows = align;
    if (align) tiling_.vector.back() = aligned_vector();
    const int64_t vectors = ceil_div(groups_[last].size, vector());
    const int64_t repeat = vector() == 1 ? 16 : load_.rereads ? 2 : 8;
    const int64_t most = std::min(enough_blocks(rows_) ? 2 * kThreads : kMaxThreads, most_threads());
    const int64_t outer = outer_reduced();
    const int64_t wanted = std::clamp(power_above(ceil_div(outer * vectors, repeat)), int64_t{kWarpSize}, most);
    int64_t threads = std::clamp(power_above(ceil_div(vectors, repeat)), int64_t{kWarpSize}, most);
    if (load_.rereads && ceil_div(vectors, threads) > repeat) threads = keep_rows(vectors, threads);
    if (outer > 1 && wanted > threads) threads = share_outer(vectors, wanted);
    if (outer == 1 && load_.kept_bytes > 0 && load_.rereads && result_.tiled.in_registers == 0 && enough_blocks(rows_))
      threads = resident_threads(vectors, threads);
    tiling_.threads[last] = threads;
    const int64_t repetitions = ceil_div(vectors, threads);
    const bool exact = (align && last == 1) || result_.tiled.in_registers > 0;
    tiling_.unroll[last] = exact ? repetitions : whole_groups(repetitions);
    const int64_t together = tiling_.threads_per_block();
    if (last > 0 && together < kThreads / 2 && enough_blocks(ceil_div(rows_, kThreads / 2 / together))) {
      tiling_.threads[last - 1] = kThreads / 2 / together;
    }
    split();
    finish("row reduction", fmt::format("rows of {} lie together in memory", groups_[last].size));
  }

  /// Threads of a row, no more than given: fewer have more of it each, so that registers, of which every thread needs
  /// some besides, have more rows at the same time, where there are so many.
  int64_t resident_threads(int64_t vectors, int64_t threads) const {
    const auto elements = [&](int64_t of) { return ceil_div(vectors, of) * vector(); };
    const auto resident = [&](int64_t of) {
      const int64_t registers =
          kRowRegisters + elements(of) * load_.kept_registers + vector() * load_.repeated_registers;
      const int64_t blocks = target_.registers / (of * ceil_div(registers, kRegisterUnit) * kRegisterUnit);
      return std::min(blocks, ceil_div(rows_, processors_)) * groups_.back().size * load_.element_bytes;
    };
    const auto stays = [&](int64_t of) {
      return elements(of) * load_.kept_bytes <= kRowRegisterBytes && ceil_div(vectors, of) <= kMostRepetitions;
    };
    int64_t best = threads;
    for (int64_t fewer = threads / 2; fewer >= kThreads / 2 && stays(fewer); fewer /= 2) {
      if (resident(best) >= kResidentBytes) break;
      if (resident(fewer) > resident(best)) best = fewer;
    }
    return best;
  }

  /// How many rows of the innermost group one output has.
  int64_t outer_reduced() const {
    int64_t count = 1;
    for (size_t i = 0; i + 1 < groups_.size(); ++i) count *= groups_[i].reduced ? groups_[i].size : 1;
    return count;
  }

  /// The largest of the outer groups that are reduced.
  size_t largest_outer() const {
    size_t along = groups_.size();
    for (size_t i = 0; i + 1 < groups_.size(); ++i) {
      if (groups_[i].reduced && (along == groups_.size() || groups_[i].size > groups_[along].size)) along = i;
    }
    return along;
  }

  /// Gives the largest outer group that is reduced threads of its own, so that a block has up to as many as wanted, and
  /// returns those along the innermost group: whole warps. What a thread goes through is as little as can be; of equal
  /// choices, the one with longest runs in memory.
  int64_t share_outer(int64_t vectors, int64_t wanted) {
    const size_t along = largest_outer();
    const int64_t size = groups_[along].size;
    int64_t threads = kWarpSize, least = 0;
    for (int64_t each = kWarpSize; each <= wanted; each += kWarpSize) {
      const int64_t rows = ceil_div(size, ceil_div(size, std::min(wanted / each, size)));  // no more than are busy
      const int64_t points = ceil_div(vectors, each) * ceil_div(size, rows);
      if (least > 0 && points > least) continue;
      if (each > kWarpSize && ceil_div(vectors, each) == ceil_div(vectors, each - kWarpSize)) continue;
      least = points;
      threads = each;
      tiling_.threads[along] = rows;
    }
    tiling_.unroll[along] = ceil_div(size, tiling_.threads[along]);
    return threads;
  }

  /// The threads of a block that keeps a row in registers and shared memory, beside another one if possible; as given
  /// if it cannot.
  int64_t keep_rows(int64_t vectors, int64_t threads) {
    if (groups_.size() != 2 || load_.kept_bytes == 0 || !enough_blocks(rows_)) return threads;
    for (const int blocks : {2, 1}) {
      for (const int64_t each : {kMaxThreads / blocks, kMaxThreads / blocks / 2}) {
        const int64_t registers = target_.registers / (blocks * each) - kOtherRegisters;
        const int64_t kept = std::max<int64_t>(registers, 0) / (vector() * load_.kept_registers);
        const int64_t rest = std::max<int64_t>(groups_.back().size - kept * each * vector(), 0);
        const int64_t bytes = rest * load_.kept_bytes + kOtherBytes + target_.reserved_shared_memory;
        if (blocks * bytes > target_.multiprocessor_shared_memory) continue;
        result_.min_blocks = blocks;
        if (kept < ceil_div(vectors, each)) result_.tiled.in_registers = kept;  // else all are there
        return each;
      }
    }
    return threads;
  }

  void columns() {
    const size_t last = groups_.size() - 1;
    const size_t along = last - 1;  // groups take turns
    const int64_t length = groups_[along].size;
    const int64_t columns = ceil_div(groups_[last].size, vector());
    const int64_t outer = rows_ / groups_[last].size;
    int64_t lanes = std::min<int64_t>(columns, kWarpSize);
    const auto blocks = [&] { return outer * ceil_div(columns, lanes); };
    // As few lanes as have whole lines of 128 bytes, where else too few blocks would run. Where blocks cannot share
    // columns of several arrays, of which threads compute more than they load, two sectors, if each block has a
    // multiprocessor then.
    const bool computes = !load_.may_split && load_.all_bytes > 2 * load_.element_bytes;
    const auto narrower = [&] {
      const int64_t bytes = lanes / 2 * vector() * load_.element_bytes;
      return bytes >= 128 || (bytes >= 64 && computes && blocks() * 2 <= processors_);
    };
    while (lanes % 2 == 0 && narrower() && length >= 64 && blocks() * 8 < processors_ * 7) lanes /= 2;
    const int64_t unit = kWarpSize / std::gcd(lanes, int64_t{kWarpSize});  // for whole warps
    const bool alone = outer_reduced() == length;                          // else the largest group is shared
    const int64_t sharing = alone ? blocks_of_column(length * lanes, blocks()) : 1;
    // What is narrower than a vector of 16 bytes has enough on its way only by many threads, once all blocks are there.
    const bool wide = vector() * load_.element_bytes >= kVectorBytes;
    const bool few = sharing > 1 && (wide || sharing * blocks() < 2 * processors_);
    const int64_t most = (few || enough_blocks(blocks()) ? kThreads : most_threads()) / lanes / unit * unit;
    if (short_columns(length, columns, outer, unit)) {
      split();
      return finish("column reduction", fmt::format("{} columns of {} terms lie together: a block has {} such places",
                                                    groups_[last].size, length, tiling_.threads[along - 1]));
    }
    int64_t rows = power_below(length / 4);
    if (rows < vector() || (unit > 1 && length < 2 * unit && columns >= kWarpSize)) rows = 1;
    if (const auto kept = kept_columns(length, columns)) {
      std::tie(lanes, rows) = *kept;
      // Of short columns: a multiprocessor has 32 blocks at a time, however small.
      while (2 * lanes <= std::min(columns, int64_t{kWarpSize}) && 2 * lanes * rows <= kThreads &&
             enough_blocks(outer * ceil_div(columns, 2 * lanes)))
        lanes *= 2;
    } else if (rows > 1 || columns < kWarpSize) {
      rows = std::max(std::min(ceil_div(std::max(rows, vector()), unit) * unit, most), unit);
    } else {
      lanes = std::min(ceil_div(columns, kWarpSize) * kWarpSize, kThreads);
    }
    tiling_.threads[last] = lanes;
    tiling_.threads[along] = rows;
    in_flight(along, ceil_div(ceil_div(length, rows), sharing));
    if (!alone) split();
    finish("column reduction", fmt::format("columns of {} outputs lie together in memory", groups_[last].size));
  }

  /// How many blocks had better share the outputs of one, which goes through `vectors` of each array. They need results
  /// that are filled before, and update these in turn; of more than are at work at a time each only has less to do.
  int64_t blocks_of_column(int64_t vectors, int64_t blocks) const {
    if (!load_.may_split || blocks * 8 >= processors_ * 7) return 1;
    const double arrays = static_cast<double>(load_.all_bytes) / static_cast<double>(load_.element_bytes);
    const double waiting = static_cast<double>(kMaxThreads) / static_cast<double>(most_threads());
    const double alone = static_cast<double>(vectors) * arrays * kVectorSeconds * waiting;
    const auto best = static_cast<int64_t>(std::sqrt(alone / kUpdateSeconds));
    const auto count = static_cast<double>(std::clamp<int64_t>(best, 1, ceil_div(2 * processors_, blocks)));
    const double fills = static_cast<double>(heroes_.size()) * target_.rates.launch;
    return alone / count + count * kUpdateSeconds + fills < alone ? static_cast<int64_t>(count) : 1;
  }

  int64_t most_in_flight() const { return std::clamp<int64_t>(kFlightBytes / (vector() * load_.element_bytes), 1, 8); }

  /// A thread's rows one after the other, as many as can be on their way at once, in groups that are as equal as can
  /// be: 17 rows are 3 times 6, not 3 times 8.
  void in_flight(size_t along, int64_t rows) {
    tiling_.unroll[along] = ceil_div(rows, most_in_flight());
    tiling_.vector[along] = ceil_div(rows, tiling_.unroll[along]);
  }

  /// Where a few columns of a few terms lie together, and there are many such places: a thread has all terms of its
  /// columns, on their way at once, and a block has the columns of several places. Terms that are gone through once may
  /// be more, where threads are enough without sharing them. `unit`: of rows of threads, of which others are idle.
  bool short_columns(int64_t length, int64_t columns, int64_t outer, int64_t unit) {
    constexpr int64_t kLongest = 64;                    // terms
    const int64_t enough = length < unit ? 256 : 1024;  // threads of a multiprocessor
    const size_t last = groups_.size() - 1;
    if (last < 2 || groups_[last - 2].reduced || columns * 2 > kThreads) return false;
    const bool at_once = length <= most_in_flight() && length * vector() * load_.element_bytes <= kFlightBytes;
    const bool many = !load_.rereads && length <= kLongest && outer * columns >= processors_ * enough;
    if (!at_once && !many) return false;
    const int64_t places = groups_[last - 2].size;
    int64_t each = std::min(power_above(kThreads / columns), power_below(places));
    if (columns * each < kWarpSize) return false;
    while (each > 1 && columns * each / 2 >= kWarpSize && !enough_blocks(outer / places * ceil_div(places, each)))
      each /= 2;
    tiling_.threads[last] = columns;
    tiling_.threads[last - 2] = each;
    in_flight(last - 1, length);
    return true;
  }

  /// Of columns that are gone through again: lanes and rows of a block whose threads have all of their elements in
  /// registers; nothing where these do not reach.
  std::optional<std::pair<int64_t, int64_t>> kept_columns(int64_t length, int64_t columns) const {
    const ColumnPart most = most_column_part(columns, vector(), load_.element_bytes);
    const int64_t unit = kWarpSize / std::gcd(most.lanes, int64_t{kWarpSize});
    const int64_t rows = ceil_div(std::max(ceil_div(length, kColumnRows), vector()), unit) * unit;
    const bool fits = kColumnRows * vector() * load_.kept_registers <= kColumnRegisters && length <= most.rows &&
                      most.lanes * rows <= kColumnThreads;
    return load_.rereads && fits ? std::optional(std::pair(most.lanes, rows)) : std::nullopt;
  }

  /// Repetitions, as many as can be on their way together or a multiple of that.
  static int64_t whole_groups(int64_t repetitions) {
    return repetitions <= 8 ? repetitions : ceil_div(repetitions, 8) * 8;
  }

  /// Lets blocks share outputs where there are too few.
  void split() {
    if (!load_.may_split) return;
    const int64_t wanted = processors_ * std::max<int64_t>(2048 / tiling_.threads_per_block(), 1);
    const int64_t blocks = tiling_.blocks();
    if (blocks * 2 > wanted || blocks * 8 >= processors_ * 7) return;
    size_t most = 0;
    int64_t repeated = 0;
    for (size_t i = 0; i < groups_.size(); ++i) {
      if (!groups_[i].reduced || tiling_.unroll[i] <= repeated) continue;
      repeated = tiling_.unroll[i];
      most = i;
    }
    constexpr int64_t kLeast = 4;  // repetitions for which an atomic update pays
    tiling_.unroll[most] = std::min(whole_groups(std::max(ceil_div(repeated * blocks, wanted), kLeast)), repeated);
  }

  void finish(const std::string& emitter, const std::string& reason) {
    result_.tiled.tiling = tiling_;
    result_.emitter = emitter;
    result_.reason = reason;
  }

  const std::vector<DimensionGroup>& groups_;
  const std::vector<ReductionHero>& heroes_;
  const int64_t rows_;
  const ReductionLoad& load_;
  const int64_t processors_;
  const Target& target_;
  indexing::Tiling tiling_;
  ReductionTiling result_;
};

}  // namespace

int64_t most_kept_row(const Target& target) {
  const int64_t registers = std::max<int64_t>(target.registers - kOtherRegisters * kMaxThreads, 0);
  return 4 * registers +
         std::max<int64_t>(target.multiprocessor_shared_memory - target.reserved_shared_memory - kOtherBytes, 0);
}

ColumnPart most_column_part(int64_t columns, int64_t vector, int64_t element_bytes) {
  constexpr int64_t kLineBytes = 128;
  const int64_t lanes =
      std::clamp(kLineBytes / (vector * element_bytes), int64_t{1}, std::min<int64_t>(columns, kWarpSize));
  return {lanes, kColumnRows * std::max<int64_t>(kColumnThreads / lanes, 1)};
}

ReductionTiling choose_reduction_tiling(const ReductionHeroes& heroes, const ReductionLoad& load,
                                        const Target& target) {
  return Choice(heroes, load, target).run();
}

}  // namespace strata::emitters
