#include "emitters/elemental/known_functions.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "emitters/program.h"
#include "hlo/compare.h"
#include "hlo/evaluate.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"

namespace strata::emitters {
namespace {

/// A sum a0 + a1 z + ... of the instruction `z`, by Horner's rule; the last line is `name`.
std::string polynomial(const std::string& name, const std::string& z, std::vector<double> coefficients) {
  std::string text, last;
  for (size_t i = coefficients.size(); i-- > 0;) {
    const std::string c = fmt::format("{}.c{}", name, i);
    text += fmt::format("  {0}.s = f32[] constant({1:.9g})\n  {0} = f32[6,50] broadcast({0}.s), dimensions={{}}\n", c,
                        coefficients[i]);
    if (last.empty()) {
      last = c;
      continue;
    }
    text += fmt::format("  {0}.m{1} = f32[6,50] multiply({2}, {3})\n", name, i, last, z);
    last = i == 0 ? name : fmt::format("{}.a{}", name, i);
    text += fmt::format("  {0} = f32[6,50] add({1}.m{2}, {3})\n", last, name, i, c);
  }
  return text;
}

/// erfc as JAX writes it: 1 - x P(x²) near 0, exp(-x²) / |x| Q(1 / x²) elsewhere, with `scale` for 2 in 2 - erfc(-x).
std::string erfc_text(double scale) {
  std::string text = R"(HloModule m
ENTRY e {
  p = f32[6,50] parameter(0)
  three.s = f32[] constant(3)
  three = f32[6,50] broadcast(three.s), dimensions={}
  x = f32[6,50] multiply(p, three)
  one.s = f32[] constant(1)
  one = f32[6,50] broadcast(one.s), dimensions={}
  zero.s = f32[] constant(0)
  zero = f32[6,50] broadcast(zero.s), dimensions={}
  limit.s = f32[] constant(-88.7228394)
  limit = f32[6,50] broadcast(limit.s), dimensions={}
  size = f32[6,50] abs(x)
  z = f32[6,50] multiply(x, x)
)";
  text +=
      polynomial("near", "z",
                 {1.12837911, -0.37612626, 0.112835854, -0.0268538129, 0.00518832775, -0.000801019371, 7.85386146e-05});
  text += R"(  xnear = f32[6,50] multiply(x, near)
  inside = f32[6,50] subtract(one, xnear)
  minus = f32[6,50] negate(z)
  e = f32[6,50] exponential(minus)
  inverse = f32[6,50] divide(one, size)
  front = f32[6,50] multiply(e, inverse)
  w = f32[6,50] divide(one, z)
)";
  text += polynomial("middle", "w",
                     {0.563825965, -0.274112701, 0.340488, -0.494451523, 0.621000469, -0.582473278, 0.368742466,
                      -0.138703942, 0.0232682});
  text += polynomial(
      "far", "w", {0.564189494, -0.282076746, 0.42184633, -1.01526523, 2.92101908, -7.49551868, 12.9772, -10.477664});
  text += fmt::format(R"(  two.s = f32[] constant({})
  two = f32[6,50] broadcast(two.s), dimensions={{}}
  split.s = f32[] constant(2)
  split = f32[6,50] broadcast(split.s), dimensions={{}}
  is_middle = pred[6,50] compare(size, split), direction=LT
  tail = f32[6,50] select(is_middle, middle, far)
  product = f32[6,50] multiply(front, tail)
  under = pred[6,50] compare(minus, limit), direction=LT
  positive = f32[6,50] select(under, zero, product)
  is_negative = pred[6,50] compare(x, zero), direction=LT
  mirrored = f32[6,50] subtract(two, positive)
  outside = f32[6,50] select(is_negative, mirrored, positive)
  is_near = pred[6,50] compare(size, one), direction=LT
  r = f32[6,50] select(is_near, inside, outside)
  ROOT y = f32[6,50] multiply(r, p)
}})",
                      scale);
  return text;
}

TEST(KnownFunctions, FindErfcByItsValues) {
  const auto module = hlo::parse_module(erfc_text(2));
  ASSERT_TRUE(module) << module.error().to_string();
  const auto changed = with_known_functions(**module, (*module)->entry);
  ASSERT_TRUE(changed);
  const hlo::Computation& entry = changed->entry_computation();
  const hlo::Instruction& product = entry.root_instruction();
  const hlo::Instruction& found = entry[product.operands[0]];
  EXPECT_EQ(found.opcode, hlo::Opcode::Map);
  EXPECT_EQ(entry[found.operands[0]].name, "x");
  EXPECT_STREQ(known_function((*changed)[found.called[0]].name), "strata_erfc_f32");
  // What the map calls is the text's own formula.
  const auto arguments = hlo::typical_arguments(entry, 3);
  EXPECT_TRUE(hlo::identical(*hlo::evaluate(**module, arguments), *hlo::evaluate(*changed, arguments)));
  EXPECT_FALSE(with_known_functions(*changed, changed->entry));
}

TEST(KnownFunctions, WhatIsAlmostErfcIsNot) {
  const auto module = hlo::parse_module(erfc_text(2.0001));
  ASSERT_TRUE(module);
  EXPECT_FALSE(with_known_functions(**module, (*module)->entry));
}

