// The number types a µGraph can be executed over. An operator writes its scalar meaning once, as a
// template over one of these; the interpreter, the verifier and the degree analysis use the same code.
//
// An Arithmetic A has: A::Value, add, sub, mul, div, exp, sqrt, max, constant(Rational), and
// round(value, dtype), which rounds to the storage type of a tensor. The object carries context (the
// field, the root of unity) and remembers whether a division by zero occurred.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>

#include "ops/prime_field.h"
#include "ops/types.h"
#include "support/hash.h"
#include "support/rational.h"

namespace strata {

/// IEEE arithmetic. With `round_storage` every stored element is rounded to its tensor's type.
template <std::floating_point T>
struct RealArithmetic {
  using Value = T;
  bool round_storage = false;

  Value add(Value a, Value b) const { return a + b; }
  Value sub(Value a, Value b) const { return a - b; }
  Value mul(Value a, Value b) const { return a * b; }
  Value div(Value a, Value b) const { return a / b; }
  Value exp(Value a) const { return std::exp(a); }
  Value sqrt(Value a) const { return std::sqrt(a); }
  Value max(Value a, Value b) const { return std::isnan(a) || a > b ? a : b; }
  Value constant(const Rational& r) const { return static_cast<T>(r.num) / static_cast<T>(r.den); }
  Value round(Value a, DType type) const;
};

using Float64Arithmetic = RealArithmetic<double>;
using Float32Arithmetic = RealArithmetic<float>;

/// Nearest value of `type`, ties to even; overflow becomes infinity.
double round_to(double value, DType type);

template <std::floating_point T>
T RealArithmetic<T>::round(T a, DType type) const {
  return round_storage ? static_cast<T>(round_to(a, type)) : a;
}

/// Z_p × Z_q with q | p − 1 (Mirage, section 5). Values carry a residue modulo p and, for exponents, one
/// modulo q, both in Montgomery form; exp(x) = ω^(x mod q) mod p, which has no residue modulo q: the Lax
/// conditions, checked before, keep a second exponential from ever reading it.
struct FieldArithmetic {
  struct Value {
    uint64_t p = 0;
    uint64_t q = 0;
    friend bool operator==(const Value&, const Value&) = default;
  };

  PrimeField fp;
  PrimeField fq;
  uint64_t omega;                ///< a q-th root of unity in Z_p, in Montgomery form
  uint64_t order_seed;           ///< ranks the elements for max: a random total order
  bool divided_by_zero = false;  ///< the sample must be drawn again
  bool left_residues = false;    ///< sqrt met a non-residue; see sqrt

  Value add(Value a, Value b) const { return {fp.add(a.p, b.p), fq.add(a.q, b.q)}; }
  Value sub(Value a, Value b) const { return {fp.sub(a.p, b.p), fq.sub(a.q, b.q)}; }
  Value mul(Value a, Value b) const { return {fp.mul(a.p, b.p), fq.mul(a.q, b.q)}; }
  Value div(Value a, Value b) {
    if (b.p == 0 || b.q == 0) divided_by_zero = true;
    return {fp.mul(a.p, fp.inverse(b.p)), fq.mul(a.q, fq.inverse(b.q))};
  }
  /// No q-residue remains; it is set to 1 so that dividing by an exponential is no division by zero.
  Value exp(Value a) const { return {fp.pow(omega, fq.to_integer(a.q)), fq.one()}; }
  /// x^((p+1)/4) for p ≡ 3 mod 4: multiplicative on the whole field, and a true root of quadratic residues.
  Value sqrt(Value a) {
    const uint64_t root_p = fp.pow(a.p, (fp.modulus() + 1) / 4);
    const uint64_t root_q = fq.pow(a.q, (fq.modulus() + 1) / 4);
    if (fp.mul(root_p, root_p) != a.p) left_residues = true;
    return {root_p, root_q};
  }
  Value max(Value a, Value b) const { return rank(a) < rank(b) ? b : a; }
  Value constant(const Rational& r) {
    return div({fp.from_signed(r.num), fq.from_signed(r.num)}, {fp.from_signed(r.den), fq.from_signed(r.den)});
  }
  Value round(Value a, DType) const { return a; }

 private:
  uint64_t rank(Value a) const { return mix(mix(a.p ^ order_seed) ^ a.q); }
};

}  // namespace strata
