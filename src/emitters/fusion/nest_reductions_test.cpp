#include "emitters/fusion/nest_reductions.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "emitters/program.h"
#include "hlo/compare.h"
#include "hlo/evaluate.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"
#include "hlo/verify.h"

namespace strata::emitters {
namespace {

using Dimensions = std::vector<int64_t>;

struct Combiner {
  std::string type, initial, op;
  bool nests = true;
};

const Combiner kCombiners[] = {{"f32", "-inf", "maximum"},
                               {"bf16", "inf", "minimum"},
                               {"pred", "false", "or"},
                               {"pred", "true", "and"},
                               {"s32", "0", "add"},
                               {"f32", "0", "add"},
                               {"c64", "(0, 0)", "add"},
                               {"f32", "1", "multiply"},
                               {"s8", "0", "add"},
                               {"bf16", "0", "add", false},
                               {"f32", "2", "add", false},
                               {"s32", "3", "maximum"},
                               {"s32", "3", "add", false},
                               {"f32", "0", "subtract", false},
                               {"f16", "1", "multiply", false}};

/// The reductions of one array, each over some dimensions, with a constant and a computation of its own.
std::string text_of(const Combiner& by, const Dimensions& dims, const std::vector<Dimensions>& reductions) {
  std::string head = "HloModule m\n",
              entry = fmt::format("ENTRY e {{\n  x = {}[{}] parameter(0)\n", by.type, fmt::join(dims, ","));
  std::vector<std::string> names, shapes;
  for (size_t i = 0; i < reductions.size(); ++i) {
    Dimensions kept;
    for (int64_t d = 0; d < std::ssize(dims); ++d) {
      if (std::find(reductions[i].begin(), reductions[i].end(), d) == reductions[i].end())
        kept.push_back(dims[static_cast<size_t>(d)]);
    }
    head += fmt::format("c{0} {{\n  a = {1}[] parameter(0)\n  b = {1}[] parameter(1)\n  ROOT r = {1}[] {2}(a, b)\n}}\n",
                        i, by.type, by.op);
    names.push_back(fmt::format("r{}", i));
    shapes.push_back(fmt::format("{}[{}]", by.type, fmt::join(kept, ",")));
    entry +=
        fmt::format("  i{0} = {1}[] constant({2})\n  r{0} = {3} reduce(x, i{0}), dimensions={{{4}}}, to_apply=c{0}\n",
                    i, by.type, by.initial, shapes.back(), fmt::join(reductions[i], ","));
  }
  return head + entry + fmt::format("  ROOT t = ({}) tuple({})\n}}\n", fmt::join(shapes, ", "), fmt::join(names, ", "));
}

/// How many reductions read the parameter.
int64_t readers_of_parameter(const hlo::Module& module) {
  const hlo::Computation& entry = module.entry_computation();
  return std::count_if(entry.instructions.begin(), entry.instructions.end(), [&](const hlo::Instruction& it) {
    return it.opcode == hlo::Opcode::Reduce && it.operands[0] == entry.parameters[0];
  });
}

TEST(NestReductions, ComputeTheSame) {
  const struct {
    Dimensions dims;
    std::vector<Dimensions> reductions;
    int64_t readers;
  } arrays[] = {{{37, 53}, {{0, 1}, {0}}, 1},
                {{37, 53}, {{1}, {0, 1}, {0}}, 2},
                {{5, 7, 11, 13}, {{3, 1, 0, 2}, {2}, {0, 2}, {1, 3}, {3, 1, 2}}, 2},
                {{3, 1, 129}, {{0, 2}, {2}}, 1},
                {{301, 3}, {{0}, {1}}, 2}};  // none is over more than the other
  uint64_t seed = 0;
  for (const auto& array : arrays) {
    for (const Combiner& by : kCombiners) {
      const std::string text = text_of(by, array.dims, array.reductions);
      SCOPED_TRACE(text);
      const auto module = hlo::parse_module(text);
      ASSERT_TRUE(module) << module.error().to_string();
      const hlo::Module changed = nest_reductions(**module);
      const auto verified = hlo::verify(changed);
      ASSERT_TRUE(verified) << verified.error().to_string() << hlo::print(changed);
      const auto all = static_cast<int64_t>(array.reductions.size());
      EXPECT_EQ(readers_of_parameter(changed), by.nests ? array.readers : all) << hlo::print(changed);
      if (!by.nests) continue;
      const auto arguments = hlo::typical_arguments((*module)->entry_computation(), ++seed);
      const auto expected = hlo::evaluate(**module, arguments);
      ASSERT_TRUE(expected) << expected.error().to_string();
      const auto actual = hlo::evaluate(changed, arguments);
      ASSERT_TRUE(actual) << actual.error().to_string();
      EXPECT_EQ(hlo::difference(*actual, *expected, 64).value_or(""), "");
      if (seed % 8 != 1) continue;
      const auto program = emit_program(**module);
      ASSERT_TRUE(program) << program.error().to_string();
      const auto run = run_on_cpu(*program, arguments);
      ASSERT_TRUE(run) << run.error().to_string();
      EXPECT_EQ(hlo::difference(*run, *expected, 64).value_or(""), "");
    }
  }
}

TEST(NestReductions, LeaveOthers) {
  // Another initial value; another operator; results that are nearly as many as elements; not a constant.
  const char* text = R"(HloModule m
max {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] maximum(a, b)
}
min {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] minimum(a, b)
}
ENTRY e {
  x = f32[40,30,1] parameter(0)
  p = f32[] parameter(1)
  i = f32[] constant(-inf)
  j = f32[] constant(0)
  a = f32[30,1] reduce(x, i), dimensions={0}, to_apply=max
  b = f32[] reduce(x, j), dimensions={0,1,2}, to_apply=max
  c = f32[40,1] reduce(x, j), dimensions={1}, to_apply=min
  d = f32[1] reduce(x, p), dimensions={0,1}, to_apply=max
  f = f32[40,30] reduce(x, j), dimensions={2}, to_apply=max
  ROOT t = (f32[30,1], f32[], f32[40,1], f32[1], f32[40,30]) tuple(a, b, c, d, f)
}
)";
  const auto module = hlo::parse_module(text);
  ASSERT_TRUE(module) << module.error().to_string();
  EXPECT_EQ(hlo::print(nest_reductions(**module)), hlo::print(**module));
}

