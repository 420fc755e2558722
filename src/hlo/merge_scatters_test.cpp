#include "hlo/merge_scatters.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "hlo/evaluate.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"
#include "hlo/verify.h"
#include "support/random.h"

namespace strata::hlo {
namespace {

/// Merges a module's scatters and compares both by the interpreter: how many scatters the result is computed of.
int left_by_merging(const std::string& text) {
  const auto module = parse_module(text);
  if (!module) {
    ADD_FAILURE() << text << module.error().to_string();
    return -1;
  }
  const Module merged = merge_scatters(**module);
  EXPECT_TRUE(verify(merged)) << text << print(merged);
  const auto arguments = typical_arguments((*module)->entry_computation(), 5);
  const Result<Literal> expected = evaluate(**module, arguments), result = evaluate(merged, arguments);
  if (!expected || !result) {
    ADD_FAILURE() << text << (expected ? result.error() : expected.error()).to_string();
    return -1;
  }
  EXPECT_TRUE(identical(*expected, *result)) << text << print(merged);
  // From the result back, through the arrays that are scattered into.
  const Computation& entry = merged.entry_computation();
  int count = 0;
  InstructionId at = entry.root;
  if (entry[at].opcode == Opcode::Tuple) at = entry[at].operands[0];
  for (; entry[at].opcode == Opcode::Scatter; at = entry[at].operands[0]) ++count;
  return count;
}

std::string combiner(const std::string& name, const std::string& type, const std::string& op) {
  return fmt::format(
      "{0} {{\n  {0}.a = {1}[] parameter(0)\n  {0}.b = {1}[] parameter(1)\n  ROOT {0}.r = {1}[] {2}("
      "{0}.a, {0}.b)\n}}\n",
      name, type, op);
}

constexpr const char* kAttributes =
    "update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1";

/// A scatter of `u` or `v` at the indices i, and one at j after it; `result` is of s and t.
std::string two(const std::string& type, const std::string& first_op, const std::string& second_op,
                const std::string& second_updates = "u", const std::string& result = "t",
                const std::string& flags = "") {
  const std::string shape = result == "t" ? type + "[9]" : fmt::format("({0}[9], {0}[9])", type);
  const std::string root = result == "t" ? "ROOT t" : "t";
  const std::string tuple = result == "t" ? "" : fmt::format("  ROOT r = {} tuple({})\n", shape, result);
  return fmt::format(
      "HloModule m\n{0}{1}ENTRY e {{\n  x = {4}[9] parameter(0)\n  i = s32[7,1] parameter(1)\n"
      "  j = s32[7,1] parameter(2)\n  u = {4}[7] parameter(3)\n  v = {4}[7] parameter(4)\n"
      "  s = {4}[9] scatter(x, i, u), {5}{6}, to_apply=first\n"
      "  {2} = {4}[9] scatter(s, j, {7}), {5}{6}, to_apply=second\n{3}}}\n",
      combiner("first", type, first_op), combiner("second", type, second_op), root, tuple, type, kAttributes, flags,
      second_updates);
}

TEST(MergeScatters, OfTheSameUpdatesAreOne) {
  for (const char* const op : {"minimum", "maximum", "add", "multiply", "and", "or", "xor"})
    EXPECT_EQ(left_by_merging(two("s32", op, op)), 1) << op;
  EXPECT_EQ(left_by_merging(two("f32", "minimum", "minimum")), 1);
}

TEST(MergeScatters, WhatDependsOnTheOrderStays) {
  EXPECT_EQ(left_by_merging(two("f32", "add", "add")), 2);
  EXPECT_EQ(left_by_merging(two("s32", "subtract", "subtract")), 2);
  EXPECT_EQ(left_by_merging(two("s32", "minimum", "maximum")), 2);
}

TEST(MergeScatters, OtherUpdatesReadersAndKnownIndicesStay) {
  EXPECT_EQ(left_by_merging(two("s32", "add", "add", "v")), 2);
  EXPECT_EQ(left_by_merging(two("s32", "add", "add", "u", "t, s")), 2);
  EXPECT_EQ(left_by_merging(two("s32", "minimum", "minimum", "u", "t", ", indices_are_sorted=true")), 2);
}

/// Chains of scatters of windows or single elements, with as many index vectors each as they like where the updates are
/// one scalar everywhere, some of them outside of the array.
TEST(MergeScatters, ChainsComputeTheSame) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    Random random(seed);
    const auto below = [&](int n) { return static_cast<int>(random.below(static_cast<uint64_t>(n))); };
    const bool scalar = below(2) == 0, windows = below(2) == 0, vectors_first = below(2) == 0;
    const int length = 2 + below(3), n = 1 + below(5);
    const char* const ops[] = {"add", "minimum", "or"};
    std::string text = "HloModule m\n" + combiner("c", "s32", ops[below(3)]) +
                       "ENTRY e {\n  x0 = s32[6,4] parameter(0)\n  one = s32[] constant(3)\n";
    const auto updates = [&](int count) {
      return windows ? fmt::format("s32[2,{}]", count) : fmt::format("s32[{}]", count);
    };
    if (!scalar) text += fmt::format("  u = {} parameter(1)\n", updates(n));
    for (int k = 0; k < length; ++k) {
      const int count = scalar ? 1 + below(5) : n;
      const int components = windows ? 1 : 2;
      const std::string of =
          vectors_first ? fmt::format("s32[{},{}]", components, count) : fmt::format("s32[{},{}]", count, components);
      text += fmt::format("  i{0} = {1} parameter({2})\n", k, of, k + (scalar ? 1 : 2));
      if (scalar) text += fmt::format("  u{} = {} broadcast(one), dimensions={{}}\n", k, updates(count));
      const std::string attributes =
          windows ? "update_window_dims={0}, inserted_window_dims={1}, scatter_dims_to_operand_dims={1}"
                  : "update_window_dims={}, inserted_window_dims={0,1}, scatter_dims_to_operand_dims={0,1}";
      text += fmt::format("  {}x{} = s32[6,4] scatter(x{}, i{}, {}), {}, index_vector_dim={}, to_apply=c\n",
                          k + 1 == length ? "ROOT " : "", k + 1, k, k, scalar ? fmt::format("u{}", k) : "u", attributes,
                          vectors_first ? 0 : 1);
    }
    EXPECT_EQ(left_by_merging(text + "}\n"), 1) << seed << text;
  }
}

}  // namespace
}  // namespace strata::hlo
