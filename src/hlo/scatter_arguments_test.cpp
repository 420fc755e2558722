#include <gtest/gtest.h>

#include <filesystem>

#include "hlo/text.h"
#include "hlo/typical_arguments.h"
#include "support/random.h"
#include "test_paths.h"

namespace strata::hlo {
namespace {

/// What is wrong with the random arguments of a module.
std::string broken(const Module& module, uint64_t seed, int64_t* most = nullptr) {
  const auto facts = scatter_facts(module, typical_arguments(module, seed));
  if (!facts) return facts.error().to_string();
  if (most != nullptr) *most = facts->most_narrow_updates;
  std::string text;
  for (const Error& error : facts->broken_promises) text += error.to_string() + "\n";
  return text;
}

TEST(ScatterArguments, KeepThePromisesOfShippedPrograms) {
  int programs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(STRATA_SOURCE_DIR "/programs/hlo/small")) {
    const auto module = load_module(entry.path().string());
    ASSERT_TRUE(module) << module.error().to_string();
    for (uint64_t seed = 1; seed <= 3; ++seed) EXPECT_EQ(broken(**module, seed), "") << entry.path();
    ++programs;
  }
  EXPECT_GE(programs, 8);
}

/// Index vectors of several entries, in any order of the operand's dimensions and at any place, with windows.
TEST(ScatterArguments, KeepPromisesOfAllForms) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Random random(seed);
    const auto below = [&](int64_t n) { return static_cast<int64_t>(random.below(static_cast<uint64_t>(n))); };
    const int64_t count = 1 + below(12), rows = 1 + below(6), columns = 2 + below(6), window = 1 + below(2);
    const bool first = below(2) == 0, turned = below(2) == 0, unique = below(2) == 0;
    const char* type = below(2) == 0 ? "s32" : "u64";
    const std::string text = fmt::format(
        "f {{ a = f16[] parameter(0) b = f16[] parameter(1) ROOT r = f16[] add(a, b) }}\n"
        "ENTRY e {{ x = f16[{0},{1},3] parameter(0) i = {2}[{3}] parameter(1) u = f16[{4},{5},3] parameter(2)\n"
        "  c = {2}[{3}] copy(i) j = {2}[{6}] reshape(c)\n"
        "  ROOT r = f16[{0},{1},3] scatter(x, j, u), update_window_dims={{1,2}}, inserted_window_dims={{0}},\n"
        "    scatter_dims_to_operand_dims={{{7}}}, index_vector_dim={8}{9}{10}, to_apply=f }}\n",
        rows, columns, type, 2 * count, count, window, first ? fmt::format("2,{}", count) : fmt::format("{},2", count),
        turned ? "1,0" : "0,1", first ? 0 : 1, unique ? ", unique_indices=true" : "",
        !unique || below(2) == 0 ? ", indices_are_sorted=true" : "");
    const auto module = parse_module(text);
    ASSERT_TRUE(module) << module.error().to_string() << text;
    int64_t most = 0;
    EXPECT_EQ(broken(**module, seed, &most), "") << text;
    EXPECT_TRUE(!unique || most <= 1) << most;
  }
}

TEST(ScatterArguments, FactsNameBrokenPromises) {
  const auto module = parse_module(R"(
f { a = bf16[] parameter(0) b = bf16[] parameter(1) ROOT r = bf16[] add(a, b) }
ENTRY e { x = bf16[8] parameter(0) i = s32[4,1] constant({{3},{1},{3},{99}}) u = bf16[4] parameter(1)
  ROOT r = bf16[8] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0},
    index_vector_dim=1, unique_indices=true, indices_are_sorted=true, to_apply=f }
)");
  ASSERT_TRUE(module) << module.error().to_string();
  const auto facts = scatter_facts(**module, typical_arguments(**module, 1));
  ASSERT_TRUE(facts) << facts.error().to_string();
  EXPECT_EQ(facts->most_narrow_updates, 2);
  ASSERT_EQ(facts->broken_promises.size(), 2);
  EXPECT_EQ(facts->broken_promises[0].message,
            "the indices of r are not sorted, as indices_are_sorted=true promises: the result may be another one");
  EXPECT_TRUE(facts->broken_promises[1].location.known());
}

}  // namespace
}  // namespace strata::hlo
