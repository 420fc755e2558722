// Products of batches for which one operand is the same.
#include "emitters/library/unbatched_products.h"

#include <gtest/gtest.h>

#include "emitters/library/test_library_calls.h"

namespace strata::emitters {
namespace {

class UnbatchedProductsTest : public LibraryCallsTest {};

/// As torch writes the product of an array whose batches are not first by a matrix: one product of all rows, which a
/// kernel puts into their order.
TEST_F(UnbatchedProductsTest, BatchesOfOneMatrixAreRows) {
  EXPECT_EQ(explained_work(R"(HloModule m

ENTRY e {
  x = bf16[7,499,1024] parameter(0)
  w = bf16[776,1024] parameter(1)
  t = bf16[499,7,1024] transpose(x), dimensions={1,0,2}
  wt = bf16[1024,776] transpose(w), dimensions={1,0}
  b = bf16[499,1024,776] broadcast(wt), dimensions={1,2}
  d = bf16[499,7,776] dot(t, b), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2},
    rhs_contracting_dims={1}
  ROOT s = bf16[499,7,776] sine(d)
}
)"),
            "kernel; bf16 3493×776×1024, algorithm 0; kernel; ");
}

/// Both sides may repeat batches, each its own, and other dimensions too.
TEST_F(UnbatchedProductsTest, RandomOnesAreThoseOfTheInterpreter) {
  for (uint64_t seed = 0; seed < 24; ++seed) {
    Random random(seed);
    // Sizes of batches, rows, terms and columns in an operand's own order; each batch is repeated by one of them.
    const bool first_is_left = random.below(2) == 0, second_is_left = random.below(2) == 0;
    const auto operand = [&](const std::string& name, int number, bool repeats_first, bool repeats_second,
                             int64_t size) {
      const std::vector<int64_t> all{3, 5, size, 16};  // as the dot wants them, before they are shuffled
      const std::vector<int64_t> order = shuffled({0, 1, 2, 3}, random);
      std::vector<int64_t> sizes, own, kept;
      for (size_t i = 0; i < order.size(); ++i) {
        const int64_t d = order[i];
        sizes.push_back(all[static_cast<size_t>(d)]);
        if ((d == 0 && repeats_first) || (d == 1 && repeats_second)) continue;
        own.push_back(sizes.back());
        kept.push_back(static_cast<int64_t>(i));
      }
      const std::string text = fmt::format(
          "  {0}p = f32{1} parameter({2})\n  {0} = f32{3} broadcast({0}p), "
          "dimensions={4}\n",
          name, dims(own), number, dims(sizes), list(kept));
      return std::pair(text, order);
    };
    const auto [left, l] = operand("x", 0, first_is_left, second_is_left, 20);
    const auto [right, r] = operand("y", 1, !first_is_left, !second_is_left, 24);
    const auto place = [](const std::vector<int64_t>& order, int64_t d) {
      return std::find(order.begin(), order.end(), d) - order.begin();
    };
    const std::string text =
        fmt::format(R"(HloModule m

ENTRY e {{
{}{}  d = f32[3,5,20,24] dot(x, y), lhs_batch_dims={{{},{}}}, rhs_batch_dims={{{},{}}}, lhs_contracting_dims={{{}}},
    rhs_contracting_dims={{{}}}
  ROOT n = f32[3,5,20,24] negate(d)
}}
)",
                    left, right, place(l, 0), place(l, 1), place(r, 0), place(r, 1), place(l, 3), place(r, 3));
    const hlo::ModulePtr module = parsed(text);
    ASSERT_NE(module, nullptr);
    EXPECT_NE(hlo::print(with_unbatched_products(*module, LibraryUse::WherePossible)), hlo::print(*module));
    ASSERT_EQ(checked(*module, seed), "") << seed << "\n" << text << explained_;
  }
}

/// Where a batch stays, all do.
TEST_F(UnbatchedProductsTest, OtherBatchesKeepThem) {
  const hlo::ModulePtr module = parsed(R"(HloModule m

ENTRY e {
  x = f32[3,5,20,16] parameter(0)
  y = f32[5,16,24] parameter(1)
  b = f32[3,5,16,24] broadcast(y), dimensions={1,2,3}
  ROOT d = f32[3,5,20,24] dot(x, b), lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, lhs_contracting_dims={3},
    rhs_contracting_dims={2}
}
)");
  ASSERT_NE(module, nullptr);
  EXPECT_EQ(hlo::print(with_unbatched_products(*module, LibraryUse::WherePossible)), hlo::print(*module));
}

}  // namespace
}  // namespace strata::emitters
