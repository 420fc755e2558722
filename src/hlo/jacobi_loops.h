// Eigenvalues and singular values of batches of matrices by Jacobi's rotations, as loops written as text.
#pragma once

#include "hlo/text_builder.h"

namespace strata::hlo {

/// Of a symmetric a: [batch, n, n] of real numbers, of which one triangle is read.
struct Eigenpairs {
  TextBuilder::Value values;   ///< [batch, n], ascending
  TextBuilder::Value vectors;  ///< [batch, n, n]: columns
  TextBuilder::Value info;     ///< s32[batch]: 0, or 1 where the rotations have not come to an end
};
/// Matrices that hold a NaN or an infinity get NaN everywhere; others of their batch do not.
Eigenpairs eigenpairs(TextBuilder& text, const TextBuilder::Value& a, bool lower);

/// Of a: [batch, m, n] of real numbers as u · diag(values) · vᵀ, with k = min(m, n).
struct SingularValues {
  TextBuilder::Value values;       ///< [batch, k], descending
  TextBuilder::Value left, right;  ///< u: [batch, m, k] and vᵀ: [batch, k, n]; full: [batch, m, m], [batch, n, n]
  TextBuilder::Value info;         ///< as of eigenpairs
};
enum class SingularVectors : uint8_t { None, Thin, Full };
/// As eigenpairs does where numbers are not finite. Both factors are orthogonal whatever the rank.
SingularValues singular_values(TextBuilder& text, const TextBuilder::Value& a, SingularVectors vectors);

}  // namespace strata::hlo
