#include "hlo/iota_indices.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "hlo/expand_row_scatters.h"
#include "hlo/test_rewriting.h"
#include "hlo/text.h"
#include "support/random.h"

namespace strata::hlo {
namespace {

/// Indices [n, m, k] (or transposed to [k, n, m]) of k pieces, of which the one for `counted` counts along the first or
/// the second dimension, as JAX writes it: with a select for numbers below zero. The others are computed.
std::string random_module(Random& random) {
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random.below(static_cast<uint64_t>(n))); };
  const int64_t rank = 2 + below(2), counted = below(rank), along = below(2), vector_dim = below(2) * 2;
  const int64_t n = 2 + below(5), m = 2 + below(5);
  std::vector<int64_t> dims;
  for (int64_t d = 0; d < rank; ++d) dims.push_back(d == counted ? (along == 0 ? n : m) : 1 + below(7));
  std::vector<int64_t> piece = {n, m}, all = {n, m}, inserted;
  piece.insert(piece.begin() + vector_dim, 1);
  all.insert(all.begin() + vector_dim, rank);
  const std::string of_piece = fmt::format("s32[{}]", fmt::join(piece, ","));
  std::string text =
      "HloModule m\nf {\n  a = s32[] parameter(0)\n  b = s32[] parameter(1)\n  ROOT r = s32[] add(a, "
      "b)\n}\nENTRY e {\n";
  std::vector<std::string> names;
  int parameters = 2;
  for (int64_t d = 0; d < rank; ++d) {
    inserted.push_back(d);
    names.push_back(fmt::format("i{}", d));
    if (d != counted) {
      text += fmt::format("  i{} = {} parameter({})\n", d, of_piece, parameters++);
      continue;
    }
    const int64_t size = dims[static_cast<size_t>(d)];
    text += fmt::format(
        "  k = s32[{0}] iota(), iota_dimension=0\n  z = s32[] constant(0)\n  zs = s32[{0}] broadcast(z), "
        "dimensions={{}}\n  l = pred[{0}] compare(k, zs), direction=LT\n  s = s32[] constant({0})\n  ss = s32[{0}] "
        "broadcast(s), dimensions={{}}\n  p = s32[{0}] add(k, ss)\n  w = s32[{0}] select(l, p, k)\n  i{1} = {2} "
        "broadcast(w), dimensions={{{3}}}\n",
        size, d, of_piece, along + (vector_dim == 0 ? 1 : 0));
  }
  text += fmt::format("  x = s32[{}] parameter(0)\n  u = s32[{},{}] parameter(1)\n", fmt::join(dims, ","), n, m);
  text += fmt::format("  i = s32[{}] concatenate({}), dimensions={{{}}}\n", fmt::join(all, ","), fmt::join(names, ", "),
                      vector_dim);
  const std::string list = fmt::format("{{{}}}", fmt::join(inserted, ","));
  text += fmt::format(
      "  g = s32[{0},{1}] gather(x, i), offset_dims={{}}, collapsed_slice_dims={2}, start_index_map={2}, "
      "index_vector_dim={3}, slice_sizes={{{4}}}\n  t = s32[{5}] scatter(x, i, u), update_window_dims={{}}, "
      "inserted_window_dims={2}, scatter_dims_to_operand_dims={2}, index_vector_dim={3}, to_apply=f\n  ROOT r = "
      "(s32[{0},{1}], s32[{5}]) tuple(g, t)\n}}\n",
      n, m, list, vector_dim, fmt::join(std::vector<int64_t>(static_cast<size_t>(rank), 1), ","), fmt::join(dims, ","));
  return text;
}

TEST(BatchIotaIndices, ComputeTheSame) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Random random(seed);
    const std::string text = random_module(random);
    SCOPED_TRACE(text);
    const auto module = parse_module(text);
    ASSERT_TRUE(module) << module.error().to_string();
    ASSERT_TRUE(has_iota_indices(**module));
    const auto batched = batch_iota_indices(**module);
    ASSERT_TRUE(batched) << batched.error().to_string();
    const std::string printed = print(*batched);
    EXPECT_NE(printed.find("operand_batching_dims"), std::string::npos) << printed;
    EXPECT_NE(printed.find("input_batching_dims"), std::string::npos) << printed;
    EXPECT_FALSE(has_iota_indices(*batched)) << printed;
    expect_same_values(**module, *batched, seed, 2);
  }
}

/// A gather from f32[`operand`] by pieces a, of s32[4,1], and b, which is a parameter.
std::string gather_of(const std::string& operand, const std::string& a) {
  return fmt::format(
      "ENTRY e {{ x = f32[{}] parameter(0) b = s32[4,1] parameter(1) {} i = s32[4,2] concatenate(a, b), "
      "dimensions={{1}} ROOT g = f32[4] gather(x, i), offset_dims={{}}, collapsed_slice_dims={{0,1}}, "
      "start_index_map={{0,1}}, index_vector_dim=1, slice_sizes={{1,1}} }}",
      operand, a);
}

