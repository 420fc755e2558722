#include "ops/field_products.h"

#if defined(__x86_64__)
// GCC 12 warns of its own header (bug 105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop
#endif

namespace strata {
namespace {

static_assert(sizeof(FieldArithmetic::Value) == 16);

/// Residues alternate in memory: element i of a residue is at 2 i + residue.
const uint64_t* words(const FieldArithmetic::Value* values) { return reinterpret_cast<const uint64_t*>(values); }

void add_portable(int residue, const uint64_t* row, const uint64_t* b, int64_t n, int64_t count, int64_t first,
                  int64_t columns, PrimeField::Wide* sums) {
  for (int64_t c = 0; c < count; ++c) {
    const PrimeField::Wide x = row[2 * c + residue];
    const uint64_t* y = b + 2 * c * n + residue;
    for (int64_t j = first; j < columns; ++j) sums[j] += x * y[2 * j];
  }
}

#if defined(__x86_64__)

/// Eight columns at a time. A number below 2^61 is two limbs of 52 bits, the upper below 2^9, so the products of limbs
/// have a low and a high half of 52 bits each, which are added up by their weight: 2^0, 2^52, 2^104. Each of the three
/// sums of 64 bits takes 3 · 1365 halves.
__attribute__((target("avx512f,avx512ifma"))) void add_ifma(int residue, const uint64_t* row, const uint64_t* b,
                                                            int64_t n, int64_t count, int64_t columns,
                                                            PrimeField::Wide* sums) {
  constexpr int kLimb = 52;
  const __m512i mask = _mm512_set1_epi64((int64_t{1} << kLimb) - 1);
  const __m512i order = _mm512_add_epi64(_mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14), _mm512_set1_epi64(residue));
  for (int64_t j = 0; j + 8 <= columns; j += 8) {
    __m512i low = _mm512_setzero_si512();
    __m512i middle = _mm512_setzero_si512();
    __m512i high = _mm512_setzero_si512();
    for (int64_t c = 0; c < count; ++c) {
      const uint64_t x = row[2 * c + residue];
      const __m512i x0 = _mm512_set1_epi64(static_cast<int64_t>(x & ((uint64_t{1} << kLimb) - 1)));
      const __m512i x1 = _mm512_set1_epi64(static_cast<int64_t>(x >> kLimb));
      const uint64_t* from = b + 2 * (c * n + j);
      const __m512i y = _mm512_permutex2var_epi64(_mm512_loadu_si512(from), order, _mm512_loadu_si512(from + 8));
      const __m512i y0 = _mm512_and_si512(y, mask);
      const __m512i y1 = _mm512_srli_epi64(y, kLimb);
      low = _mm512_madd52lo_epu64(low, x0, y0);
      middle = _mm512_madd52hi_epu64(middle, x0, y0);
      middle = _mm512_madd52lo_epu64(middle, x0, y1);
      middle = _mm512_madd52lo_epu64(middle, x1, y0);
      high = _mm512_madd52hi_epu64(high, x0, y1);
      high = _mm512_madd52hi_epu64(high, x1, y0);
      high = _mm512_madd52lo_epu64(high, x1, y1);
    }
    alignas(64) std::array<uint64_t, 8> l, m, h;
    _mm512_store_si512(l.data(), low);
    _mm512_store_si512(m.data(), middle);
    _mm512_store_si512(h.data(), high);
    for (size_t i = 0; i < 8; ++i) {
      sums[j + static_cast<int64_t>(i)] +=
          (static_cast<PrimeField::Wide>(h[i]) << (2 * kLimb)) + (static_cast<PrimeField::Wide>(m[i]) << kLimb) + l[i];
    }
  }
}

#endif

}  // namespace

bool is_supported(FieldProducts products) {
  if (products == FieldProducts::Portable) return true;
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512ifma");
#else
  return false;
#endif
}

FieldProducts best_field_products() {
  static const bool ifma = is_supported(FieldProducts::Avx512Ifma);
  return ifma ? FieldProducts::Avx512Ifma : FieldProducts::Portable;
}

void add_products(FieldProducts products, int residue, const FieldArithmetic::Value* row,
                  const FieldArithmetic::Value* b, int64_t n, int64_t count, int64_t columns, PrimeField::Wide* sums) {
  int64_t done = 0;
#if defined(__x86_64__)
  if (products == FieldProducts::Avx512Ifma) {
    add_ifma(residue, words(row), words(b), n, count, columns, sums);
    done = columns / 8 * 8;
  }
#else
  static_cast<void>(products);
#endif
  if (done < columns) add_portable(residue, words(row), words(b), n, count, done, columns, sums);
}

}  // namespace strata
