// The runtime of a mega-kernel, one scheduling core for every target: the words that all its parts share. The core is
// freestanding C++17, which NVRTC compiles as it is: no standard headers, no exceptions, no virtual functions. Memory
// and synchronisation are those of a Platform, a type with these members:
//
//   types    Counter      32 bits in device or shared memory that many threads access
//            Barrier      an mbarrier in shared memory: a phase ends when its arrivals and its bytes have come
//            TaggedWord   16 bytes in device memory that are read and written by one access
//   numbers  kCheckInterval   polls between two looks at abort word and clock
//            kCounterStride   Counters from one event's to the next one's, so that they share no cache line
//
//   device memory
//     unsigned load(const Counter&)           relaxed
//     void store(Counter&, unsigned)          relaxed
//     void acquire()                          one fence, after loads: what the writers of what this thread has loaded
//                                             released is visible from here on, to it and to those that meet it
//     void acquire_for_copies()               the same, for bulk copies that start later as well
//     void release_for_copies()               what this thread stored may be read by bulk copies of who acquires for
//                                             them, after the next release of this thread or of one that it meets
//     void add_release(Counter&, unsigned)    what the thread wrote, and those that it met, is visible to who acquires
//     void store_release(Counter&, unsigned)  the same
//     unsigned add(Counter&, unsigned)        acquire and release; what it was before
//     unsigned compare_exchange(Counter&, unsigned expected, unsigned desired)     the same
//     Tagged load_tagged(const TaggedWord&)   relaxed
//     void store_tagged(TaggedWord&, const Tagged&)     relaxed
//
//   memory of the host
//     unsigned load_from_host(const Counter&) relaxed
//     void release_to_host(Counter&, unsigned)    what the thread wrote is visible to the host when it acquires this
//     void store_token(int* place, int token) plain
//
//   shared memory of a worker
//     void start(Barrier&, unsigned arrivals)
//     void arrive(Barrier&, unsigned count)   count arrivals; releases
//     void arrive_and_expect(Barrier&, unsigned bytes)    one arrival, and the bytes of the one copy that follows
//     bool passed(Barrier&, unsigned phase)   phase `phase`, counted from 0, is over; acquires. An mbarrier has its
//                                             parity alone, so a caller is at most one phase away. It may take a while
//     bool passed_yet(Barrier&, unsigned phase)         the same, at once
//     bool passed_together(Barrier&, unsigned phase)    the same by all lanes of a warp, with one answer for all;
//                                             whether one of them looks or all is the platform's business
//     void copy(void* to, const void* from, unsigned bytes, Barrier&)    starts a copy of a multiple of 16 bytes, which
//                                             counts at the barrier
//     void prefetch(const void* from, unsigned bytes)   asks the second-level cache for what a copy will read
//     unsigned peek(const Counter&)           acquires
//     void post(Counter&, unsigned)           releases
//
//   the team that executes compute: warps of equally many lanes. All threads of a warp call what has "warp" or
//   "together" in its line, all of the team what has "team", in the same order
//     int rank(); int size()                  of a thread in the team
//     int warp(); int warps(); int lane(); int lanes()
//     bool leads(); bool leads_warp()         the first thread of the team, of each warp
//     bool releases()                         whether this lane says that its warp is done with a stage: the first
//                                             kReleasingLanes do
//     void meet_warp()                        warp: what each wrote before is visible to all after
//     int first_lane(bool)                    warp: the first lane in which it is true; −1: none
//     unsigned share(unsigned, int lane)      warp: what that lane has
//     void meet()                             team
//     bool any(bool)                          team: all meet, and learn whether it is true in one of them
//   Handle, and Handle handle()               what a function that is not inlined has the platform by: on a GPU the
//                                             platform itself, since what has an address is no register
//   unsigned long long clock()                nanoseconds, by which waits are limited
//   unsigned long long now()                  nanoseconds, for records of what took how long
//   void pause()                              between two polls
#pragma once

#ifndef STRATA_DEVICE
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define STRATA_DEVICE __device__ __forceinline__
#define STRATA_UNROLL _Pragma("unroll")
#else
#define STRATA_DEVICE inline
#define STRATA_UNROLL
#endif
#endif

/// Before a loop that seldom repeats: one copy of its body.
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define STRATA_ROLLED _Pragma("unroll 1")
#else
#define STRATA_ROLLED
#endif

/// What seldom runs: called, not inlined, so that what often runs stays in the instruction cache.
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define STRATA_COLD __device__ __noinline__
#else
#define STRATA_COLD inline
#endif

namespace strata::megakernel {

/// What a wait ended with. Stop: the last step is over. Abort: some wait has lasted too long, and the kernel ends.
enum class Verdict : unsigned { Ready, Stop, Abort };

enum class Role : unsigned { Control, Load, Compute, Schedule };
constexpr int kWorkerRoles = 3;

/// What a role does or waits for, as reports name it.
enum class Activity : unsigned {
  None,       ///< it never started
  Running,    ///< in a block function
  Left,       ///< has ended
  Start,      ///< waits until all workers and schedulers have started; object: −
  Listed,     ///< for control to list the next task; object: entry of the list
  Unlisted,   ///< control, for load and compute to be done with an entry; object: entry of the list
  NextTask,   ///< control, for a task to be ready or for the loader; object: an event of the next task ahead of time
  Room,       ///< loader, for compute to be done with a stage of the ring; object: stage
  StageFull,  ///< compute, for a bulk copy; object: stage
  Window,     ///< loader, for bytes to land; object: stage
  Event,      ///< object: event; have and want: values of its counter
  Step,       ///< for the step before to end; have and want: epochs
  Tags,       ///< compute; object: word; have and want: epochs
  Queue,      ///< scheduler, for a place in a queue; object: worker
  Stages,     ///< compute used other stages than load filled; have: used, want: filled; object: 0: their number, 1: the
              ///< place in the ring after them
  Leaving,    ///< control, at the end of a launch, for load and compute to leave
  NotFinite,  ///< compute, which found NaN or an infinity; object: which element of a row; have: row
};

/// What is so far away in a cycle of 2³² that it has not come yet lies in its second half.
STRATA_DEVICE bool reached(unsigned have, unsigned want) { return static_cast<int>(have - want) >= 0; }

/// A tagged word: 8 bytes of data (4 elements of 16 bits, or 2 floats) and the epoch in which they were written. Word i
/// of a row holds its elements 4 i … 4 i + 3, so a tensor [rows, columns] of 16-bit elements has rows · ceil(columns /
/// 4) words, row after row, whatever tiles wrote it.
struct alignas(16) Tagged {
  unsigned data[2];
  unsigned tag;
  unsigned unused;
};

/// Stages of the ring begin at multiples of it.
constexpr unsigned kStageUnit = 1024;

/// What a stage of so many bytes takes of the ring.
STRATA_DEVICE constexpr unsigned stage_room(unsigned bytes) { return (bytes + kStageUnit - 1) & ~(kStageUnit - 1); }

}  // namespace strata::megakernel
