#include "emitters/fusion/share_long_products.h"

#include <gtest/gtest.h>

#include "emitters/program.h"
#include "hlo/compare.h"
#include "hlo/evaluate.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"
#include "hlo/verify.h"

namespace strata::emitters {
namespace {

/// A GPU so small that few blocks fill it: arrays of a test are large on it.
Target small_target() {
  Target target = default_target();
  target.multiprocessors = 16;
  return target;
}

std::string text_of(const std::string& lhs, const std::string& rhs, const std::string& dot) {
  return "HloModule m\nENTRY e {\n  x = " + lhs + " parameter(0)\n  y = " + rhs + " parameter(1)\n  ROOT d = " + dot +
         "\n}\n";
}

constexpr int kTerms = 64;  ///< by which sums of bf16 may differ from the interpreter's

void expect_shared(const std::string& text) {
  SCOPED_TRACE(text);
  const Target target = small_target();
  const auto module = hlo::parse_module(text);
  ASSERT_TRUE(module) << module.error().to_string();
  const hlo::Module changed = share_long_products(**module, target);
  const auto verified = hlo::verify(changed);
  ASSERT_TRUE(verified) << verified.error().to_string() << hlo::print(changed);
  EXPECT_NE(hlo::print(changed).find("of.parts"), std::string::npos) << hlo::print(changed);
  const auto arguments = hlo::typical_arguments((*module)->entry_computation(), 1);
  const auto expected = hlo::evaluate(**module, arguments);
  ASSERT_TRUE(expected) << expected.error().to_string();
  const auto actual = hlo::evaluate(changed, arguments);
  ASSERT_TRUE(actual) << actual.error().to_string();
  EXPECT_EQ(hlo::difference(*actual, *expected, kTerms).value_or(""), "");
  EmitOptions options;
  options.target = target;
  const auto program = emit_program(**module, options);
  ASSERT_TRUE(program) << program.error().to_string();
  EXPECT_NE(explain(*program).find("of_parts"), std::string::npos) << explain(*program);
  const auto run = run_on_cpu(*program, arguments);
  ASSERT_TRUE(run) << run.error().to_string();
  EXPECT_EQ(hlo::difference(*run, *expected, kTerms).value_or(""), "");
}

TEST(ShareLongProducts, ComputeTheSame) {
  for (const std::string& text : {
           text_of("f32[3,100003]", "f32[100003,2]",
                   "f32[3,2] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
           text_of("bf16[8,65536]", "bf16[65536,12]",
                   "bf16[8,12] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
           text_of("bf16[8,40009]", "bf16[12,40009]",
                   "f32[8,12] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={1}"),
           text_of("f32[30011,2,4]", "f32[3,2,30011]",
                   "f32[2,4,3] dot(x, y), lhs_batch_dims={1}, rhs_batch_dims={1}, lhs_contracting_dims={0}, "
                   "rhs_contracting_dims={2}"),
           text_of("f32[4,20011,3]", "f32[4,20011,5]",
                   "f32[3,5] dot(x, y), lhs_contracting_dims={0,1}, rhs_contracting_dims={0,1}"),
           text_of("f32[7,67,283,6]", "f32[7,6,67,283]",
                   "f32[6,6] dot(x, y), lhs_contracting_dims={0,1,2}, rhs_contracting_dims={0,2,3}"),
           text_of("f32[2,40,48,2,50,4]", "f32[2,40,2,48,50,6]",
                   "f32[2,4,6] dot(x, y), lhs_batch_dims={3}, rhs_batch_dims={2}, lhs_contracting_dims={1,0,4,2}, "
                   "rhs_contracting_dims={1,0,4,3}"),
           text_of("bf16[131072]", "bf16[131072,24]",
                   "bf16[24] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}"),
           text_of("f64[2,40009]", "f64[40009,3]",
                   "f64[2,3] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
           text_of("s8[4,200003]", "s8[200003,3]",
                   "s32[4,3] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
           text_of("c64[2,40009]", "c64[40009,3]",
                   "c64[2,3] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
           // As JAX has gradients of weights: the kernel might write the transposed result, and must not keep it whole.
           std::string("HloModule m\nENTRY e {\n  x = f32[3,9001,40] parameter(0)\n  y = f32[3,9001,11] parameter(1)\n"
                       "  d = f32[40,11] dot(x, y), lhs_contracting_dims={0,1}, rhs_contracting_dims={0,1}\n"
                       "  ROOT t = f32[11,40]{0,1} transpose(d), dimensions={1,0}\n}\n"),
       })
    expect_shared(text);
}

TEST(ShareLongProducts, LeaveWhatFillsTheGpu) {
  for (const std::string& text : {
           text_of("f32[64,4096]", "f32[4096,64]",
                   "f32[64,64] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
           text_of("f32[1,65536]", "f32[512,65536]",
                   "f32[1,512] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={1}"),
           text_of("f32[4,900]", "f32[900,4]",
                   "f32[4,4] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
           text_of("f32[300,4,2000]", "f32[300,2000,4]",
                   "f32[300,4,4] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
                   "rhs_contracting_dims={1}"),
       }) {
    const auto module = hlo::parse_module(text);
    ASSERT_TRUE(module) << module.error().to_string();
    EXPECT_EQ(hlo::print(share_long_products(**module, small_target())), hlo::print(**module)) << text;
  }
}

}  // namespace
}  // namespace strata::emitters
