#include "ops/contraction.h"

#include "ops/field_products.h"

namespace strata {

Result<TensorType> infer_matmul(const TensorType& a, const TensorType& b) {
  if (a.dtype != b.dtype) return differing_types(a.dtype, b.dtype);
  if (a.shape.size() < 2 || b.shape.size() < 2) {
    return invalid("operands {} and {} need at least two dimensions each", to_string(a), to_string(b));
  }
  const int64_t ka = a.shape.back();
  const int64_t kb = b.shape[b.shape.size() - 2];
  if (ka != kb) {
    return with_remedy(
        invalid("inner dimensions differ: {} of {} against {} of {}", ka, to_string(a), kb, to_string(b)),
        "correct a shape, or transpose one of the two");
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

namespace {

/// Adds to one residue of columns [first, last) of one row; `sums` is scratch.
template <uint64_t FieldArithmetic::Value::*kResidue>
void multiply_row(const PrimeField& field, const FieldArithmetic::Value* row, const FieldArithmetic::Value* b,
                  FieldArithmetic::Value* out, int64_t n, int64_t k, int64_t columns, bool accumulate,
                  PrimeField::Wide* sums) {
  std::fill(sums, sums + columns, PrimeField::Wide{0});
  const int64_t limit = std::min(field.delayed_products(), kMostProducts);
  constexpr int kIndex = kResidue == &FieldArithmetic::Value::p ? 0 : 1;
  for (int64_t c = 0; c < k; c += limit) {
    if (c != 0) {
      for (int64_t j = 0; j < columns; ++j) sums[j] = field.fold(sums[j]);
    }
    add_products(best_field_products(), kIndex, row + c, b + c * n, n, std::min(limit, k - c), columns, sums);
  }
  for (int64_t j = 0; j < columns; ++j) {
    const uint64_t sum = field.reduce_sum(sums[j]);
    out[j].*kResidue = accumulate ? field.add(out[j].*kResidue, sum) : sum;
  }
}

}  // namespace

void multiply_matrix(const FieldArithmetic& arithmetic, const FieldArithmetic::Value* a,
                     const FieldArithmetic::Value* b, FieldArithmetic::Value* out, const std::array<int64_t, 3>& mnk,
                     bool accumulate) {
  constexpr int64_t kColumns = 512;  // sums of this many columns stay in the first-level cache
  std::array<PrimeField::Wide, kColumns> sums;
  const auto [m, n, k] = mnk;
  for (int64_t row = 0; row < m; ++row) {
    for (int64_t first = 0; first < n; first += kColumns) {
      const int64_t columns = std::min(kColumns, n - first);
      FieldArithmetic::Value* to = out + row * n + first;
      if (arithmetic.live & FieldArithmetic::kResidueP) {
        multiply_row<&FieldArithmetic::Value::p>(arithmetic.fp, a + row * k, b + first, to, n, k, columns, accumulate,
                                                 sums.data());
      }
      if (arithmetic.live & FieldArithmetic::kResidueQ) {
        multiply_row<&FieldArithmetic::Value::q>(arithmetic.fq, a + row * k, b + first, to, n, k, columns, accumulate,
                                                 sums.data());
      }
    }
  }
}

}  // namespace strata
