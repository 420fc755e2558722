#include "ops/prime_field.h"

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

}  // namespace strata
