// Sums of columns that several blocks add up, as they are outputs but for their shape.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "emitters/program.h"
#include "hlo/compare.h"
#include "hlo/evaluate.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"
#include "support/random.h"

namespace strata::emitters {
namespace {

/// Of each array, its columns' sums, as a row of one element each; of the first, what is added up too if it is masked.
std::string sums(int64_t rows, int64_t columns, int arrays, bool masked) {
  std::string body =
      "HloModule m\nadd {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
      "  ROOT s = f32[] add(a, b)\n}\nENTRY e {\n  zero = f32[] constant(0)\n";
  std::string types, names;
  for (int i = 0; i < arrays; ++i) {
    body += fmt::format("  x{} = f32[{},{}] parameter({})\n", i, rows, columns, i);
    std::string from = fmt::format("x{}", i);
    if (masked && i == 0) {
      body += fmt::format(
          "  zeros = f32[{0},{1}] broadcast(zero), dimensions={{}}\n"
          "  m = f32[{0},{1}] maximum(x0, zeros)\n",
          rows, columns);
      from = "m";
      types += fmt::format("f32[{},{}], ", rows, columns);
      names += "m, ";
    }
    body += fmt::format(
        "  r{0} = f32[{1}] reduce({2}, zero), dimensions={{0}}, to_apply=add\n"
        "  k{0} = f32[1,{1}] reshape(r{0})\n",
        i, columns, from);
    types += fmt::format("f32[1,{}]{}", columns, i + 1 < arrays ? ", " : "");
    names += fmt::format("k{}{}", i, i + 1 < arrays ? ", " : "");
  }
  return body + fmt::format("  ROOT t = ({}) tuple({})\n}}\n", types, names);
}

/// Kernels compute as the interpreter does; `said`: what is said of them.
void check(const std::string& text, std::string& said) {
  SCOPED_TRACE(text);
  const auto module = hlo::parse_module(text);
  ASSERT_TRUE(module) << module.error().to_string();
  const auto program = emit_program(**module);
  ASSERT_TRUE(program) << program.error().to_string();
  said = explain(*program);
  const auto arguments = hlo::typical_arguments((*module)->entry_computation(), 3);
  const auto expected = hlo::evaluate(**module, arguments);
  ASSERT_TRUE(expected) << expected.error().to_string();
  const auto run = run_on_cpu(*program, arguments);
  ASSERT_TRUE(run) << run.error().to_string();
  EXPECT_EQ(hlo::difference(*run, *expected, 16).value_or(""), "") << said;
}

TEST(SharedColumns, AreAsTheInterpreterHasThem) {
  Random random(11);
  int shared = 0;
  for (int i = 0; i < 10; ++i) {
    const int64_t rows = 900 + random.below(4000), columns = 3 + random.below(90);
    const int arrays = 1 + static_cast<int>(random.below(3));
    std::string said;
    check(sums(rows, columns, arrays, random.below(2) == 0), said);
    shared += said.find("blocks each, atomically") != std::string::npos ? 1 : 0;
  }
  EXPECT_GT(shared, 0);
}

/// Over the first and the third of four dimensions.
std::string apart(const std::vector<int64_t>& sizes) {
  return fmt::format(R"(HloModule m
add {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}}
ENTRY e {{
  x = f32[{},{},{},{}] parameter(0)
  zero = f32[] constant(0)
  ROOT r = f32[{},{}] reduce(x, zero), dimensions={{0,2}}, to_apply=add
}})",
                     sizes[0], sizes[1], sizes[2], sizes[3], sizes[1], sizes[3]);
}

TEST(SharedColumns, BlocksShareTheLargestOfTwoDimensions) {
  Random random(5);
  for (int i = 0; i < 6; ++i) {
    const auto to = [&](uint64_t most) { return static_cast<int64_t>(1 + random.below(most)); };
    const std::string text = apart({500 + to(3000), 1 + to(6), 1 + to(20), 2 + to(20)});
    SCOPED_TRACE(text);
    const auto module = hlo::parse_module(text);
    ASSERT_TRUE(module) << module.error().to_string();
    const auto kernel = emit_fusion(**module, (*module)->entry, "r", {});
    ASSERT_TRUE(kernel) << kernel.error().to_string();
    EXPECT_GT(kernel->decision().launch().blocks, 60) << (*module)->entry_computation().name;
  }
  std::string said;
  check(apart({701, 3, 5, 7}), said);
}

std::string explained(int64_t rows, int64_t columns) {
  const auto module = hlo::parse_module(sums(rows, columns, 1, false));
  EXPECT_TRUE(module);
  const auto program = emit_program(**module);
  EXPECT_TRUE(program);
  return explain(*program);
}

TEST(SharedColumns, AreSharedWhereThatPaysBesideTheFill) {
  EXPECT_EQ(explained(130, 40).find("atomically"), std::string::npos);
  EXPECT_NE(explained(5003, 40).find("atomically"), std::string::npos);
}

}  // namespace
}  // namespace strata::emitters
