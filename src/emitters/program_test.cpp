// Kernels of the emitters, run on the CPU, against the interpreter.
#include "emitters/program.h"

#include <gtest/gtest.h>

#include "hlo/evaluate.h"
#include "hlo/random_fusion.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"

namespace strata::emitters {
namespace {

using hlo::Literal;

TEST(Program, AddOfTwoArrays) {
  const auto module = hlo::parse_module(R"(
fusion { a = f32[100] parameter(0)  b = f32[100] parameter(1)  ROOT s = f32[100] add(a, b) })");
  ASSERT_TRUE(module) << module.error().to_string();
  const auto program = emit_program(**module);
  ASSERT_TRUE(program) << program.error().to_string();
  const auto text = program->steps[0].kernel->text(Form::Mlir);
  ASSERT_TRUE(text);
  puts(text->c_str());
  const auto arguments = hlo::typical_arguments((*module)->entry_computation(), 1);
  const auto actual = run_on_cpu(*program, arguments);
  ASSERT_TRUE(actual) << actual.error().to_string();
  EXPECT_TRUE(hlo::identical(*actual, *hlo::evaluate(**module, arguments)));
}

}  // namespace
}  // namespace strata::emitters
