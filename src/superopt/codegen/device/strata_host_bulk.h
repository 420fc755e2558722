// What strata_bulk.h is for a GPU, for a host compiler: tensor maps as plain values, and barriers whose copies arrive
// as late as they may - when all others have arrived and somebody waits.
#ifndef STRATA_HOST_BULK
#define STRATA_HOST_BULK
namespace strata_device {

/// Sizes and box are in elements, innermost first; strides in bytes, the innermost one is that of an element.
struct TensorMap {
  const unsigned char* base = nullptr;
  int rank = 0;
  int element = 0;
  int64 sizes[5] = {};
  int64 strides[5] = {};
  int box[5] = {};
  int swizzle = 0;  ///< bytes within which 16-byte chunks are permuted: 0, 32, 64, 128
};

template <int kRegisters>
void leave_registers() {}
template <int kRegisters>
void take_registers() {}

using Barrier = unsigned long long;

void start_barrier(Barrier* barrier, int arrivals);
inline void show_barriers() {}
void arrive(Barrier* barrier, int count = 1);
void expect_bytes(Barrier* barrier, int bytes);
void arrive_at(Barrier* barrier, int rank);
void wait(Barrier* barrier, int parity);
/// Whether a phase, counted from 0, is over: a look, which does not wait. What is on its way may come at any look.
bool passed(Barrier* barrier, unsigned phase);

void load_bytes(void* to, const void* from, int bytes, Barrier* barrier);

void load_box(void* to, const TensorMap* map, Barrier* barrier, bool shared, int blocks, int rank, const int* at);
template <bool kShared, int kRank>
void load_box(void* to, const TensorMap* map, Barrier* barrier, int blocks, const int (&at)[kRank]) {
  load_box(to, map, barrier, kShared, blocks, kRank, at);
}

#if !defined(STRATA_HOST_APART)
/// A box of a tensor, or, without a map, `plain` bytes.
struct BoxCopy {
  unsigned char* to;
  const TensorMap* map;
  std::array<int, 5> at;
  const unsigned char* from = nullptr;
  int plain = 0;
  int bytes() const {
    if (map == nullptr) return plain;
    int bytes = map->element;
    for (int d = 0; d < map->rank; ++d) bytes *= map->box[d];
    return bytes;
  }
  template <class Each>
  void each_chunk(Each each) const {
    if (map == nullptr) {
      for (int byte = 0; byte < plain; byte += 16) each(to + byte, from + byte);
      return;
    }
    const int row = map->box[0] * map->element;
    const int rows = bytes() / row;
    for (int r = 0; r < rows; ++r) {
      const unsigned char* from = map->base + at[0] * map->element;
      for (int d = 1, rest = r; d < map->rank; rest /= map->box[d], ++d) {
        from += (at[static_cast<std::size_t>(d)] + rest % map->box[d]) * map->strides[d];
      }
      for (int byte = 0; byte < row; byte += 16) {
        auto place = reinterpret_cast<std::uintptr_t>(to) + static_cast<std::uintptr_t>(r * row + byte);
        if (map->swizzle != 0) place ^= (place / 128 % static_cast<unsigned>(map->swizzle / 16)) * 16;
        each(reinterpret_cast<unsigned char*>(place), from + byte);
      }
    }
  }
};

/// What a barrier of shared memory holds, by its address; of the running cluster.
struct BarrierState {
  int expected = 0;
  int pending = 0;
  int bytes = 0;  ///< that must still come; less than 0 where they came before they were expected
  int parity = 0;
  unsigned phases = 0;          ///< that are over
  std::vector<BoxCopy> copies;  ///< on their way
};
STRATA_HOST_INLINE std::map<const Barrier*, BarrierState> barrier_states;
STRATA_HOST_INLINE void forget_barriers() { barrier_states.clear(); }

STRATA_HOST_INLINE BarrierState& state_of(const Barrier* barrier) {
  const auto found = barrier_states.find(barrier);
  if (found == barrier_states.end()) strata_host::fail("a barrier that nobody started");
  return found->second;
}
/// Ends the phase if it can: copies on their way wait until somebody waits for them.
STRATA_HOST_INLINE void end_phase(const Barrier* barrier, BarrierState& state, bool awaited) {
  if (state.pending > 0) return;
  if (awaited) {
    for (const BoxCopy& copy : state.copies) {
      copy.each_chunk([](unsigned char* to, const unsigned char* from) { std::memcpy(to, from, 16); });
      state.bytes -= copy.bytes();
    }
    state.copies.clear();
  }
  if (!state.copies.empty() || state.bytes != 0) return;
  state.parity ^= 1;
  ++state.phases;
  state.pending = state.expected;
  strata_host::team.changed();
  strata_host::team.wake(barrier);
}

STRATA_HOST_INLINE void start_barrier(Barrier* barrier, int arrivals) {
  if (reinterpret_cast<std::uintptr_t>(barrier) % 8 != 0) strata_host::fail("a misaligned barrier");
  *barrier = 0;  // in bounds, says AddressSanitizer
  barrier_states[barrier] = {arrivals, arrivals, 0, 0, 0, {}};
}

STRATA_HOST_INLINE void arrive(Barrier* barrier, int count) {
  BarrierState& state = state_of(barrier);
  state.pending -= count;
  if (state.pending < 0) strata_host::fail("more arrivals at a barrier than it expects");
  end_phase(barrier, state, strata_host::team.somebody_waits(barrier));
}

STRATA_HOST_INLINE void expect_bytes(Barrier* barrier, int bytes) {
  state_of(barrier).bytes += bytes;
  arrive(barrier);
}

STRATA_HOST_INLINE void arrive_at(Barrier* barrier, int rank) {
  const auto offset = reinterpret_cast<unsigned char*>(barrier) - cluster_memory(cluster_rank());
  arrive(reinterpret_cast<Barrier*>(cluster_memory(rank) + offset));
}

STRATA_HOST_INLINE void wait(Barrier* barrier, int parity) {
  while (state_of(barrier).parity == parity) {
    end_phase(barrier, state_of(barrier), true);
    if (state_of(barrier).parity == parity) strata_host::team.wait_at(barrier);
  }
}

STRATA_HOST_INLINE bool passed(Barrier* barrier, unsigned phase) {
  BarrierState& state = state_of(barrier);
  if (state.phases == phase) end_phase(barrier, state, strata_host::team.comes_now());
  if (state.phases - phase > 1) strata_host::fail("a barrier is asked for a phase that its parity does not tell");
  return state.phases != phase;
}

STRATA_HOST_INLINE void load_bytes(void* to, const void* from, int bytes, Barrier* barrier) {
  if (bytes % 16 != 0) strata_host::fail("a bulk copy of " + std::to_string(bytes) + " bytes");
  if (reinterpret_cast<std::uintptr_t>(to) % 16 != 0 || reinterpret_cast<std::uintptr_t>(from) % 16 != 0)
    strata_host::fail("a bulk copy at a misaligned place");
  const BoxCopy copy{static_cast<unsigned char*>(to), nullptr, {}, static_cast<const unsigned char*>(from), bytes};
  copy.each_chunk([](unsigned char* chunk, const unsigned char*) { std::memset(chunk, 0xff, 16); });
  state_of(barrier).copies.push_back(copy);
  end_phase(barrier, state_of(barrier), strata_host::team.somebody_waits(barrier));
}

STRATA_HOST_INLINE void load_box(void* to, const TensorMap* map, Barrier* barrier, bool shared, int blocks, int rank,
                                 const int* at) {
  if (map->rank != rank) strata_host::fail("a tensor map of rank " + std::to_string(map->rank));
  const int row = map->box[0] * map->element;
  if (row % 16 != 0 || (map->swizzle != 0 && row != map->swizzle)) strata_host::fail("a box of rows that TMA refuses");
  for (int d = 0; d < rank; ++d) {
    if (map->box[d] < 1 || map->box[d] > 256) strata_host::fail("a box of " + std::to_string(map->box[d]));
    if (at[d] < 0 || at[d] + map->box[d] > map->sizes[d]) strata_host::fail("a box outside its tensor");
    if (d > 0 && map->strides[d] % 16 != 0) strata_host::fail("a stride that TMA refuses");
  }
  const int mine = cluster_rank();
  for (int block = 0; block < strata_host::team.cluster_blocks(); ++block) {
    if (shared ? (blocks >> block & 1) == 0 : block != mine) continue;
    const auto there = [&](void* place) {
      return cluster_memory(block) + (static_cast<unsigned char*>(place) - cluster_memory(mine));
    };
    BoxCopy copy{there(to), map, {}, nullptr, 0};
    std::copy(at, at + rank, copy.at.begin());
    const auto alignment = static_cast<std::uintptr_t>(map->swizzle == 0 ? 128 : map->swizzle * 8);
    if (reinterpret_cast<std::uintptr_t>(copy.to) % alignment != 0) strata_host::fail("a box at a misaligned place");
    copy.each_chunk([](unsigned char* chunk, const unsigned char*) { std::memset(chunk, 0xff, 16); });
    auto* counts = reinterpret_cast<Barrier*>(there(barrier));
    state_of(counts).copies.push_back(copy);
    end_phase(counts, state_of(counts), strata_host::team.somebody_waits(counts));
  }
}
#endif  // STRATA_HOST_APART

}  // namespace strata_device
#endif  // STRATA_HOST_BULK
