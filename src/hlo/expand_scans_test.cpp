#include "hlo/expand_scans.h"

#include <gtest/gtest.h>

#include "hlo/evaluate.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"
#include "support/random.h"

namespace strata::hlo {
namespace {

/// A scan of random arrays, carries and results along a random dimension, in either order of its steps.
std::string random_scan(uint64_t seed) {
  Random random(seed);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random.below(static_cast<uint64_t>(n))); };
  const std::vector<std::string> types{"f32", "s32", "bf16", "pred", "c64"};
  const int64_t steps = below(6), arrays = 1 + below(3), carries = below(3), results = carries == 0 ? 1 : below(3);
  const int64_t rank = below(3), dimension = below(rank + 1);
  std::vector<int64_t> sizes;
  for (int64_t d = 0; d < rank; ++d) sizes.push_back(1 + below(3));
  std::vector<int64_t> whole = sizes;
  whole.insert(whole.begin() + dimension, steps);
  const auto array = [](const std::string& type, const std::vector<int64_t>& dims) {
    return fmt::format("{}[{}]", type, fmt::join(dims, ","));
  };
  std::string step = "step {\n", entry = "ENTRY e {\n", operands, returned;
  std::vector<std::string> values, kinds, shapes;
  for (int64_t i = 0; i < arrays + carries; ++i) {
    kinds.push_back(types[static_cast<size_t>(below(std::ssize(types)))]);
    step += fmt::format("  a{0} = {1} parameter({0})\n", i, array(kinds.back(), sizes));
    entry += fmt::format("  x{0} = {1} parameter({0})\n", i, array(kinds.back(), i < arrays ? whole : sizes));
    operands += fmt::format("{}x{}", i == 0 ? "" : ", ", i);
  }
  const auto value_of = [&](const std::string& type) {
    std::string value;
    for (int64_t i = 0, terms = 1 + below(3); i < terms; ++i) {
      const int64_t from = below(arrays + carries);
      std::string term = fmt::format("v{}", values.size());
      values.push_back(term);
      step += fmt::format("  {} = {} convert({}a{})\n", term, array(type, sizes),
                          kinds[static_cast<size_t>(from)] == "c64" && type != "c64" ? "r" : "", from);
      if (value.empty()) {
        value = term;
        continue;
      }
      step += fmt::format("  s{} = {} {}({}, {})\n", values.size(), array(type, sizes),
                          type == "pred"  ? "xor"
                          : below(2) == 0 ? "subtract"
                                          : "multiply",
                          value, term);
      value = fmt::format("s{}", values.size());
    }
    return value;
  };
  for (int64_t i = 0; i < arrays + carries; ++i) {
    if (kinds[static_cast<size_t>(i)] == "c64")
      step += fmt::format("  ra{0} = {1} real(a{0})\n", i, array("f32", sizes));
  }
  for (int64_t i = 0; i < results + carries; ++i) {
    const std::string type = i < results ? types[static_cast<size_t>(below(std::ssize(types)))]
                                         : kinds[static_cast<size_t>(arrays + i - results)];
    returned += fmt::format("{}{}", i == 0 ? "" : ", ", value_of(type));
    shapes.push_back(array(type, i < results ? whole : sizes));
  }
  const bool one = results + carries == 1 && below(2) == 0;
  step += one ? fmt::format("  ROOT r = {} copy({})\n}}\n", array(shapes[0].substr(0, shapes[0].find('[')), sizes),
                            returned)
              : fmt::format("  ROOT r = tuple({})\n}}\n", returned);
  const std::string shape = one ? shapes[0] : fmt::format("({})", fmt::join(shapes, ", "));
  return fmt::format(
      "{}{}  ROOT r = {} scan({}), dimensions={{{}}}, num_carries={}, is_reverse={}, to_apply=step\n}}\n", step, entry,
      shape, operands, dimension, carries, below(2) == 0);
}

TEST(ExpandScans, RandomScansAreTheirLoops) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const std::string text = random_scan(seed);
    const auto module = parse_module(text);
    ASSERT_TRUE(module) << module.error().to_string() << text;
    ASSERT_TRUE(has_scan_operators(**module));
    const auto expanded = expand_scans(**module);
    ASSERT_TRUE(expanded) << expanded.error().to_string() << text;
    EXPECT_FALSE(has_scan_operators(*expanded)) << text;
    const auto arguments = typical_arguments((*module)->entry_computation(), seed);
    const auto expected = evaluate(**module, arguments), actual = evaluate(*expanded, arguments);
    ASSERT_TRUE(expected && actual) << text;
    EXPECT_EQ(print(*actual), print(*expected)) << text;
  }
}

/// A step that calls another scan.
TEST(ExpandScans, ScansWithinScansAreLoopsWithinLoops) {
  const auto module = parse_module(R"(
inner { a = f32[] parameter(0) b = f32[] parameter(1) c = f32[] subtract(a, b) ROOT r = (f32[], f32[]) tuple(c, c) }
outer {
  x = f32[5] parameter(0)
  s = f32[] parameter(1)
  y = (f32[5], f32[]) scan(x, s), dimensions={0}, num_carries=1, is_reverse=true, to_apply=inner
  a = f32[5] get-tuple-element(y), index=0
  b = f32[] get-tuple-element(y), index=1
  ROOT r = (f32[5], f32[]) tuple(a, b)
}
ENTRY e {
  x = f32[3,5] parameter(0)
  s = f32[] parameter(1)
  ROOT r = (f32[3,5], f32[]) scan(x, s), dimensions={0}, num_carries=1, to_apply=outer
}
)");
  ASSERT_TRUE(module) << module.error().to_string();
  const auto expanded = expand_scans(**module);
  ASSERT_TRUE(expanded) << expanded.error().to_string();
  EXPECT_FALSE(has_scan_operators(*expanded));
  const auto arguments = typical_arguments((*module)->entry_computation(), 3);
  EXPECT_EQ(print(*evaluate(*expanded, arguments)), print(*evaluate(**module, arguments)));
}

/// 1000 ones: beyond 256 a step of bf16 adds nothing.
TEST(ExpandScans, SumsOfNarrowFloatsRoundEachStepOnlyWhereTheirOrderIsGiven) {
  const auto last = [](const std::string& how) {
    const auto module = parse_module(
        "add { a = bf16[] parameter(0) b = bf16[] parameter(1) c = bf16[] add(a, b) ROOT r = (bf16[], bf16[]) tuple(c, "
        "c) }\nENTRY e { o = bf16[] constant(1) x = bf16[1000] broadcast(o), dimensions={} z = bf16[] constant(0)\n"
        "  s = (bf16[1000], bf16[]) scan(x, z), dimensions={0}, num_carries=1" +
        how + ", to_apply=add\n  ROOT l = bf16[] get-tuple-element(s), index=1 }\n");
    EXPECT_TRUE(module) << module.error().to_string();
    const auto expanded = expand_scans(**module);
    EXPECT_TRUE(expanded) << expanded.error().to_string();
    const std::string value = print(*evaluate(**module, {})), of_expanded = print(*evaluate(*expanded, {}));
    EXPECT_EQ(value, of_expanded);
    return value;
  };
  EXPECT_EQ(last(""), "256");
  EXPECT_EQ(last(", is_associative=false"), "256");
  EXPECT_EQ(last(", is_associative=true"), "1000");
}

}  // namespace
}  // namespace strata::hlo