TEST(KnownFunctions, CallTheLibrary) {
  const auto module = hlo::parse_module(erfc_text(2));
  ASSERT_TRUE(module);
  const auto program = emit_program(**module, {});
  ASSERT_TRUE(program) << program.error().to_string();
  ASSERT_EQ(program->steps.size(), 1u);
  EXPECT_NE(program->steps[0].fusion->text(Form::Mlir)->find("call @strata_erfc_f32"), std::string::npos);
  const auto arguments = hlo::typical_arguments((*module)->entry_computation(), 5);
  const auto expected = hlo::evaluate(**module, arguments);
  const auto actual = run_on_cpu(*program, arguments);
  ASSERT_TRUE(actual) << actual.error().to_string();
  EXPECT_EQ(hlo::difference(*actual, *expected, 4).value_or(""), "");
}

/// erf_inv as JAX writes it: polynomials of w - 5/2 or of sqrt(w) - 3 for w = -log1p(-x²), whose coefficients a select
/// chooses; `last` is the last coefficient of the first.
std::string erf_inv_text(double last) {
  const double near[] = {2.81022636e-08,  3.43273939e-07, -3.5233877e-06,
                         -4.39150654e-06, 0.00021858087,  -0.00125372503,
                         -0.00417768164,  0.246640727,    last};
  const double far[] = {-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
                        -0.0076224613,   0.00943887047,  1.00167406,    2.83297682};
  std::string text = "HloModule m\nENTRY e {\n  p = f32[6,50] parameter(0)\n";
  const auto constant = [&](const std::string& name, const std::string& value) {
    text += fmt::format("  {0}.s = f32[] constant({1})\n  {0} = f32[6,50] broadcast({0}.s), dimensions={{}}\n", name,
                        value);
  };
  for (const auto& [name, value] :
       {std::pair("one", "1"), {"inf", "inf"}, {"five", "5"}, {"half", "2.5"}, {"three", "3"}})
    constant(name, value);
  text += R"(  x = f32[6,50] sine(p)
  size = f32[6,50] abs(x)
  at_end = pred[6,50] compare(size, one), direction=EQ
  infinite = f32[6,50] multiply(x, inf)
  minus = f32[6,50] negate(x)
  square = f32[6,50] multiply(x, minus)
  log = f32[6,50] log-plus-one(square)
  w = f32[6,50] negate(log)
  is_near = pred[6,50] compare(w, five), direction=LT
  z.near = f32[6,50] subtract(w, half)
  root = f32[6,50] sqrt(w)
  z.far = f32[6,50] subtract(root, three)
  z = f32[6,50] select(is_near, z.near, z.far)
)";
  std::string sum;
  for (size_t i = 0; i < std::size(near); ++i) {
    constant(fmt::format("near{}", i), fmt::format("{:.9g}", near[i]));
    constant(fmt::format("far{}", i), fmt::format("{:.9g}", far[i]));
    text += fmt::format("  c{0} = f32[6,50] select(is_near, near{0}, far{0})\n", i);
    if (i > 0) text += fmt::format("  m{0} = f32[6,50] multiply({1}, z)\n  a{0} = f32[6,50] add(c{0}, m{0})\n", i, sum);
    sum = fmt::format("{}{}", i > 0 ? "a" : "c", i);
  }
  return text + fmt::format(R"(  inside = f32[6,50] multiply({}, x)
  r = f32[6,50] select(at_end, infinite, inside)
  ROOT y = f32[6,50] multiply(r, p)
}})",
                            sum);
}

TEST(KnownFunctions, FindErfInvByItsValues) {
  const auto module = hlo::parse_module(erf_inv_text(1.50140941));
  ASSERT_TRUE(module) << module.error().to_string();
  const auto changed = with_known_functions(**module, (*module)->entry);
  ASSERT_TRUE(changed);
  const hlo::Computation& entry = changed->entry_computation();
  const hlo::Instruction& found = entry[entry.root_instruction().operands[0]];
  EXPECT_EQ(found.opcode, hlo::Opcode::Map);
  EXPECT_EQ(entry[found.operands[0]].name, "x");
  EXPECT_STREQ(known_function((*changed)[found.called[0]].name), "strata_erf_inv_f32");
  const auto program = emit_program(**module, {});
  ASSERT_TRUE(program) << program.error().to_string();
  const auto arguments = hlo::typical_arguments((*module)->entry_computation(), 5);
  const auto expected = hlo::evaluate(**module, arguments);
  const auto actual = run_on_cpu(*program, arguments);
  ASSERT_TRUE(actual) << actual.error().to_string();
  EXPECT_EQ(hlo::difference(*actual, *expected, 4).value_or(""), "");
}

TEST(KnownFunctions, WhatIsAlmostErfInvIsNot) {
  const auto module = hlo::parse_module(erf_inv_text(1.5015));
  ASSERT_TRUE(module);
  EXPECT_FALSE(with_known_functions(**module, (*module)->entry));
}

}  // namespace
}  // namespace strata::emitters
