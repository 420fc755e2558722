#include "ops/reduction.h"

namespace strata {

int64_t reduction_extent(const Shape& shape, const Attributes& attributes) {
  return attributes.integer_or("every", shape[static_cast<size_t>(attributes.integer("dim"))]);
}

Result<TensorType> infer_reduction(const TensorType& operand, const Attributes& attributes) {
  STRATA_TRY(const size_t dim, dimension_of(operand, attributes));
  const int64_t every = reduction_extent(operand.shape, attributes);
  TensorType result = operand;
  int64_t& size = result.shape[dim];
  if (every < 1 || size % every != 0)
    return invalid("every={} does not divide dimension {} of {}", every, dim, to_string(operand));
  size /= every;
  return result;
}

IndexLabels reduction_labels(const Shape& shape, const Attributes& attributes) {
  const auto dim = static_cast<size_t>(attributes.integer("dim"));
  IndexLabels labels{{{}}, std::vector<int>(shape.size(), IndexLabels::kFree)};
  for (size_t d = 0; d < shape.size(); ++d) {
    labels.operands[0].push_back(static_cast<int>(d));
    if (d != dim) labels.result[d] = static_cast<int>(d);
  }
  return labels;
}

}  // namespace strata
