// Rows of several short pieces (the channels of a group, at all positions), whose pieces threads share: on the
// processor against the interpreter.
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

struct Groups {
  int64_t images = 3, positions = 81, groups = 8, channels = 15;
  std::string type = "f32", combiner = "add";
  bool again = false;  ///< a second sum, of what is computed with the first one
};

std::string text_of(const Groups& one) {
  const std::string all = fmt::format("[{},{},{},{}]", one.images, one.positions, one.groups, one.channels);
  const std::string kept = fmt::format("[{},{}]", one.images, one.groups);
  std::string text = fmt::format(
      "HloModule m\nby {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] {3}(a, b) }}\nENTRY e {{\n  "
      "p = {0}{1} parameter(0)\n  x = f32{1} convert(p)\n  i = f32[] constant({4})\n  s = f32{2} reduce(x, i), "
      "dimensions={{1,3}}, to_apply=by\n",
      one.type, all, kept, one.combiner, one.combiner == "add" ? "0" : "-inf");
  if (!one.again) return text + fmt::format("  ROOT o = f32{0} abs(s)\n}}\n", kept);
  return text +
         fmt::format(
             "  n = f32[] constant(0.001)\n  ns = f32{1} broadcast(n), dimensions={{}}\n  m = f32{1} multiply(s, "
             "ns)\n  ms = f32{0} broadcast(m), dimensions={{0,2}}\n  d = f32{0} subtract(x, ms)\n  q = f32{0} "
             "multiply(d, d)\n  v = f32{1} reduce(q, i), dimensions={{1,3}}, to_apply=by\n  ROOT o = (f32{1}, "
             "f32{1}) tuple(m, v)\n}}\n",
             all, kept);
}

std::string decision_of(const Groups& one, int processors) {
  const std::string text = text_of(one);
  SCOPED_TRACE(text);
  const auto module = hlo::parse_module(text);
  EXPECT_TRUE(module) << module.error().to_string();
  if (!module) return {};
  EmitOptions options;
  options.only = "reduction";
  options.target.multiprocessors = processors;
  const auto program = emit_program(**module, options);
  EXPECT_TRUE(program) << program.error().to_string();
  if (!program) return {};
  const auto arguments = hlo::typical_arguments((*module)->entry_computation(), static_cast<uint64_t>(one.positions));
  const auto expected = hlo::evaluate(**module, arguments);
  const auto actual = run_on_cpu(*program, arguments);
  EXPECT_TRUE(actual) << actual.error().to_string();
  if (expected && actual) {
    const auto slack = static_cast<double>(one.positions * one.channels) / 8;
    EXPECT_EQ(hlo::difference(*actual, *expected, slack).value_or(""), "") << explain(*program);
  }
  return explain(*program);
}

TEST(ShortPieces, AreAsTheInterpreterHasThem) {
  Random random(7);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random.below(static_cast<uint64_t>(n))); };
  int shared = 0;
  for (int i = 0; i < 40; ++i) {
    const int64_t channels[] = {2, 3, 4, 10, 15, 16, 31};
    Groups one{1 + below(4), 3 + below(120), 1 + below(33), channels[below(std::size(channels))]};
    one.type = i % 3 == 0 ? "bf16" : "f32";
    one.combiner = below(3) == 0 ? "maximum" : "add";
    one.again = below(2) == 0;
    const std::string decision = decision_of(one, below(3) == 0 ? 132 : static_cast<int>(1 + below(8)));
    shared += decision.find(" parts in shared memory") != std::string::npos &&
                      decision.find(" 1 parts in shared memory") == std::string::npos
                  ? 1
                  : 0;
  }
  EXPECT_GE(shared, 10);
}

/// What is left of a group norm's parts is one kernel, whose threads share the parts.
TEST(ShortPieces, FewGroupsHaveManyThreads) {
  for (const int64_t channels : {4, 10, 15, 16}) {
    Groups one{3, 81, 8, channels};
    one.again = true;
    const auto module = hlo::parse_module(text_of(one));
    ASSERT_TRUE(module) << module.error().to_string();
    const auto program = emit_program(**module);
    ASSERT_TRUE(program) << program.error().to_string();
    ASSERT_EQ(program->steps.size(), 1U) << explain(*program);
    const Launch& launch = program->steps[0].fusion->decision().launches.back();
    EXPECT_GE(launch.blocks * launch.threads, 3 * 8 * 81 / 2) << explain(*program);
  }
}

}  // namespace
}  // namespace strata::emitters
