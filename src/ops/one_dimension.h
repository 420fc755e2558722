// What operators that work along one dimension, their attribute `dim`, share.
#pragma once

#include "ops/elementwise.h"

namespace strata {

/// The dimension. Error where the operand has none of that number.
Result<size_t> dimension_of(const TensorType& operand, const Attributes& attributes);

/// Labels where the other dimensions are walked together with the result's, and this one is tied to nothing.
IndexLabels labels_but_dimension(OperandTypes operands, const Attributes& attributes);

/// How far apart two neighbours along a dimension lie: the elements of all dimensions inside it.
int64_t inner_elements(const Shape& shape, size_t dim);

}  // namespace strata