TEST(NestReductions, BesideOthersOfTheSameArrays) {
  const auto text = [](std::string_view operand, std::string_view beside) {
    return fmt::format(R"(HloModule m
add {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}}
max {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] maximum(a, b)
}}
ENTRY e {{
  x = f32[70,5,131] parameter(0)
  y = f32[70,5,131] parameter(1)
  z = f32[] constant(0)
  q = f32[70,5,131] multiply(x, x)
  a = f32[] reduce({}, z), dimensions={{0,1,2}}, to_apply=add
  {}
  ROOT t = (f32[], f32[70,5]) tuple(a, b)
}}
)",
                       operand, beside);
  };
  const std::string_view rows = "b = f32[70,5] reduce(x, z), dimensions={2}, to_apply=max";
  const auto module = hlo::parse_module(text("q", rows));
  ASSERT_TRUE(module) << module.error().to_string();
  const std::optional<hlo::Module> changed = nest_beside_reductions(**module);
  ASSERT_TRUE(changed);
  ASSERT_TRUE(hlo::verify(*changed)) << hlo::print(*changed);
  const auto arguments = hlo::typical_arguments((*module)->entry_computation(), 3);
  const auto expected = hlo::evaluate(**module, arguments);
  const auto actual = hlo::evaluate(*changed, arguments);
  ASSERT_TRUE(expected && actual);
  EXPECT_EQ(hlo::difference(*actual, *expected, 64).value_or(""), "");
  // The largest and the sum of squares of each row are of one kernel.
  const auto program = emit_program(**module);
  ASSERT_TRUE(program) << program.error().to_string();
  const auto run = run_on_cpu(*program, arguments);
  ASSERT_TRUE(run) << run.error().to_string();
  EXPECT_EQ(hlo::difference(*run, *expected, 64).value_or(""), "");
  // Of another array; over the same dimensions; over all but few.
  for (const auto& [operand, beside] :
       {std::pair("y", std::string(rows)),
        std::pair("q", std::string("c = f32[] reduce(x, z), dimensions={0,1,2}, to_apply=max\n"
                                   "  b = f32[70,5] broadcast(c), dimensions={}")),
        std::pair("q", std::string("c = f32[70,131] reduce(x, z), dimensions={1}, to_apply=max\n"
                                   "  b = f32[70,5] slice(c), slice={[0:70], [0:5]}"))}) {
    const auto other = hlo::parse_module(text(operand, beside));
    ASSERT_TRUE(other) << other.error().to_string();
    EXPECT_FALSE(nest_beside_reductions(**other)) << beside;
  }
}

}  // namespace
}  // namespace strata::emitters
