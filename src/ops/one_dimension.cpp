#include "ops/one_dimension.h"

namespace strata {

Result<size_t> dimension_of(const TensorType& operand, const Attributes& attributes) {
  const int64_t dim = attributes.integer("dim");
  const auto rank = static_cast<int64_t>(operand.shape.size());
  if (dim < 0 || dim >= rank) return invalid("dim={} is outside 0 … {} of {}", dim, rank - 1, to_string(operand));
  return static_cast<size_t>(dim);
}

IndexLabels labels_but_dimension(OperandTypes operands, const Attributes& attributes) {
  std::vector<int> of(operands[0].shape.size());
  for (size_t d = 0; d < of.size(); ++d) {
    of[d] = static_cast<int64_t>(d) == attributes.integer("dim") ? IndexLabels::kFree : static_cast<int>(d);
  }
  return {std::vector<std::vector<int>>(operands.size(), of), of};
}

int64_t inner_elements(const Shape& shape, size_t dim) {
  int64_t inner = 1;
  for (size_t d = dim + 1; d < shape.size(); ++d) inner *= shape[d];
  return inner;
}

}  // namespace strata
