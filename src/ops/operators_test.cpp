#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "ops/op_def.h"
#include "support/random.h"

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

TEST(Operators, SizesDoNotOverflow) {
  constexpr int64_t kLarge = int64_t{1} << 40;
  EXPECT_EQ(element_count({kLarge, kLarge}), INT64_MAX);
  EXPECT_EQ(element_count({kLarge, 1 << 20, 4}), int64_t{1} << 62);
  Attributes dim;
  dim.set("dim", int64_t{0});
  const TensorType half{DType::F16, {int64_t{1} << 62}};
  EXPECT_FALSE(find_op("concat")->infer({}, std::vector{half, half}, dim));
  const TensorType quarter{DType::F16, {int64_t{1} << 60}};
  EXPECT_TRUE(find_op("concat")->infer({}, std::vector{quarter, quarter}, dim));
}

TEST(Operators, Relu) {
  EXPECT_EQ(evaluate("relu", {3}), 3);
  EXPECT_EQ(evaluate("relu", {-3}), 0);
  EXPECT_TRUE(std::isnan(evaluate("relu", {std::nan("")})));
}

TEST(Operators, Gelu) {
  for (const double x : {-40.0, -3.0, -0.7, 0.0, 0.1, 2.0, 40.0}) {
    const double z = std::sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x);
    EXPECT_NEAR(evaluate("gelu", {x}), x / 2 * (1 + std::tanh(z)), 1e-9) << x;
  }
}

TEST(Operators, ComparisonAndChoice) {
  EXPECT_EQ(evaluate("greater", {3, 2}), 1);
  EXPECT_EQ(evaluate("greater", {2, 2}), 0);
  EXPECT_EQ(evaluate("greater", {-1, 2}), 0);
  EXPECT_EQ(evaluate("select", {1, 5, 7}), 5);
  EXPECT_EQ(evaluate("select", {-0.5, 5, 7}), 5);
  EXPECT_EQ(evaluate("select", {0, 5, 7}), 7);
}

Tensor<double> evaluate(std::string_view name, const std::vector<Tensor<double>>& values,
                        const Attributes& attributes) {
  const OpDef& op = *find_op(name);
  std::vector<TensorType> types;
  std::vector<const Tensor<double>*> pointers;
  for (const auto& value : values) {
    types.push_back({DType::F64, value.shape});
    pointers.push_back(&value);
  }
  const auto type = op.infer({}, types, attributes);
  EXPECT_TRUE(type) << (type ? "" : type.error().message);
  if (!type) return {};
  Tensor<double> result(type->shape);
  Float64Arithmetic arithmetic;
  op.run(EvalArgs<Float64Arithmetic>{arithmetic, {}, {}, attributes, pointers, result});
  return result;
}

