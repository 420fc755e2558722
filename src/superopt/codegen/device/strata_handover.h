// One kernel's results handed to the next without a launch between them: blocks of the first count at a counter of
// their group that they have stored their results, and go on with blocks of the second when all of the group have.
// strata_host.h has what asks the GPU for a host compiler.
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
namespace strata_device {

/// A counter as it is now.
STRATA_DEVICE unsigned counted(const unsigned* counter) {
  unsigned value;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(counter) : "memory");
  return value;
}
/// Adds to a counter, after what this thread and those that it met at a barrier have stored.
STRATA_DEVICE void count(unsigned* counter, unsigned amount) {
  asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(counter), "r"(amount) : "memory");
}
/// The same by 1, from `last` to 0; the value before. What others stored before they counted is seen from here on.
STRATA_DEVICE unsigned count_around(unsigned* counter, unsigned last) {
  unsigned before;
  asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;" : "=r"(before) : "l"(counter), "r"(last) : "memory");
  return before;
}
/// Until the highest bit differs from that of `before`; what others stored before they counted is seen from here on.
STRATA_DEVICE void wait_for_count(const unsigned* counter, unsigned before) {
  unsigned now;
  do {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(counter) : "memory");
  } while (((now ^ before) & 0x80000000u) == 0);
}
/// Until the counter is `least` or more; what others stored before they counted is seen from here on.
STRATA_DEVICE void wait_for_least(const unsigned* counter, unsigned least) {
  unsigned now;
  do {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(counter) : "memory");
  } while (now < least);
}
/// Between what threads store and what TMA reads of it.
STRATA_DEVICE void fence_for_bulk_copies() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  asm volatile("fence.proxy.async.global;" ::: "memory");
#endif
}
/// As before the launch.
STRATA_DEVICE void reset(unsigned* counter) {
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(counter), "r"(0u) : "memory");
}

}  // namespace strata_device
#endif

namespace strata_device {

// Phases of a persistent kernel: blocks count at counters[0] that they have ended one, and at counters[16] that they,
// and the threads that load, have ended all; the last one of these sets both to 0 for the next launch.

/// For the thread that loads: all blocks have ended `phases` phases.
template <int kBlocks>
STRATA_DEVICE void wait_for_phase(const unsigned* counters, unsigned phases) {
  wait_for_least(counters, phases * kBlocks);
  fence_for_bulk_copies();
}
/// The team has ended its share of a phase, the `phases`-th, and goes on when all have.
template <class Team, int kBlocks>
STRATA_DEVICE void end_phase(unsigned* counters, unsigned phases) {
  fence_for_bulk_copies();
  Team::meet();
  if (Team::rank() == 0) {
    count(counters, 1);
    wait_for_least(counters, phases * kBlocks);
  }
  Team::meet();
}
/// One of `kEnds` ends: of a team, or of a thread that loads.
template <int kEnds>
STRATA_DEVICE void end_phases(unsigned* counters) {
  if (count_around(counters + 16, kEnds - 1) == kEnds - 1) reset(counters);
}

/// What one of kCount blocks adds to their group's counter: all together flip its highest bit and leave the others 0,
/// so that nobody has to reset it between launches. `first` is true in one of them.
template <int kCount>
STRATA_DEVICE unsigned share_of_count(bool first) {
  return first ? 0x80000000u - (kCount - 1) : 1u;
}

/// The team, all of which call it, have stored their results.
template <class Team, int kCount>
STRATA_DEVICE void arrive_in_group(unsigned* counter, bool first) {
  Team::meet();
  if (Team::rank() == 0) count(counter, share_of_count<kCount>(first));
}
/// And waits for the other blocks of the group, which must all be running.
template <class Team, int kCount>
STRATA_DEVICE void meet_group(unsigned* counter, bool first) {
  const unsigned before = Team::rank() == 0 ? counted(counter) : 0;
  Team::meet();
  if (Team::rank() == 0) {
    count(counter, share_of_count<kCount>(first));
    wait_for_count(counter, before);
  }
  Team::meet();
}
/// True in the block that is the last of its group to arrive. `shared` is memory of the block that nobody uses.
template <class Team, int kCount>
STRATA_DEVICE bool arrives_last(unsigned* counter, unsigned char* shared) {
  unsigned* const others = reinterpret_cast<unsigned*>(shared);
  Team::meet();
  if (Team::rank() == 0) *others = count_around(counter, kCount - 1);
  Team::meet();
  const bool last = *others == kCount - 1;
  Team::meet();  // it may be overwritten
  return last;
}

}  // namespace strata_device
