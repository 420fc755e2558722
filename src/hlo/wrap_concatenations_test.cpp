#include "hlo/wrap_concatenations.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "hlo/evaluate.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"
#include "hlo/verify.h"
#include "support/random.h"

namespace strata::hlo {
namespace {

/// Wraps a module's concatenations and compares both by the interpreter: whether concatenations are left.
bool left_by_wrapping(const std::string& text) {
  const auto module = parse_module(text);
  if (!module) {
    ADD_FAILURE() << text << module.error().to_string();
    return false;
  }
  const Module wrapped = wrap_concatenations(**module);
  EXPECT_TRUE(verify(wrapped)) << text << print(wrapped);
  const auto arguments = typical_arguments((*module)->entry_computation(), 7);
  const Result<Literal> expected = evaluate(**module, arguments), result = evaluate(wrapped, arguments);
  if (!expected || !result) {
    ADD_FAILURE() << text << (expected ? result.error() : expected.error()).to_string();
    return false;
  }
  EXPECT_TRUE(identical(*expected, *result)) << text << print(wrapped);
  const auto& instructions = wrapped.entry_computation().instructions;
  return std::ranges::any_of(instructions, [](const Instruction& it) { return it.opcode == Opcode::Concatenate; });
}

/// A concatenation along dimension 1 of slices of p, an s32[4,10,3], by their places, with rows 1 to 2 of it.
std::string concatenation_of(const std::vector<std::pair<int64_t, int64_t>>& runs) {
  std::string slices;
  std::vector<std::string> names;
  int64_t length = 0;
  for (const auto& [start, limit] : runs) {
    names.push_back(fmt::format("s{}", names.size()));
    slices += fmt::format("  {} = s32[2,{},3] slice(p), slice={{[1:3], [{}:{}], [0:3]}}\n", names.back(), limit - start,
                          start, limit);
    length += limit - start;
  }
  return fmt::format(
      "HloModule m\nENTRY e {{\n  p = s32[4,10,3] parameter(0)\n{}"
      "  ROOT r = s32[2,{},3] concatenate({}), dimensions={{1}}\n}}\n",
      slices, length, fmt::join(names, ", "));
}

TEST(WrapConcatenations, GoAroundAnyRange) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Random random(seed);
    const auto below = [&](int64_t n) { return static_cast<int64_t>(random.below(static_cast<uint64_t>(n))); };
    const int64_t begin = below(9), end = begin + 1 + below(10 - begin);
    std::vector<std::pair<int64_t, int64_t>> runs;
    int64_t at = begin + below(end - begin);
    for (int64_t pieces = 2 + below(4); pieces > 0; --pieces) {
      const int64_t limit = at + 1 + below(end - at);
      runs.emplace_back(at, limit);
      at = limit == end ? begin : limit;
    }
    EXPECT_FALSE(left_by_wrapping(concatenation_of(runs))) << seed;
  }
}

TEST(WrapConcatenations, ComputesTheSameOfAnyPieces) {
  int left = 0;
  constexpr int kTexts = 300;
  for (uint64_t seed = 1; seed <= kTexts; ++seed) {
    Random random(seed);
    const auto below = [&](int64_t n) { return static_cast<int64_t>(random.below(static_cast<uint64_t>(n))); };
    std::vector<std::pair<int64_t, int64_t>> runs;
    for (int64_t pieces = 2 + below(3); pieces > 0; --pieces) {
      const int64_t start = below(10);
      runs.emplace_back(start, start + below(11 - start));  // some are empty
    }
    left += left_by_wrapping(concatenation_of(runs)) ? 1 : 0;
  }
  EXPECT_GT(left, kTexts / 4);
  EXPECT_LT(left, kTexts);
}

TEST(WrapConcatenations, EdgesAndMirrorsStay) {
  EXPECT_TRUE(left_by_wrapping(concatenation_of({{0, 1}, {0, 10}, {9, 10}})));
  EXPECT_TRUE(left_by_wrapping(concatenation_of({{1, 2}, {0, 10}, {8, 9}})));
}

TEST(WrapConcatenations, PiecesOfTwoArraysOrOtherPlacesStay) {
  const auto pieces = [](const std::string& first, const std::string& second) {
    return "HloModule m\nENTRY e {\n  p = f32[4,6] parameter(0)\n  q = f32[4,6] parameter(1)\n  a = f32[2,2] slice(" +
           first + "\n  b = f32[2,4] slice(" + second + "\n  ROOT r = f32[2,6] concatenate(a, b), dimensions={1}\n}\n";
  };
  EXPECT_FALSE(left_by_wrapping(pieces("p), slice={[0:2], [4:6]}", "p), slice={[0:2], [0:4]}")));
  EXPECT_TRUE(left_by_wrapping(pieces("p), slice={[0:2], [4:6]}", "q), slice={[0:2], [0:4]}")));
  EXPECT_TRUE(left_by_wrapping(pieces("p), slice={[0:2], [4:6]}", "p), slice={[1:3], [0:4]}")));
  EXPECT_TRUE(left_by_wrapping(pieces("p), slice={[0:4:2], [4:6]}", "p), slice={[0:4:2], [0:4]}")));
}

TEST(WrapConcatenations, AnArrayBesideItsEnds) {
  // Padding that wraps around, of a value that is computed, and again of the result.
  EXPECT_FALSE(left_by_wrapping(R"(
HloModule m
ENTRY e {
  p = f32[5,6] parameter(0)
  x = f32[5,6] negate(p)
  last = f32[1,6] slice(x), slice={[4:5], [0:6]}
  first = f32[1,6] slice(x), slice={[0:1], [0:6]}
  rows = f32[7,6] concatenate(last, x, first), dimensions={0}
  left = f32[7,2] slice(rows), slice={[0:7], [4:6]}
  twice = f32[7,14] concatenate(left, rows, rows), dimensions={1}
  ROOT r = (f32[7,14], f32[5,6]) tuple(twice, x)
})"));
}

}  // namespace
}  // namespace strata::hlo
