#include "hlo/expand_row_scatters.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "hlo/test_rewriting.h"
#include "hlo/text.h"
#include "support/random.h"

namespace strata::hlo {
namespace {

/// One update a row, in any dimension, of indices of any type that are out of range too.
std::string random_module(Random& random) {
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random.below(static_cast<uint64_t>(n))); };
  const int64_t rank = 1 + below(3);
  const int64_t row = below(rank);
  std::vector<int64_t> dims, batch, places, numbers;
  for (int64_t d = 0; d < rank; ++d) {
    dims.push_back(1 + below(d == row ? 300 : 6));
    if (d == row) continue;
    batch.push_back(dims.back());
    places.push_back(d);
    numbers.push_back(std::ssize(numbers));
  }
  const char* types[] = {"f32", "bf16", "s32"};
  const char* combiners[] = {"r = {0}[] add(a, b)", "r = {0}[] maximum(b, a)", "r = {0}[] subtract(a, b)",
                             "c = {0}[] copy(b)"};
  const char* indices[] = {"s32", "u8", "s64", "u32", "s8"};
  const std::string type = types[below(3)];
  const std::string combiner = fmt::format(fmt::runtime(combiners[below(4)]), type);
  const std::string start = batch.empty() ? "" : fmt::format("{},", fmt::join(batch, ","));
  return fmt::format(
      "HloModule m\nf {{\n  a = {0}[] parameter(0)\n  b = {0}[] parameter(1)\n  ROOT {1}\n}}\nENTRY e {{\n  i = "
      "{2}[{3}1,1] parameter(0)\n  u = {0}[{3}1] parameter(1)\n  z = {0}[] parameter(2)\n  o = {0}[{4}] broadcast(z), "
      "dimensions={{}}\n  ROOT r = {0}[{4}] scatter(o, i, u), update_window_dims={{}}, inserted_window_dims={{{5}}}, "
      "scatter_dims_to_operand_dims={{{5}}}, input_batching_dims={{{6}}}, scatter_indices_batching_dims={{{7}}}, "
      "index_vector_dim={8}, to_apply=f\n}}\n",
      type, combiner, indices[below(5)], start, fmt::join(dims, ","), row, fmt::join(places, ","),
      fmt::join(numbers, ","), rank);
}

void expect_same(const std::string& text, uint64_t seed) {
  const auto module = parse_module(text);
  ASSERT_TRUE(module) << module.error().to_string();
  ASSERT_TRUE(has_row_scatters(**module));
  const auto expanded = expand_row_scatters(**module);
  ASSERT_TRUE(expanded) << expanded.error().to_string();
  EXPECT_EQ(print(*expanded).find(" scatter("), std::string::npos);
  expect_same_values(**module, *expanded, seed, 2);
}

TEST(ExpandRowScatters, ComputeTheSame) {
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    Random random(seed);
    const std::string text = random_module(random);
    SCOPED_TRACE(text);
    expect_same(text, seed);
  }
}

/// One window a row, over all other dimensions, into what is computed; some dimensions are of the batch.
std::string random_windows(Random& random) {
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random.below(static_cast<uint64_t>(n))); };
  const int64_t rank = 2 + below(3), row = below(rank);
  std::vector<int64_t> dims, update, batch, places, numbers, window;
  for (int64_t d = 0; d < rank; ++d) {
    dims.push_back(1 + below(6));
    if (d == row) continue;
    if (below(2) == 0) {
      batch.push_back(dims.back());
      places.push_back(d);
      numbers.push_back(std::ssize(numbers));
    } else {
      window.push_back(std::ssize(update));
    }
    update.push_back(dims.back());
  }
  const std::string start = batch.empty() ? "" : fmt::format("{},", fmt::join(batch, ","));
  return fmt::format(
      "HloModule m\nf {{\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT r = f32[] {5}(a, b)\n}}\nENTRY e "
      "{{\n  i = s32[{0}1] parameter(0)\n  u = f32[{1}] parameter(1)\n  x = f32[{2}] parameter(2)\n  o = f32[{2}] "
      "negate(x)\n  ROOT r = f32[{2}] scatter(o, i, u), update_window_dims={{{3}}}, inserted_window_dims={{{4}}}, "
      "scatter_dims_to_operand_dims={{{4}}}, input_batching_dims={{{6}}}, scatter_indices_batching_dims={{{7}}}, "
      "index_vector_dim={8}, to_apply=f\n}}\n",
      start, fmt::join(update, ","), fmt::join(dims, ","), fmt::join(window, ","), row,
      below(2) == 0 ? "add" : "minimum", fmt::join(places, ","), fmt::join(numbers, ","), batch.size());
}

TEST(ExpandRowScatters, TakesWholeWindowsIntoWhatIsComputed) {
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    Random random(seed);
    const std::string text = random_windows(random);
    SCOPED_TRACE(text);
    expect_same(text, seed);
  }
}

TEST(ExpandRowScatters, LeavesOthers) {
  const char* head = "f { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }\n";
  // Two updates a row; an array that is not one value.
  const std::string two =
      "ENTRY e { i = s32[4,2,1] parameter(0) u = f32[4,2] parameter(1) z = f32[] constant(0) o = f32[4,9] "
      "broadcast(z), dimensions={} ROOT r = f32[4,9] scatter(o, i, u), update_window_dims={}, "
      "inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, input_batching_dims={0}, "
      "scatter_indices_batching_dims={0}, index_vector_dim=2, to_apply=f }";
  const std::string kept =
      "ENTRY e { i = s32[4,1,1] parameter(0) u = f32[4,1] parameter(1) o = f32[4,9] parameter(2) ROOT r = f32[4,9] "
      "scatter(o, i, u), update_window_dims={}, inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, "
      "input_batching_dims={0}, scatter_indices_batching_dims={0}, index_vector_dim=2, to_apply=f }";
  for (const std::string& text : {two, kept}) {
    const auto module = parse_module(head + text);
    ASSERT_TRUE(module) << module.error().to_string();
    EXPECT_FALSE(has_row_scatters(**module));
  }
}

}  // namespace
}  // namespace strata::hlo
