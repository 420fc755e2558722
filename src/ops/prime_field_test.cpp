#include "ops/prime_field.h"

#include <gtest/gtest.h>

#include <set>

#include "ops/arithmetic.h"
#include "ops/contraction.h"
#include "support/random.h"

namespace strata {
namespace {

using Wide = PrimeField::Wide;

constexpr uint64_t kModuli[] = {7,
                                23,
                                83,
                                167,
                                1000003,
                                kVerifierPrimes.q,
                                kVerifierPrimes.p,
                                4611686018427387847ULL};  // the largest prime below 2^62

uint64_t slow_power(uint64_t base, uint64_t exponent, uint64_t modulus) {
  uint64_t result = 1;
  for (; exponent != 0; exponent >>= 1) {
    if (exponent & 1) result = static_cast<uint64_t>(static_cast<Wide>(result) * base % modulus);
    base = static_cast<uint64_t>(static_cast<Wide>(base) * base % modulus);
  }
  return result;
}

TEST(PrimeField, AgreesWithWideIntegers) {
  Random random(1);
  for (const uint64_t modulus : kModuli) {
    const PrimeField field(modulus);
    EXPECT_EQ(field.to_integer(field.one()), 1 % modulus);
    for (int i = 0; i < 2000; ++i) {
      // The edges of the range come up too.
      const auto draw = [&] { return i % 8 == 0 ? modulus - 1 - random.below(2) : random.below(modulus); };
      const uint64_t a = draw();
      const uint64_t b = draw();
      const uint64_t fa = field.from_integer(a);
      const uint64_t fb = field.from_integer(b);
      EXPECT_EQ(field.to_integer(fa), a);
      EXPECT_EQ(field.to_integer(field.add(fa, fb)), static_cast<uint64_t>((static_cast<Wide>(a) + b) % modulus));
      EXPECT_EQ(field.to_integer(field.sub(fa, fb)),
                static_cast<uint64_t>((static_cast<Wide>(a) + modulus - b) % modulus));
      EXPECT_EQ(field.to_integer(field.mul(fa, fb)), static_cast<uint64_t>(static_cast<Wide>(a) * b % modulus));
      const uint64_t exponent = random() >> random.below(64);
      EXPECT_EQ(field.to_integer(field.pow(fa, exponent)), slow_power(a, exponent, modulus));
      EXPECT_EQ(PowerTable(field, fa).power(field, exponent), field.pow(fa, exponent));
      EXPECT_EQ(field.mul(fa, field.inverse(fa)), a == 0 ? 0 : field.one());
      const auto small = static_cast<int64_t>(random() >> 1);
      EXPECT_EQ(field.add(field.from_signed(small), field.from_signed(-small)), 0u);
    }
  }
}

TEST(PrimeField, DelaysReductionWithoutOverflow) {
  for (const uint64_t modulus : kModuli) {
    const PrimeField field(modulus);
    const uint64_t largest = modulus - 1;
    const uint64_t product = field.mul(largest, largest);
    Wide sum = 0;
    uint64_t expected = 0;
    // Twice what one fold allows, all of the largest size.
    const int64_t products = std::min<int64_t>(field.delayed_products(), 1000);
    ASSERT_GT(products, 0);
    for (int round = 0; round < 2; ++round) {
      for (int64_t i = 0; i < products; ++i) {
        const Wide before = sum;
        sum += static_cast<Wide>(largest) * largest;
        ASSERT_GE(sum, before);
        expected = field.add(expected, product);
      }
      EXPECT_EQ(field.reduce_sum(sum), expected);
      sum = field.fold(sum);
    }
  }
}

TEST(PrimeField, MatrixProductsEqualTheirDefinition) {
  FieldArithmetic field{PrimeField(kVerifierPrimes.p), PrimeField(kVerifierPrimes.q), 1, 1};
  Random random(2);
  using Value = FieldArithmetic::Value;
  Tensor<Value> a(Shape{3, 200});
  Tensor<Value> b(Shape{200, 700});
  for (auto* tensor : {&a, &b}) {
    for (Value& value : tensor->data) {
      value = {field.fp.from_integer(random.below(kVerifierPrimes.p)),
               field.fq.from_integer(random.below(kVerifierPrimes.q))};
    }
  }
  Tensor<Value> product(Shape{3, 700});
  multiply<FieldArithmetic, false>(field, a, b, product);
  multiply<FieldArithmetic, true>(field, a, b, product);
  for (int64_t i = 0; i < 3; ++i) {
    for (int64_t j = 0; j < 700; ++j) {
      Value sum;
      for (int64_t k = 0; k < 200; ++k) sum = field.add(sum, field.mul(a[i * 200 + k], b[k * 700 + j]));
      EXPECT_EQ(product[i * 700 + j], field.add(sum, sum));
    }
  }
}

TEST(Primes, AreWhatTheVerifierNeeds) {
  const auto [p, q] = kVerifierPrimes;
  EXPECT_TRUE(is_prime(p));
  EXPECT_TRUE(is_prime(q));
  EXPECT_EQ(p, 2 * q + 1);
  EXPECT_EQ(p % 4, 3u);
  EXPECT_EQ(q % 4, 3u);
  EXPECT_LT(p, uint64_t{1} << 61);
  EXPECT_GT(p, (uint64_t{1} << 61) - (uint64_t{1} << 24));
  for (const uint64_t prime : {2, 3, 5, 7, 11, 13}) {
    EXPECT_TRUE(PrimeField(p).is_residue(PrimeField(p).from_integer(prime))) << prime;
    EXPECT_TRUE(PrimeField(q).is_residue(PrimeField(q).from_integer(prime))) << prime;
  }
}

TEST(Primes, AreToldFromComposites) {
  std::vector<bool> composite(20000, false);
  for (uint64_t n = 2; n < composite.size(); ++n) {
    EXPECT_EQ(is_prime(n), !composite[n]) << n;
    for (uint64_t m = 2 * n; m < composite.size(); m += n) composite[m] = true;
  }
  EXPECT_FALSE(is_prime(0) || is_prime(1));
  EXPECT_FALSE(is_prime(3215031751));           // a strong pseudoprime to 2, 3, 5, 7
  EXPECT_FALSE(is_prime(3825123056546413051));  // to 2 … 23
  EXPECT_FALSE(is_prime(kVerifierPrimes.p - 2));
  EXPECT_TRUE(is_prime(18446744073709551557ULL));  // the largest below 2^64
}

TEST(FieldArithmetic, ExponentialsAndRootsKeepTheirLaws) {
  const PrimeField fp(kVerifierPrimes.p);
  const PrimeField fq(kVerifierPrimes.q);
  const uint64_t omega = fp.pow(fp.from_integer(17), 2);
  FieldArithmetic field{fp, fq, omega, 1};
  Random random(3);
  for (int i = 0; i < 200; ++i) {
    const FieldArithmetic::Value x{random.below(fp.modulus()), random.below(fq.modulus())};
    const FieldArithmetic::Value y{random.below(fp.modulus()), random.below(fq.modulus())};
    EXPECT_EQ(field.exp(field.add(x, y)).p, fp.mul(field.exp(x).p, field.exp(y).p));
    const auto root = field.sqrt(field.mul(x, y));
    EXPECT_EQ(root, field.mul(field.sqrt(x), field.sqrt(y)));
    field.left_residues = false;
    const auto square = field.sqrt(field.mul(x, x));
    EXPECT_FALSE(field.left_residues);
    EXPECT_EQ(field.mul(square, square), field.mul(x, x));
    // The argument of an exponential's root is always a residue, and the root halves the exponent.
    EXPECT_EQ(field.sqrt(field.exp(field.add(x, x))).p, field.exp(x).p);
    field.left_residues = false;
    field.sqrt(x);
    EXPECT_EQ(field.left_residues, !(fp.is_residue(x.p) && fq.is_residue(x.q)));
    EXPECT_EQ(field.mul(field.div(x, y), y), x);
  }
  EXPECT_FALSE(field.divided_by_zero);
  field.div({1, 1}, {0, 1});
  EXPECT_TRUE(field.divided_by_zero);
}

TEST(PrimeField, PairsAreDrawnFromMany) {
  std::set<uint64_t> drawn;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const auto [p, q] = draw_field_primes(seed);
    EXPECT_TRUE(is_prime(p) && is_prime(q) && p == 2 * q + 1);
    EXPECT_TRUE(p >> 60 == 1 && p % 4 == 3 && q % 4 == 3);
    const PrimeField fp(p);
    const PrimeField fq(q);
    for (uint64_t n : {2, 3, 5, 7}) {
      EXPECT_TRUE(fp.is_residue(fp.from_integer(n)) && fq.is_residue(fq.from_integer(n))) << n;
    }
    drawn.insert(p);
  }
  EXPECT_EQ(drawn.size(), 50U);
  // The share of candidates that are pairs, times the candidates.
  constexpr int kCandidates = 20000;
  Random random(1);
  int pairs = 0;
  for (int i = 0; i < kCandidates; ++i) {
    const uint64_t q = 840 * ((uint64_t{1} << 59) / 840 + 1 + random.below((uint64_t{1} << 59) / 840)) - 1;
    pairs += is_prime(q) && is_prime(2 * q + 1);
  }
  EXPECT_GT(static_cast<double>(pairs) / kCandidates * (0x1p59 / 840), kFieldPrimePairs);
}

}  // namespace
}  // namespace strata
