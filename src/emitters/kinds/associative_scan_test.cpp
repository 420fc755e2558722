// Scans that programs write as recursions over pairs: that kernels of scans compute what the interpreter does, and that
// combiners which are not associative stay bit for bit.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "emitters/program.h"
#include "hlo/compare.h"
#include "hlo/evaluate.h"
#include "hlo/terms.h"
#include "hlo/test_associative_scan.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"

namespace strata::emitters {
namespace {

using hlo::Literal;
using hlo::TestScan;

/// Runs a text on the CPU and compares it with the interpreter; gives the emitters of its kernels.
std::vector<std::string> check(const std::string& text, double slack, bool identical = false) {
  const auto module = hlo::parse_module(text);
  EXPECT_TRUE(module) << module.error().to_string() << text;
  if (!module) return {};
  const auto program = emit_program(**module, {});
  EXPECT_TRUE(program) << program.error().to_string() << text;
  if (!program) return {};
  const std::vector<Literal> arguments = hlo::typical_arguments((*module)->entry_computation(), 7);
  const auto expected = hlo::evaluate(**module, arguments);
  EXPECT_TRUE(expected) << expected.error().to_string();
  const auto result = run_on_cpu(*program, arguments);
  EXPECT_TRUE(result) << result.error().to_string() << explain(*program);
  if (result && expected) {
    const auto different = hlo::difference(*result, *expected, slack);
    EXPECT_FALSE(different) << *different << "\n" << text << explain(*program);
    EXPECT_TRUE(!identical || hlo::identical(*result, *expected));
  }
  std::vector<std::string> emitters;
  for (const ProgramStep& step : program->steps) emitters.push_back(step.fusion ? step.fusion->decision().emitter : "");
  return emitters;
}

using Emitters = std::vector<std::string>;

TEST(AssociativeScan, IsOneKernelAtEveryLength) {
  for (const int64_t n : {16, 17, 18, 23, 31, 32, 33, 45, 63, 64, 65, 70, 300}) {
    for (const bool reverse : {false, true}) {
      const double slack = 16;
      EXPECT_EQ(check(text_of(hlo::recurrence({n}, 0, reverse)), slack), Emitters{"row scan"}) << n;
      EXPECT_EQ(check(text_of(hlo::recurrence({3, n, 8}, 1, reverse, {0, 1})), slack), Emitters{"column scan"}) << n;
    }
  }
}

TEST(AssociativeScan, ShortOnesStay) {
  for (int64_t n = 1; n < 16; ++n) check(text_of(hlo::recurrence({2, n}, 1)), 4);
}

TEST(AssociativeScan, OfLongLines) {
  EXPECT_EQ(check(text_of(hlo::recurrence({2, 5000}, 1, false, {1}, "s32")), 1), Emitters{"row scan"});
  EXPECT_EQ(check(text_of(hlo::recurrence({6001, 3}, 0, true, {1}, "s32")), 1), Emitters{"column scan"});
}

TEST(AssociativeScan, Types) {
  for (const char* type : {"bf16", "f16", "f64", "c64"}) {
    EXPECT_EQ(check(text_of(hlo::recurrence({4, 33}, 1, false, {0, 1}, type)), 64), Emitters{"row scan"}) << type;
  }
}

TEST(AssociativeScan, Segments) {
  const TestScan scan{
      {"pred", "f32"},
      {5, 100},
      1,
      false,
      {1},
      {"r0 = pred{0} or({a0}, {b0})", "s0 = f32{0} add({a1}, {b1})", "r1 = f32{0} select({b0}, {b1}, s0)"}};
  EXPECT_EQ(check(text_of(scan), 16), Emitters{"row scan"});
}

/// What comes before and after is in the kernel.
TEST(AssociativeScan, WithPrologueAndEpilogue) {
  std::string text = text_of(hlo::recurrence({64, 48}, 0));
  const auto replaced = [&](const std::string& what, const std::string& with) {
    const size_t at = text.rfind(what);
    ASSERT_NE(at, std::string::npos);
    text.replace(at, what.size(), with);
  };
  const size_t root = text.rfind("tuple(");
  const std::string scanned = text.substr(root + 6, text.find(')', root) - root - 6);
  replaced("  ROOT root = (f32[64,48]) tuple(" + scanned + ")",
           "  n = f32[64,48] negate(" + scanned + ")\n  ROOT root = f32[64,48] multiply(n, p1)");
  text.replace(text.find("  p0 = "), 7, "  q0 = ");
  text.insert(text.find("  p1 = "), "  p0 = f32[64,48] tanh(q0)\n");
  EXPECT_EQ(check(text, 16), Emitters{"column scan"});
}

TEST(AssociativeScan, OthersStayBitForBit) {
  const TestScan difference{{"s32"}, {3, 37}, 1, false, {}, {"r0 = s32{0} subtract({a0}, {b0})"}};
  const TestScan mixed{
      {"f32", "f32"},
      {40},
      0,
      true,
      {1},
      {"r0 = f32{0} multiply({a0}, {b0})", "t0 = f32{0} subtract({a1}, {b0})", "r1 = f32{0} maximum(t0, {b1})"}};
  for (const TestScan& scan : {difference, mixed}) {
    for (const std::string& emitter : check(text_of(scan), 0, /*identical=*/true)) {
      EXPECT_NE(emitter, "row scan");
      EXPECT_NE(emitter, "column scan");
    }
  }
}

}  // namespace
}  // namespace strata::emitters
