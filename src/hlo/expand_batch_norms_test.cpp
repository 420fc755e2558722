// The values of whole batch norms are compared with XLA's in tests/hlo (batch_norm_*).
#include "hlo/expand_batch_norms.h"

#include <gtest/gtest.h>

#include "hlo/compute.h"
#include "hlo/evaluate.h"
#include "hlo/text.h"
#include "hlo/typical_arguments.h"
#include "hlo/verify.h"

namespace strata::hlo {
namespace {

ModulePtr parsed(const std::string& text) {
  auto module = parse_module(text);
  EXPECT_TRUE(module) << module.error().to_string();
  return module ? *module : nullptr;
}

/// All three in one module, one of them in a computation that is called, in a layout that is not the default one.
constexpr const char* kModule = R"(HloModule m
inference {
  x = bf16[2,3,4]{1,2,0} parameter(0)
  s = f32[3] parameter(1)
  v = f32[3] parameter(2)
  ROOT r = bf16[2,3,4]{1,2,0} batch-norm-inference(x, s, s, s, v), epsilon=0.5, feature_index=1
}
ENTRY main {
  x = bf16[2,3,4]{1,2,0} parameter(0)
  s = f32[3] parameter(1)
  v = f32[3] multiply(s, s)
  a = bf16[2,3,4]{1,2,0} call(x, s, v), to_apply=inference
  t = (bf16[2,3,4]{1,2,0}, f32[3], f32[3]) batch-norm-training(a, s, s), epsilon=1e-05, feature_index=1
  y = bf16[2,3,4]{1,2,0} get-tuple-element(t), index=0
  mean = f32[3] get-tuple-element(t), index=1
  variance = f32[3] get-tuple-element(t), index=2
  ROOT g = (bf16[2,3,4]{1,2,0}, f32[3], f32[3]) batch-norm-grad(a, s, mean, variance, y), epsilon=1e-05, feature_index=1
}
)";

TEST(ExpandBatchNorms, IsAVerifiedModuleOfTheSameShapes) {
  const ModulePtr module = parsed(kModule);
  ASSERT_TRUE(module);
  EXPECT_TRUE(has_batch_norms(*module));
  const auto expanded = expand_batch_norms(*module);
  ASSERT_TRUE(expanded) << expanded.error().to_string();
  EXPECT_FALSE(has_batch_norms(*expanded));
  const auto verified = verify(*expanded);
  ASSERT_TRUE(verified) << verified.error().to_string() << print(*expanded);
  EXPECT_EQ(expanded->entry_computation().root_instruction().shape,
            module->entry_computation().root_instruction().shape);
  // What it prints is read again, so names are unique.
  const ModulePtr again = parsed(print(*expanded));
  ASSERT_TRUE(again);
  const auto arguments = typical_arguments(module->entry_computation(), 3);
  const auto value = evaluate(*module, arguments);
  ASSERT_TRUE(value) << value.error().to_string();
  const auto same = evaluate(*again, arguments);
  ASSERT_TRUE(same) << same.error().to_string();
  EXPECT_TRUE(identical(*value, *same));
}

std::string value_of(const std::string& shape, const std::string& instruction) {
  const ModulePtr module = parsed("HloModule m\nENTRY main {\n" + instruction + "}\n");
  if (!module) return "";
  EXPECT_EQ(to_string_without_layout(module->entry_computation().root_instruction().shape), shape);
  const auto value = evaluate(*module, std::vector<Literal>{});
  return value ? print(*value) : value.error().to_string();
}

TEST(ExpandBatchNorms, NormalisesOverAllDimensionsButOne) {
  // Means 2 and 20, variances 1 and 4 of the columns.
  const std::string operands = R"(
    x = f32[2,2] constant({{1, 18}, {3, 22}})
    scale = f32[2] constant({1, 10})
    offset = f32[2] constant({0, 100})
)";
  EXPECT_EQ(value_of("(f32[2,2], f32[2], f32[2])",
                     operands + "ROOT r = batch-norm-training(x, scale, offset), epsilon=0, feature_index=1\n"),
            "({ {-1, 90}, {1, 110} }, {2, 20}, {1, 4})");
  // The same mean and variance given; epsilon makes them 4 and 16.
  EXPECT_EQ(value_of("f32[2,2]", operands + R"(
    mean = f32[2] constant({2, 20})
    variance = f32[2] constant({1, 13})
    ROOT r = batch-norm-inference(x, scale, offset, mean, variance), epsilon=3, feature_index=1
)"),
            "{ {-0.5, 95}, {0.5, 105} }");
  // One feature of one dimension: each element is its own mean.
  EXPECT_EQ(value_of("(f64[2], f64[2], f64[2])", R"(
    x = f64[2] constant({3, 4})
    ROOT r = batch-norm-training(x, x, x), epsilon=1, feature_index=0
)"),
            "({3, 4}, {3, 4}, {0, 0})");
}

}  // namespace
}  // namespace strata::hlo
