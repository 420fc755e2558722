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

/// Until the events are active; what the tasks that trigger them wrote is visible to this thread, and to those that
/// meet it later. One thread of a team calls it.
template <class Platform>
STRATA_DEVICE Verdict wait_for_events(Context<Platform>& c, const int* events, int count, unsigned epoch) {
  for (int i = 0; i < count; ++i) {
    Waited waited{Activity::Event, events[i], 0, wanted(c.program, events[i], epoch)};
    auto& counter = counter_of(c.program, events[i]);
    const Verdict verdict = spin(c, waited, [&] {
      waited.have = c.platform.load(counter);
      return reached(waited.have, waited.want);
    });
    if (verdict != Verdict::Ready) return verdict;
  }
  for (int i = 0; i < count; ++i) c.platform.acquire(counter_of(c.program, events[i]));
  return Verdict::Ready;
}

/// Until the step of this epoch may run: the one before has ended, and its memory may be written.
template <class Platform>
STRATA_DEVICE Verdict wait_for_step(Context<Platform>& c, unsigned epoch) {
  Waited waited{Activity::Step, -1, 0, epoch};
  unsigned word = 0;
  Verdict verdict = spin(c, waited, [&] {
    word = c.platform.load(*c.program.step);
    waited.have = word >> 1;
    return (word & 1u) != 0 || reached(waited.have, epoch);
  });
  if (verdict != Verdict::Ready) return verdict;
  if ((word & 1u) != 0) return c.left = Verdict::Stop;
  c.platform.acquire(*c.program.step);
  return Verdict::Ready;
}

/// One thread of the team whose task ends a step calls it: publishes tokens to the host, and decides for all workers
/// whether there is another step.
template <class Platform>
STRATA_DEVICE void end_step(Context<Platform>& c, unsigned epoch, bool finished) {
  const Program<Platform>& program = c.program;
  c.platform.store_release(*program.steps_done, epoch);
  const bool stop = finished || epoch == program.last_epoch || c.platform.load(*program.stop_requested) != 0;
  c.platform.store_release(*program.step, stop ? epoch * 2 + 1 : (epoch + 1) * 2);
}

/// 12 bytes of data for each word, from the threads of a team together; `bytes` may end within the last word.
template <class Platform>
STRATA_DEVICE void write_tagged(Platform& platform, typename Platform::TaggedWord* words, const unsigned char* data,
                                int bytes, unsigned epoch) {
  const int count = (bytes + 11) / 12;
  for (int i = platform.rank(); i < count; i += platform.size()) {
    Tagged word{{0, 0, 0}, epoch};
    auto* const to = reinterpret_cast<unsigned char*>(word.data);
    const int here = bytes - 12 * i < 12 ? bytes - 12 * i : 12;
    for (int b = 0; b < here; ++b) to[b] = data[12 * i + b];
    platform.store_tagged(words[i], word);
  }
}

/// The same data, by the threads of a team together, as soon as all of it has been written in this epoch. Each thread
/// sees what it read; the team sees all after it has met.
template <class Platform>
STRATA_DEVICE Verdict read_tagged(Context<Platform>& c, const typename Platform::TaggedWord* words, unsigned char* data,
                                  int bytes, unsigned epoch) {
  const int count = (bytes + 11) / 12;
  for (int i = c.platform.rank(); i < count; i += c.platform.size()) {
    Waited waited{Activity::Tags, i, 0, epoch};
    Tagged word{};
    const Verdict verdict = spin(c, waited, [&] {
      word = c.platform.load_tagged(words[i]);
      waited.have = word.tag;
      return reached(word.tag, epoch);
    });
    if (verdict != Verdict::Ready) return verdict;
    const auto* const from = reinterpret_cast<const unsigned char*>(word.data);
    const int here = bytes - 12 * i < 12 ? bytes - 12 * i : 12;
    for (int b = 0; b < here; ++b) data[12 * i + b] = from[b];
  }
  return Verdict::Ready;
}

}  // namespace strata::megakernel
