// Reductions along one dimension, in groups of `every` elements: sum and reduce_max.
#pragma once

#include "ops/one_dimension.h"

namespace strata {

inline constexpr std::array kReductionAttributes{
    AttributeSpec{"dim", AttributeKind::Int, true, "the reduced dimension, 0 outermost; it stays, with size 1"},
    AttributeSpec{"every", AttributeKind::Int, false, "reduce groups of so many elements; default: all"}};

/// Elements that one result element stands for.
int64_t reduction_extent(const Shape& shape, const Attributes& attributes);
/// Whether an operator is one of these: they have their attributes in common, and only they have them.
inline bool is_reduction(const OpDef& op) { return op.attributes.data() == kReductionAttributes.data(); }
Result<TensorType> infer_reduction(const TensorType& operand, const Attributes& attributes);
IndexLabels reduction_labels(const Shape& shape, const Attributes& attributes);

/// Combines each group of `every` consecutive elements along `dim`, in increasing index.
template <class A, class Combine>
void reduce(const EvalArgs<A>& args, Combine&& combine) {
  const auto& x = *args.operands[0];
  const auto dim = static_cast<size_t>(args.attributes.integer("dim"));
  const int64_t group = reduction_extent(x.shape, args.attributes);
  const int64_t inner = inner_elements(x.shape, dim);
  const int64_t outer = x.size() / (inner * group);
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < inner; ++i) {
      auto value = x[o * group * inner + i];
      for (int64_t g = 1; g < group; ++g) value = combine(value, x[(o * group + g) * inner + i]);
      args.result[o * inner + i] = value;
    }
  }
}

}  // namespace strata
