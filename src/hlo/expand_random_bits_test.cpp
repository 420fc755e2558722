#include "hlo/expand_random_bits.h"

#include <gtest/gtest.h>

#include "hlo/evaluate.h"
#include "hlo/text.h"
#include "hlo/verify.h"
#include "support/random.h"

namespace strata::hlo {
namespace {

ModulePtr parsed(const std::string& text) {
  auto module = parse_module(text);
  EXPECT_TRUE(module) << module.error().to_string() << text;
  return module ? *module : nullptr;
}

TEST(ExpandRandomBits, GivesTheInterpretersBits) {
  for (uint64_t seed = 1; seed <= 120; ++seed) {
    Random random(seed);
    const std::string algorithm = std::data({"rng_default", "rng_three_fry", "rng_philox"})[random.below(3)];
    const std::string type = std::data({"u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"})[random.below(8)];
    const int words = algorithm != "rng_three_fry" && random.below(2) == 0 ? 3 : 2;
    std::vector<int64_t> dims(random.below(4));
    for (int64_t& size : dims) size = 1 + static_cast<int64_t>(random.below(5));
    const std::string shape = fmt::format("(u64[{}], {}[{}])", words, type, fmt::join(dims, ","));
    // Counters that begin again count on in the next word.
    const std::string counter = random.below(2) == 0 ? "18446744073709551613" : "7";
    const std::string state = fmt::format("{{81985529216486895, {}{}}}", counter, words == 3 ? ", 3" : "");
    const ModulePtr module = parsed(fmt::format(
        "HloModule m\nENTRY e {{\n  s = u64[{}] constant({})\n  ROOT r = {} rng-bit-generator(s), algorithm={}\n}}\n",
        words, state, shape, algorithm));
    ASSERT_TRUE(module);
    EXPECT_TRUE(has_random_bits(*module));
    const auto expanded = expand_random_bits(*module);
    ASSERT_TRUE(expanded) << expanded.error().to_string();
    EXPECT_FALSE(has_random_bits(*expanded));
    ASSERT_TRUE(verify(*expanded));
    const auto expected = evaluate(*module, std::vector<Literal>{});
    const auto actual = evaluate(*expanded, std::vector<Literal>{});
    ASSERT_TRUE(expected && actual);
    EXPECT_TRUE(identical(*actual, *expected)) << print(*module) << print(*expected) << "\n" << print(*actual);
  }
}

TEST(ExpandRandomBits, LeavesWhatMakesNone) {
  const ModulePtr module = parsed(
      "HloModule m\nENTRY e {\n  s = u64[2] parameter(0)\n  ROOT r = (u64[2], u8[0,4]) rng-bit-generator(s), "
      "algorithm=rng_default\n}\n");
  ASSERT_TRUE(module);
  EXPECT_FALSE(has_random_bits(*module));
}

}  // namespace
}  // namespace strata::hlo
