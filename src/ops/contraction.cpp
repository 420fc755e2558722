#include "ops/contraction.h"

namespace strata {

Result<TensorType> infer_matmul(const TensorType& a, const TensorType& b) {
  if (a.dtype != b.dtype) return invalid("element types {} and {} differ", name_of(a.dtype), name_of(b.dtype));
  if (a.shape.size() < 2 || b.shape.size() < 2) {
    return invalid("operands {} and {} need at least two dimensions each", to_string(a), to_string(b));
  }
  const int64_t ka = a.shape.back();
  const int64_t kb = b.shape[b.shape.size() - 2];
  if (ka != kb) {
    return invalid("inner dimensions differ: {} of {} against {} of {}", ka, to_string(a), kb, to_string(b));
  }
  STRATA_TRY(Shape shape,
             broadcast(Shape(a.shape.begin(), a.shape.end() - 2), Shape(b.shape.begin(), b.shape.end() - 2)));
  shape.push_back(a.shape[a.shape.size() - 2]);
  shape.push_back(b.shape.back());
  return TensorType{a.dtype, shape};
}

IndexLabels matmul_labels(const Shape& a, const Shape& b, int reduced) {
  const size_t rank = std::max(a.size(), b.size());
  IndexLabels labels{{{}, {}}, std::vector<int>(rank, IndexLabels::kFree)};
  const auto walk = [&](const Shape& shape, size_t contracted, std::vector<int>& of) {
    of.assign(shape.size(), IndexLabels::kFree);
    for (size_t d = 0; d < shape.size(); ++d) {
      const size_t in_result = rank - shape.size() + d;
      if (d == contracted) {
        of[d] = reduced;
      } else if (d + 2 >= shape.size() || shape[d] != 1) {
        of[d] = labels.result[in_result] = static_cast<int>(in_result);
      }
    }
  };
  walk(a, a.size() - 1, labels.operands[0]);
  walk(b, b.size() - 2, labels.operands[1]);
  return labels;
}

}  // namespace strata
