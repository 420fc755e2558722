#include "runtime/loop_buffers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "support/random.h"

namespace strata {
namespace {

using Leaf = LoopFlow::Leaf;
using Kind = LoopPlace::Kind;

/// Runs a plan on numbers in the place of arrays, and compares what each iteration reads with what it should.
class Check {
 public:
  Check(const LoopFlow& flow, const LoopBuffers& buffers) : flow_(flow), buffers_(buffers) {}

  void run() {
    const size_t leaves = flow_.leaves.size();
    std::vector<int64_t> state(leaves);
    for (size_t i = 0; i < leaves; ++i) {
      state[i] = next_++;
      const Kind kind = flow_.leaves[i].fresh ? Kind::Result : Kind::Initial;
      memory_[{kind, static_cast<int>(i)}] = state[i];
    }
    ASSERT_EQ(std::ssize(buffers_.states), flow_.count + 1);
    for (int64_t k = 0; k <= flow_.count; ++k) {
      const auto& places = buffers_.states[static_cast<size_t>(k)];
      for (size_t i = 0; i < leaves; ++i) {
        if (flow_.leaves[i].counter) continue;
        ASSERT_EQ(read(places[i]), state[i]) << "leaf " << i << " of iteration " << k;
        ASSERT_TRUE(places[i].kind != Kind::Result || flow_.leaves[static_cast<size_t>(places[i].number)].wanted);
      }
      if (k == flow_.count) break;
      std::map<int, int64_t> written;
      std::vector<int64_t> next = state;
      for (size_t i = 0; i < leaves; ++i) {
        const Leaf& it = flow_.leaves[i];
        if (it.next == Leaf::Next::Carried) next[i] = state[static_cast<size_t>(it.from)];
        if (it.next == Leaf::Next::Constant) next[i] = -1 - it.from;
        if (it.next == Leaf::Next::Written) next[i] = written.try_emplace(it.from, next_++).first->second;
      }
      for (size_t i = 0; i < leaves; ++i) {
        const Leaf& it = flow_.leaves[i];
        const LoopPlace to = buffers_.states[static_cast<size_t>(k) + 1][i];
        if (it.next != Leaf::Next::Written || it.counter) continue;
        ASSERT_TRUE(to.kind == Kind::Result || to.kind == Kind::Scratch);
        // What is read in this iteration stays, except for the leaf that it may be written over.
        for (size_t other = 0; other < leaves; ++other) {
          if (places[other] != to || flow_.leaves[other].counter) continue;
          const bool may = std::any_of(flow_.leaves.begin(), flow_.leaves.end(), [&](const Leaf& same) {
            return same.next == Leaf::Next::Written && same.from == it.from &&
                   same.in_place_of == static_cast<int>(other);
          });
          ASSERT_TRUE(may) << "iteration " << k << " writes over leaf " << other;
        }
        memory_[{to.kind, to.number}] = next[i];
      }
      state = next;
    }
    // Copies at the end, as GpuLoop makes them.
    const auto& last = buffers_.states.back();
    for (const bool in_result : {true, false}) {
      for (size_t i = 0; i < leaves; ++i) {
        if (!flow_.leaves[i].wanted || flow_.leaves[i].counter || (last[i].kind == Kind::Result) != in_result) continue;
        memory_[{Kind::Result, static_cast<int>(i)}] = read(last[i]);
      }
    }
    for (size_t i = 0; i < leaves; ++i) {
      if (!flow_.leaves[i].wanted || flow_.leaves[i].counter) continue;
      ASSERT_EQ((memory_[{Kind::Result, static_cast<int>(i)}]), state[i]) << "result " << i;
    }
  }

 private:
  int64_t read(const LoopPlace& place) {
    return place.kind == Kind::Constant ? -1 - place.number : memory_[{place.kind, place.number}];
  }

