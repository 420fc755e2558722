#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hlo/evaluate.h"
#include "hlo/evaluate_parts.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"
#include "support/random.h"

namespace strata::hlo {
namespace {

using testing::HasSubstr;

constexpr const char* kStep = R"(
step {
  a = f32[3] parameter(0)
  b = s32[] parameter(1)
  sum = f32[3] parameter(2)
  last = s32[] parameter(3)
  next = f32[3] subtract(a, sum)
  both = s32[] add(b, last)
  ROOT r = (f32[3], s32[], f32[3], s32[]) tuple(next, last, next, both)
}
)";

std::string error_of(const std::string& text) {
  const auto module = parse_module(text);
  return module ? "no error" : module.error().to_string();
}

/// Every result of a text, or its error.
std::string value_of(const std::string& text, const std::vector<Literal>& arguments) {
  const auto module = parse_module(text);
  if (!module) return module.error().to_string();
  const auto value = evaluate(**module, arguments);
  return value ? print(*value) : value.error().to_string();
}

TEST(HloScan, HasTheFormThatXlaPrints) {
  const std::string text = R"(HloModule scan_module

%add_F32 (lhs: f32[], rhs: f32[]) -> (f32[], f32[]) {
  %lhs = f32[] parameter(0)
  %rhs = f32[] parameter(1)
  %add = f32[] add(%lhs, %rhs)
  ROOT %t = (f32[], f32[]) tuple(%add, %add)
}

ENTRY %Scan (input: f32[4]) -> (f32[4], f32[]) {
  %input = f32[4]{0} parameter(0)
  %init = f32[] constant(0)
  ROOT %scan = (f32[4]{0}, f32[]) scan(%input, %init), dimensions={0}, num_carries=1, )"
                           R"(is_reverse=true, is_associative=true, to_apply=%add_F32
}
)";
  const auto module = parse_module(text);
  ASSERT_TRUE(module) << module.error().to_string();
  EXPECT_EQ(print(**module), text);
  const Literal input = *parse_value("f32[4] {1, 2, 4, 8}");
  EXPECT_EQ(value_of(text, {input}), "({15, 14, 12, 8}, 15)");
}

TEST(HloScan, ReturnsCarriesOrResultsAlone) {
  const std::string add = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }\n";
  const Literal input = *parse_value("f32[3] {1, 2, 4}");
  EXPECT_EQ(value_of(add + "ENTRY e { x = f32[3] parameter(0) z = f32[] constant(1) ROOT s = f32[] scan(x, z), "
                           "dimensions={0}, num_carries=1, to_apply=add }",
                     {input}),
            "8");
  EXPECT_EQ(value_of(add + "ENTRY e { x = f32[3] parameter(0) ROOT s = f32[3] scan(x, x), dimensions={0}, "
                           "num_carries=0, to_apply=add }",
                     {input}),
            "{2, 4, 8}");
}

/// A scan is its steps, called one after the other on slices.
TEST(HloScan, IsItsStepsWrittenOut) {
  for (const bool reverse : {false, true}) {
    for (const int64_t steps : {0, 1, 4}) {
      const std::string head = fmt::format(
          "{}ENTRY e {{ x = f32[3,{}] parameter(0) n = s32[{}] parameter(1) s0 = f32[3] parameter(2) l0 = s32[] "
          "parameter(3)\n",
          kStep, steps, steps);
      const std::string scan = fmt::format(
          "{} t = f32[{},3] transpose(x), dimensions={{1,0}} ROOT r = (f32[{},3], s32[{}], f32[3], s32[]) scan(t, n, "
          "s0, "
          "l0), dimensions={{0}}, num_carries=2, is_reverse={}, to_apply=step }}",
          head, steps, steps, steps, reverse);
      // Written out: a call for each step, on slices.
      std::string unrolled = head;
      std::string rows, counts;
      for (int64_t k = 0; k < steps; ++k) {
        const int64_t i = reverse ? steps - 1 - k : k;
        unrolled += fmt::format(
            "xs{0} = f32[3,1] slice(x), slice={{[0:3],[{1}:{2}]}} ns{0} = s32[1] slice(n), slice={{[{1}:{2}]}}\n"
            "xr{0} = f32[3] reshape(xs{0}) nr{0} = s32[] reshape(ns{0})\n"
            "c{0} = (f32[3], s32[], f32[3], s32[]) call(xr{0}, nr{0}, s{0}, l{0}), to_apply=step\n"
            "s{3} = f32[3] get-tuple-element(c{0}), index=2 l{3} = s32[] get-tuple-element(c{0}), index=3\n"
            "f{0} = f32[3] get-tuple-element(c{0}), index=0 g{0} = s32[] get-tuple-element(c{0}), index=1\n"
            "y{1} = f32[1,3] reshape(f{0}) z{1} = s32[1] reshape(g{0})\n",
            k, i, i + 1, k + 1);
      }
      for (int64_t i = 0; i < steps; ++i) {
        rows += fmt::format("{}y{}", i == 0 ? "" : ", ", i);
        counts += fmt::format("{}z{}", i == 0 ? "" : ", ", i);
      }
      const auto joined = [&](const char* name, const char* type, const std::string& parts) {
        if (steps == 0) return fmt::format("{} = {} constant({{}})\n", name, type);
        return fmt::format("{} = {} concatenate({}), dimensions={{0}}\n", name, type, parts);
      };
      unrolled += joined("ys", fmt::format("f32[{},3]", steps).c_str(), rows);
      unrolled += joined("zs", fmt::format("s32[{}]", steps).c_str(), counts);
      unrolled += fmt::format("ROOT r = (f32[{0},3], s32[{0}], f32[3], s32[]) tuple(ys, zs, s{0}, l{0}) }}", steps);
      const auto module = parse_module(scan);
      ASSERT_TRUE(module) << module.error().to_string();
      const auto arguments = typical_arguments((*module)->entry_computation(), static_cast<uint64_t>(steps) + 1);
      EXPECT_EQ(value_of(scan, arguments), value_of(unrolled, arguments)) << unrolled;
    }
  }
}

