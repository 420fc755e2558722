// Scatters of many updates into few elements: what takes them, and that it computes what the interpreter does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emitters/kinds/scatter/testing.h"
#include "support/random.h"

namespace strata::emitters {
namespace {

using namespace scatter_testing;
using testing::HasSubstr;

std::string scatter_of(const std::string& type, const std::string& by, int64_t rows, int64_t width, int64_t count,
                       const std::string& index = "s32") {
  return function(type, by) +
         fmt::format(
             "ENTRY e {{\n  x = {0}[{1},{2}] parameter(0)\n  i = {4}[{3},1] parameter(1)\n  u = {0}[{3},{2}] "
             "parameter(2)\n  ROOT r = {0}[{1},{2}] scatter(x, i, u), {5}, to_apply=f\n}}\n",
             type, rows, width, count, index, kRowsOfMatrix);
}

std::string emitter_of(const std::string& text, int processors, double slack, const std::string& only = "") {
  SCOPED_TRACE(text);
  const auto module = parsed(text);
  if (!module) return {};
  EmitOptions options;
  options.target.multiprocessors = processors;
  options.only = only;
  const auto program = emit_program(*module, options);
  EXPECT_TRUE(program) << program.error().to_string();
  if (!program) return {};
  for (const uint64_t seed : {1, 2}) {
    const std::vector<hlo::Literal> arguments = hlo::typical_arguments(module->entry_computation(), seed);
    const auto expected = hlo::evaluate(*module, arguments);
    const auto actual = run_on_cpu(*program, arguments);
    EXPECT_TRUE(expected && actual);
    if (expected && actual) {
      EXPECT_EQ(hlo::difference(*actual, *expected, slack).value_or(""), "") << explain(*program);
    }
  }
  const ProgramStep& last = program->steps.back();
  return last.fusion ? last.fusion->decision().emitter : last.why_interpreted;
}

TEST(ScatterCopies, ManyUpdatesOfFewElements) {
  for (const auto& [type, by] : {std::pair{"f32", "add"},
                                 {"f32", "maximum"},
                                 {"f64", "add"},
                                 {"s32", "add"},
                                 {"s32", "minimum"},
                                 {"u32", "maximum"},
                                 {"s64", "xor"}}) {
    EXPECT_EQ(emitter_of(scatter_of(type, by, 7, 3, 9001), 2, 4096), "scatter copies") << type << by;
  }
}

TEST(ScatterCopies, RandomSizes) {
  Random random(11);
  int copies = 0;
  for (int i = 0; i < 24; ++i) {
    const int64_t rows = 1 + static_cast<int64_t>(random.below(16)), width = 1 + static_cast<int64_t>(random.below(6));
    const int64_t count = 6000 + static_cast<int64_t>(random.below(9000));
    const std::string type = i % 4 == 0 ? "bf16" : i % 4 == 1 ? "s32" : "f32";
    const std::string index = random.below(2) == 0 ? "s32" : "u8";
    const std::string emitter =
        emitter_of(scatter_of(type, random.below(3) == 0 ? "maximum" : "add", rows, width, count, index),
                   1 + static_cast<int>(random.below(5)), type == "bf16" ? 1 << 14 : 4096);
    copies += emitter == "scatter copies" ? 1 : 0;
  }
  EXPECT_GE(copies, 12);
}

TEST(ScatterCopies, ThreadsShareACopyOfManyElements) {
  // Single elements, many of them outside.
  for (const auto& [type, by] : {std::pair{"f32", "add"}, {"s32", "add"}, {"u32", "maximum"}, {"bf16", "add"}}) {
    // Of bf16, ones that are counted: sums that are exact in any order.
    const bool counts = std::string(type) == "bf16";
    const auto array = [&](const std::string& name, const std::string& sizes, int parameter) {
      const std::string number = name == "x" ? "0" : "1";
      return counts ? fmt::format("  {0}0 = {1}[] constant({3})\n  {0} = {1}{2} broadcast({0}0), dimensions={{}}\n",
                                  name, type, sizes, number)
                    : fmt::format("  {} = {}{} parameter({})\n", name, type, sizes, parameter);
    };
    const std::string text =
        function(type, by) +
        fmt::format(
            "ENTRY e {{\n{1}  p = s32[300001,2] parameter({3})\n  k = s32[] "
            "constant(7)\n  ks = s32[300001,2] broadcast(k), dimensions={{}}\n  i = s32[300001,2] multiply(p, "
            "ks)\n{2}  ROOT r = {0}[97,101] scatter(x, i, u), "
            "update_window_dims={{}}, inserted_window_dims={{0,1}}, scatter_dims_to_operand_dims={{0,1}}, "
            "index_vector_dim=1, to_apply=f\n}}\n",
            type, array("x", "[97,101]", 0), array("u", "[300001]", 2), counts ? 0 : 1);
    const hlo::ModulePtr module = parsed(text);
    ASSERT_TRUE(module);
    const auto fusion = emit_fusion(*module, module->entry, "k", {.only = "scatter copies"});
    ASSERT_TRUE(fusion) << fusion.error().to_string();
    EXPECT_THAT(fusion->decision().reason, HasSubstr("each block has a copy"));
    EXPECT_EQ(emitter_of(text, 132, counts ? 1 : 4096, "scatter copies"), "scatter copies") << type << by;
  }
}

TEST(ScatterCopies, AHistogramOfManyBinsMeetsInSharedMemory) {
  const std::string text = function("f32", "add") +
                           "ENTRY e {\n  z = f32[] constant(0)\n  x = f32[9409] broadcast(z), dimensions={}\n  i = "
                           "s32[1000003] parameter(0)\n  u = f32[1000003] parameter(1)\n  ROOT r = f32[9409] "
                           "scatter(x, i, u), " +
                           std::string(kElements) + ", to_apply=f\n}\n";
  const hlo::ModulePtr module = parsed(text);
  ASSERT_TRUE(module);
  const auto fusion = emit_fusion(*module, module->entry, "k");
  ASSERT_TRUE(fusion) << fusion.error().to_string();
  EXPECT_EQ(fusion->decision().emitter, "scatter copies");
  // Every multiprocessor, or nearly, has a part of the updates.
  EXPECT_GE(fusion->decision().launch().blocks, 100);
}

TEST(ScatterCopies, LeaveManyElementsAndFewUpdates) {
  EXPECT_NE(emitter_of(scatter_of("f32", "add", 4000, 3, 60000), 132, 4096), "scatter copies");
  EXPECT_NE(emitter_of(scatter_of("f32", "add", 50, 3, 60), 132, 4096), "scatter copies");
}

}  // namespace
}  // namespace strata::emitters
