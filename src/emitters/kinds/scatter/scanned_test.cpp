// Scatters whose blocks look through all indices: that they compute what the interpreter does, in the order in which
// it does, and where they are chosen.
#include "emitters/kinds/scatter/scanned.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emitters/kinds/scatter/testing.h"

namespace strata::emitters {
namespace {

using namespace scatter_testing;
using testing::HasSubstr;

void check(const std::string& text, const std::string& detail = "") {
  SCOPED_TRACE(text);
  const hlo::ModulePtr module = parsed(text);
  ASSERT_TRUE(module);
  const auto program = emit_program(*module, {.only = "scatter scan"});
  ASSERT_TRUE(program) << program.error().to_string();
  ASSERT_EQ(program->steps.size(), 1u);
  ASSERT_TRUE(program->steps[0].fusion) << program->steps[0].why_interpreted;
  EXPECT_THAT(explain(*program), HasSubstr(detail));
  EXPECT_TRUE(program->steps[0].fusion->decision().preparations.empty());
  for (const uint64_t seed : {1, 2}) EXPECT_EQ(wrong_results(*module, *program, seed), "") << explain(*program);
}

TEST(ScatterScan, TypesAndCombiners) {
  for (const char* type : {"f32", "f64", "s32", "c64", "u8", "bf16", "f8e5m2"}) {
    check(rows({type, function(type, "add"), 40, any_indices(40)}));
  }
  check(rows({"bf16", function("bf16", "maximum"), 40, any_indices(40)}));
  check(rows({"pred", function("pred", "xor"), 40, any_indices(40, "s64")}));
}

TEST(ScatterScan, WindowsOfAllThreadsAndMore) {
  // One window for a thread, one less, one more, and several.
  for (const int64_t count : {1, 127, 128, 129, 1000}) {
    check(rows({"s32", function("s32", "add"), count, any_indices(count), "", "90,4", 4}));
  }
}

TEST(ScatterScan, GroupsShareTheUpdatesOfLongRows) {
  for (const char* type : {"f32", "bf16", "s32"}) {
    check(rows({type, function(type, "add"), 700, skewed_indices(700), "", "900,16", 16}), "of threads share rows");
    // Windows that leave a part of each row out.
    check(rows({type, function(type, "maximum"), 700, skewed_indices(700), "", "900,16", 12}), "of threads share rows");
  }
  check(rows({"f32", function("f32", "add"), 2000, sorted_indices(2000, 5000), "", "5000,1", 1}));
}

TEST(ScatterScan, BlocksShareTheElementsOfWideRows) {
  const std::string text = rows({"f32", function("f32", "add"), 60, any_indices(60), "", "7,5003", 5003});
  check(text);
  const hlo::ModulePtr module = parsed(text);
  const auto program = emit_program(*module, {.only = "scatter scan"});
  ASSERT_TRUE(program);
  EXPECT_EQ(explain(*program).find("in 1 parts"), std::string::npos) << explain(*program);
}

TEST(ScatterScan, UpdatesAreTakenInTheirOrder) {
  // A computation that is neither commutative nor associative: 3 a + b.
  const std::string ordered =
      "f {\n  a = s32[] parameter(0)\n  b = s32[] parameter(1)\n  k = s32[] constant(3)\n  m = s32[] multiply(a, k)\n  "
      "ROOT c = s32[] add(m, b)\n}\n";
  check(rows({"s32", ordered, 700, skewed_indices(700), "", "900,4", 4}), "one update after the other");
  // Of several updates that replace one element the last one stays.
  check(rows({"f32", second("f32"), 700, skewed_indices(700), "", "900,4", 4}), "replaces");
}

TEST(ScatterScan, IsChosenWhereIndicesAreFew) {
  const auto emitter = [](int64_t operand_rows, int64_t windows, int64_t width, const std::string& operand,
                          const std::string& combiner = "add") {
    const std::string text =
        function("f32", combiner) +
        fmt::format(
            "ENTRY e {{\n  i = s32[{1}] parameter(0)\n  u = f32[{1},{2}] parameter(1)\n{3}  ROOT r = "
            "f32[{0},{2}] scatter(x, i, u), {4}, to_apply=f\n}}\n",
            operand_rows, windows, width, operand, kRowsOfMatrix);
    const hlo::ModulePtr module = parsed(text);
    const auto fusion = emit_fusion(*module, module->entry, "k");
    return fusion ? fusion->decision().emitter : fusion.error().to_string();
  };
  const auto zeros = [](int64_t rows, int64_t width) {
    return fmt::format("  z = f32[] constant(0)\n  x = f32[{},{}] broadcast(z), dimensions={{}}\n", rows, width);
  };
  const auto given = [](int64_t rows, int64_t width) {
    return fmt::format("  x = f32[{},{}] parameter(2)\n", rows, width);
  };
  EXPECT_EQ(emitter(20000, 3000, 128, zeros(20000, 128), "multiply"), "scatter scan");
  EXPECT_EQ(emitter(1000, 2, 8, zeros(1000, 8)), "scatter scan");
  // Vectors of sums are one instruction each.
  EXPECT_EQ(emitter(20000, 3000, 128, zeros(20000, 128)), "scatter");
  // A row of a cache, which the caller may give away: nothing else is to be read and written.
  EXPECT_EQ(emitter(20000, 1, 128, given(20000, 128)), "scatter");
  EXPECT_EQ(emitter(1 << 20, 1 << 18, 128, zeros(1 << 20, 128)), "scatter rows");
  EXPECT_NE(emitter(1 << 20, 20000, 128, zeros(1 << 20, 128)), "scatter scan");
}

TEST(ScatterScan, NoBlockComputesLongIndicesAgain) {
  const std::string text = function("f32", "add") + function("s32", "maximum").replace(0, 1, "g") +
                           "ENTRY e {\n  z = f32[] constant(0)\n  x = f32[100,8] broadcast(z), dimensions={}\n  p = "
                           "s32[50,4000] parameter(0)\n  n = s32[] constant(0)\n  i = s32[50] reduce(p, n), "
                           "dimensions={1}, to_apply=g\n  u = f32[50,8] parameter(1)\n  ROOT r = f32[100,8] scatter(x, "
                           "i, u), " +
                           kRowsOfMatrix + ", to_apply=f\n}\n";
  const hlo::ModulePtr module = parsed(text);
  ASSERT_TRUE(module);
  const auto fusion = emit_fusion(*module, module->entry, "k");
  EXPECT_TRUE(!fusion || fusion->decision().emitter != "scatter scan");
}

}  // namespace
}  // namespace strata::emitters
