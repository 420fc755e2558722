#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "ops/op_def.h"

namespace strata {
namespace {

/// One operator on one-element tensors in float64.
double evaluate(std::string_view name, const std::vector<double>& operands, const Attributes& attributes = {}) {
  Float64Arithmetic arithmetic;
  std::vector<Tensor<double>> values;
  for (double x : operands) values.emplace_back(Shape{1}, std::vector<double>{x});
  std::vector<const Tensor<double>*> pointers;
  for (const auto& value : values) pointers.push_back(&value);
  Tensor<double> result(Shape{1});
  find_op(name)->run(EvalArgs<Float64Arithmetic>{arithmetic, {}, {}, attributes, pointers, result});
  return result[0];
}

TEST(Operators, ScalarMeanings) {
  EXPECT_EQ(evaluate("add", {2, 3}), 5);
  EXPECT_EQ(evaluate("sub", {2, 3}), -1);
  EXPECT_EQ(evaluate("mul", {2, 3}), 6);
  EXPECT_EQ(evaluate("div", {3, 2}), 1.5);
  EXPECT_EQ(evaluate("max", {3, 2}), 3);
  EXPECT_EQ(evaluate("sqr", {-3}), 9);
  EXPECT_EQ(evaluate("sqrt", {9}), 3);
  EXPECT_EQ(evaluate("rsqrt", {4}), 0.5);
  EXPECT_EQ(evaluate("exp", {0}), 1);
  EXPECT_DOUBLE_EQ(evaluate("silu", {2}), 2 / (1 + std::exp(-2.0)));
  Attributes third;
  third.set("factor", Rational{1, 3});
  EXPECT_DOUBLE_EQ(evaluate("scale", {6}, third), 2);
}

TEST(Operators, AddConstant) {
  Attributes tenth;
  tenth.set("value", Rational{1, 10});
  EXPECT_DOUBLE_EQ(evaluate("add_constant", {2}, tenth), 2.1);
}

TEST(Operators, Slice) {
  const OpDef& slice = *find_op("slice");
  const auto attributes = [](int64_t dim, int64_t start, int64_t size) {
    Attributes made;
    made.set("dim", dim);
    made.set("start", start);
    made.set("size", size);
    return made;
  };
  const std::vector<TensorType> types{{DType::F32, {2, 3, 2}}};
  Tensor<double> x({2, 3, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  const auto of = [&](int64_t dim, int64_t start, int64_t size) {
    Float64Arithmetic arithmetic;
    const Attributes made = attributes(dim, start, size);
    Tensor<double> result(slice.infer({}, types, made).value().shape);
    const std::vector<const Tensor<double>*> operands{&x};
    slice.run(EvalArgs<Float64Arithmetic>{arithmetic, {}, {}, made, operands, result});
    return result.data;
  };
  EXPECT_EQ(of(0, 1, 1), (std::vector<double>{6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(of(1, 1, 2), (std::vector<double>{2, 3, 4, 5, 8, 9, 10, 11}));
  EXPECT_EQ(of(2, 1, 1), (std::vector<double>{1, 3, 5, 7, 9, 11}));
  EXPECT_FALSE(slice.infer({}, types, attributes(3, 0, 1)));
  EXPECT_FALSE(slice.infer({}, types, attributes(1, 2, 2)));
  EXPECT_FALSE(slice.infer({}, types, attributes(1, -1, 2)));
  EXPECT_FALSE(slice.infer({}, types, attributes(1, 0, 0)));
  EXPECT_FALSE(slice.infer({}, types, attributes(1, INT64_MAX, 1)));
}

TEST(Operators, Relu) {
  EXPECT_EQ(evaluate("relu", {3}), 3);
  EXPECT_EQ(evaluate("relu", {-3}), 0);
  EXPECT_TRUE(std::isnan(evaluate("relu", {std::nan("")})));
}

TEST(Operators, TableIsComplete) {
  std::set<std::string_view> names;
  for (const OpDef* op : all_ops()) {
    EXPECT_TRUE(names.insert(op->traits.name).second) << op->traits.name;
    EXPECT_FALSE(op->traits.summary.empty()) << op->traits.name;
    EXPECT_FALSE(op->traits.abstract_expression.empty()) << op->traits.name;
    EXPECT_EQ(find_op(op->traits.name), op);
    EXPECT_EQ(&op_def(op->kind), op);
    const bool by_element = op->cuda.form == CudaLowering::Form::Elementwise;
    EXPECT_EQ(op->traits.elementwise, by_element) << op->traits.name;
  }
  EXPECT_EQ(find_op("frobnicate"), nullptr);
}

}  // namespace
}  // namespace strata
