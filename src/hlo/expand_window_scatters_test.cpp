#include "hlo/expand_window_scatters.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "hlo/test_rewriting.h"
#include "hlo/text.h"
#include "support/random.h"

namespace strata::hlo {
namespace {

/// One window of any sizes, some dimensions of which are left out, at an index that is out of range too.
std::string random_module(Random& random) {
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random.below(static_cast<uint64_t>(n))); };
  const int64_t rank = 1 + below(3);
  std::vector<int64_t> dims, updates, window, inserted, moved, index;
  for (int64_t d = 0; d < rank; ++d) {
    dims.push_back(1 + below(9));
    const bool is_inserted = below(3) == 0;
    int64_t size = 1;
    if (is_inserted) {
      inserted.push_back(d);
    } else {
      size = 1 + below(dims.back());
      updates.push_back(size);
    }
    if (!is_inserted && below(3) == 0) continue;
    moved.push_back(d);
    index.push_back(below(8) == 0 ? below(40) - 20 : below(dims.back() - size + 1));
  }
  if (moved.empty()) {
    moved.push_back(0);
    index.push_back(0);
  }
  // Indices [n], or [1, n] with a dimension of updates of its own.
  const bool two = below(2) == 0;
  for (size_t i = 0; i < updates.size(); ++i) window.push_back(static_cast<int64_t>(i) + (two ? 1 : 0));
  if (two) updates.insert(updates.begin(), 1);
  const char* types[] = {"f32", "bf16", "s32", "pred", "c64"};
  const std::string type = types[below(5)];
  const std::string combiners[] = {
      fmt::format("b = {0}[] parameter(1)\n  ROOT r = {0}[] {1}(a, b)", type, type == "pred" ? "or" : "subtract"),
      fmt::format("b = {0}[] parameter(1)\n  n = {0}[] {1}(b)\n  ROOT r = {0}[] {2}(a, n)", type,
                  type == "pred" ? "not" : "negate", type == "pred" ? "xor" : "add"),
      fmt::format("ROOT b = {}[] parameter(1)", type)};
  const std::string combiner = combiners[below(3)];
  const std::string shape = fmt::format("s32[{}{}]", two ? "1," : "", index.size());
  std::string of_index =
      fmt::format("c = s32[{}] constant({{{}}})\n  i = {} reshape(c)", index.size(), fmt::join(index, ", "), shape);
  if (index.size() == 1)
    of_index = fmt::format("c = s32[] constant({})\n  i = {} broadcast(c), dimensions={{}}", index[0], shape);
  return fmt::format(
      "HloModule m\nf {{\n  a = {0}[] parameter(0)\n  {1}\n}}\nENTRY e {{\n  o = {0}[{2}] "
      "parameter(0)\n  u = {0}[{3}] parameter(1)\n  {4}\n  ROOT r = {0}[{2}] scatter(o, i, u), "
      "update_window_dims={{{5}}}, inserted_window_dims={{{6}}}, scatter_dims_to_operand_dims={{{7}}}, "
      "index_vector_dim={8}, to_apply=f\n}}\n",
      type, combiner, fmt::join(dims, ","), fmt::join(updates, ","), of_index, fmt::join(window, ","),
      fmt::join(inserted, ","), fmt::join(moved, ","), two ? 1 : 0);
}

TEST(ExpandWindowScatters, ComputeTheSame) {
  int elementwise = 0, put_back = 0, left = 0;
  for (uint64_t seed = 1; seed <= 600; ++seed) {
    Random random(seed);
    const std::string example = random_module(random);
    SCOPED_TRACE(example);
    const auto module = parse_module(example);
    ASSERT_TRUE(module) << module.error().to_string();
    if (!has_window_scatters(**module)) {
      ++left;
      continue;
    }
    const auto expanded = expand_window_scatters(**module);
    ASSERT_TRUE(expanded) << expanded.error().to_string();
    const std::string text = print(*expanded);
    EXPECT_EQ(text.find(" scatter("), std::string::npos);
    put_back += text.find("dynamic-update-slice") != std::string::npos ? 1 : 0;
    elementwise += text.find(" pad(") != std::string::npos ? 1 : 0;
    expect_same_values(**module, *expanded, seed, 1);
  }
  EXPECT_GE(put_back, 30);
  EXPECT_GE(elementwise, 100);
  EXPECT_GE(left, 50);
}

/// Several indices, or one that is computed, or a small window that is added: a scatter does these in place.
TEST(ExpandWindowScatters, LeavesOthers) {
  const char* head = "HloModule m\nf { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }\n";
  const char* several =
      "ENTRY e { o = f32[9,4] parameter(0) i = s32[2,1] parameter(1) u = f32[2,4] parameter(2) ROOT r = f32[9,4] "
      "scatter(o, i, u), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
      "index_vector_dim=1, to_apply=f }";
  const char* computed =
      "ENTRY e { o = f32[9,4] parameter(0) i = s32[1] parameter(1) u = f32[9,3] parameter(2) ROOT r = f32[9,4] "
      "scatter(o, i, u), update_window_dims={0,1}, inserted_window_dims={}, scatter_dims_to_operand_dims={1}, "
      "index_vector_dim=0, to_apply=f }";
  const char* small =
      "ENTRY e { o = f32[9,4] parameter(0) i = s32[1] constant({2}) u = f32[4] parameter(1) ROOT r = f32[9,4] "
      "scatter(o, i, u), update_window_dims={0}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
      "index_vector_dim=0, to_apply=f }";
  for (const char* text : {several, computed, small}) {
    const auto module = parse_module(std::string(head) + text);
    ASSERT_TRUE(module) << module.error().to_string();
    EXPECT_FALSE(has_window_scatters(**module)) << text;
  }
}

}  // namespace
}  // namespace strata::hlo