TEST(HloScan, ChecksShapes) {
  const auto scan = [](const std::string& call) {
    return error_of(std::string(kStep) +
                    "ENTRY e { t = f32[4,3] parameter(0) n = s32[4] parameter(1) m = s32[5] parameter(2) s = f32[3] "
                    "parameter(3) l = s32[] parameter(4) ROOT r = " +
                    call + ", to_apply=step }");
  };
  const std::string shape = "(f32[4,3], s32[4], f32[3], s32[]) ";
  EXPECT_EQ(scan(shape + "scan(t, n, s, l), dimensions={0}, num_carries=2"), "no error");
  EXPECT_EQ(scan("scan(t, n, s, l), dimensions={0}, num_carries=2"), "no error");
  EXPECT_THAT(scan(shape + "scan(t, m, s, l), dimensions={0}, num_carries=2"),
              HasSubstr("operands 0 and 1 have different numbers of steps"));
  EXPECT_THAT(scan(shape + "scan(t, n, s, l), dimensions={1}, num_carries=2"),
              HasSubstr("the dimension 1 is outside the 1 dimensions"));
  EXPECT_THAT(scan(shape + "scan(t, n, s, l), dimensions={0}, num_carries=4"), HasSubstr("cannot be carries"));
  EXPECT_THAT(scan(shape + "scan(t, n, s, l), dimensions={0}, num_carries=-1"), HasSubstr("cannot be carries"));
  EXPECT_THAT(scan(shape + "scan(t, n, s, l), dimensions={0}"), HasSubstr("scan needs num_carries="));
  EXPECT_THAT(scan(shape + "scan(t, n, l, s), dimensions={0}, num_carries=2"), HasSubstr("parameter 2 of 'step'"));
  EXPECT_THAT(scan("(f32[3,4], s32[4], f32[3], s32[]) scan(t, n, s, l), dimensions={0}, num_carries=2"),
              HasSubstr("it is stated to be"));
}

TEST(HloRandomBits, AreThoseOfPhilox) {
  // Of the authors' known answers.
  using Words = std::array<uint32_t, 4>;
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({~0U, ~0U, ~0U, ~0U}, {~0U, ~0U}), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(HloRandomBits, GoOnWhereTheStateLeftOff) {
  const auto bits = [](const std::string& state, int64_t count) {
    return value_of(fmt::format("ENTRY e {{ s = u64[2] constant({}) ROOT r = (u64[2], u32[{}]) rng-bit-generator(s), "
                                "algorithm=rng_default }}",
                                state, count),
                    {});
  };
  EXPECT_EQ(bits("{0, 0}", 4), "({0, 1}, {1713891541, 3781805453, 3159862348, 2600524760})");
  const std::string eight = bits("{7, 0}", 8), next = bits("{7, 1}", 4);
  EXPECT_EQ(eight.substr(0, 9), "({7, 2}, ");
  EXPECT_EQ(eight.substr(eight.size() - next.size() + 10), next.substr(10)) << eight << next;
  const std::string head =
      "ENTRY e { s = u64[2] parameter(0) ROOT r = (u64[2], u32[2]) rng-bit-generator(s), algorithm=";
  EXPECT_THAT(error_of(head + "rng_mersenne }"), HasSubstr("algorithm is one of"));
  EXPECT_THAT(value_of(head + "rng_three_fry }", {*parse_value("u64[2] {1, 2}")}), HasSubstr("only rng_default"));
}

}  // namespace
}  // namespace strata::hlo
