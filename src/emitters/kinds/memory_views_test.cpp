#include "emitters/kinds/memory_views.h"

#include <gtest/gtest.h>

#include "emitters/program.h"
#include "hlo/input_output_alias.h"
#include "hlo/text.h"

namespace strata::emitters {
namespace {

using Order = std::vector<int64_t>;

Order order_of(const std::string& entry) {
  const auto module = hlo::parse_module("HloModule m\nENTRY e {\n" + entry + "}\n");
  EXPECT_TRUE(module) << module.error().to_string();
  const hlo::Computation& computation = (*module)->entry_computation();
  return order_in_memory(computation, computation.root);
}

TEST(OrderInMemory, IsTheSourcesThroughTransposesAndConversions) {
  EXPECT_EQ(order_of("  ROOT x = f32[6,8] parameter(0)\n"), (Order{0, 1}));
  EXPECT_EQ(order_of("  x = f32[6,8] parameter(0)\n  ROOT t = f32[8,6] transpose(x), dimensions={1,0}\n"),
            (Order{1, 0}));
  EXPECT_EQ(order_of("  x = bf16[6,8] parameter(0)\n  c = f32[6,8] convert(x)\n"
                     "  t = f32[8,6] transpose(c), dimensions={1,0}\n  ROOT r = f32[1,8,2,3] reshape(t)\n"),
            (Order{2, 3, 1}));
  EXPECT_EQ(order_of("  x = f32[6,8]{0,1} parameter(0)\n  ROOT t = f32[8,6] transpose(x), dimensions={1,0}\n"),
            (Order{0, 1}));
}

TEST(OrderInMemory, EndsAtOperatorsThatComputeAndAtViewsWithoutStrides) {
  EXPECT_EQ(order_of("  x = f32[6,8] parameter(0)\n  t = f32[8,6] transpose(x), dimensions={1,0}\n"
                     "  ROOT n = f32[8,6] negate(t)\n"),
            (Order{0, 1}));
  EXPECT_EQ(order_of("  x = f32[6,8] parameter(0)\n  t = f32[8,6] transpose(x), dimensions={1,0}\n"
                     "  f = f32[48] reshape(t)\n  ROOT r = f32[8,6] reshape(f)\n"),
            (Order{0, 1}));
}

TEST(MemoryViews, GoThroughSlicesThatLeaveLittleAtTheEnd) {
  const auto views = [](const std::string& slice) {
    const auto module = hlo::parse_module("HloModule m\nENTRY e {\n  x = bf16[4,8,16] parameter(0)\n" + slice +
                                          "  ROOT t = bf16[8,4,15] transpose(s), dimensions={1,0,2}\n}\n");
    EXPECT_TRUE(module) << module.error().to_string();
    const hlo::Computation& computation = (*module)->entry_computation();
    std::vector<Order> strides;
    for (const MemoryView& view : memory_views(computation, computation.root)) strides.push_back(view.strides);
    return strides;
  };
  const std::vector<Order> own{{15, 120, 1}, {60, 15, 1}};
  EXPECT_EQ(views("  s = bf16[4,8,15] slice(x), slice={[0:4], [0:8], [0:15]}\n"),
            (std::vector<Order>{{16, 128, 1}, own[0], own[1]}));
  EXPECT_EQ(views("  s = bf16[4,8,15] slice(x), slice={[0:4], [0:8], [1:16]}\n"), own);
  EXPECT_EQ(views("  y = bf16[4,8,32] parameter(1)\n  s = bf16[4,8,15] slice(y), slice={[0:4], [0:8], [0:15]}\n"), own);
}

/// Slices of slices, of a transpose: of a parameter, not of what is computed.
TEST(MemoryViews, BeginInsideOfWhatIsInMemory) {
  const auto first = [](const std::string& of) {
    const auto module = hlo::parse_module(
        "HloModule m\nENTRY e {\n" + of +
        "  t = f32[8,4,16] transpose(x), dimensions={1,0,2}\n  s = f32[6,2,16] slice(t), slice={[1:7], [1:4:2], "
        "[0:16]}\n"
        "  u = f32[6,2,4] slice(s), slice={[0:6], [0:2], [8:12]}\n  ROOT r = f32[6,8] reshape(u)\n}\n");
    EXPECT_TRUE(module) << module.error().to_string();
    const hlo::Computation& computation = (*module)->entry_computation();
    const hlo::InstructionId sliced = computation[computation.root].operands[0];
    const MemoryView view = memory_views(computation, sliced, Slices::InMemory).front();
    return std::tuple(computation[view.memory].name, view.strides, view.offset);
  };
  EXPECT_EQ(first("  x = f32[4,8,16] parameter(0)\n"), std::tuple("x", Order{16, 256, 1}, 16 + 128 + 8));
  EXPECT_EQ(std::get<0>(first("  y = f32[4,8,16] parameter(0)\n  x = f32[4,8,16] negate(y)\n")), "u");
}

TEST(OrderInMemory, GoesThroughWhatComputesElementByElementWhereAsked) {
  const auto through = [](const std::string& entry) {
    const auto module = hlo::parse_module("HloModule m\nENTRY e {\n" + entry + "}\n").value();
    const hlo::Computation& computation = module->entry_computation();
    const MemoryView source = source_in_memory(computation, computation.root, Through::Elements);
    return std::pair(order_in_memory(computation, computation.root, Through::Elements),
                     hlo::byte_width(computation[source.memory].shape.type));
  };
  // Scaled weights: the scale repeats its elements, and the weights are read with one byte each.
  EXPECT_EQ(through("  p = s8[6,8] parameter(0)\n  q = bf16[6,8] convert(p)\n  s = bf16[6] parameter(1)\n"
                    "  b = bf16[6,8] broadcast(s), dimensions={0}\n  m = bf16[6,8] multiply(b, q)\n"
                    "  ROOT t = bf16[8,6] transpose(m), dimensions={1,0}\n"),
            std::pair(Order{1, 0}, 1));
  // Regrouped elements are read as they are.
  EXPECT_EQ(through("  x = f32[6,8] parameter(0)\n  t = f32[8,6] transpose(x), dimensions={1,0}\n"
                    "  ROOT r = f32[8,2,3] reshape(t)\n"),
            std::pair(Order{0, 1, 2}, 4));
  EXPECT_EQ(through("  ROOT i = s32[6,8] iota(), iota_dimension=0\n").first, (Order{0, 1}));
}

TEST(OrderInMemory, RepeatedElementsStandOutsideOfWhatTheyRepeat) {
  EXPECT_EQ(order_of("  x = f32[5,7] parameter(0)\n  b = f32[5,3,7] broadcast(x), dimensions={0,2}\n"
                     "  ROOT t = f32[3,7,5] transpose(b), dimensions={1,2,0}\n"),
            (Order{0, 2, 1}));
}

/// Which emitters a module's kernels come from.
std::string emitters_of(const std::string& text, const char* name) {
  const auto read = hlo::parse_module_text(text, name);
  EXPECT_TRUE(read) << read.error().to_string();
  const auto program = emit_program(*read->module, {}, LibraryUse::WhereFaster, {}, read->aliases);
  EXPECT_TRUE(program) << program.error().to_string();
  return explain(*program);
}

/// PyTorch's linear layers keep a row for each output, JAX's a column: a vector times either reads along what lies
/// together.
TEST(VectorTimesMatrix, ReadsAlongMemoryHoweverTheWeightsLie) {
  for (const int64_t inputs : {4096, 1000, 72}) {
    for (const int64_t outputs : {4096, 520, 1032}) {
      const auto text = [&](const std::string& weights) {
        return fmt::format(
            "HloModule m\nENTRY e {{\n  x = bf16[1,{0}] parameter(0)\n{2}  ROOT y = bf16[1,{1}] dot(x, w), "
            "lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n}}\n",
            inputs, outputs, weights);
      };
      const std::string rows = emitters_of(
          text(fmt::format("  p = bf16[{1},{0}] parameter(1)\n  w = bf16[{0},{1}] transpose(p), dimensions={{1,0}}\n",
                           inputs, outputs)),
          "rows");
      EXPECT_NE(rows.find("row reduction"), std::string::npos) << rows;
      EXPECT_EQ(rows.find("column reduction"), std::string::npos) << rows;
      const std::string columns =
          emitters_of(text(fmt::format("  w = bf16[{},{}] parameter(1)\n", inputs, outputs)), "columns");
      EXPECT_NE(columns.find("column reduction"), std::string::npos) << columns;
    }
  }
}

/// Of an update in place each thread has an element: sums of many terms are computed before it.
TEST(UpdatesInPlace, DoNotSumProductsInOneThread) {
  for (const int64_t rows : {1, 8}) {
    const std::string explained = emitters_of(
        fmt::format("HloModule m, input_output_alias={{ {{}}: (0, {{}}, must-alias) }}\nENTRY e {{\n"
                    "  cache = bf16[{0},512,1024] parameter(0)\n  x = bf16[{0},4096] parameter(1)\n"
                    "  w = bf16[4096,1024] parameter(2)\n  zero = s32[] constant(0)\n  last = s32[] constant(511)\n"
                    "  y = bf16[{0},1024] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n"
                    "  r = bf16[{0},1,1024] reshape(y)\n"
                    "  ROOT u = bf16[{0},512,1024] dynamic-update-slice(cache, r, zero, last, zero)\n}}\n",
                    rows),
        "cache");
    const size_t update = explained.find("emitter          dynamic-update-slice");
    ASSERT_NE(update, std::string::npos) << explained;
    const size_t before = explained.rfind("\nfused", update);
    EXPECT_EQ(explained.substr(before, update - before).find("bf16[4096,1024]"), std::string::npos) << explained;
    EXPECT_NE(explained.find(rows == 1 ? "column reduction" : "product"), std::string::npos) << explained;
  }
}

}  // namespace
}  // namespace strata::emitters
