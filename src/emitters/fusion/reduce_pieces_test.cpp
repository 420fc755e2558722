#include "emitters/fusion/reduce_pieces.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "emitters/library/calls.h"
#include "emitters/program.h"
#include "hlo/compare.h"
#include "hlo/evaluate.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"
#include "hlo/verify.h"
#include "support/random.h"

namespace strata::emitters {
namespace {

using Dimensions = std::vector<int64_t>;

/// A GPU whose memory is so slow that every kernel is worth its launch.
Target slow_memory() {
  Target target = default_target();
  target.rates.memory_bandwidth = 1e6;
  return target;
}

int64_t count(const hlo::Module& module, hlo::Opcode opcode) {
  const std::vector<hlo::Instruction>& all = module.entry_computation().instructions;
  return std::ranges::count_if(all, [&](const hlo::Instruction& it) { return it.opcode == opcode; });
}

std::set<hlo::InstructionId> needed(const hlo::Computation& entry) {
  std::set<hlo::InstructionId> seen;
  std::vector<hlo::InstructionId> stack{entry.root};
  while (!stack.empty()) {
    const hlo::InstructionId id = stack.back();
    stack.pop_back();
    if (seen.insert(id).second) stack.insert(stack.end(), entry[id].operands.begin(), entry[id].operands.end());
  }
  return seen;
}

/// Concatenations that the result is computed of.
int64_t concatenations(const hlo::Module& module) {
  const hlo::Computation& entry = module.entry_computation();
  const std::set<hlo::InstructionId> all = needed(entry);
  return std::ranges::count_if(all,
                               [&](hlo::InstructionId id) { return entry[id].opcode == hlo::Opcode::Concatenate; });
}

constexpr const char* kCombiners = R"(HloModule m
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}
most {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] maximum(a, b)
}
)";

/// The module cut, which is verified and computes the same, as do its kernels on the CPU.
hlo::Module checked(const std::string& text, uint64_t seed) {
  SCOPED_TRACE(text);
  const auto module = hlo::parse_module(text);
  EXPECT_TRUE(module) << module.error().to_string();
  if (!module) return {};
  hlo::Module changed = reduce_pieces(**module, slow_memory());
  const auto verified = hlo::verify(changed);
  EXPECT_TRUE(verified) << verified.error().to_string() << hlo::print(changed);
  if (!verified) return changed;
  const auto arguments = hlo::typical_arguments((*module)->entry_computation(), seed);
  const auto expected = hlo::evaluate(**module, arguments);
  const auto actual = hlo::evaluate(changed, arguments);
  EXPECT_TRUE(expected && actual);
  if (!expected || !actual) return changed;
  EXPECT_EQ(hlo::difference(*actual, *expected, 64).value_or(""), "") << hlo::print(changed);
  const auto program = emit_program(changed);
  EXPECT_TRUE(program) << program.error().to_string();
  if (!program) return changed;
  const auto run = run_on_cpu(*program, arguments);
  EXPECT_TRUE(run) << run.error().to_string();
  if (!run) return changed;
  EXPECT_EQ(hlo::difference(*run, *expected, 64).value_or(""), "") << hlo::print(changed);
  return changed;
}

/// The product of two raveled trees, as JAX writes vdot(ravel(g), ravel(a) - ravel(b)), beside a sum of one leaf.
std::string raveled(const std::string& result = "s") {
  return fmt::format(R"({}ENTRY e {{
  g0 = f32[7,30] parameter(0)
  g1 = f32[11] parameter(1)
  a0 = f32[7,30] parameter(2)
  a1 = f32[11] parameter(3)
  b0 = f32[7,30] parameter(4)
  b1 = f32[11] parameter(5)
  g0.flat = f32[210] reshape(g0)
  a0.flat = f32[210] reshape(a0)
  b0.flat = f32[210] reshape(b0)
  g = f32[221] concatenate(g0.flat, g1), dimensions={{0}}
  a = f32[221] concatenate(a0.flat, a1), dimensions={{0}}
  b = f32[221] concatenate(b0.flat, b1), dimensions={{0}}
  less = f32[221] subtract(a, b)
  half = f32[] constant(0.5)
  halves = f32[221] broadcast(half), dimensions={{}}
  scaled = f32[221] multiply(less, halves)
  products = f32[221] multiply(g, scaled)
  zero = f32[] constant(0)
  s = f32[] reduce(products, zero), dimensions={{0}}, to_apply=sum
  ROOT t = (f32[], f32[221]) tuple(s, {})
}}
)",
                     kCombiners, result == "s" ? "halves" : result);
}

TEST(ReducePieces, RaveledTreesAreLeaves) {
  const hlo::Module changed = checked(raveled(), 1);
  EXPECT_EQ(concatenations(changed), 0);
  const hlo::Computation& entry = changed.entry_computation();
  std::vector<Dimensions> reduced;
  for (const hlo::Instruction& it : entry.instructions) {
    if (it.opcode == hlo::Opcode::Reduce) reduced.push_back(entry.operand_shape(it, 0).dims);
  }
  EXPECT_EQ(reduced, (std::vector<Dimensions>{{7, 30}, {11}})) << "a leaf keeps its shape";
}

