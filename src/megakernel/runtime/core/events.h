// What tasks of different workers wait for: counters of events, tagged words, and the word that says which step runs.
// All are monotone: an event is active in epoch e when its counter has reached triggers · e, and nothing is reset.
#pragma once

#include "megakernel/runtime/core/spin.h"

namespace strata::megakernel {

template <class Platform>
STRATA_DEVICE unsigned wanted(const Program<Platform>& program, int event, unsigned epoch) {
  return static_cast<unsigned>(program.triggers[event]) * epoch;
}
template <class Platform>
STRATA_DEVICE typename Platform::Counter& counter_of(const Program<Platform>& program, int event) {
  return program.events[event * Platform::kCounterStride];
}

/// True if all events are active, without ordering anything. Else `waited` says which one is not.
template <class Platform>
STRATA_DEVICE bool active(Context<Platform>& c, const int* events, int count, unsigned epoch, Waited& waited) {
  for (int i = 0; i < count; ++i) {
    waited.object = events[i];
    waited.want = wanted(c.program, events[i], epoch);
    waited.have = c.platform.load(counter_of(c.program, events[i]));
    if (!reached(waited.have, waited.want)) return false;
  }
  return true;
}

/// Until the step of this epoch may run: the one before has ended, and its memory may be written. Orders nothing.
template <class Platform>
STRATA_DEVICE Verdict poll_step(Context<Platform>& c, unsigned epoch) {
  Waited waited{Activity::Step, -1, 0, epoch};
  unsigned word = 0;
  const Verdict verdict = spin(c, waited, [&] {
    word = c.platform.load(*c.program.step);
    waited.have = word >> 1;
    return (word & 1u) != 0 || reached(waited.have, epoch);
  });
  if (verdict == Verdict::Ready && !reached(waited.have, epoch)) c.left = Verdict::Stop;
  return c.left;
}

/// The same, and what the step before wrote is visible.
template <class Platform>
STRATA_DEVICE Verdict wait_for_step(Context<Platform>& c, unsigned epoch) {
  if (poll_step(c, epoch) == Verdict::Ready) c.platform.acquire();
  return c.left;
}

/// Until a task may begin: its step where `first` (the worker's first task of it), and its events. What the tasks that
/// trigger them wrote is visible to this thread, and to those that meet it later. One thread of a team calls it.
template <class Platform>
STRATA_DEVICE Verdict wait_for_inputs(Context<Platform>& c, bool first, const int* events, int count, unsigned epoch) {
  if (first && poll_step(c, epoch) != Verdict::Ready) return c.left;
  // Loads of all counters that are missing are on their way together, so the last one costs one trip, whichever it is.
  unsigned want[kMaxWaits] = {};
  unsigned have[kMaxWaits] = {};
  unsigned missing = (1u << count) - 1;
  STRATA_UNROLL
  for (int i = 0; i < kMaxWaits; ++i)
    if (i < count) want[i] = wanted(c.program, events[i], epoch);
  Waited waited{Activity::Event, -1, 0, 0};
  const auto all_are_active = [&] {
    STRATA_UNROLL
    for (int i = 0; i < kMaxWaits; ++i)
      if ((missing >> i & 1u) != 0) have[i] = c.platform.load(counter_of(c.program, events[i]));
    STRATA_UNROLL
    for (int i = 0; i < kMaxWaits; ++i) {
      if ((missing >> i & 1u) == 0) continue;
      if (reached(have[i], want[i])) {
        missing &= ~(1u << i);
      } else {
        waited = {Activity::Event, events[i], have[i], want[i]};
      }
    }
    return missing == 0;
  };
  if (spin(c, waited, all_are_active) == Verdict::Ready) c.platform.acquire();
  return c.left;
}

/// One thread of the team whose task ends a step calls it: publishes tokens to the host, and decides for all workers
/// whether there is another step.
template <class Platform>
STRATA_DEVICE void end_step(Context<Platform>& c, unsigned epoch, bool finished) {
  const Program<Platform>& program = c.program;
  c.platform.release_to_host(*program.steps_done, epoch);
  const bool stop = finished || epoch == program.last_epoch || c.platform.load_from_host(*program.stop_requested) != 0;
  c.platform.store_release(*program.step, stop ? epoch * 2 + 1 : (epoch + 1) * 2);
}

/// By one thread: a word with the data of this epoch.
template <class Platform>
STRATA_DEVICE void write_tagged(Platform& platform, typename Platform::TaggedWord& word, unsigned first,
                                unsigned second, unsigned epoch) {
  platform.store_tagged(word, {{first, second}, epoch, 0});
}

/// Loads of tagged words that a lane has on their way.
constexpr int kTaggedAtOnce = 4;

/// By the lanes of a warp together, for a context in parts: until a word has been written in this epoch, or later.
template <class Platform>
STRATA_COLD Looked wait_for_word_apart(typename Platform::Handle handle, const Program<Platform>& program, Role role,
                                       int index, int task, unsigned epoch, bool reported, int object,
                                       const typename Platform::TaggedWord* word) {
  auto&& platform = handle;
  Context<Platform> c{platform, program, role, index, task, epoch, Verdict::Ready, reported};
  Waited waited{Activity::Tags, object, 0, epoch};
  spin<Scope::Warp>(c, waited, [&] {
    const bool looks = c.platform.leads_warp();
    if (looks) waited.have = c.platform.load_tagged(*word).tag;
    return c.platform.first_lane(looks && reached(waited.have, epoch)) == 0;
  });
  return {c.left, c.reported, {}};
}

/// By the lanes of a warp together: take(i, word) for the words place(0) … place(count − 1) as soon as they have been
/// written in this epoch, each by one lane; `count` and place(i) are the same in all lanes. All look for theirs once,
/// since they may all be there. Then one lane looks for a missing one until it is there, and all look again for theirs:
/// many lanes that look slow the whole chip down.
template <int kAtOnce = kTaggedAtOnce, class Platform, class Place, class Take>
STRATA_DEVICE Verdict read_tagged(Context<Platform>& c, const Place& place, int count, unsigned epoch, Take take) {
  Platform& platform = c.platform;
  if (c.left != Verdict::Ready) return c.left;
  const int lanes = platform.lanes();
  for (int base = 0; base < count; base += lanes * kAtOnce) {
    const int mine = base + platform.lane();
    Tagged word[kAtOnce];
    unsigned missing = 0;
    STRATA_UNROLL
    for (int n = 0; n < kAtOnce; ++n) missing |= mine + lanes * n < count ? 1u << n : 0u;
    for (;;) {
      STRATA_UNROLL
      for (int n = 0; n < kAtOnce; ++n)
        if ((missing >> n & 1u) != 0) word[n] = platform.load_tagged(place(mine + lanes * n));
      unsigned object = 0;
      STRATA_UNROLL
      for (int n = 0; n < kAtOnce; ++n) {
        if ((missing >> n & 1u) == 0) continue;
        if (reached(word[n].tag, epoch)) {
          missing &= ~(1u << n);
        } else {
          object = static_cast<unsigned>(mine + lanes * n);
        }
      }
      const int late = platform.first_lane(missing != 0);
      if (late < 0) break;
      const auto awaited = static_cast<int>(platform.share(object, late));
      const Looked looked = wait_for_word_apart<Platform>(platform.handle(), c.program, c.role, c.index, c.task, epoch,
                                                          c.reported, awaited, &place(awaited));
      c.left = looked.left;
      c.reported = looked.reported;
      if (c.left != Verdict::Ready) return c.left;
    }
    STRATA_UNROLL
    for (int n = 0; n < kAtOnce; ++n)
      if (mine + lanes * n < count) take(mine + lanes * n, word[n]);
  }
  return c.left;
}

}  // namespace strata::megakernel
