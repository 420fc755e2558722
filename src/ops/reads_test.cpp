// The column `reads` of the operator table against the operators themselves: changing an element of an operand changes
// those elements of the result alone that read it.
#include "ops/reads.h"

#include <gtest/gtest.h>

#include <set>

#include "indexing/enumerate.h"
#include "support/random.h"

namespace strata {
namespace {

struct Instance {
  const char* name;
  std::vector<Shape> shapes;
  std::vector<std::pair<const char*, AttributeValue>> attributes;
};

const std::vector<Instance> kInstances{
    {"matmul", {{3, 4}, {4, 5}}, {}},
    {"matmul", {{2, 1, 3, 4}, {3, 4, 2}}, {}},
    {"concat_matmul", {{3, 4}, {3, 2}, {4, 5}, {2, 5}}, {}},
    {"conv2d", {{2, 2, 4, 5}, {3, 2, 3, 2}}, {{"padding", int64_t{1}}}},
    {"conv2d", {{1, 2, 5, 5}, {2, 2, 2, 3}}, {{"stride", int64_t{2}}}},
    {"sum", {{3, 4, 2}}, {{"dim", int64_t{1}}}},
    {"sum", {{3, 6}}, {{"dim", int64_t{1}}, {"every", int64_t{2}}}},
    {"reduce_max", {{4, 3}}, {{"dim", int64_t{0}}, {"every", int64_t{2}}}},
    {"add", {{2, 3}, {3}}, {}},
    {"mul", {{2, 1, 3}, {4, 1}}, {}},
    {"select", {{2, 1}, {2, 3}, {3}}, {}},
    {"exp", {{2, 3}}, {}},
    {"scale", {{3, 4}}, {{"factor", Rational{-3, 2}}}},
    {"repeat", {{3, 2}}, {{"dim", int64_t{0}}, {"times", int64_t{3}}}},
    {"reshape", {{3, 4}}, {{"shape", std::vector<int64_t>{2, 6}}}},
    {"reshape", {{2, 3, 4}}, {{"shape", std::vector<int64_t>{4, 3, 2}}}},
    {"transpose", {{3, 4, 2}}, {{"perm", std::vector<int64_t>{2, 0, 1}}}},
    {"slice", {{3, 5}}, {{"dim", int64_t{1}}, {"start", int64_t{2}}, {"size", int64_t{2}}}},
    {"concat", {{3, 4}, {2, 4}, {1, 4}}, {{"dim", int64_t{0}}}}};

TEST(Reads, AreWhatResultsDependOn) {
  Random random(11);
  for (const Instance& instance : kInstances) {
    SCOPED_TRACE(instance.name);
    const OpDef& op = *find_op(instance.name);
    Attributes attributes;
    for (const auto& [name, value] : instance.attributes) attributes.set(name, value);
    std::vector<TensorType> types;
    std::vector<Tensor<double>> values;
    for (const Shape& shape : instance.shapes) {
      types.push_back({DType::F64, shape});
      for (double& x : values.emplace_back(shape).data) x = 0.5 + random.uniform();
    }
    const Shape shape = op.infer({}, types, attributes).value().shape;
    const auto run = [&] {
      std::vector<const Tensor<double>*> pointers;
      for (const auto& value : values) pointers.push_back(&value);
      Tensor<double> result(shape);
      Float64Arithmetic arithmetic;
      op.run(EvalArgs<Float64Arithmetic>{arithmetic, {}, {}, attributes, pointers, result});
      return result.data;
    };
    const auto position = [](const std::vector<int64_t>& index, const Shape& of) {
      int64_t at = 0;
      for (size_t d = 0; d < of.size(); ++d) at = at * of[d] + index[d];
      return at;
    };
    const OperandReads reads = op.reads(types, attributes);
    ASSERT_EQ(reads.size(), types.size());
    const std::vector<double> before = run();
    for (size_t n = 0; n < reads.size(); ++n) {
      std::set<std::pair<int64_t, int64_t>> claimed, seen;  // element of the operand, of the result
      indexing::for_each_point(reads[n], [&](const indexing::Point& point) {
        const auto index = indexing::evaluate(reads[n], point);
        EXPECT_TRUE(index.has_value());
        for (size_t d = 0; d < index->size(); ++d)
          EXPECT_TRUE(indexing::below(types[n].shape[d]).contains((*index)[d]));
        claimed.emplace(position(*index, types[n].shape), position({point.dims.begin(), point.dims.end()}, shape));
        return true;
      });
      for (int64_t e = 0; e < values[n].size(); ++e) {
        const double kept = values[n][e];
        values[n][e] = 3;  // larger than all others, so that a maximum shows it
        const std::vector<double> after = run();
        values[n][e] = kept;
        for (size_t i = 0; i < after.size(); ++i) {
          if (after[i] != before[i]) seen.emplace(e, static_cast<int64_t>(i));
        }
      }
      for (const auto& pair : seen) EXPECT_TRUE(claimed.count(pair)) << n << ": " << pair.first << ", " << pair.second;
      // The choice itself and what is not chosen do not show.
      if (op.kind != OpKind::Select) {
        EXPECT_EQ(claimed.size(), seen.size()) << n;
      }
    }
  }
}

TEST(Reads, EveryOperatorButThoseOfBlocksHasThem) {
  const std::vector<TensorType> square(4, {DType::F32, {1, 1, 1, 1}});
  for (const OpDef* op : all_ops()) {
    Attributes attributes;
    for (const AttributeSpec& spec : op->attributes) {
      if (spec.kind == AttributeKind::IntList) {
        attributes.set(spec.name, std::string_view(spec.name) == "shape" ? std::vector<int64_t>{1, 1, 1, 1}
                                                                         : std::vector<int64_t>{0, 1, 2, 3});
      }
      if (spec.kind == AttributeKind::Int && spec.required) {
        attributes.set(spec.name, int64_t{std::string_view(spec.name) != "dim"});
      }
    }
    const size_t arity = op->traits.arity == OpTraits::kVariadic ? 2 : static_cast<size_t>(op->traits.arity);
    const bool of_blocks = op->cuda.form == CudaLowering::Form::Structural;
    EXPECT_EQ(op->reads(OperandTypes(square).first(arity), attributes).size(), of_blocks ? 0 : arity)
        << op->traits.name;
  }
}

}  // namespace
}  // namespace strata
