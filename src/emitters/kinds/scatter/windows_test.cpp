// Scatters of one window for each index of the batch in one pass: that they compute what the interpreter does, and
// where they are chosen.
#include "emitters/kinds/scatter/windows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emitters/kinds/scatter/testing.h"
#include "hlo/input_output_alias.h"

namespace strata::emitters {
namespace {

using namespace scatter_testing;
using testing::HasSubstr;

/// Windows of `rows` rows of [9,{width}], one a batch of 3. Indices are from -4 to 15: some windows do not fit.
std::string caches(const std::string& type, const std::string& called, int64_t rows, int64_t width,
                   const std::string& head = "") {
  return head + called +
         fmt::format(
             "ENTRY e {{\n  x = {0}[3,9,{2}] parameter(0)\n  at = s32[3,1] parameter(1)\n  u = {0}[3,{1},{2}] "
             "parameter(2)\n  ROOT r = {0}[3,9,{2}] scatter(x, at, u), update_window_dims={{1,2}}, "
             "inserted_window_dims={{}}, scatter_dims_to_operand_dims={{1}}, input_batching_dims={{0}}, "
             "scatter_indices_batching_dims={{0}}, index_vector_dim=1, to_apply=f\n}}\n",
             type, rows, width);
}

void check(const std::string& text, const std::string& detail = "") {
  SCOPED_TRACE(text);
  const hlo::ModulePtr module = parsed(text);
  ASSERT_TRUE(module);
  const auto program = emit_program(*module, {.only = "scatter windows"});
  ASSERT_TRUE(program) << program.error().to_string();
  ASSERT_EQ(program->steps.size(), 1u);
  ASSERT_TRUE(program->steps[0].fusion) << program->steps[0].why_interpreted;
  EXPECT_THAT(explain(*program), HasSubstr(detail));
  EXPECT_TRUE(program->steps[0].fusion->decision().preparations.empty());
  for (const uint64_t seed : {1, 2, 3}) EXPECT_EQ(wrong_results(*module, *program, seed), "") << explain(*program);
}

TEST(ScatterWindows, TypesAndCombiners) {
  for (const char* type : {"f32", "f64", "s32", "c64", "c128", "u8", "bf16", "f8e5m2"}) {
    check(caches(type, function(type, "add"), 2, 8));
    check(caches(type, second(type), 2, 8));
  }
  check(caches("f32",
               "f {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  c = f32[] multiply(a, a)\n  ROOT d = "
               "f32[] subtract(b, c)\n}\n",
               4, 5));
}

/// A reduction's emitter would compute the scatter as a function of its results, of which there is none.
TEST(ScatterWindows, UpdatesThatAreSumsStandApart) {
  for (const auto& [rows, terms] : {std::pair(33, 33), std::pair(5, 700), std::pair(700, 3), std::pair(1, 40)}) {
    for (const char* combined : {"a", "b"}) {
      const std::string text =
          function("f32", "add") +
          fmt::format(
              "g {{\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] add({2}, b)\n}}\nENTRY e "
              "{{\n  x = f32[{0},9] parameter(0)\n  j = s32[] parameter(1)\n  w = f32[{0},{1}] parameter(2)\n  i = "
              "s32[1] reshape(j)\n  s = f32[{0},{1}] multiply(w, w)\n  z = f32[] constant(0)\n  r = f32[{0}] "
              "reduce(s, z), dimensions={{1}}, to_apply=f\n  ROOT y = f32[{0},9] scatter(x, i, r), "
              "update_window_dims={{0}}, inserted_window_dims={{1}}, scatter_dims_to_operand_dims={{1}}, "
              "index_vector_dim=0, to_apply=g\n}}\n",
              rows, terms, combined);
      SCOPED_TRACE(text);
      const hlo::ModulePtr module = parsed(text);
      ASSERT_TRUE(module);
      const auto program = emit_program(*module, {});
      ASSERT_TRUE(program) << program.error().to_string();
      for (const ProgramStep& step : program->steps) EXPECT_TRUE(step.fusion) << step.why_interpreted;
      for (const uint64_t seed : {1, 2}) EXPECT_EQ(wrong_results(*module, *program, seed), "") << explain(*program);
    }
  }
}

TEST(ScatterWindows, VectorsLieInRowsThatAWindowHasAsAWhole) {
  check(caches("bf16", second("bf16"), 4, 64), "vector           8");
  check(caches("bf16", second("bf16"), 4, 12), "vector           4");
  check(caches("bf16", second("bf16"), 4, 7), "vector           1");
  // The whole array, and one row.
  check(caches("f32", second("f32"), 9, 4), "vector           4");
  check(caches("f32", second("f32"), 1, 4), "vector           4");
}

TEST(ScatterWindows, DimensionsOfAllKinds) {
  // Windows of part of each dimension, at starts in both, the batch innermost.
  check(
      function("s32", "add") +
      "ENTRY e {\n  x = s32[7,8,5] parameter(0)\n  i = s32[2,5] parameter(1)\n  u = s32[5,3,2] parameter(2)\n  ROOT r "
      "= s32[7,8,5] scatter(x, i, u), update_window_dims={1,2}, inserted_window_dims={}, "
      "scatter_dims_to_operand_dims={1,0}, input_batching_dims={2}, scatter_indices_batching_dims={1}, "
      "index_vector_dim=0, to_apply=f\n}\n");
  // One index of a scalar, a dimension without a start that windows have a part of, and an inserted one.
  check(function("f32", "maximum") +
        "ENTRY e {\n  x = f32[9,6] parameter(0)\n  i = s32[] parameter(1)\n  u = f32[4] parameter(2)\n  ROOT r = "
        "f32[9,6] scatter(x, i, u), update_window_dims={0}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=0, to_apply=f\n}\n");
  // Two batches, and starts of dimensions that windows have as a whole: they fit only at 0.
  check(second("f32") +
        "ENTRY e {\n  x = f32[2,6,3,4] parameter(0)\n  i = s32[3,2,2] parameter(1)\n  u = f32[3,2,2,4] parameter(2)\n  "
        "ROOT r = f32[2,6,3,4] scatter(x, i, u), update_window_dims={2,3}, inserted_window_dims={}, "
        "scatter_dims_to_operand_dims={1,3}, input_batching_dims={0,2}, scatter_indices_batching_dims={1,0}, "
        "index_vector_dim=2, to_apply=f\n}\n");
}

TEST(ScatterWindows, TwoWindowsOfABatchAreOthers) {
  const hlo::ModulePtr module = parsed(rows({"f32", function("f32", "add"), 40, any_indices(40)}));
  const auto program = emit_program(*module, {.only = "scatter windows"});
  ASSERT_FALSE(program);
  EXPECT_THAT(program.error().message, HasSubstr("several updates of an element"));
}

/// The emitter of the only step.
std::string chosen(const std::string& text) {
  const auto module = hlo::parse_module_text(text);
  EXPECT_TRUE(module) << module.error().to_string();
  if (!module) return "";
  const auto program = emit_program(*module->module, {}, LibraryUse::WhereFaster, {}, module->aliases);
  EXPECT_TRUE(program) << program.error().to_string();
  if (!program || program->steps.size() != 1) return "";
  EXPECT_EQ(wrong_results(*module->module, *program, 1), "");
  return program->steps[0].fusion->decision().emitter;
}

TEST(ScatterWindows, ChosenWhereTheOperandStaysAsItIs) {
  const std::string kept = "HloModule m\n", given = "HloModule m, input_output_alias={ {}: (0, {}, may-alias) }\n";
  EXPECT_EQ(chosen(caches("bf16", second("bf16"), 2, 4096, kept)), "scatter windows");
  EXPECT_EQ(chosen(caches("bf16", second("bf16"), 2, 4096, given)), "scatter");
  // A dynamic-update-slice is a loop over the result then.
  const std::string update =
      "ENTRY e {\n  x = f32[9999,64] parameter(0)\n  u = f32[2,64] parameter(1)\n  i = s32[] parameter(2)\n  zero = "
      "s32[] constant(0)\n  ROOT r = f32[9999,64] dynamic-update-slice(x, u, i, zero)\n}\n";
  EXPECT_EQ(chosen(kept + update), "loop");
  EXPECT_EQ(chosen(given + update), "dynamic-update-slice");
  // So are two that one kernel does, unless one of them is given away.
  const std::string two =
      "ENTRY e {\n  x = f32[999,64] parameter(0)\n  y = f32[999,64] parameter(1)\n  u = f32[2,64] parameter(2)\n  i = "
      "s32[] parameter(3)\n  zero = s32[] constant(0)\n  v = f32[2,64] negate(u)\n  a = f32[999,64] "
      "dynamic-update-slice(x, u, i, zero)\n  b = f32[999,64] dynamic-update-slice(y, v, i, zero)\n  ROOT r = "
      "(f32[999,64], f32[999,64]) tuple(a, b)\n}\n";
  EXPECT_EQ(chosen(kept + two), "loop");
  EXPECT_EQ(chosen("HloModule m, input_output_alias={ {0}: (0, {}, may-alias) }\n" + two), "dynamic-update-slice");
}

/// An array that another kernel makes is written over, but for what reads it afterwards.
TEST(ScatterWindows, AnArrayOfTheProgramIsKeptWhereItIsReadAgain) {
  const auto text = [](const std::string& root) {
    return "HloModule m\nless {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT r = pred[] compare(a, b), "
           "direction=LT\n}\n" +
           second("f32") +
           "ENTRY e {\n  p = f32[3,9,4096] parameter(0)\n  x = f32[3,9,4096] sort(p), dimensions={1}, to_apply=less\n  "
           "at = s32[3,1] parameter(1)\n  u = f32[3,2,4096] parameter(2)\n  s = f32[3,9,4096] scatter(x, at, u), "
           "update_window_dims={1,2}, inserted_window_dims={}, scatter_dims_to_operand_dims={1}, "
           "input_batching_dims={0}, scatter_indices_batching_dims={0}, index_vector_dim=1, to_apply=f\n" +
           root + "}\n";
  };
  const auto emitter_of = [&](const std::string& root) {
    const hlo::ModulePtr module = *hlo::parse_module(text(root));
    const auto program = emit_program(*module);
    EXPECT_TRUE(program) << program.error().to_string();
    EXPECT_EQ(wrong_results(*module, *program, 1), "");
    std::string emitter;
    for (const ProgramStep& step : program->steps) {
      if (step.fusion->decision().emitter.starts_with("scatter")) emitter = step.fusion->decision().emitter;
    }
    return emitter;
  };
  EXPECT_EQ(emitter_of("  ROOT r = f32[3,9,4096] copy(s)\n"), "scatter");
  EXPECT_EQ(emitter_of("  ROOT r = (f32[3,9,4096], f32[3,9,4096]) tuple(s, x)\n"), "scatter windows");
}

}  // namespace
}  // namespace strata::emitters
