// Estimates of sorts, top-ks and scatters against times measured on an H200 (bench/results/*modules*.json). They are
// to be of the right size, not right: within a factor of 2.5.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "emitters/program.h"
#include "hlo/text.h"

namespace strata::emitters {
namespace {

/// Of the only step of a module's program.
double estimated(const std::string& text) {
  const auto module = hlo::parse_module("HloModule m\n" + text);
  EXPECT_TRUE(module) << module.error().to_string();
  if (!module) return 0;
  const auto program = emit_program(**module);
  EXPECT_TRUE(program) << program.error().to_string();
  if (!program) return 0;
  EXPECT_EQ(program->steps.size(), 1U);
  return program->steps.front().microseconds.value_or(0);
}

void check(const std::string& text, double measured) {
  const double estimate = estimated(text);
  EXPECT_GT(estimate, measured / 2.5) << text;
  EXPECT_LT(estimate, measured * 2.5) << text;
}

/// Along one dimension of a matrix, with places beside the elements or without.
std::string sort(int64_t rows, int64_t length, bool with_places, int dimension = 1) {
  const std::string dims = dimension == 1 ? fmt::format("[{},{}]", rows, length) : fmt::format("[{},{}]", length, rows);
  const std::string less = "  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n";
  const std::string order = "  ROOT r = pred[] compare(a, b), direction=LT, type=TOTALORDER\n";
  if (!with_places)
    return fmt::format(
        "less {{\n{}{}}}\nENTRY e {{\n  x = f32{} parameter(0)\n  ROOT s = f32{} sort(x), dimensions={{{}}}, "
        "to_apply=less\n}}\n",
        less, order, dims, dims, dimension);
  return fmt::format(
      "less {{\n{0}  i = s32[] parameter(2)\n  j = s32[] parameter(3)\n{1}}}\nENTRY e {{\n  x = f32{2} parameter(0)\n  "
      "i = s32{2} iota(), iota_dimension={3}\n  ROOT s = (f32{2}, s32{2}) sort(x, i), dimensions={{{3}}}, "
      "is_stable=true, to_apply=less\n}}\n",
      less, order, dims, dimension);
}

TEST(Estimates, OfSortsAreOfTheMeasuredSize) {
  check(sort(1024, 16384, false), 1168);   // sort_rows_f32
  check(sort(8192, 511, false), 108);      // median_f32
  check(sort(1000, 3001, false, 0), 114);  // quantiles_of_columns_f32
  check(sort(64, 32000, false), 168);      // top_p_f32
  check(sort(1, 1048576, true), 102);      // argsort_s32, of integers there
  check(sort(1, 100003, true), 61);        // permutation_rows_bf16, of integers there
}

TEST(Estimates, OfTopKsAreOfTheMeasuredSize) {
  const auto top_k = [](int64_t rows, int64_t length, int64_t k, const char* type) {
    return fmt::format(
        "ENTRY e {{\n  x = {0}[{1},{2}] parameter(0)\n  ROOT t = ({0}[{1},{3}], s32[{1},{3}]) topk(x), k={3}, "
        "largest=true\n}}\n",
        type, rows, length, k);
  };
  check(top_k(128, 128256, 50, "f32"), 357);  // top_k_50_f32
  check(top_k(16384, 256, 8, "bf16"), 74);    // top_k_8_bf16
  check(top_k(16384, 64, 2, "f32"), 16);      // moe_router_grad_f32
  check(top_k(10, 3000, 600, "f32"), 16);     // expert_choice_f32
}

/// Rows of an array of zeros, by one index each.
std::string scatter(int64_t rows, int64_t width, int64_t updates, const char* combiner) {
  return fmt::format(
      "both {{\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT r = f32[] {0}(a, b)\n}}\nENTRY e {{\n  zero "
      "= "
      "f32[] constant(0)\n  x = f32[{1},{2}] broadcast(zero), dimensions={{}}\n  i = s32[{3},1] parameter(0)\n  u = "
      "f32[{3},{2}] parameter(1)\n  ROOT s = f32[{1},{2}] scatter(x, i, u), update_window_dims={{1}}, "
      "inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=both\n}}\n",
      combiner, rows, width, updates);
}

TEST(Estimates, OfScattersAreOfTheMeasuredSize) {
  check(scatter(50000, 64, 1000000, "add"), 123);      // segment_sum_f32
  check(scatter(50000, 64, 1000000, "maximum"), 126);  // segment_max_f32
  check(scatter(50257, 1024, 16384, "add"), 99);       // embedding_grad_f32
  check(scatter(100000, 8, 1000000, "add"), 26);       // segment_softmax_f32
  check(scatter(100000, 8, 1000000, "maximum"), 51);
}

TEST(Estimates, GrowWithTheWorkAndNotWithOneThreadsPartOfIt) {
  // As many rows as there are multiprocessors take as long as half of them, each a block's, and twice as many twice
  // that. Fewer are shared by several blocks.
  const double half = estimated(sort(67, 4096, false)), all = estimated(sort(132, 4096, false));
  EXPECT_NEAR(half, all, 0.01 * half);
  EXPECT_LT(estimated(sort(1, 4096, false)), 0.8 * half);
  EXPECT_GT(estimated(sort(264, 4096, false)), 1.5 * all);
  EXPECT_LT(estimated(scatter(1000, 16, 3000, "add")), 20);
}

}  // namespace
}  // namespace strata::emitters
