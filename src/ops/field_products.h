// Sums of products of field elements, the inner loop of matrix products over the field, for the processor at hand.
#pragma once

#include "ops/arithmetic.h"

namespace strata {

/// Which instructions compute the sums; the results are the same to the bit. AVX2 has none: it multiplies 32 bits by
/// 32, and four such products of 61-bit numbers take longer than one of the scalar unit's.
enum class FieldProducts : uint8_t { Portable, Avx512Ifma };

constexpr int64_t kMostProducts = 1024;

bool is_supported(FieldProducts products);
/// The fastest that this processor has.
FieldProducts best_field_products();

/// sums[j] += Σ_c row[c].r · b[c · n + j].r for c < count, j < columns, where r is the residue p (0) or q (1). No sum
/// may exceed 128 bits (PrimeField::delayed_products); count is at most kMostProducts.
void add_products(FieldProducts products, int residue, const FieldArithmetic::Value* row,
                  const FieldArithmetic::Value* b, int64_t n, int64_t count, int64_t columns, PrimeField::Wide* sums);

}  // namespace strata
