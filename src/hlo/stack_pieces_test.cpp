#include "hlo/stack_pieces.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "hlo/evaluate.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"
#include "hlo/verify.h"
#include "support/random.h"

namespace strata::hlo {
namespace {

bool has_concatenate(const Module& module) {
  const Computation& entry = module.entry_computation();
  return std::any_of(entry.instructions.begin(), entry.instructions.end(),
                     [](const Instruction& it) { return it.opcode == Opcode::Concatenate; });
}

/// Stacks a module's pieces and compares both by the interpreter: whether concatenations are left.
bool left_by_stacking(const std::string& text) {
  const auto module = parse_module(text);
  if (!module) {
    ADD_FAILURE() << text << module.error().to_string();
    return false;
  }
  const Module stacked = stack_pieces(**module);
  EXPECT_TRUE(verify(stacked)) << text << print(stacked);
  const auto arguments = typical_arguments((*module)->entry_computation(), 11);
  const Result<Literal> expected = evaluate(**module, arguments), result = evaluate(stacked, arguments);
  if (!expected || !result) {
    ADD_FAILURE() << text << (expected ? result.error() : expected.error()).to_string();
    return false;
  }
  EXPECT_TRUE(identical(*expected, *result)) << text << print(stacked);
  return has_concatenate(stacked);
}

/// Pieces of an array of 6 x 4 side by side along a dimension, multiplied; `pieces` by names, after what defines them.
std::string product_of(const std::string& type, const std::string& body, const std::vector<std::string>& pieces,
                       int64_t dim) {
  std::vector<int64_t> dims{6, 4};
  dims[static_cast<size_t>(dim)] *= std::ssize(pieces);
  return fmt::format(
      "HloModule m\nENTRY e {{\n  p = {0}[6,4] parameter(0)\n  q = {0}[6,4] parameter(1)\n  w = f32[3,{2}] "
      "parameter(2)\n{1}  all = {0}[{2},{3}] concatenate({4}), dimensions={{{5}}}\n  x = f32[{2},{3}] convert(all)\n"
      "  ROOT r = f32[3,{3}] dot(w, x), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n}}\n",
      type, body, dims[0], dims[1], fmt::join(pieces, ", "), dim);
}

std::string integer(const std::string& type, const std::string& name, int64_t value) {
  return fmt::format("  {0}.c = {1}[] constant({2})\n  {0} = {1}[6,4] broadcast({0}.c), dimensions={{}}\n", name, type,
                     value);
}

TEST(StackPieces, ComputesTheSame) {
  int stacked = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Random random(seed);
    const auto below = [&](int n) { return static_cast<int>(random.below(static_cast<uint64_t>(n))); };
    const char* const types[] = {"u8", "s8", "s32", "u16"};
    const std::string type = types[below(4)];
    const std::vector<std::string> operators{"shift-right-logical",
                                             "shift-right-arithmetic",
                                             "shift-left",
                                             "and",
                                             "or",
                                             "xor",
                                             "add",
                                             "subtract",
                                             "multiply"};
    // Up to three operators with a first integer and a distance each, left out where they change nothing.
    const int length = 1 + below(3), count = 2 + below(3);
    std::string body;
    std::vector<std::string> pieces(static_cast<size_t>(count), below(4) == 0 ? "q" : "p");
    for (int k = 0; k < length; ++k) {
      const std::string op = operators[static_cast<size_t>(below(9))];
      const int first = below(3), distance = below(4), nothing = op == "multiply" ? 1 : op == "and" ? -1 : 0;
      for (int i = 0; i < count; ++i) {
        const int value = first + i * distance;
        if (value == nothing) continue;
        const std::string name = fmt::format("v{}.{}", k, i);
        body += integer(type, name + ".by", value);
        body += fmt::format("  {} = {}[6,4] {}({}, {}.by)\n", name, type, op, pieces[static_cast<size_t>(i)], name);
        pieces[static_cast<size_t>(i)] = name;
      }
    }
    if (!left_by_stacking(product_of(type, body, pieces, below(2)))) ++stacked;
  }
  EXPECT_GE(stacked, 120);
}

TEST(StackPieces, UnpacksNibbles) {
  const std::string body = integer("u8", "low", 15) + integer("u8", "four", 4) +
                           "  a = u8[6,4] and(p, low)\n  b = u8[6,4] shift-right-logical(p, four)\n";
  EXPECT_FALSE(left_by_stacking(product_of("u8", body, {"a", "b"}, 0)));
}

TEST(StackPieces, LeavesScalarsBesideArrays) {
  const std::string body = integer("u8", "low", 15) + integer("u8", "four", 4) +
                           "  lo = u8[] constant(1)\n  hi = u8[] constant(9)\n  t = pred[] constant(true)\n"
                           "  a = u8[6,4] and(p, low)\n  b = u8[6,4] shift-right-logical(p, four)\n"
                           "  c = u8[6,4] clamp(lo, a, hi)\n  d = u8[6,4] clamp(lo, b, hi)\n"
                           "  e1 = u8[6,4] select(t, a, q)\n  e2 = u8[6,4] select(t, b, q)\n";
  for (const int64_t dim : {0, 1}) {
    EXPECT_TRUE(left_by_stacking(product_of("u8", body, {"c", "d"}, dim)));
    EXPECT_TRUE(left_by_stacking(product_of("u8", body, {"e1", "e2"}, dim)));
  }
}

TEST(StackPieces, DistancesWrapAround) {
  const std::string body =
      integer("s64", "most", std::numeric_limits<int64_t>::max()) + "  a = s64[6,4] and(p, most)\n";
  EXPECT_FALSE(left_by_stacking(product_of("s64", body, {"p", "a"}, 0)));
}

TEST(StackPieces, LeavesWhatIsNotAlike) {
  const std::string shifts = integer("u8", "one", 1) + integer("u8", "two", 2) + integer("u8", "five", 5) +
                             "  a = u8[6,4] shift-right-logical(p, one)\n  b = u8[6,4] shift-right-logical(p, two)\n"
                             "  c = u8[6,4] shift-right-logical(p, five)\n"
                             "  d = u8[6,4] shift-right-logical(q, two)\n";
  EXPECT_FALSE(left_by_stacking(product_of("u8", shifts, {"a", "b"}, 0)));
  EXPECT_TRUE(left_by_stacking(product_of("u8", shifts, {"a", "b", "c"}, 0)));  // at distances 1 and 3
  EXPECT_TRUE(left_by_stacking(product_of("u8", shifts, {"a", "d"}, 0)));       // of two arrays
  EXPECT_TRUE(left_by_stacking(product_of("u8", shifts, {"p", "q"}, 1)));
  // What no product reads is written piece by piece.
  EXPECT_TRUE(left_by_stacking("HloModule m\nENTRY e {\n  p = u8[6,4] parameter(0)\n" + integer("u8", "two", 2) +
                               "  a = u8[6,4] shift-right-logical(p, two)\n"
                               "  ROOT r = u8[12,4] concatenate(p, a), dimensions={0}\n}\n"));
}

}  // namespace
}  // namespace strata::hlo
