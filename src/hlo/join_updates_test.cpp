#include "hlo/join_updates.h"

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

int64_t count(const Module& module, Opcode opcode) {
  const Computation& entry = module.entry_computation();
  return std::count_if(entry.instructions.begin(), entry.instructions.end(),
                       [&](const Instruction& it) { return it.opcode == opcode; });
}

/// Updates of an array of these sizes that begins with one number everywhere.
struct Chain {
  std::vector<int64_t> dims;
  size_t along = 0;
  std::vector<std::pair<int64_t, int64_t>> updates;  ///< where, how much
  std::string base = "s32[{0}] broadcast(number), dimensions={{}}", root = "ROOT r = s32[{0}] negate(u{1})\n";

  std::string text() const {
    const std::string sizes = fmt::format("{}", fmt::join(dims, ","));
    std::string all = "ENTRY e {\n  number = s32[] constant(7)\n  zero = s32[] constant(0)\n  u0 = " +
                      fmt::format(fmt::runtime(base), sizes) + "\n";
    for (size_t i = 0; i < updates.size(); ++i) {
      std::vector<int64_t> part = dims;
      part[along] = updates[i].second;
      std::vector<std::string> starts(dims.size(), "zero");
      starts[along] = fmt::format("at{}", i);
      all += fmt::format("  p{0} = s32[{1}] parameter({0})\n  at{0} = s32[] constant({2})\n", i, fmt::join(part, ","),
                         updates[i].first);
      all += fmt::format("  u{} = s32[{}] dynamic-update-slice(u{}, p{}, {})\n", i + 1, sizes, i, i,
                         fmt::join(starts, ", "));
    }
    return all + "  " + fmt::format(fmt::runtime(root), sizes, updates.size()) + "}\n";
  }
};

Module joined(const std::string& text) {
  const auto module = parse_module(text);
  EXPECT_TRUE(module) << module.error().to_string() << text;
  Module changed = join_updates(**module);
  EXPECT_TRUE(verify(changed)) << text << print(changed);
  const auto arguments = typical_arguments((*module)->entry_computation(), 1);
  const auto expected = evaluate(**module, arguments), actual = evaluate(changed, arguments);
  EXPECT_TRUE(expected && actual) << text;
  if (expected && actual) {
    EXPECT_TRUE(identical(*expected, *actual)) << text << print(changed);
  }
  return changed;
}

TEST(JoinUpdates, RandomChainsAreConcatenations) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Random random(seed);
    const auto between = [&](int64_t low, int64_t high) {
      return low + static_cast<int64_t>(random.below(static_cast<uint64_t>(high - low + 1)));
    };
    Chain chain;
    for (int64_t d = between(1, 3); d > 0; --d) chain.dims.push_back(between(2, 9));
    chain.along = static_cast<size_t>(between(0, std::ssize(chain.dims) - 1));
    const int64_t size = chain.dims[chain.along];
    for (int64_t i = between(2, 6); i > 0; --i)
      chain.updates.emplace_back(between(-2, size + 1), between(1, size - 1));  // places are clamped
    const Module changed = joined(chain.text());
    EXPECT_EQ(count(changed, Opcode::DynamicUpdateSlice), 0) << chain.text();
    EXPECT_EQ(count(changed, Opcode::Concatenate), 1) << chain.text();
  }
}

TEST(JoinUpdates, StayWhereTheyAreNoChainOrTheArrayHasElements) {
  Chain chain{{4, 6}, 1, {{0, 1}, {3, 2}}};
  EXPECT_EQ(count(joined(chain.text()), Opcode::DynamicUpdateSlice), 0);
  Chain one = chain;
  one.updates.pop_back();
  EXPECT_EQ(count(joined(one.text()), Opcode::DynamicUpdateSlice), 1) << "one alone";
  Chain other = chain;
  other.base = "s32[{0}] iota(), iota_dimension=0";
  EXPECT_EQ(count(joined(other.text()), Opcode::DynamicUpdateSlice), 2) << "what is updated has elements";
  other = chain;
  other.root = "ROOT r = (s32[{0}], s32[{0}]) tuple(u{1}, u1)\n";
  EXPECT_EQ(count(joined(other.text()), Opcode::DynamicUpdateSlice), 2) << "what lies between is read";
  other.root = "unused = s32[{0}] negate(u1)\n  ROOT r = s32[{0}] negate(u{1})\n";
  EXPECT_EQ(count(joined(other.text()), Opcode::DynamicUpdateSlice), 0) << "but by nothing that counts";
}

TEST(JoinUpdates, AnUpdateOfAllIsNoPart) {
  EXPECT_EQ(count(joined(R"(ENTRY e {
  n = s32[] constant(7)
  b = s32[2,3] broadcast(n), dimensions={}
  x = s32[2,2] parameter(0)
  y = s32[1,3] parameter(1)
  zero = s32[] constant(0)
  u = s32[2,3] dynamic-update-slice(b, x, zero, zero)
  v = s32[2,3] dynamic-update-slice(u, y, zero, zero)
  ROOT r = s32[2,3] negate(v)
})"),
                  Opcode::DynamicUpdateSlice),
            2)
      << "along two dimensions";
}

}  // namespace
}  // namespace strata::hlo
