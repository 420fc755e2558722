#include "hlo/inline_calls.h"

#include <gtest/gtest.h>

#include "hlo/evaluate.h"
#include "hlo/random_fusion.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"
#include "hlo/verify.h"

namespace strata::hlo {
namespace {

TEST(InlineCalls, TuplesAndNestedFusionsDisappear) {
  const auto module = parse_module(R"(HloModule m
inner { p = f32[4] parameter(0)  n = f32[4] negate(p)  ROOT t = (f32[4], f32[4]) tuple(n, p) }
outer { p = f32[4] parameter(0)  c = (f32[4], f32[4]) call(p), to_apply=inner
        n = f32[4] get-tuple-element(c), index=0  ROOT e = f32[4] exponential(n) }
ENTRY main { p = f32[4] parameter(0)  unused = f32[4] abs(p)  ROOT f = f32[4] fusion(p), kind=kLoop, calls=outer }
)");
  ASSERT_TRUE(module) << module.error().to_string();
  const Module flat = inline_calls(**module);
  ASSERT_EQ(flat.computations.size(), 1);
  EXPECT_EQ(flat.entry_computation().instructions.size(), 3);
  EXPECT_TRUE(verify(flat));
}

TEST(InlineCalls, RandomModulesKeepTheirValue) {
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    const ModulePtr module = random_fusion(seed);
    const Module flat = inline_calls(*module);
    const auto checked = verify(flat);
    ASSERT_TRUE(checked) << checked.error().to_string();
    const auto arguments = typical_arguments(module->entry_computation(), seed);
    const auto expected = evaluate(*module, arguments);
    const auto actual = evaluate(flat, arguments);
    ASSERT_EQ(expected.has_value(), actual.has_value()) << seed;
    if (!expected) continue;
    ASSERT_TRUE(identical(*expected, *actual)) << seed << "\n" << print(flat);
  }
}

}  // namespace
}  // namespace strata::hlo
