#include "emitters/elemental/rounded_values.h"

#include <fmt/format.h>
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

using testing::ElementsAre;
using testing::IsEmpty;

constexpr const char* kReducers = R"(
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(b, a) }
max { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] maximum(a, b) }
mul { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] multiply(a, b) }
)";

/// The names of the functions that are found, after x = f32[8,96] that was bf16.
std::vector<std::string> found(const std::string& body) {
  const auto module = hlo::parse_module(std::string(kReducers) + R"(
ENTRY e {
  n = bf16[8,96] parameter(0)
  x = f32[8,96] convert(n)
  zero = f32[] constant(0)
  less = f32[] constant(-1)
)" + body + "}");
  if (!module) {
    ADD_FAILURE() << module.error().to_string();
    return {};
  }
  const std::vector<bool> rounded = functions_rounded_to_half(**module, (*module)->entry);
  std::vector<std::string> names;
  for (size_t i = 0; i < rounded.size(); ++i) {
    if (rounded[i]) names.push_back((*module)->entry_computation().instructions[i].name);
  }
  return names;
}

std::string softmax(const std::string& type) {
  return fmt::format(R"(
  low = f32[] constant(-inf)
  m = f32[8] reduce(x, low), dimensions={{1}}, to_apply=max
  mm = f32[8,96] broadcast(m), dimensions={{0}}
  d = f32[8,96] subtract(x, mm)
  e = f32[8,96] exponential(d)
  s = f32[8] reduce(e, zero), dimensions={{1}}, to_apply=add
  ss = f32[8,96] broadcast(s), dimensions={{0}}
  q = f32[8,96] divide(e, ss)
  ROOT y = {}[8,96] convert(q)
)",
                     type);
}

TEST(RoundedValues, ExponentialsOfSoftmax) {
  EXPECT_THAT(found(softmax("bf16")), ElementsAre("e"));
  EXPECT_THAT(found(softmax("f16")), ElementsAre("e"));
  EXPECT_THAT(found(softmax("f32")), IsEmpty());
}

TEST(RoundedValues, WhereNothingCancels) {
  const auto after_sum = [](const std::string& summed, const std::string& initial, const std::string& reducer) {
    return "e = f32[8,96] exponential(x)  t = f32[8,96] tanh(x)\n" + summed + "s = f32[8] reduce(v, " + initial +
           "), dimensions={1}, to_apply=" + reducer + "\nROOT y = bf16[8] convert(s)\n";
  };
  EXPECT_THAT(found(after_sum("v = f32[8,96] copy(e)\n", "zero", "add")), ElementsAre("e"));
  EXPECT_THAT(found(after_sum("v = f32[8,96] multiply(t, t)\n", "zero", "add")), ElementsAre("t"));
  EXPECT_THAT(found(after_sum("v = f32[8,96] add(e, e)\n", "zero", "max")), ElementsAre("e"));
  // Terms of both signs, a negative beginning, a product of many.
  EXPECT_THAT(found(after_sum("v = f32[8,96] copy(t)\n", "zero", "add")), IsEmpty());
  EXPECT_THAT(found(after_sum("v = f32[8,96] multiply(e, t)\n", "zero", "add")), IsEmpty());
  EXPECT_THAT(found(after_sum("v = f32[8,96] copy(e)\n", "less", "add")), IsEmpty());
  EXPECT_THAT(found(after_sum("v = f32[8,96] copy(e)\n", "zero", "mul")), IsEmpty());
}

TEST(RoundedValues, WhatElseIsMadeOfThem) {
  EXPECT_THAT(found(R"(
  e = f32[8,96] exponential(x)
  y = bf16[8,96] convert(e)
  ROOT r = (bf16[8,96], f32[8,96]) tuple(y, e)
)"),
              IsEmpty());
  EXPECT_THAT(found(R"(
  e = f32[8,96] exponential(x)
  d = f32[8,96] subtract(e, x)
  ROOT y = bf16[8,96] convert(d)
)"),
              IsEmpty());
  EXPECT_THAT(found(R"(
  e = f32[8,96] exponential(x)
  i = s32[8,96] convert(e)
  y = bf16[8,96] convert(e)
  ROOT r = (bf16[8,96], s32[8,96]) tuple(y, i)
)"),
              IsEmpty());
}

TEST(RoundedValues, ErrorsThatAddUp) {
  std::string body = "e0 = f32[8,96] exponential(x)\nv0 = f32[8,96] copy(e0)\n";
  for (int i = 1; i < 5; ++i) {
    body += fmt::format("e{0} = f32[8,96] tanh(x)\nv{0} = f32[8,96] multiply(v{1}, e{0})\n", i, i - 1);
    const std::string root = fmt::format("ROOT y = bf16[8,96] convert(v{})\n", i);
    EXPECT_EQ(found(body + root).size(), i < 4 ? static_cast<size_t>(i) + 1 : 0);
  }
}

/// Softmax of bf16 is within a rounding of the exact one.
TEST(RoundedValues, SoftmaxIsAsExactAsBefore) {
  const auto module =
      hlo::parse_module(std::string(kReducers) + "ENTRY e {\n  n = bf16[8,96] parameter(0)\n" +
                        "  x = f32[8,96] convert(n)\n  zero = f32[] constant(0)\n" + softmax("bf16") + "}");
  ASSERT_TRUE(module);
  const auto program = emit_program(**module, {});
  ASSERT_TRUE(program) << program.error().to_string();
  EXPECT_THAT(*program->steps[0].fusion->text(Form::Llvm), testing::HasSubstr("strata_exp_f32_half"));
  const auto arguments = hlo::typical_arguments((*module)->entry_computation(), 11);
  const auto result = run_on_cpu(*program, arguments);
  ASSERT_TRUE(result) << result.error().to_string();
  for (int64_t row = 0; row < 8; ++row) {
    double sum = 0;
    const auto term = [&](int64_t i) { return std::exp(static_cast<double>(arguments[0].get<float>(row * 96 + i))); };
    for (int64_t i = 0; i < 96; ++i) sum += term(i);
    for (int64_t i = 0; i < 96; ++i) {
      const double exact = term(i) / sum;
      EXPECT_LE(std::fabs(static_cast<double>(result->get<float>(row * 96 + i)) - exact), exact * 0x1.01p-8);
    }
  }
}

}  // namespace
}  // namespace strata::emitters
