#include "emitters/fusion/place_products.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "emitters/program.h"
#include "hlo/compare.h"
#include "hlo/evaluate.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"
#include "hlo/verify.h"
#include "support/random.h"
#include "support/test_rounds.h"

namespace strata::emitters {
namespace {

using Dimensions = std::vector<int64_t>;

/// A product of `batch` × some rows by columns, whose result is transposed.
std::string text_of(int64_t batch, const Dimensions& rows, int64_t columns, int64_t terms, bool converts,
                    const Dimensions& permutation) {
  Dimensions x{rows[0], batch, rows[1], terms}, dot{batch, rows[0], rows[1], columns}, result;
  for (const int64_t d : permutation) result.push_back(dot[static_cast<size_t>(d)]);
  const std::string type = converts ? "f32" : "bf16";  // of the product
  return fmt::format(
      "HloModule m\nENTRY e {{\n  x = bf16[{}] parameter(0)\n  w = bf16[{},{},{}] parameter(1)\n  d = {}[{}] dot(x, "
      "w), lhs_batch_dims={{1}}, rhs_batch_dims={{0}}, lhs_contracting_dims={{3}}, rhs_contracting_dims={{1}}\n"
      "  c = bf16[{}] {}(d)\n  ROOT t = bf16[{}] transpose(c), dimensions={{{}}}\n}}\n",
      fmt::join(x, ","), batch, terms, columns, type, fmt::join(dot, ","), fmt::join(dot, ","),
      converts ? "convert" : "negate", fmt::join(result, ","), fmt::join(permutation, ","));
}

TEST(PlaceProducts, AreTransposedByTheirKernel) {
  for (uint64_t seed = 1; seed <= static_cast<uint64_t>(rounds(12)); ++seed) {
    Random random(seed);
    const auto below = [&](int64_t n) { return static_cast<int64_t>(random.below(static_cast<uint64_t>(n))); };
    Dimensions permutation{0, 1, 2};
    std::swap(permutation[0], permutation[static_cast<size_t>(1 + below(2))]);
    if (below(2) == 0) std::swap(permutation[1], permutation[2]);
    if (std::ranges::is_sorted(permutation)) std::swap(permutation[0], permutation[1]);
    permutation.push_back(3);
    const int64_t terms = 64 + below(60), columns = (int64_t{1} << 15) / terms + 1 + below(40);
    const std::string text =
        text_of(2 + below(4), {2 + below(4), 1 + below(9)}, columns, terms, below(2) == 0, permutation);
    const auto module = hlo::parse_module(text);
    ASSERT_TRUE(module) << module.error().to_string();
    const hlo::Module placed = place_products(**module);
    const auto verified = hlo::verify(placed);
    ASSERT_TRUE(verified) << verified.error().to_string() << hlo::print(placed);
    EXPECT_NE(hlo::print(placed), hlo::print(**module));
    const auto program = emit_program(**module, {}, LibraryUse::Never);
    ASSERT_TRUE(program) << program.error().to_string();
    EXPECT_EQ(program->steps.size(), 1) << explain(*program);
    const auto arguments = hlo::typical_arguments((*module)->entry_computation(), seed);
    const auto expected = hlo::evaluate(**module, arguments);
    ASSERT_TRUE(expected) << expected.error().to_string();
    const auto run = run_on_cpu(*program, arguments);
    ASSERT_TRUE(run) << run.error().to_string();
    EXPECT_EQ(hlo::difference(*run, *expected, 64).value_or(""), "") << text << explain(*program);
  }
}

/// Columns would be written one at a time.
TEST(PlaceProducts, NotWhereColumnsComeApart) {
  const auto module = hlo::parse_module(text_of(3, {4, 2}, 600, 96, true, {3, 0, 1, 2}));
  ASSERT_TRUE(module) << module.error().to_string();
  EXPECT_EQ(hlo::print(place_products(**module)), hlo::print(**module));
}

}  // namespace
}  // namespace strata::emitters
