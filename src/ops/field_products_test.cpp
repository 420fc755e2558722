#include "ops/field_products.h"

#include <gtest/gtest.h>

#include "support/random.h"

namespace strata {
namespace {

TEST(FieldProducts, AllVersionsGiveTheSameSums) {
  if (!is_supported(FieldProducts::Avx512Ifma)) {
    GTEST_SKIP() << "this processor has no AVX-512 IFMA: only the portable version was tested";
  }
  const PrimeField p(kVerifierPrimes.p);
  const PrimeField q(kVerifierPrimes.q);
  Random random(7);
  for (const int64_t columns : {1, 7, 8, 9, 16, 61}) {
    for (const int64_t count : {int64_t{1}, int64_t{2}, p.delayed_products()}) {
      std::vector<FieldArithmetic::Value> row(static_cast<size_t>(count));
      std::vector<FieldArithmetic::Value> b(static_cast<size_t>(count * columns));
      const auto fill = [&](std::vector<FieldArithmetic::Value>& values) {
        for (auto& v : values) {
          const uint64_t kind = random.below(4);  // the smallest and the largest elements too
          v.p = kind == 0 ? 0 : kind == 1 ? p.modulus() - 1 : p.from_integer(random());
          v.q = kind == 0 ? q.modulus() - 1 : kind == 1 ? 0 : q.from_integer(random());
        }
      };
      fill(row);
      fill(b);
      for (const int residue : {0, 1}) {
        std::vector<PrimeField::Wide> portable(static_cast<size_t>(columns), 5);
        std::vector<PrimeField::Wide> vector = portable;
        add_products(FieldProducts::Portable, residue, row.data(), b.data(), columns, count, columns, portable.data());
        add_products(FieldProducts::Avx512Ifma, residue, row.data(), b.data(), columns, count, columns, vector.data());
        EXPECT_TRUE(portable == vector) << columns << " columns, " << count << " terms, residue " << residue;
      }
    }
  }
}

}  // namespace
}  // namespace strata
