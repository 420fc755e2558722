// For this folder's tests: two concrete algebras that satisfy A_eq without cancellation. Expressions with
// different values are certainly different, so the models refute merges that a normal form should not make.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "ops/expr_builder.h"
#include "support/hash.h"
#include "support/random.h"

namespace strata::expr_test {

/// The ring R = product over levels l of (Z/p_l)^3, with p_{l+1} dividing p_l - 1:
///   1/x    component i of a level is (component π(i) of x)^a_i: multiplicative, and no inverse;
///   sqrt   the same with another permutation σ and other powers; π and σ do not commute, or sqrt(1/x) and
///          1/sqrt(x) would agree;
///   exp    ω_i^(component i of the next level), with ω_i of order p_{l+1}: turns sums into products;
///   sum(k) multiplication by a multiplicative function of k;
///   max    conjugate of addition, reduce_max of translation, by bijections of each Z/p.
/// Values are hashed into handles, so that equal handles mean equal values.
class RingModel final : public ExprBuilder {
 public:
  explicit RingModel(uint64_t seed) : seed_(seed), primes_(primes()) {
    Random random(seed);
    for (size_t i = 0; i < kSize; ++i) {
      const uint64_t p = primes_[i / kCopies];
      inverse_powers_[i] = 2 + random.below(p - 3);
      root_powers_[i] = 2 + random.below(p - 3);
      bases_[i] = 1;
      while (i / kCopies + 1 < kLevels && bases_[i] == 1) {
        bases_[i] = power(2 + random.below(p - 3), (p - 1) / primes_[i / kCopies + 1], p);
      }
      do {
        scrambles_[i] = 3 + random.below(p - 4);
      } while (std::gcd(scrambles_[i], p - 1) != 1);
      unscrambles_[i] = inverse_modulo(scrambles_[i], p - 1);
    }
  }

  ExprId input(std::string_view name) override { return store(random_value(Hasher{}.add("input").add(name))); }
  ExprId constant(const Rational& value) override {
    if (value == Rational{1, 1}) {
      Value one;
      one.fill(1);
      return store(one);
    }
    return store(random_value(Hasher{}.add("constant").add(value.num).add(value.den)));
  }
  ExprId add(ExprId a, ExprId b) override {
    return each([&](size_t i, uint64_t p) { return (values_[a][i] + values_[b][i]) % p; });
  }
  ExprId mul(ExprId a, ExprId b) override {
    return each([&](size_t i, uint64_t p) { return values_[a][i] * values_[b][i] % p; });
  }
  ExprId div(ExprId a, ExprId b) override {
    return each([&](size_t i, uint64_t p) {
      const size_t from = i / kCopies * kCopies + (i % kCopies + 1) % kCopies;
      return values_[a][i] * power(values_[b][from], inverse_powers_[i], p) % p;
    });
  }
  ExprId sqrt(ExprId a) override {
    return each([&](size_t i, uint64_t p) {
      const size_t copy = i % kCopies;
      const size_t from = i / kCopies * kCopies + (copy == 2 ? 2 : 1 - copy);
      return power(values_[a][from], root_powers_[i], p);
    });
  }
  ExprId exp(ExprId a) override {
    return each(
        [&](size_t i, uint64_t p) { return i + kCopies < kSize ? power(bases_[i], values_[a][i + kCopies], p) : 1; });
  }
  ExprId sum(int64_t k, ExprId a) override {
    Value scale;
    scale.fill(1);
    for_each_prime_factor(k, [&](int64_t factor) {
      const Value v = random_value(Hasher{}.add("sum").add(factor));
      for (size_t i = 0; i < kSize; ++i) scale[i] = scale[i] * v[i] % primes_[i / kCopies];
    });
    return each([&](size_t i, uint64_t p) { return scale[i] * values_[a][i] % p; });
  }
  ExprId function(std::string_view name, int64_t parameter, std::span<const ExprId> arguments, bool) override {
    if (name == "max") {
      return each([&](size_t i, uint64_t p) {
        uint64_t total = 0;
        for (const ExprId a : arguments) total += scramble(i, values_[a][i], 1);
        return unscramble(i, total % p, 1);
      });
    }
    if (name == "reduce_max") {
      Value shift{};
      for_each_prime_factor(parameter, [&](int64_t factor) {
        const Value v = random_value(Hasher{}.add("reduce_max").add(factor));
        for (size_t i = 0; i < kSize; ++i) shift[i] = (shift[i] + v[i]) % primes_[i / kCopies];
      });
      return each([&](size_t i, uint64_t p) {
        return unscramble(i, (scramble(i, values_[arguments[0]][i], 2) + shift[i]) % p, 2);
      });
    }
    Hasher hasher;
    hasher.add(name).add(parameter);
    for (const ExprId a : arguments) hasher.add_all(values_[a]);
    return store(random_value(hasher));
  }

  bool same(ExprId a, ExprId b) const { return values_[a] == values_[b]; }

 private:
  static constexpr size_t kLevels = 4;
  static constexpr size_t kCopies = 3;
  static constexpr size_t kSize = kLevels * kCopies;
  using Value = std::array<uint64_t, kSize>;

