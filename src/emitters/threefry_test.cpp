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

}  // namespace
}  // namespace strata::emitters