TEST(BatchIotaIndices, TakesWhatCounts) {
  for (const char* piece : {"a = s32[4,1] iota(), iota_dimension=0", "a = s32[4,1] constant({{0},{1},{2},{3}})",
                            "k = s32[1,4] iota(), iota_dimension=1 a = s32[4,1] reshape(k)",
                            "k = s8[4] iota(), iota_dimension=0 w = s32[4] convert(k) a = s32[4,1] reshape(w)"}) {
    const auto module = parse_module(gather_of("4,9", piece));
    ASSERT_TRUE(module) << module.error().to_string();
    EXPECT_TRUE(has_iota_indices(**module)) << piece;
  }
}

TEST(BatchIotaIndices, LeavesOthers) {
  const std::string iota = "a = s32[4,1] iota(), iota_dimension=0";
  for (const auto& [operand, piece] :
       {std::pair<std::string, std::string>("5,9", iota),  // a row that has no index
        {"4,9", "a = s32[4,1] constant({{0},{1},{3},{2}})"},
        {"4,9", "a = s32[4,1] parameter(2)"},
        {"4,9", "k = s32[4,1] iota(), iota_dimension=0 a = s32[4,1] reverse(k), dimensions={0}"},
        {"4,9",
         "k = s32[4,1] parameter(2) z = s32[4,1] subtract(k, k) l = s32[4,1] iota(), iota_dimension=0 a = "
         "s32[4,1] add(l, z)"}}) {
    const auto module = parse_module(gather_of(operand, piece));
    ASSERT_TRUE(module) << module.error().to_string();
    EXPECT_FALSE(has_iota_indices(**module)) << operand << " " << piece;
  }
  // What takes many instructions is not looked at to its end.
  std::string chain = "k0 = s32[4,1] iota(), iota_dimension=0 z = s32[4,1] constant({{0},{0},{0},{0}})";
  for (int i = 1; i <= 30000; ++i) chain += fmt::format(" k{} = s32[4,1] add(k{}, z)", i, i - 1);
  const auto endless = parse_module(gather_of("4,9", chain + " a = s32[4,1] copy(k30000)"));
  ASSERT_TRUE(endless) << endless.error().to_string();
  EXPECT_FALSE(has_iota_indices(**endless));
  // Two indices in one piece, and none in the other.
  const auto uneven = parse_module(
      "ENTRY e { x = f32[4,9] parameter(0) a = s32[4,0] parameter(1) b = s32[4,2] iota(), iota_dimension=0 i = "
      "s32[4,2] "
      "concatenate(a, b), dimensions={1} ROOT g = f32[4] gather(x, i), offset_dims={}, collapsed_slice_dims={0,1}, "
      "start_index_map={0,1}, index_vector_dim=1, slice_sizes={1,1} }");
  ASSERT_TRUE(uneven) << uneven.error().to_string();
  EXPECT_FALSE(has_iota_indices(**uneven));
  // One dimension of the indices stands for one of the operand: of a diagonal, one piece stays.
  const auto diagonal = parse_module(
      "ENTRY e { x = f32[4,4] parameter(0) a = s32[4,1] iota(), iota_dimension=0 i = s32[4,2] concatenate(a, a), "
      "dimensions={1} ROOT g = f32[4] gather(x, i), offset_dims={}, collapsed_slice_dims={0,1}, start_index_map={0,1}, "
      "index_vector_dim=1, slice_sizes={1,1} }");
  ASSERT_TRUE(diagonal) << diagonal.error().to_string();
  const auto batched = batch_iota_indices(**diagonal);
  ASSERT_TRUE(batched) << batched.error().to_string();
  EXPECT_NE(print(*batched).find("operand_batching_dims={0}"), std::string::npos) << print(*batched);
}

// Once it is known which row an update is for, it is part of what reads the array.
TEST(BatchIotaIndices, UpdatesOfRowsBecomeElementwise) {
  const auto module = parse_module(
      "f { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }\nENTRY e { z = f32[] constant(0) o "
      "= f32[4,9] broadcast(z), dimensions={} a = s32[4,1] iota(), iota_dimension=0 b = s32[4,1] parameter(0) u = "
      "f32[4] parameter(1) i = s32[4,2] concatenate(a, b), dimensions={1} ROOT r = f32[4,9] scatter(o, i, u), "
      "update_window_dims={}, inserted_window_dims={0,1}, scatter_dims_to_operand_dims={0,1}, index_vector_dim=1, "
      "to_apply=f }");
  ASSERT_TRUE(module) << module.error().to_string();
  const auto batched = batch_iota_indices(**module);
  ASSERT_TRUE(batched) << batched.error().to_string();
  EXPECT_TRUE(has_row_scatters(*batched)) << print(*batched);
}

}  // namespace
}  // namespace strata::hlo
