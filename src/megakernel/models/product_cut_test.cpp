#include "megakernel/models/product_cut.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "support/random.h"

namespace strata::megakernel {
namespace {

/// Against all divisors: none of whole words has less for the busiest worker.
TEST(TasksOfColumns, DivideColumnsBest) {
  Random random(3);
  for (int tries = 0; tries < 200; ++tries) {
    const auto workers = 1 + static_cast<int64_t>(random.below(200));
    const int64_t unit = 4 * (1 + static_cast<int64_t>(random.below(60)));
    std::vector<int64_t> sizes;
    for (uint64_t n = 0; n <= random.below(3); ++n)
      sizes.push_back(unit * (1 + static_cast<int64_t>(random.below(40))));
    const int64_t all = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
    const auto divides = [&](int64_t tasks) {
      return std::all_of(sizes.begin(), sizes.end(), [&](int64_t size) { return size % (4 * tasks) == 0; });
    };
    const auto busiest = [&](int64_t tasks) { return (tasks + workers - 1) / workers * (all / tasks + 4); };
    const int64_t tasks = tasks_of_columns(sizes, workers, 512);
    ASSERT_TRUE(divides(tasks));
    EXPECT_LE(all / tasks, 512);
    for (int64_t other = 1; other <= unit * 40; ++other) {
      const int64_t columns = all / other;
      if (!divides(other) || columns > 512 || (other > workers && (columns < 16 || columns > 128))) continue;
      EXPECT_LE(busiest(tasks), busiest(other)) << workers << " " << all << " " << other;
    }
  }
  EXPECT_EQ(tasks_of_columns({101}, 8, 512), 1);
  EXPECT_EQ(tasks_of_columns({101}, 8, 100), 101);
  EXPECT_EQ(tasks_of_columns({4 * 101}, 8, 512), 1);
  EXPECT_EQ(tasks_of_columns({4 * 101}, 8, 400), 101);  // whole words, if narrow
  EXPECT_EQ(tasks_of_columns({4}, 8, 0), 0);
}

TEST(TermsOfIteration, AreThoseOfLargeStagesThatWarpsShareEqually) {
  EXPECT_EQ(terms_of_iteration(4096, 48, {}), 128);
  EXPECT_EQ(terms_of_iteration(12288, 32, {}), 256);
  EXPECT_EQ(terms_of_iteration(3072, 8, {}), 384);  // in the ring before they are needed: one iteration of each warp
  EXPECT_EQ(terms_of_iteration(96, 8, {}), 48);     // no eight iterations: as few as there can be
  EXPECT_EQ(terms_of_iteration(16, 8, {}), 0);
  EXPECT_EQ(terms_of_iteration(4096, 1024, {}), 0);
  EXPECT_EQ(terms_of_iteration(4096, 48, {.terms = 64}), 64);
}

/// 43 iterations of 16 KB in place of 344 of 2 KB, of which all warps would have as many.
TEST(TermsOfIteration, AreNotFewForEqualWarps) { EXPECT_EQ(terms_of_iteration(11008, 32, {}), 256); }

/// Against all others, over any sizes.
TEST(TermsOfIteration, TakeLittleLongerThanAnyOther) {
  Random random(7);
  for (int tries = 0; tries < 300; ++tries) {
    const int64_t terms = 16 * (2 + static_cast<int64_t>(random.below(1000)));
    const int64_t columns = 4 * (1 + static_cast<int64_t>(random.below(60)));
    const int64_t chosen = terms_of_iteration(terms, columns, {});
    SCOPED_TRACE(testing::Message() << terms << " terms, " << columns << " columns, " << chosen);
    ASSERT_GT(chosen, 0);
    ASSERT_EQ(terms % chosen, 0);
    ASSERT_LE(chosen * columns * 2, 16384);
    for (int64_t cut = 16; cut <= terms / 2 && cut * columns * 2 <= 16384; cut += 16) {
      if (terms % cut != 0) continue;
      EXPECT_LE(worker_seconds(terms, columns, chosen, 1, {}), 1.05 * worker_seconds(terms, columns, cut, 1, {}))
          << cut;
    }
  }
}

/// A batch of 32 leaves a task 128 columns and an iteration 96 terms. Tasks are as wide as that allows, not the narrow
/// ones that happen to divide best.
TEST(CutProduct, TakesWideTasksOfLargeBatches) {
  const ProductLimits batch{.columns = 128, .terms = 96};
  EXPECT_EQ(cut_product({11264, 11264}, 4096, batch).tasks, 256);
  EXPECT_EQ(cut_product({11008, 11008}, 4096, batch).tasks, 344);
}

/// Where weights come too slowly for one to compute, a product takes as long as they do.
TEST(CutProduct, IsPricedByTheRatesOfTheTarget) {
  ProductLimits slow;
  slow.rates.memory_bandwidth /= 4;
  const std::vector<int64_t> sizes{128 * 256};
  const double seconds = cut_product(sizes, 4096, slow).seconds;
  const double loading = 128 * 256 * 4096 * 2 / slow.rates.memory_bandwidth;
  EXPECT_GT(seconds, loading);
  EXPECT_LT(seconds, 1.1 * loading);
  EXPECT_GT(seconds, 3 * cut_product(sizes, 4096, {}).seconds);
  // Few workers cannot load as much as memory gives.
  ProductLimits one{.workers = 1};
  one.rates.stage_push = one.rates.least_stage = 0;
  EXPECT_GT(cut_product({256}, 65536, one).seconds, 256 * 65536 * 2 / one.rates.worker_bandwidth);
}

TEST(CutProduct, CountsTheRoundsOfTheBusiestWorker) {
  const ProductCut equal = cut_product({128 * 32}, 4096, {}), odd = cut_product({129 * 32}, 4096, {});
  EXPECT_EQ(equal.tasks, 128);
  EXPECT_EQ(equal.terms, 256);
  EXPECT_GT(odd.seconds, 1.3 * equal.seconds);
  EXPECT_EQ(cut_product({4}, 4096, {.columns = 0}).tasks, 0);
  EXPECT_EQ(cut_product({4}, 16, {}).tasks, 0);
}

}  // namespace
}  // namespace strata::megakernel
