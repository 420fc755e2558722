#include "ops/elementwise.h"

namespace strata {

Result<TensorType> infer_elementwise(OperandTypes operands) {
  TensorType result = operands[0];
  for (const TensorType& operand : operands.subspan(1)) {
    if (operand.dtype != result.dtype) {
      return differing_types(result.dtype, operand.dtype);
    }
    STRATA_TRY(result.shape, broadcast(result.shape, operand.shape));
  }
  return result;
}

uint64_t function_key(std::string_view name, const Attributes& attributes) {
  return Hasher().add(name).add(attributes.hash()).value();
}

IndexLabels elementwise_labels(OperandTypes operands) {
  size_t rank = 0;
  for (const TensorType& operand : operands) rank = std::max(rank, operand.shape.size());
  IndexLabels labels;
  labels.result.assign(rank, IndexLabels::kFree);
  for (const TensorType& operand : operands) {
    auto& of_operand = labels.operands.emplace_back(operand.shape.size(), IndexLabels::kFree);
    for (size_t d = 0; d < operand.shape.size(); ++d) {
      const size_t in_result = rank - operand.shape.size() + d;
      if (operand.shape[d] == 1) continue;
      of_operand[d] = labels.result[in_result] = static_cast<int>(in_result);
    }
  }
  return labels;
}

std::vector<int64_t> row_major_strides(const Shape& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

}  // namespace strata