TEST(Operators, Conv2d) {
  const Tensor<double> x({1, 1, 3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  const Tensor<double> w({1, 1, 2, 2}, {1, 10, 100, 1000});
  EXPECT_EQ(evaluate("conv2d", {x, w}, {}).data, (std::vector<double>{5421, 6532, 8754, 9865}));
  Attributes sparse;
  sparse.set("stride", int64_t{2});
  sparse.set("padding", int64_t{1});
  const Tensor<double> padded = evaluate("conv2d", {x, w}, sparse);
  EXPECT_EQ(padded.shape, (Shape{1, 1, 2, 2}));
  EXPECT_EQ(padded.data, (std::vector<double>{1000, 3200, 7040, 9865}));
  // Channels are summed; images and filters are not mixed.
  const Tensor<double> two({2, 2, 1, 1}, {1, 2, 3, 4});
  const Tensor<double> filters({2, 2, 1, 1}, {1, 10, 100, 1000});
  EXPECT_EQ(evaluate("conv2d", {two, filters}, {}).data, (std::vector<double>{21, 2100, 43, 4300}));
  const std::vector<TensorType> misfit{{DType::F32, {1, 2, 3, 3}}, {DType::F32, {1, 1, 2, 2}}};
  EXPECT_FALSE(find_op("conv2d")->infer({}, misfit, {}));
  const std::vector<TensorType> too_large{{DType::F32, {1, 1, 3, 3}}, {DType::F32, {1, 1, 4, 4}}};
  EXPECT_FALSE(find_op("conv2d")->infer({}, too_large, {}));
}

/// What the table says of an operator's algebra, on random numbers; as stated in op_def.h.
TEST(Operators, StatedAlgebraHolds) {
  Random random(5);
  for (const OpDef* op : all_ops()) {
    if (!op->traits.elementwise || !op->attributes.empty()) continue;
    const Algebra& algebra = op->traits.algebra;
    const auto arity = static_cast<size_t>(op->traits.arity);
    const auto f = [&](const std::vector<double>& x) { return evaluate(op->traits.name, x); };
    for (int test = 0; test < 200; ++test) {
      const double least = op->traits.lax.root || algebra.multiplicative ? 0.1 : -1.0;
      std::vector<double> x(arity), y(arity), scaled(arity), moved(arity), larger(arity), product(arity), sum(arity);
      const double c = 0.1 + 2 * random.uniform();
      for (size_t i = 0; i < arity; ++i) {
        x[i] = least + 2 * random.uniform();
        y[i] = least + 2 * random.uniform();
        scaled[i] = c * x[i];
        moved[i] = x[i] + c;
        larger[i] = std::max(x[i], y[i]);
        product[i] = x[i] * y[i];
        sum[i] = x[i] + y[i];
      }
      const double value = f(x);
      const auto near = [&](double a, double b) {
        EXPECT_NEAR(a, b, 1e-9 * (1 + std::fabs(b))) << op->traits.name << " at " << testing::PrintToString(x);
      };
      for (size_t i = 0; i < arity; ++i) {
        if (!(algebra.linear >> i & 1)) continue;
        std::vector<double> other = x, both = x;
        other[i] = y[i];
        both[i] = x[i] + c * y[i];
        near(f(both), value + c * f(other));
      }
      if (algebra.associative) near(f({value, y[0]}), f({x[0], f({x[1], y[0]})}));
      if (algebra.idempotent) near(arity == 1 ? f({value}) : f({x[0], x[0]}), arity == 1 ? value : x[0]);
      if (algebra.increasing) {
        EXPECT_LE(value, f(larger)) << op->traits.name;
      }
      if (algebra.homogeneous) near(f(scaled), c * value);
      if (algebra.translates) near(f(moved), value + c);
      if (algebra.nonnegative) {
        EXPECT_GE(value, 0) << op->traits.name;
      }
      if (algebra.positive) {
        EXPECT_GT(value, 0) << op->traits.name;
      }
      if (algebra.exponential) near(f(sum), value * f(y));
      if (algebra.multiplicative) near(f(product), value * f(y));
    }
  }
}

struct Instance {
  const char* name;
  std::vector<Shape> shapes;
  std::vector<std::pair<const char*, AttributeValue>> attributes;
};

/// The same of operators that are not elementwise, each on one instance.
TEST(Operators, StatedAlgebraOfTensorOperatorsHolds) {
  const std::vector<Instance> instances{{"matmul", {{3, 4}, {4, 5}}, {}},
                                        {"conv2d", {{1, 2, 4, 4}, {3, 2, 3, 3}}, {{"padding", int64_t{1}}}},
                                        {"sum", {{3, 4}}, {{"dim", int64_t{1}}}},
                                        {"reduce_max", {{3, 4}}, {{"dim", int64_t{1}}}},
                                        {"scale", {{3, 4}}, {{"factor", Rational{-3, 2}}}},
                                        {"repeat", {{3, 4}}, {{"dim", int64_t{0}}, {"times", int64_t{2}}}},
                                        {"reshape", {{3, 4}}, {{"shape", std::vector<int64_t>{2, 6}}}},
                                        {"transpose", {{3, 4}}, {{"perm", std::vector<int64_t>{1, 0}}}},
                                        {"concat", {{3, 4}, {2, 4}}, {{"dim", int64_t{0}}}}};
  std::set<std::string_view> seen;
  for (const Instance& instance : instances) {
    seen.insert(instance.name);
    const Algebra& algebra = find_op(instance.name)->traits.algebra;
    Attributes attributes;
    for (const auto& [name, value] : instance.attributes) attributes.set(name, value);
    Random random(6);
    const auto draw = [&] {
      std::vector<Tensor<double>> tensors;
      for (const Shape& shape : instance.shapes) {
        for (double& x : tensors.emplace_back(shape).data) x = 2 * random.uniform() - 1;
      }
      return tensors;
    };
    const auto f = [&](const std::vector<Tensor<double>>& x) { return evaluate(instance.name, x, attributes); };
    const auto expect = [&](const Tensor<double>& found, const auto& expected) {
      for (int64_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected(i), 1e-12) << instance.name;
    };
    for (int test = 0; test < 10; ++test) {
      const auto x = draw(), y = draw();
      const double c = 0.1 + random.uniform();
      const auto changed = [&](auto&& change) {
        auto z = x;
        for (size_t n = 0; n < z.size(); ++n) {
          for (int64_t i = 0; i < z[n].size(); ++i) z[n][i] = change(z[n][i], y[n][i]);
        }
        return z;
      };
      const Tensor<double> value = f(x);
      for (size_t n = 0; n < x.size(); ++n) {
        if (!(algebra.linear >> n & 1)) continue;
        auto other = x, both = x;
        other[n] = y[n];
        for (int64_t i = 0; i < both[n].size(); ++i) both[n][i] += c * y[n][i];
        const Tensor<double> rest = f(other);
        expect(f(both), [&](int64_t i) { return value[i] + c * rest[i]; });
      }
      if (algebra.homogeneous) {
        expect(f(changed([&](double a, double) { return c * a; })), [&](int64_t i) { return c * value[i]; });
      }
      if (algebra.translates) {
        expect(f(changed([&](double a, double) { return a + c; })), [&](int64_t i) { return value[i] + c; });
      }
      if (!algebra.increasing) continue;
      const Tensor<double> larger = f(changed([](double a, double b) { return std::max(a, b); }));
      for (int64_t i = 0; i < value.size(); ++i) EXPECT_LE(value[i], larger[i] + 1e-12) << instance.name;
    }
  }
  // Whatever states a law is tested.
  for (const OpDef* op : all_ops()) {
    const Algebra& a = op->traits.algebra;
    const bool states = a.linear != 0 || a.increasing || a.homogeneous || a.translates;
    if (states && (!op->traits.elementwise || !op->attributes.empty())) {
      EXPECT_TRUE(seen.count(op->traits.name)) << op->traits.name;
    }
  }
}

// What moves elements makes none, and what reduces has fewer, along its dimension.
TEST(Operators, StatedMovesAndReductionsHold) {
  const std::vector<Instance> instances{
      {"repeat", {{3, 4}}, {{"dim", int64_t{0}}, {"times", int64_t{2}}}},
      {"reshape", {{3, 4}}, {{"shape", std::vector<int64_t>{2, 6}}}},
      {"transpose", {{3, 4}}, {{"perm", std::vector<int64_t>{1, 0}}}},
      {"slice", {{3, 4}}, {{"dim", int64_t{1}}, {"start", int64_t{1}}, {"size", int64_t{2}}}},
      {"concat", {{3, 4}, {2, 4}}, {{"dim", int64_t{0}}}},
      {"sum", {{3, 4}}, {{"dim", int64_t{1}}, {"every", int64_t{2}}}},
      {"reduce_max", {{3, 4}}, {{"dim", int64_t{0}}}}};
  std::set<std::string_view> seen{"in_iter", "out_saver"};  // which take a block's place
  Random random(8);
  for (const Instance& instance : instances) {
    seen.insert(instance.name);
    const OpTraits& traits = find_op(instance.name)->traits;
    Attributes attributes;
    for (const auto& [name, value] : instance.attributes) attributes.set(name, value);
    std::vector<Tensor<double>> operands;
    std::set<double> elements;
    for (const Shape& shape : instance.shapes) {
      for (double& x : operands.emplace_back(shape).data) elements.insert(x = random.uniform());
    }
    const Tensor<double> result = evaluate(instance.name, operands, attributes);
    if (traits.moves) {
      for (const double x : result.data) EXPECT_TRUE(elements.contains(x)) << instance.name;
    }
    if (!traits.reduces) continue;
    const auto dim = static_cast<size_t>(attributes.integer("dim"));
    for (size_t d = 0; d < result.shape.size(); ++d)
      EXPECT_EQ(result.shape[d] < instance.shapes[0][d], d == dim) << instance.name;
  }
  for (const OpDef* op : all_ops()) {
    EXPECT_EQ(seen.contains(op->traits.name), op->traits.moves || op->traits.reduces) << op->traits.name;
    EXPECT_FALSE(op->traits.moves && op->traits.reduces) << op->traits.name;
    EXPECT_FALSE(op->traits.elementwise && (op->traits.moves || op->traits.reduces)) << op->traits.name;
  }
}

// With ones in a pair of operands and zeros elsewhere, each element counts the products of that pair.
TEST(Operators, StatedProductsAreSummed) {
  const std::vector<Instance> instances{
      {"matmul", {{2, 3, 4}, {4, 5}}, {}},
      {"matmul", {{3, 4}, {2, 4, 5}}, {}},
      {"concat_matmul", {{3, 4}, {3, 6}, {4, 5}, {6, 5}}, {}},
      {"concat_matmul", {{2, 3, 4}, {2, 3, 6}, {4, 5}, {2, 6, 5}}, {}},
      {"conv2d", {{1, 2, 4, 4}, {3, 2, 3, 2}}, {{"stride", int64_t{2}}}},
  };
  std::set<std::string_view> seen;
  for (const Instance& instance : instances) {
    seen.insert(instance.name);
    const OpDef& op = *find_op(instance.name);
    Attributes attributes;
    for (const auto& [name, value] : instance.attributes) attributes.set(name, value);
    std::vector<TensorType> types;
    for (const Shape& shape : instance.shapes) types.push_back({DType::F32, shape});
    ASSERT_TRUE(op.infer({}, types, attributes)) << instance.name;
    int64_t all = 0;
    for (int pair = 0; pair < op.traits.products; ++pair) {
      std::vector<Tensor<double>> tensors;
      for (size_t n = 0; n < types.size(); ++n) {
        const bool of_pair = static_cast<int>(n) % op.traits.products == pair;
        for (double& x : tensors.emplace_back(instance.shapes[n]).data) x = of_pair ? 1 : 0;
      }
      const int64_t terms = product_terms(op, types, attributes, pair);
      all += terms;
      const Tensor<double> result = evaluate(instance.name, tensors, attributes);
      for (const double x : result.data) EXPECT_EQ(x, static_cast<double>(terms)) << instance.name;
    }
    EXPECT_EQ(product_terms(op, types, attributes), all);
  }
  for (const OpDef* op : all_ops()) {
    EXPECT_EQ(seen.count(op->traits.name) != 0, op->traits.products > 0) << op->traits.name;
    EXPECT_TRUE(op->traits.products > 0 || !op->traits.matrices) << op->traits.name;
  }
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