/// A product of two vectors is a reduction of their products, as libraries' preparation writes it.
TEST(ReducePieces, ProductsOfRaveledTreesAreLeaves) {
  const auto module = hlo::parse_module(R"(HloModule m
ENTRY e {
  g0 = f32[7,30] parameter(0)
  g1 = f32[11] parameter(1)
  a0 = f32[7,30] parameter(2)
  a1 = f32[11] parameter(3)
  g0.flat = f32[210] reshape(g0)
  a0.flat = f32[210] reshape(a0)
  g = f32[221] concatenate(g0.flat, g1), dimensions={0}
  a = f32[221] concatenate(a0.flat, a1), dimensions={0}
  ROOT r = f32[] dot(g, a), lhs_contracting_dims={0}, rhs_contracting_dims={0}
})");
  ASSERT_TRUE(module) << module.error().to_string();
  const hlo::Module prepared = prepare_for_libraries(**module, slow_memory(), LibraryUse::WhereFaster);
  const hlo::Module changed = checked(hlo::print(prepared), 3);
  EXPECT_EQ(concatenations(changed), 0);
  EXPECT_EQ(count(changed, hlo::Opcode::Reduce), 2);
}

TEST(ReducePieces, WhatElseIsReadStays) {
  for (const char* read : {"g", "less"}) {
    const hlo::Module changed = checked(raveled(read), 2);
    EXPECT_EQ(count(changed, hlo::Opcode::Reduce), 1) << read;
  }
}

TEST(ReducePieces, FewBytesStay) {
  const auto module = hlo::parse_module(raveled());
  ASSERT_TRUE(module) << module.error().to_string();
  EXPECT_EQ(count(reduce_pieces(**module, default_target()), hlo::Opcode::Reduce), 1);
}

TEST(ReducePieces, RandomConcatenations) {
  int64_t cut = 0;
  for (uint64_t seed = 1; seed <= 24; ++seed) {
    Random random(seed);
    const auto number = [&](int64_t least, int64_t most) {
      return least + static_cast<int64_t>(random.below(static_cast<uint64_t>(most - least + 1)));
    };
    const int64_t rank = number(1, 3), d = number(0, rank - 1), pieces = number(2, 4);
    Dimensions dims;
    for (int64_t i = 0; i < rank; ++i) dims.push_back(number(1, 9));
    int64_t size = 0;
    std::string entry, first, other;
    for (int64_t i = 0; i < pieces; ++i) {
      Dimensions own = dims;
      own[static_cast<size_t>(d)] = number(1, 40);
      size += own[static_cast<size_t>(d)];
      entry += fmt::format("  p{0} = f32[{1}] parameter({0})\n", i, fmt::join(own, ","));
      first += fmt::format("{}p{}", i == 0 ? "" : ", ", i);
      other += fmt::format("{}p{}", i == 0 ? "" : ", ", pieces - 1 - i);  // ends elsewhere
    }
    dims[static_cast<size_t>(d)] = size;
    Dimensions reduced, kept;
    for (int64_t i = 0; i < rank; ++i) {
      const bool goes = i == d || number(0, 1) == 0;
      if (goes) reduced.push_back(i);
      if (!goes) kept.push_back(dims[static_cast<size_t>(i)]);
    }
    const std::string shape = fmt::format("f32[{}]", fmt::join(dims, ","));
    const bool most = number(0, 1) == 0;
    entry += fmt::format("  x = {0} concatenate({1}), dimensions={{{2}}}\n", shape, first, d);
    entry += fmt::format("  y = {0} concatenate({1}), dimensions={{{2}}}\n", shape, other, d);
    entry += fmt::format("  w = f32[{}] parameter({})\n", dims.back(), pieces);
    entry += fmt::format("  ws = {} broadcast(w), dimensions={{{}}}\n", shape, rank - 1);
    entry += fmt::format("  z = {} parameter({})\n", shape, pieces + 1);
    entry += fmt::format("  low = f32[] constant(-0.5)\n  high = f32[] constant(0.5)\n");
    entry += fmt::format("  c = {} clamp(low, y, high)\n  xz = {} multiply(x, z)\n", shape, shape);
    entry += fmt::format("  cw = {} multiply(c, ws)\n  v = {} add(xz, cw)\n", shape, shape);
    entry += fmt::format("  zero = f32[] constant({})\n", most ? "-inf" : "0");
    entry += fmt::format("  ROOT r = f32[{}] reduce(v, zero), dimensions={{{}}}, to_apply={}\n", fmt::join(kept, ","),
                         fmt::join(reduced, ","), most ? "most" : "sum");
    const hlo::Module changed = checked(fmt::format("{}ENTRY e {{\n{}}}\n", kCombiners, entry), seed);
    EXPECT_EQ(concatenations(changed), 0);
    cut += count(changed, hlo::Opcode::Reduce) > 1 ? 1 : 0;
  }
  EXPECT_EQ(cut, 24);
}

}  // namespace
}  // namespace strata::emitters