  const LoopFlow& flow_;
  const LoopBuffers& buffers_;
  std::map<std::pair<Kind, int>, int64_t> memory_;
  int64_t next_ = 1;
};

TEST(LoopBuffers, OneArrayGoesToAndFro) {
  const LoopFlow flow{{{.bytes = 64, .next = Leaf::Next::Written, .from = 7}}, 10};
  const LoopBuffers buffers = plan_loop_buffers(flow);
  EXPECT_EQ(buffers.scratch_bytes.size(), 1U);
  EXPECT_EQ(buffers.states.back()[0], (LoopPlace{Kind::Result, 0}));
  Check(flow, buffers).run();
}

TEST(LoopBuffers, TheValueBeforeTheLastTakesOneMore) {
  // (a, b) → (b, f(a, b)), as of a wave equation.
  const LoopFlow flow{{{.bytes = 64, .from = 1}, {.bytes = 64, .next = Leaf::Next::Written, .from = 7}}, 9};
  const LoopBuffers buffers = plan_loop_buffers(flow);
  EXPECT_EQ(buffers.scratch_bytes.size(), 1U);
  for (size_t leaf : {0U, 1U}) EXPECT_EQ(buffers.states.back()[leaf].kind, Kind::Result);
  Check(flow, buffers).run();
}

TEST(LoopBuffers, ScansWriteTheirRowsInPlace) {
  LoopFlow flow{{{.bytes = 64, .next = Leaf::Next::Written, .from = 7},
                 {.bytes = 6400, .next = Leaf::Next::Written, .from = 8, .in_place_of = 1}},
                100};
  const LoopBuffers buffers = plan_loop_buffers(flow);
  for (size_t k = 1; k <= 100; ++k) EXPECT_EQ(buffers.states[k][1], (LoopPlace{Kind::Result, 1}));
  Check(flow, buffers).run();
  flow.leaves[1].fresh = true;
  const LoopBuffers over = plan_loop_buffers(flow);
  for (size_t k = 0; k <= 100; ++k) EXPECT_EQ(over.states[k][1], (LoopPlace{Kind::Result, 1}));
  Check(flow, over).run();
}

TEST(LoopBuffers, RandomLoops) {
  Random random(3);
  for (int run = 0; run < 20'000; ++run) {
    LoopFlow flow;
    flow.count = static_cast<int64_t>(random.below(6));
    const auto leaves = 1 + random.below(5);
    for (uint64_t i = 0; i < leaves; ++i) {
      Leaf& it = flow.leaves.emplace_back();
      it.bytes = random.below(3) == 0 ? 128 : 64;
      it.wanted = random.below(4) != 0;
      it.counter = random.below(8) == 0;
      it.from = static_cast<int>(i);
    }
    for (uint64_t i = 0; i < leaves; ++i) {
      Leaf& it = flow.leaves[i];
      const auto same = [&](size_t j) { return flow.leaves[j].bytes == it.bytes && !flow.leaves[j].counter; };
      const auto other = static_cast<size_t>(random.below(leaves));
      if (it.counter) continue;
      switch (random.below(4)) {
        case 0:
          if (same(other)) it.from = static_cast<int>(other);
          break;
        case 1:
          it.next = Leaf::Next::Constant;
          it.from = static_cast<int>(it.bytes);
          break;
        default: {
          it.next = Leaf::Next::Written;
          // Leaves may share an array that is written.
          it.from = static_cast<int>(it.bytes + static_cast<int64_t>(random.below(3)));
          const bool first =
              std::none_of(flow.leaves.begin(), flow.leaves.begin() + static_cast<int64_t>(i),
                           [&](const Leaf& l) { return l.next == Leaf::Next::Written && l.from == it.from; });
          if (first && random.below(2) == 0) it.in_place_of = static_cast<int>(i);
          it.fresh = it.in_place_of >= 0 && it.wanted && random.below(2) == 0;
        }
      }
    }
    Check(flow, plan_loop_buffers(flow)).run();
    if (HasFatalFailure()) FAIL() << "run " << run;
  }
}

}  // namespace
}  // namespace strata
