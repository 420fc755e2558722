#include "ops/prime_field.h"

#include "support/random.h"

namespace strata {
namespace {

__extension__ using Wide = unsigned __int128;

uint64_t multiply(uint64_t a, uint64_t b, uint64_t n) { return static_cast<uint64_t>(static_cast<Wide>(a) * b % n); }

uint64_t power(uint64_t base, uint64_t exponent, uint64_t n) {
  uint64_t result = 1;
  for (; exponent != 0; exponent >>= 1) {
    if (exponent & 1) result = multiply(result, base, n);
    base = multiply(base, base, n);
  }
  return result;
}

}  // namespace

bool is_prime(uint64_t n) {
  constexpr uint64_t kBases[] = {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37};
  if (n < 2) return false;
  for (uint64_t prime : kBases) {
    if (n % prime == 0) return n == prime;
  }
  const int twos = std::countr_zero(n - 1);
  for (uint64_t base : kBases) {
    uint64_t x = power(base, (n - 1) >> twos, n);
    if (x == 1 || x == n - 1) continue;
    int i = 1;
    for (; i < twos && x != n - 1; ++i) x = multiply(x, x, n);
    if (x != n - 1) return false;
  }
  return true;
}

bool is_always_square(uint64_t n) {
  for (const uint64_t prime : {2, 3, 5, 7}) {
    while (n != 0 && n % prime == 0) n /= prime;
  }
  return n == 1;
}

FieldPrimes draw_field_primes(uint64_t seed) {
  constexpr uint64_t kClass = uint64_t{8} * 3 * 5 * 7;
  constexpr uint64_t kLeast = (uint64_t{1} << 59) / kClass + 1;
  constexpr uint64_t kMost = (uint64_t{1} << 60) / kClass;
  for (Random random(seed);;) {
    const uint64_t q = kClass * (kLeast + random.below(kMost - kLeast)) - 1;
    if (is_prime(q) && is_prime(2 * q + 1)) return {2 * q + 1, q};
  }
}

}  // namespace strata
