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

TEST(HloRandomBits, AreThoseOfThreefry) {
  using Words = std::array<uint32_t, 2>;
  EXPECT_EQ(threefry({0, 0}, {0, 0}), (Words{0x6b200159, 0x99ba4efe}));
  EXPECT_EQ(threefry({~0U, ~0U}, {~0U, ~0U}), (Words{0x1cb996fc, 0xbb002be7}));
  EXPECT_EQ(threefry({0x243f6a88, 0x85a308d3}, {0x13198a2e, 0x03707344}), (Words{0xc4923a9c, 0x483df7a0}));
}

/// What rng-bit-generator makes of a state.
std::string bits_of(const std::string& state, const std::string& bits, const std::string& algorithm) {
  const size_t words = 2 + static_cast<size_t>(std::count(state.begin(), state.end(), ',')) - 1;
  return value_of(fmt::format("ENTRY e {{ s = u64[{0}] constant({1}) ROOT r = (u64[{0}], {2}) rng-bit-generator(s), "
                              "algorithm={3} }}",
                              words, state, bits, algorithm),
                  {});
}

// What XLA gives on a CPU, by way of JAX 0.11's lax.rng_bit_generator.
TEST(HloRandomBits, AreThoseOfXla) {
  const std::string state = "{5, 18446744073709551614}";  // two counts before the inner counter begins again
  EXPECT_EQ(bits_of(state, "u32[12]", "rng_default"),
            "({5, 1}, {1981577808, 3616989187, 3826979642, 1386173831, 1314562490, 4035658752, 2543735481, 4162936588, "
            "64677483, 3635105107, 3931607701, 727262183})");
  EXPECT_EQ(bits_of(state, "u32[12]", "rng_philox"), bits_of(state, "u32[12]", "rng_default"));
  EXPECT_EQ(bits_of(state, "u64[3]", "rng_default"),
            "({5, 0}, {15534850270132206160, 5953571274543010618, 17333022358970737082})");
  // Of narrow elements each has a word of its own.
  EXPECT_EQ(bits_of(state, "u16[9]", "rng_philox"),
            "({5, 1}, {31312, 57347, 4922, 21895, 41402, 17408, 21177, 24332, "
            "58987})");
  EXPECT_EQ(bits_of(state, "u32[9]", "rng_three_fry"),
            "({5, 3}, {1142532943, 242479857, 3818595097, 1327100559, 1396233059, 315918555, 2544891230, 2061267011, "
            "349696651})");
  EXPECT_EQ(bits_of(state, "u32[2,3]", "rng_three_fry"),
            "({5, 1}, { {1142532943, 3818595097, 1396233059}, {242479857, 1327100559, 315918555} })");
  EXPECT_EQ(bits_of(state, "u8[3]", "rng_three_fry"), "({5, 0}, {79, 241, 25})");
  EXPECT_EQ(bits_of(state, "u64[3]", "rng_three_fry"),
            "({5, 1}, {1041443056896289615, 5699853503226913561, 1356859863320810339})");
}

TEST(HloRandomBits, GoOnWhereTheStateLeftOff) {
  for (const std::string algorithm : {"rng_philox", "rng_three_fry"}) {
    const std::string all = bits_of("{7, 0}", "u64[4]", algorithm);
    const std::string next = bits_of(algorithm == "rng_philox" ? "{7, 1}" : "{7, 2}", "u64[2]", algorithm);
    const std::string last = next.substr(next.rfind('{') + 1);
    EXPECT_EQ(all.substr(all.size() - last.size()), last) << all << next;
  }
  EXPECT_EQ(bits_of("{7, 18446744073709551615, 3}", "u32[4]", "rng_philox").substr(0, 10), "({7, 0, 4}");
  const std::string head = "ENTRY e { s = u64[2] parameter(0) ROOT r = (u64[2], u32[2]) rng-bit-generator(s), ";
  EXPECT_THAT(error_of(head + "algorithm=rng_mersenne }"), HasSubstr("algorithm is one of"));
  EXPECT_THAT(error_of("ENTRY e { s = u64[3] parameter(0) ROOT r = (u64[3], u32[2]) rng-bit-generator(s), "
                       "algorithm=rng_three_fry }"),
              HasSubstr("the state of rng_three_fry is u64[2]"));
}

}  // namespace
}  // namespace strata::hlo