  static bool is_prime(uint64_t n) {
    for (uint64_t d = 2; d * d <= n; ++d) {
      if (n % d == 0) return false;
    }
    return true;
  }
  /// A prime of which p divides the predecessor, less than 200 times as large: squares fit 64 bits.
  static uint64_t next_prime(uint64_t p) {
    uint64_t candidate = 60 * p + 1;
    while (!is_prime(candidate)) candidate += 2 * p;
    return candidate;
  }
  static const std::array<uint64_t, kLevels>& primes() {
    static const auto chain = [] {
      std::array<uint64_t, kLevels> result{};
      uint64_t prime = 1009;
      for (size_t level = kLevels; level-- > 0; prime = next_prime(prime)) result[level] = prime;
      return result;
    }();
    return chain;
  }
  static uint64_t power(uint64_t base, uint64_t exponent, uint64_t p) {
    uint64_t result = 1;
    for (; exponent != 0; exponent >>= 1, base = base * base % p) {
      if (exponent & 1) result = result * base % p;
    }
    return result;
  }
  static uint64_t inverse_modulo(uint64_t a, uint64_t n) {
    int64_t x = 0, next_x = 1;
    auto r = static_cast<int64_t>(n), next_r = static_cast<int64_t>(a);
    while (next_r != 0) {
      const int64_t q = r / next_r;
      x = std::exchange(next_x, x - q * next_x);
      r = std::exchange(next_r, r - q * next_r);
    }
    return static_cast<uint64_t>(x < 0 ? x + static_cast<int64_t>(n) : x);
  }
  static void for_each_prime_factor(int64_t k, auto&& visit) {
    for (int64_t factor = 2; k > 1; ++factor) {
      for (; k % factor == 0; k /= factor) visit(factor);
    }
  }
  uint64_t scramble(size_t i, uint64_t x, uint64_t shift) const {
    const uint64_t p = primes_[i / kCopies];
    return power((x + shift) % p, scrambles_[i], p);
  }
  uint64_t unscramble(size_t i, uint64_t x, uint64_t shift) const {
    const uint64_t p = primes_[i / kCopies];
    return (power(x, unscrambles_[i], p) + p - shift) % p;
  }
  Value random_value(const Hasher& what) const {
    Random random(what.value() ^ seed_);
    Value v;
    for (size_t i = 0; i < kSize; ++i) v[i] = 2 + random.below(primes_[i / kCopies] - 2);
    return v;
  }
  ExprId each(auto&& component) {
    Value v;
    for (size_t i = 0; i < kSize; ++i) v[i] = component(i, primes_[i / kCopies]);
    return store(v);
  }
  ExprId store(const Value& v) {
    values_.push_back(v);
    return static_cast<ExprId>(values_.size() - 1);
  }

  uint64_t seed_;
  std::array<uint64_t, kLevels> primes_;
  Value inverse_powers_{}, root_powers_{}, bases_{}, scrambles_{}, unscrambles_{};
  std::vector<Value> values_;
};

/// The reals from 1 up, in logarithms: 1/x is x^a and sqrt(x) is x^b with a, b >= 1, exp(x) is c^x, and sums
/// scale up. A_eq holds, and every operator's result is at least each operand, so A_sub holds for "at most":
/// a value greater than the target's is certainly not part of it.
class MonotoneModel final : public ExprBuilder {
 public:
  explicit MonotoneModel(uint64_t seed) : seed_(seed) {
    Random random(seed);
    inverse_ = random.uniform(1, 3);
    root_ = random.uniform(1, 3);
    base_ = random.uniform(0.01, 1);
  }

  ExprId input(std::string_view name) override { return store(weight(Hasher{}.add("input").add(name), 4)); }
  ExprId constant(const Rational& value) override {
    return store(value == Rational{1, 1} ? 0 : weight(Hasher{}.add("constant").add(value.num).add(value.den), 4));
  }
  ExprId add(ExprId a, ExprId b) override {
    const double high = std::max(logs_[a], logs_[b]);
    return store(high + std::log1p(std::exp(std::min(logs_[a], logs_[b]) - high)));
  }
  ExprId mul(ExprId a, ExprId b) override { return store(logs_[a] + logs_[b]); }
  ExprId div(ExprId a, ExprId b) override { return store(logs_[a] + inverse_ * logs_[b]); }
  // c^x >= x needs c >= e^(1/e), that is log c >= 1/e.
  ExprId exp(ExprId a) override { return store((base_ + 0.37) * std::exp(logs_[a])); }
  ExprId sqrt(ExprId a) override { return store(root_ * logs_[a]); }
  ExprId sum(int64_t k, ExprId a) override { return store(logs_[a] + extent_weight("sum", k)); }
  ExprId function(std::string_view name, int64_t parameter, std::span<const ExprId> arguments, bool) override {
    double total = 0;
    for (const ExprId a : arguments) total += logs_[a];
    if (name == "reduce_max") return store(total + extent_weight(name, parameter));
    if (name != "max") return store(total + weight(Hasher{}.add(name).add(parameter), 1));
    // Associative: addition shifted by a constant.
    const double shift = weight(Hasher{}.add(name), 1);
    return store(total + shift * static_cast<double>(arguments.size() - 1));
  }

  /// Certainly not part of `whole`. Inconclusive where a value left the range of double.
  bool exceeds(ExprId part, ExprId whole) const {
    return std::isfinite(logs_[whole]) && logs_[part] > logs_[whole] * (1 + 1e-9) + 1e-9;
  }

 private:
  double weight(const Hasher& what, double high) const {
    Random random(what.value() ^ seed_);
    // Some weights vanish: then the model tests the other inputs alone.
    return random.below(3) == 0 ? 0 : random.uniform(0, high);
  }
  double extent_weight(std::string_view name, int64_t k) const {
    double total = 0;
    for (int64_t factor = 2; k > 1; ++factor) {
      for (; k % factor == 0; k /= factor) total += weight(Hasher{}.add(name).add(factor), 2);
    }
    return total;
  }
  ExprId store(double log) {
    logs_.push_back(log);
    return static_cast<ExprId>(logs_.size() - 1);
  }

  uint64_t seed_;
  double inverse_, root_, base_;
  std::vector<double> logs_;
};

}  // namespace strata::expr_test
