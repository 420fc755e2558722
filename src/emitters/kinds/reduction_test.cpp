// Reductions: which tiles are chosen, what code is emitted, and that it computes what the interpreter does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "emitters/program.h"
#include "hlo/compute.h"
#include "hlo/evaluate.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"

namespace strata::emitters {
namespace {

using hlo::Literal;
using testing::HasSubstr;
using testing::Not;

/// A computation `name` of two scalars.
std::string combiner(const std::string& name, const std::string& type, const std::string& op) {
  return name + " {\n  a = " + type + "[] parameter(0)\n  b = " + type + "[] parameter(1)\n  ROOT c = " + type + "[] " +
         op + "(a, b)\n}\n";
}

const std::string kCombiners = "HloModule m\n" + combiner("add", "f32", "add") + combiner("max", "f32", "maximum");

Result<EmittedKernel> emit(const std::string& text) {
  STRATA_TRY(const hlo::ModulePtr module, hlo::parse_module(text));
  EmitOptions options;
  options.only = "reduction";
  return emit_fusion(*module, module->entry, "kernel", options);
}

std::string detail(const EmittedKernel& kernel, const std::string& name) {
  for (const auto& [key, text] : kernel.decision().details) {
    if (key == name) return text;
  }
  return {};
}

/// The largest difference of two arrays of floats relative to their size, or 1 if others are not equal.
double difference(const Literal& a, const Literal& b) {
  if (!a.shape().is_array()) {
    double most = 0;
    for (size_t i = 0; i < a.elements().size(); ++i) most = std::max(most, difference(a.elements()[i], b.elements()[i]));
    return most;
  }
  if (a.type() != hlo::ElementType::F32) {
    if (!hlo::is_float(a.type())) return hlo::identical(a, b) ? 0 : 1;
  }
  const auto value = [](const Literal& of, int64_t i) {
    return of.type() == hlo::ElementType::F64 ? of.get<double>(i) : static_cast<double>(of.get<float>(i));
  };
  double most = 0;
  for (int64_t i = 0; i < a.size(); ++i) {
    const double x = value(a, i), y = value(b, i);
    if (std::isnan(x) && std::isnan(y)) continue;
    const double error = x == y ? 0 : std::abs(x - y) / (1 + std::abs(y));
    most = std::max(most, std::isnan(error) ? 1 : error);
  }
  return most;
}

/// Runs the fusion by the reduction emitter on the CPU and compares with the interpreter.
void check(const std::string& text, const std::string& emitter, double bound = 1e-5) {
  SCOPED_TRACE(text);
  const auto module = hlo::parse_module(text);
  ASSERT_TRUE(module) << module.error().to_string();
  EmitOptions options;
  options.only = "reduction";
  const auto program = emit_program(**module, options);
  ASSERT_TRUE(program) << program.error().to_string();
  ASSERT_EQ(program->steps.size(), 1u);
  ASSERT_TRUE(program->steps[0].kernel) << program->steps[0].why_interpreted;
  EXPECT_EQ(program->steps[0].kernel->decision().emitter, emitter);
  const std::vector<Literal> arguments = hlo::typical_arguments((*module)->entry_computation(), 7);
  const auto expected = hlo::evaluate(**module, arguments);
  ASSERT_TRUE(expected) << expected.error().to_string();
  const auto result = run_on_cpu(*program, arguments);
  ASSERT_TRUE(result) << result.error().to_string() << explain(*program);
  EXPECT_LE(difference(*result, *expected), bound) << explain(*program);
}

std::string sum(const std::string& operand, const std::string& result, const std::string& dims) {
  return kCombiners + "ENTRY e {\n  x = " + operand + " parameter(0)\n  z = f32[] constant(0.5)\n  ROOT r = " + result +
         " reduce(x, z), dimensions={" + dims + "}, to_apply=add\n}\n";
}

TEST(Reduction, Rows) {
  for (const int length : {129, 256, 300, 1000, 1024, 2051}) {
    check(sum(fmt::format("f32[5,{}]", length), "f32[5]", "1"), "row reduction");
  }
  check(sum("f32[2,3,4,5,67]", "f32[2,4]", "1,3,4"), "row reduction");
  check(sum("f32[3,300,7]{1,2,0}", "f32[3,7]", "1"), "row reduction");
}

TEST(Reduction, ShortRows) {
  for (const int length : {2, 3, 8, 17, 31, 32, 64, 128}) {
    check(sum(fmt::format("f32[37,{}]", length), "f32[37]", "1"), "multi-row reduction");
  }
  check(sum("f32[70]", "f32[]", "0"), "multi-row reduction");
}

TEST(Reduction, Columns) {
  for (const int width : {2, 3, 8, 31, 33, 64, 100, 256}) {
    for (const int height : {3, 16, 65, 200}) {
      if (width * height < 64) continue;
      check(sum(fmt::format("f32[{},{}]", height, width), fmt::format("f32[{}]", width), "0"), "column reduction");
    }
  }
  check(sum("f32[3,5,7,11]", "f32[5,11]", "0,2"), "column reduction");
}

}  // namespace
}  // namespace strata::emitters
