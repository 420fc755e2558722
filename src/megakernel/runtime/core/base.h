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
//     void acquire(const Counter&)            after a load: what its writers released is visible from here on
//     void acquire_for_copies(const Counter&) the same, for bulk copies that start later as well
//     void add_release(Counter&, unsigned)    what the thread wrote, and those that it met, is visible to who acquires
//     void store_release(Counter&, unsigned)  the same; to the host too, where it can see the counter
//     unsigned add(Counter&, unsigned)        acquire and release; what it was before
//     unsigned compare_exchange(Counter&, unsigned expected, unsigned desired)     the same
//     Tagged load_tagged(const TaggedWord&)   relaxed
//     void store_tagged(TaggedWord&, const Tagged&)     relaxed
//     void store_token(int* place, int token) plain, to memory that the host reads
//
//   shared memory of a worker
//     void start(Barrier&, unsigned arrivals)
//     void arrive(Barrier&)                   releases
//     void arrive_and_expect(Barrier&, unsigned bytes)
//     bool passed(Barrier&, unsigned phase)   phase `phase`, counted from 0, is over; acquires. An mbarrier has its
//                                             parity alone, so a caller is at most one phase away
//     void copy(void* to, const void* from, unsigned bytes, Barrier&)    starts a bulk copy that counts at the barrier
//     unsigned peek(const Counter&)           acquires
//     void post(Counter&, unsigned)           releases
//
//   the team of threads that executes a role
//     int rank(); int size(); bool leads(); bool leads_warp(); void meet_warp(); void meet()
//     bool any(bool)                              all meet, and learn whether it is true in one of them
//   unsigned long long clock()                    nanoseconds
//   void pause()                                  between two polls
#pragma once

#ifndef STRATA_DEVICE
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define STRATA_DEVICE __device__ __forceinline__
#else
#define STRATA_DEVICE inline
#endif
#endif

namespace strata::megakernel {

/// What a wait ended with. Stop: the last step is over. Abort: some wait has lasted too long, and the kernel ends.
enum class Verdict : unsigned { Ready, Stop, Abort };

enum class Role : unsigned { Control, Load, Gather, Compute, Schedule };
constexpr int kWorkerRoles = 4;

/// What a role does or waits for, as reports name it.
enum class Activity : unsigned {
  None,       ///< it never started
  Running,    ///< in a block function
  Left,       ///< has ended
  Start,      ///< waits until all workers and schedulers have started; object: −
  Listed,     ///< for control to list the next task; object: entry of the list
  Unlisted,   ///< control, for all roles to be done with an entry; object: entry of the list
  NextTask,   ///< control, for a task to be ready or for the loader; object: an event of the next task ahead of time
  SlotEmpty,  ///< loader; object: slot
  SlotFull,   ///< compute, for a bulk copy; object: slot
  Window,     ///< loader, for bytes to land; object: slot
  Event,      ///< object: event; have and want: values of its counter
  InOrder,    ///< for the worker's tasks before this one; have and want: tasks
  Step,       ///< for the step before to end; have and want: epochs
  Page,       ///< gather; object: page
  Gathered,   ///< compute, for gather; object: entry of the list
  Tags,       ///< gather; object: word; have and want: epochs
  Queue,      ///< scheduler, for a place in a queue; object: worker
  Slots,      ///< compute used other slots than load filled; have: used, want: filled
};

/// What is so far away in a cycle of 2³² that it has not come yet lies in its second half.
STRATA_DEVICE bool reached(unsigned have, unsigned want) { return static_cast<int>(have - want) >= 0; }

/// A tagged word: 12 bytes of data and the epoch in which they were written.
struct Tagged {
  unsigned data[3];
  unsigned tag;
};

}  // namespace strata::megakernel
