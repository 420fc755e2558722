// Scatters and dynamic-update-slices in place: what emitter takes them, and that they compute what the interpreter
// does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emitters/kinds/scatter/testing.h"
#include "hlo/random_fusion.h"
#include "support/test_rounds.h"

namespace strata::emitters {
namespace {

using namespace scatter_testing;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

/// Runs the module on the CPU: its last kernel must be the emitter's. Its first parameter is given away, so that it may
/// be written over, unless it is `kept`.
void check(const std::string& text, const std::string& emitter = "scatter", const std::string& detail = "",
           const EmitOptions& options = {}, bool kept = false) {
  SCOPED_TRACE(text);
  const auto module = hlo::parse_module("HloModule m\n" + text);
  ASSERT_TRUE(module) << module.error().to_string();
  hlo::InputOutputAliases given;
  const hlo::Computation& entry = (*module)->entry_computation();
  const hlo::Shape& result = entry.root_instruction().shape;
  if (!kept && result.is_array() && entry[entry.parameters[0]].shape == result) given.push_back({{}, 0, {}});
  const auto program = emit_program(**module, options, LibraryUse::WhereFaster, {}, given);
  ASSERT_TRUE(program) << program.error().to_string();
  const ProgramStep& last = program->steps.back();
  ASSERT_TRUE(last.fusion) << last.why_interpreted;
  EXPECT_EQ(last.fusion->decision().emitter, emitter);
  EXPECT_THAT(explain(*program), HasSubstr(detail));
  for (const uint64_t seed : {1, 2, 3}) EXPECT_EQ(wrong_results(**module, *program, seed), "") << explain(*program);
}

/// Windows into rows of five elements; some indices occur often, some lie outside.
std::string rows_of_five(const std::string& type, const std::string& called, const std::string& more = "",
                         const std::string& index = "s32") {
  return rows({type, called, 40, any_indices(40, index), more, "9,5", 5});
}

TEST(Scatter, SumsOfRowsWithRepeatedAndOutlyingIndices) {
  check(rows_of_five("f32", function("f32", "add")), "scatter", "atomic add");
  check(rows_of_five("f64", function("f64", "add")));
  check(rows_of_five("s32", function("s32", "add")));
  check(rows_of_five("c64", function("c64", "add")));
  check(rows_of_five("c128", function("c128", "add")));
}

TEST(Scatter, VectorsOfUpdates) {
  const auto of_width = [](const std::string& type, const std::string& called, const std::string& dims, int64_t width,
                           const std::string& more = "") {
    return rows({type, called, 6, sorted_indices(6, 1), more, dims, width});
  };
  check(of_width("f32", function("f32", "add"), "9,8", 8), "scatter", "vector           4");
  check(of_width("bf16", function("bf16", "add"), "9,8", 8), "scatter", "vector           8");
  check(of_width("f16", function("f16", "add"), "9,12", 8), "scatter", "vector           4");
  check(of_width("f32", function("f32", "add"), "9,6", 4), "scatter", "vector           2");
  check(of_width("f32", function("f32", "maximum"), "9,8", 8), "scatter", "vector           1");
  check(of_width("f32", second("f32"), "9,8", 8), "scatter", "vector           4");
  check(of_width("s16", function("s16", "multiply"), "9,8", 8, ", unique_indices=true"), "scatter",
        "vector           8");
}

TEST(Scatter, IndexTypes) {
  for (const char* index : {"s8", "u8", "s16", "u16", "u32", "s64", "u64"}) {
    check(rows_of_five("s32", function("s32", "add"), "", index));
  }
}

TEST(Scatter, NamedCombiners) {
  for (const char* type : {"s8", "u8", "s32", "u32", "s64", "u64", "f32", "f64", "f16", "bf16"}) {
    check(rows_of_five(type, function(type, "maximum")), "scatter", "atomic max");
    check(rows_of_five(type, function(type, "minimum")), "scatter", "atomic min");
  }
  for (const char* type : {"pred", "s8", "u16", "s32", "u64"}) {
    for (const char* op : {"and", "or", "xor"}) check(rows_of_five(type, function(type, op)), "scatter", "atomic");
  }
  check(rows_of_five("s4", function("s4", "add")));
  check(rows_of_five("s16", function("s16", "multiply")));
  check(rows_of_five("pred", function("pred", "add")), "scatter", "atomic or");
}

TEST(Scatter, NarrowFloatsAreAddedInTheirType) {
  // Few enough that the order of rounding hardly shows.
  for (const char* type : {"bf16", "f16", "f8e4m3fn"}) {
    const std::string t = type;
    check(function(t, "add") + "ENTRY e {\n  x = " + t + "[64] parameter(0)\n  i = s32[12,1] parameter(1)\n  u = " + t +
          "[12] parameter(2)\n  n = s32[12] iota(), iota_dimension=0\n  n1 = s32[12,1] reshape(n)\n  k = s32[] "
          "constant(16)\n  ks = s32[12,1] broadcast(k), dimensions={}\n  at = s32[12,1] multiply(n1, ks)\n  j = "
          "s32[12,1] add(at, i)\n  ROOT r = " +
          t +
          "[64] scatter(x, j, u), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
          "index_vector_dim=1, to_apply=f\n}\n");
  }
}

TEST(Scatter, OtherComputationsAreInlined) {
  const std::string mixed =
      "f {\n  a = s32[] parameter(0)\n  b = s32[] parameter(1)\n  k = s32[] constant(3)\n  m = s32[] multiply(b, k)\n  "
      "ROOT c = s32[] add(a, m)\n}\n";
  check(rows_of_five("s32", mixed), "scatter", "atomic custom");
  check(rows_of_five("c64", function("c64", "multiply")), "scatter", "atomic custom");
  const std::string keep = "f {\n  b = s16[] parameter(1)\n  ROOT a = s16[] parameter(0)\n}\n";
  check(rows_of_five("s16", keep), "scatter", "atomic custom");
}

/// Replaces element 3 · k + 1 by update k: each once.
std::string replacing(const std::string& type, const std::string& more) {
  return second(type) +
         fmt::format(
             "ENTRY e {{\n  x = {0}[64] parameter(0)\n  u = {0}[30] parameter(1)\n  n = u32[30] iota(), "
             "iota_dimension=0\n  k = u32[] constant(3)\n  ks = u32[30] broadcast(k), dimensions={{}}\n  m = u32[30] "
             "multiply(n, ks)\n  o = u32[] constant(1)\n  os = u32[30] broadcast(o), dimensions={{}}\n  i = u32[30] "
             "add(m, os)\n  ROOT r = {0}[64] scatter(x, i, u), {1}{2}, to_apply=f\n}}\n",
             type, kElements, more);
}

TEST(Scatter, Replaces) {
  for (const char* type : {"pred", "s8", "bf16", "f32", "c64"}) check(replacing(type, ""), "scatter", "replaces");
  check(replacing("c128", ", unique_indices=true"), "scatter", "no atomics");
}

TEST(Scatter, InstructionsOfTheDevice) {
  const auto ptx_of = [](const std::string& text) -> std::string {
    const auto module = hlo::parse_module("HloModule m\n" + text);
    if (!module) return module.error().to_string();
    const auto kernel = emit_fusion(**module, (*module)->entry, "k", {.only = "scatter"});
    if (!kernel) return kernel.error().to_string();
    const auto ptx = kernel->text(Form::Ptx);
    return ptx ? *ptx : ptx.error().to_string();
  };
  EXPECT_THAT(ptx_of(rows_of_five("f32", function("f32", "add"))),
              ContainsRegex("(atom|red)\\.[a-z.]*global\\.add\\.f32"));
  EXPECT_THAT(ptx_of(rows_of_five("bf16", function("bf16", "add"))),
              ContainsRegex("(atom|red)\\.[a-z.]*global[a-z.]*\\.bf16"));
  const auto wide = [](const std::string& type) {
    return rows({type, function(type, "add"), 40, any_indices(40), "", "9,16", 16});
  };
  EXPECT_THAT(ptx_of(wide("f32")), HasSubstr("red.relaxed.gpu.global.add.v4.f32"));
  EXPECT_THAT(ptx_of(wide("f16")), HasSubstr("red.relaxed.gpu.global.add.noftz.v4.f16x2"));
  EXPECT_THAT(ptx_of(wide("bf16")), HasSubstr("red.relaxed.gpu.global.add.noftz.v4.bf16x2"));
  EXPECT_THAT(ptx_of(rows_of_five("s32", function("s32", "maximum"))),
              ContainsRegex("(atom|red)\\.[a-z.]*global\\.max\\.s32"));
  EXPECT_THAT(ptx_of(rows_of_five("c64", function("c64", "multiply"))), ContainsRegex("atom\\.[a-z.]*cas\\.b64"));
  EXPECT_THAT(ptx_of(replacing("f32", "")), Not(ContainsRegex("(atom|red)\\.")));
}

TEST(Scatter, RefusesWhatNoAtomicDoes) {
  const auto module = hlo::parse_module("HloModule m\n" + rows_of_five("c128", function("c128", "multiply")));
  ASSERT_TRUE(module) << module.error().to_string();
  const auto kernel = emit_fusion(**module, (*module)->entry, "k", {.only = "scatter"});
  ASSERT_FALSE(kernel);
  EXPECT_THAT(kernel.error().message, HasSubstr("128 bits"));
}

TEST(Scatter, Windows) {
  // Windows of 3 × 2 of which all has to fit; the entries of an index are for dimensions 2 and 0, in this order.
  check(function("s32", "add") +
        "ENTRY e {\n  x = s32[9,4,11]{0,2,1} parameter(0)\n  i = s32[2,6] parameter(1)\n  u = s32[3,6,2]{1,0,2} "
        "parameter(2)\n  ROOT r = s32[9,4,11]{0,2,1} scatter(x, i, u), update_window_dims={0,2}, "
        "inserted_window_dims={1}, scatter_dims_to_operand_dims={2,0}, index_vector_dim=0, to_apply=f\n}\n");
  // No scatter dimension: one window.
  check(function("s32", "add") +
        "ENTRY e {\n  x = s32[30] parameter(0)\n  i = s32[1] parameter(1)\n  u = s32[7] parameter(2)\n  ROOT r = "
        "s32[30] scatter(x, i, u), update_window_dims={0}, inserted_window_dims={}, scatter_dims_to_operand_dims={0}, "
        "index_vector_dim=0, to_apply=f\n}\n");
}

TEST(Scatter, BatchingDimensions) { check(with_batching("2", "2")); }

TEST(Scatter, EmptyUpdatesLeaveTheOperand) {
  check(function("s32", "add") +
        "ENTRY e {\n  x = s32[5] parameter(0)\n  i = s32[0] parameter(1)\n  u = s32[0] parameter(2)\n  ROOT r = s32[5] "
        "scatter(x, i, u), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
        "index_vector_dim=1, to_apply=f\n}\n");
}

TEST(Scatter, BeginsAsOneValueEverywhere) {
  check(function("f32", "add") +
            "ENTRY e {\n  z = f32[] constant(0.5)\n  x = f32[16] broadcast(z), dimensions={}\n  i = s32[50] "
            "parameter(0)\n "
            " u = f32[50] parameter(1)\n  ROOT r = f32[16] scatter(x, i, u), update_window_dims={}, "
            "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=f\n}\n",
        "scatter", "fill output 0", {.only = "scatter"});
}

TEST(Scatter, ComputesUpdatesAndIndicesButNotTheOperand) {
  const std::string text =
      "HloModule m\n" + function("f32", "add") +
      "ENTRY e {\n  p = f32[16] parameter(0)\n  x = f32[16] negate(p)\n  i = s32[50] parameter(1)\n  j = s32[50] "
      "abs(i)\n  q = f32[50] parameter(2)\n  u = f32[50] negate(q)\n  ROOT r = f32[16] scatter(x, j, u), "
      "update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, "
      "to_apply=f\n}\n";
  const auto module = hlo::parse_module(text);
  ASSERT_TRUE(module) << module.error().to_string();
  const auto program = emit_program(**module);
  ASSERT_TRUE(program) << program.error().to_string();
  ASSERT_EQ(program->steps.size(), 2u) << explain(*program);
  ASSERT_TRUE(program->steps[1].fusion) << explain(*program);
  EXPECT_EQ(program->steps[1].fusion->decision().emitter, "scatter");
  EXPECT_EQ(program->steps[1].inputs.size(), 3u);
  EXPECT_EQ(wrong_results(**module, *program, 5), "");
}

TEST(Scatter, RandomModulesAgreeWithTheInterpreter) {
  int kernels = 0;
  for (uint64_t seed = 1; seed <= static_cast<uint64_t>(rounds(150)); ++seed) {
    hlo::RandomFusionOptions options;
    options.allows = [](hlo::Opcode opcode) {
      return opcode == hlo::Opcode::Scatter || opcode == hlo::Opcode::Negate ||
             opcode == hlo::Opcode::DynamicUpdateSlice;
    };
    options.max_instructions = 6;
    const hlo::ModulePtr module = hlo::random_fusion(seed, options);
    const auto program = emit_program(*module);
    ASSERT_TRUE(program) << program.error().to_string();
    for (const ProgramStep& step : program->steps)
      kernels += step.fusion && step.fusion->decision().emitter == "scatter";
    EXPECT_EQ(wrong_results(*module, *program, seed), "") << "seed " << seed << "\n" << hlo::print(*module);
  }
  EXPECT_GE(kernels, rounds(50));
}

std::string update(const std::string& operand, const std::string& part, const std::string& index) {
  return "ENTRY e {\n  x = " + operand + " parameter(0)\n  q = " + part + " parameter(1)\n  u = " + part +
         " negate(q)\n  i = " + index + "[] parameter(2)\n  j = " + index + "[] parameter(3)\n  ROOT r = " + operand +
         " dynamic-update-slice(x, u, i, j)\n}\n";
}

TEST(DynamicUpdateSlice, WritesTheUpdateOnly) {
  for (const char* index : {"s32", "u8", "s64", "u64"}) {
    check(update("f32[20,30]", "f32[7,9]", index), "dynamic-update-slice");
    check(update("s8[20,30]{0,1}", "s8[2,30]", index), "dynamic-update-slice");
  }
  // Nearly all of it, too, where nothing has to be copied before.
  check(update("f32[20,30]", "f32[19,30]", "s32"), "dynamic-update-slice");
  check(update("f32[20,30]", "f32[19,30]", "s32"), "loop", "", {}, /*kept=*/true);
  check(update("f32[20,30]", "f32[0,3]", "s32"), "dynamic-update-slice");
}

}  // namespace
}  // namespace strata::emitters
