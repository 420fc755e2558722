#include "emitters/fusion/widen_sums.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "emitters/program.h"
#include "hlo/compare.h"
#include "hlo/evaluate.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"
#include "hlo/verify.h"
#include "support/random.h"
#include "support/test_rounds.h"

namespace strata::emitters {
namespace {

struct Example {
  std::string type = "bf16", combiner = "add", initial = "0";
  std::vector<int64_t> dims, reduced;
};

std::string text_of(const Example& one) {
  std::vector<int64_t> kept;
  for (int64_t d = 0; d < std::ssize(one.dims); ++d) {
    if (std::find(one.reduced.begin(), one.reduced.end(), d) == one.reduced.end())
      kept.push_back(one.dims[static_cast<size_t>(d)]);
  }
  return fmt::format(
      "HloModule m\nby {{ a = {0}[] parameter(0) b = {0}[] parameter(1) ROOT r = {0}[] {1}(b, a) }}\nENTRY e {{\n  x = "
      "{0}[{2}] parameter(0)\n  y = {0}[{2}] parameter(1)\n  z = {0}[{2}] multiply(x, y)\n  i = {0}[] constant({3})\n  "
      "s = {0}[{4}] reduce(z, i), dimensions={{{5}}}, to_apply=by\n  t = {0}[{4}] reduce(x, i), dimensions={{{5}}}, "
      "to_apply=by\n  ROOT o = ({0}[{4}], {0}[{4}]) tuple(s, t)\n}}\n",
      one.type, one.combiner, fmt::join(one.dims, ","), one.initial, fmt::join(kept, ","), fmt::join(one.reduced, ","));
}

/// A GPU so small that few blocks fill it, and whose kernels start at once: arrays of a test are large on it.
Target small_target() {
  Target target = default_target();
  target.multiprocessors = 4;
  target.rates.kernel = target.rates.overlapped_kernel = 1e-7;
  return target;
}

Example random_example(Random& random) {
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random.below(static_cast<uint64_t>(n))); };
  Example it{below(2) == 0 ? "f16" : "bf16"};
  if (below(4) == 0) it.initial = "3";
  int64_t elements = 1;
  const int64_t rank = 1 + below(4);
  for (int64_t d = 0; d < rank; ++d) {
    const int64_t sizes[] = {1, 3, 15, 33, 64, 250, 1000, 4096};
    int64_t size = sizes[below(std::size(sizes))];
    if (elements * size > (1 << 18)) size = 2;
    elements *= size;
    it.dims.push_back(size);
    if (below(2) == 0) it.reduced.push_back(d);
  }
  return it;
}

TEST(WidenSums, ComputeTheSame) {
  int widened = 0, in_parts = 0;
  for (uint64_t seed = 1; seed <= static_cast<uint64_t>(rounds(320)); ++seed) {
    Random random(seed);
    const Example example = random_example(random);
    SCOPED_TRACE(text_of(example));
    const auto module = hlo::parse_module(text_of(example));
    ASSERT_TRUE(module) << module.error().to_string();
    const hlo::Module changed = widen_sums(**module);
    const auto verified = hlo::verify(changed);
    ASSERT_TRUE(verified) << verified.error().to_string() << hlo::print(changed);
    int64_t terms = 1;
    for (const int64_t d : example.reduced) terms *= example.dims[static_cast<size_t>(d)];
    const bool is_wide = hlo::print(changed).find("s.wide") != std::string::npos;
    EXPECT_EQ(is_wide, terms > 63) << hlo::print(changed);
    widened += is_wide ? 1 : 0;
    const auto arguments = hlo::typical_arguments((*module)->entry_computation(), seed);
    const auto expected = hlo::evaluate(**module, arguments);
    ASSERT_TRUE(expected) << expected.error().to_string();
    const auto actual = hlo::evaluate(changed, arguments);
    ASSERT_TRUE(actual) << actual.error().to_string();
    EXPECT_EQ(hlo::difference(*actual, *expected, 1).value_or(""), "");
    if (seed % 4 != 0) continue;
    EmitOptions options;
    options.target = small_target();
    const auto program = emit_program(**module, options);
    ASSERT_TRUE(program) << program.error().to_string();
    in_parts += explain(*program).find("of.parts") != std::string::npos ? 1 : 0;
    const auto run = run_on_cpu(*program, arguments);
    ASSERT_TRUE(run) << run.error().to_string();
    EXPECT_EQ(hlo::difference(*run, *expected, 16).value_or(""), "");
  }
  EXPECT_GE(widened, rounds(80));
  EXPECT_GE(in_parts, rounds(8));
}

TEST(WidenSums, LeaveOthers) {
  // Of other operators, of wide types, and of few terms.
  for (const Example& example :
       {Example{"bf16", "maximum", "-inf", {512, 8}, {0}}, Example{"f32", "add", "0", {512, 8}, {0}},
        Example{"f64", "multiply", "1", {512, 8}, {0}}, Example{"bf16", "add", "0", {8, 63}, {1}}}) {
    const auto module = hlo::parse_module(text_of(example));
    ASSERT_TRUE(module) << module.error().to_string();
    EXPECT_EQ(hlo::print(widen_sums(**module)), hlo::print(**module));
  }
}

/// Sums of few columns have enough blocks, and are rounded once.
TEST(WidenSums, BlocksShareColumns) {
  const auto module = hlo::parse_module(text_of({"bf16", "add", "0", {65536, 120}, {0}}));
  ASSERT_TRUE(module) << module.error().to_string();
  const auto program = emit_program(**module);
  ASSERT_TRUE(program) << program.error().to_string();
  ASSERT_EQ(program->steps.size(), 2U) << explain(*program);
  EXPECT_GE(program->steps[0].fusion->decision().launches.back().blocks, default_target().multiprocessors)
      << explain(*program);
}

}  // namespace
}  // namespace strata::emitters
