// Random bits as JAX makes them: Threefry.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "emitters/program.h"
#include "hlo/evaluate.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"

namespace strata::emitters {
namespace {

/// Threefry-2x32 of each element's number, with 20 rounds: the two words of a block, combined.
std::string threefry(int64_t elements) {
  std::string text = fmt::format("HloModule m\nfused {{\n  k0 = u32[] parameter(0)\n  k1 = u32[] parameter(1)\n");
  const std::string type = fmt::format("u32[{}]", elements);
  int names = 0;
  const auto add = [&](const std::string& what) {
    text += fmt::format("  v{} = {} {}\n", names, type, what);
    return fmt::format("v{}", names++);
  };
  const auto constant = [&](uint32_t value) {
    text += fmt::format("  c{} = u32[] constant({})\n", names, value);
    return add(fmt::format("broadcast(c{}), dimensions={{}}", names));
  };
  const auto binary = [&](const std::string& opcode, const std::string& a, const std::string& b) {
    return add(fmt::format("{}({}, {})", opcode, a, b));
  };
  const std::string key0 = add("broadcast(k0), dimensions={}"), key1 = add("broadcast(k1), dimensions={}");
  const std::string key2 = binary("xor", binary("xor", key0, key1), constant(0x1BD11BDA));
  const std::string keys[] = {key0, key1, key2};
  std::string x0 = key0, x1 = binary("add", add("iota(), iota_dimension=0"), key1);
  constexpr uint32_t kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  for (uint32_t block = 0; block < 5; ++block) {
    for (const uint32_t by : kRotations[block % 2]) {
      x0 = binary("add", x0, x1);
      const std::string left = binary("shift-left", x1, constant(by));
      const std::string right = binary("shift-right-logical", x1, constant(32 - by));
      x1 = binary("xor", x0, binary("or", left, right));
    }
    x0 = binary("add", x0, keys[(block + 1) % 3]);
    x1 = binary("add", binary("add", x1, keys[(block + 2) % 3]), constant(block + 1));
  }
  return text + fmt::format("  ROOT r = {} xor({}, {})\n}}\n", type, x0, x1);
}

TEST(Threefry, IsWhatTheInterpreterComputes) {
  const auto module = hlo::parse_module(threefry(1000));
  ASSERT_TRUE(module) << module.error().to_string();
  const auto arguments = hlo::typical_arguments((*module)->entry_computation(), 5);
  const auto expected = hlo::evaluate(**module, arguments);
  const auto program = emit_program(**module);
  ASSERT_TRUE(expected && program);
  const auto found = run_on_cpu(*program, arguments);
  ASSERT_TRUE(found) << found.error().to_string();
  EXPECT_TRUE(hlo::identical(*expected, *found));
}

/// The same as JAX prints it for CPUs: 5 iterations that exchange two arrays of rotations and pass on three keys.
std::string threefry_loop(int64_t elements) {
  std::string rounds;
  for (int i = 0; i < 4; ++i) {
    rounds += fmt::format(R"(
  slice{0} = u32[1] slice(r0), slice={{[{0}:{1}]}}
  by{0} = u32[] reshape(slice{0})
  lefts{0} = u32[{2}] broadcast(by{0}), dimensions={{}}
  left{0} = u32[{2}] shift-left(y{0}, lefts{0})
  rest{0} = u32[] subtract(bits, by{0})
  rights{0} = u32[{2}] broadcast(rest{0}), dimensions={{}}
  right{0} = u32[{2}] shift-right-logical(y{0}, rights{0})
  rotated{0} = u32[{2}] or(left{0}, right{0})
  x{1} = u32[{2}] add(x{0}, y{0})
  y{1} = u32[{2}] xor(x{1}, rotated{0})
)",
                          i, i + 1, elements);
  }
  const std::string state = fmt::format("(s32[], u32[{0}], u32[{0}], u32[], u32[], u32[], u32[4], u32[4])", elements);
  return fmt::format(R"(HloModule m
condition {{
  s = {1} parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT c = pred[] compare(i, n), direction=LT
}}
body {{
  s = {1} parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x0 = u32[{0}] get-tuple-element(s), index=1
  y0 = u32[{0}] get-tuple-element(s), index=2
  k0 = u32[] get-tuple-element(s), index=3
  k1 = u32[] get-tuple-element(s), index=4
  k2 = u32[] get-tuple-element(s), index=5
  r0 = u32[4] get-tuple-element(s), index=6
  r1 = u32[4] get-tuple-element(s), index=7
  bits = u32[] constant(32)
{2}
  k0s = u32[{0}] broadcast(k0), dimensions={{}}
  x = u32[{0}] add(x4, k0s)
  k1s = u32[{0}] broadcast(k1), dimensions={{}}
  yk = u32[{0}] add(y4, k1s)
  one = s32[] constant(1)
  j = s32[] add(i, one)
  number = u32[] convert(j)
  numbers = u32[{0}] broadcast(number), dimensions={{}}
  y = u32[{0}] add(yk, numbers)
  ROOT r = {1} tuple(j, x, y, k1, k2, k0, r1, r0)
}}
ENTRY e {{
  k = u32[2] parameter(0)
  first = u32[1] slice(k), slice={{[0:1]}}
  second = u32[1] slice(k), slice={{[1:2]}}
  k0 = u32[] reshape(first)
  k1 = u32[] reshape(second)
  both = u32[] xor(k0, k1)
  parity = u32[] constant(466688986)
  k2 = u32[] xor(both, parity)
  x = u32[{0}] broadcast(k0), dimensions={{}}
  number = u32[{0}] iota(), iota_dimension=0
  k1s = u32[{0}] broadcast(k1), dimensions={{}}
  y = u32[{0}] add(number, k1s)
  zero = s32[] constant(0)
  r0 = u32[4] constant({{13, 15, 26, 6}})
  r1 = u32[4] constant({{17, 29, 16, 24}})
  s = {1} tuple(zero, x, y, k1, k2, k0, r0, r1)
  w = {1} while(s), condition=condition, body=body
  a = u32[{0}] get-tuple-element(w), index=1
  b = u32[{0}] get-tuple-element(w), index=2
  ROOT bits = u32[{0}] xor(a, b)
}}
)",
                     elements, state, rounds);
}

TEST(Threefry, RoundsInALoopAreOneKernel) {
  const auto module = hlo::parse_module(threefry_loop(1 << 20));
  ASSERT_TRUE(module) << module.error().to_string();
  const auto program = emit_program(**module);
  ASSERT_TRUE(program) << program.error().to_string();
  EXPECT_EQ(program->steps.size(), 1U);
  const auto arguments = hlo::typical_arguments((*module)->entry_computation(), 5);
  const auto expected = hlo::evaluate(**module, arguments);
  const auto found = run_on_cpu(*program, arguments);
  ASSERT_TRUE(expected && found);
  EXPECT_TRUE(hlo::identical(*expected, *found));
}

}  // namespace
}  // namespace strata::emitters
