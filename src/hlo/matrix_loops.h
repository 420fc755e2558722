// Factors and solves of batches of matrices as loops over columns, and over blocks of them, written as text.
#pragma once

#include "hlo/text_builder.h"

namespace strata::hlo {

/// Up to so many columns a matrix is one block: its columns are computed one after the other, all of the matrix each
/// time. Beyond, blocks bound that to a block of columns; a product does the rest.
constexpr int64_t kLargestBlock = 128;

/// An array as [batch, m, n], of floats of 32 bits or more.
TextBuilder::Value matrices(TextBuilder& text, const TextBuilder::Value& of);

/// of[i, at[i, j], :], of [batch, m, n] and s32[batch, k].
TextBuilder::Value permuted(TextBuilder& text, const TextBuilder::Value& of, const TextBuilder::Value& at);

/// x of a · x = b, for a: [batch, n, n] lower triangular with zeros above its diagonal, and b: [batch, n, m].
TextBuilder::Value solve_lower(TextBuilder& text, const TextBuilder::Value& a, const TextBuilder::Value& b,
                               bool unit_diagonal);

/// The lower factor of a: [batch, n, n], of whose lower triangles it reads. What it gives above the diagonal means
/// nothing. Where there is no factor, the last element of the diagonal is NaN.
TextBuilder::Value factor_positive(TextBuilder& text, const TextBuilder::Value& a);

/// Of a: [batch, m, n] with partial pivoting.
struct LuFactors {
  TextBuilder::Value both;    ///< [batch, m, n]: l below the diagonal, u above and on it
  TextBuilder::Value pivots;  ///< s32[batch, min(m, n)]: the row from 0 that each row was exchanged with, in turn
};
LuFactors factor_with_pivots(TextBuilder& text, const TextBuilder::Value& a);

/// Of a: [batch, m, n] as q · r.
struct Reflectors {
  TextBuilder::Value both;     ///< [batch, m, n]: r on the diagonal and above; below, reflectors without their first 1
  TextBuilder::Value factors;  ///< [batch, min(m, n)]: of each reflector 1 - factor · v · vᴴ
};
Reflectors factor_by_reflectors(TextBuilder& text, const TextBuilder::Value& a);
/// The first columns of the product of these reflectors, as many as `both` has: q.
TextBuilder::Value product_of_reflectors(TextBuilder& text, const Reflectors& reflectors);

/// s32[batch, n]: 0 … n - 1 with the first exchanged with element pivots[0] of them, the second with pivots[1] …, of
/// pivots: s32[batch, k].
TextBuilder::Value permutation_of(TextBuilder& text, const TextBuilder::Value& pivots, int64_t n);

}  // namespace strata::hlo
