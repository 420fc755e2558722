// Columns of a few terms that are gone through again, as deviations from a mean are.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "emitters/program.h"
#include "hlo/compare.h"
#include "hlo/evaluate.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"

namespace strata::emitters {
namespace {

/// The mean square deviation of each column, and the deviations.
std::string deviations(int64_t length, int64_t columns) {
  return fmt::format(R"(HloModule m
add {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}}
ENTRY e {{
  x = f32[{0},{1}] parameter(0)
  zero = f32[] constant(0)
  n = f32[] constant({0})
  ns = f32[{1}] broadcast(n), dimensions={{}}
  sum = f32[{1}] reduce(x, zero), dimensions={{0}}, to_apply=add
  mean = f32[{1}] divide(sum, ns)
  means = f32[{0},{1}] broadcast(mean), dimensions={{1}}
  d = f32[{0},{1}] subtract(x, means)
  squares = f32[{0},{1}] multiply(d, d)
  total = f32[{1}] reduce(squares, zero), dimensions={{0}}, to_apply=add
  variance = f32[{1}] divide(total, ns)
  ROOT t = (f32[{1}], f32[{0},{1}]) tuple(variance, d)
}})",
                     length, columns);
}

TEST(ShortColumns, AreAsTheInterpreterHasThem) {
  for (const auto& [length, columns] : {std::pair(4, 70003), std::pair(7, 100100), std::pair(2, 40000),
                                        std::pair(11, 33000), std::pair(4, 5), std::pair(3, 31)}) {
    SCOPED_TRACE(fmt::format("{} x {}", length, columns));
    const auto module = hlo::parse_module(deviations(length, columns));
    ASSERT_TRUE(module) << module.error().to_string();
    const auto program = emit_program(**module);
    ASSERT_TRUE(program) << program.error().to_string();
    const auto arguments = hlo::typical_arguments((*module)->entry_computation(), 3);
    const auto expected = hlo::evaluate(**module, arguments);
    ASSERT_TRUE(expected) << expected.error().to_string();
    const auto run = run_on_cpu(*program, arguments);
    ASSERT_TRUE(run) << run.error().to_string();
    EXPECT_EQ(hlo::difference(*run, *expected, 16).value_or(""), "") << explain(*program);
  }
}

/// Of places that are few or many, with few columns or many.
TEST(ShortColumns, OfPlacesAreAsTheInterpreterHasThem) {
  for (const auto& [places, length, columns] :
       {std::tuple(10, 4, 256), std::tuple(33, 7, 77), std::tuple(3, 7, 300), std::tuple(100, 8, 256),
        std::tuple(2000, 6, 6), std::tuple(700, 20, 54), std::tuple(9000, 33, 20), std::tuple(5, 1, 64)}) {
    for (const bool again : {false, true}) {
      const std::string kept = fmt::format("f32[{},{}]", places, columns);
      const std::string all = fmt::format("f32[{},{},{}]", places, length, columns);
      const auto module = hlo::parse_module(fmt::format(
          "HloModule m\nadd {{\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT s = f32[] add(a, b)\n}}\n"
          "ENTRY e {{\n  x = {0} parameter(0)\n  zero = f32[] constant(0)\n"
          "  s = {1} reduce(x, zero), dimensions={{1}}, to_apply=add\n  ss = {0} broadcast(s), dimensions={{0,2}}\n"
          "  d = {0} subtract(x, ss)\n  ROOT t = ({1}, {2}) tuple(s, {3})\n}}\n",
          all, kept, again ? all : kept, again ? "d" : "s"));
      ASSERT_TRUE(module) << module.error().to_string();
      const auto program = emit_program(**module);
      ASSERT_TRUE(program) << program.error().to_string();
      const auto arguments = hlo::typical_arguments((*module)->entry_computation(), 3);
      const auto expected = hlo::evaluate(**module, arguments);
      const auto run = run_on_cpu(*program, arguments);
      ASSERT_TRUE(expected && run) << explain(*program);
      EXPECT_EQ(hlo::difference(*run, *expected, 16).value_or(""), "") << explain(*program);
    }
  }
}

/// A block of whole lines of four terms would have a single warp, and a multiprocessor has 32 blocks at a time: half of
/// what it can have.
TEST(ShortColumns, HaveBlocksOfSeveralWarps) {
  const auto module = hlo::parse_module(deviations(4, 475104));
  ASSERT_TRUE(module) << module.error().to_string();
  const auto program = emit_program(**module);
  ASSERT_TRUE(program) << program.error().to_string();
  ASSERT_EQ(program->steps.size(), 1U) << explain(*program);
  ASSERT_TRUE(program->steps[0].fusion);
  EXPECT_EQ(program->steps[0].fusion->decision().emitter, "column reduction");
  EXPECT_EQ(program->steps[0].fusion->decision().launch().threads, 128) << explain(*program);
}

}  // namespace
}  // namespace strata::emitters
