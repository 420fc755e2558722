// The number types a µGraph can be executed over. An operator writes its scalar meaning once, as a
// template over one of these; the interpreter, the verifier and the degree analysis use the same code.
//
// An Arithmetic A has: A::Value, add, sub, mul, div, exp, sqrt, max, greater (1 or 0), select (c ≠ 0 ? a : b),
// constant(Rational), and round(value, dtype), which rounds to the storage type of a tensor. The object carries context
// (the field, the root of unity) and remembers whether a division by zero occurred.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "ops/prime_field.h"
#include "ops/types.h"
#include "support/hash.h"
#include "support/rational.h"

namespace strata {

/// A comparison or selection of what is undefined is undefined over the real numbers, where IEEE's is not.
template <std::floating_point T>
T nan_of(T a, T b, T otherwise) {
  return std::isnan(a) ? a : std::isnan(b) ? b : otherwise;
}

/// IEEE arithmetic. With `round_storage` every stored element is rounded to its tensor's type; with `undefined_stays`
/// the result of a comparison of NaN, what NaN selects, and a quotient by 0 are NaN.
template <std::floating_point T>
struct RealArithmetic {
  using Value = T;
  bool round_storage = false;
  bool undefined_stays = false;

  Value add(Value a, Value b) const { return a + b; }
  Value sub(Value a, Value b) const { return a - b; }
  Value mul(Value a, Value b) const { return a * b; }
  Value div(Value a, Value b) const {
    return undefined_stays && b == 0 ? std::numeric_limits<Value>::quiet_NaN() : a / b;
  }
  Value exp(Value a) const { return std::exp(a); }
  Value sqrt(Value a) const { return std::sqrt(a); }
  Value max(Value a, Value b) const { return std::isnan(a) || a > b ? a : b; }
  Value greater(Value a, Value b) const {
    const Value result = a > b ? T{1} : T{0};
    return undefined_stays ? nan_of(a, b, result) : result;
  }
  Value select(Value c, Value a, Value b) const {
    const Value result = c != 0 ? a : b;
    return undefined_stays ? nan_of(c, c, result) : result;
  }
  Value constant(const Rational& r) const { return static_cast<T>(r.num) / static_cast<T>(r.den); }
  Value round(Value a, DType type) const;
};

using Float64Arithmetic = RealArithmetic<double>;
using Float32Arithmetic = RealArithmetic<float>;

/// float64 in which every operation errs by up to 8 times what rounding may: results that differ by more than two
/// executions here do differ over the reals (as in Parker's Monte Carlo arithmetic, 1997). What is undefined stays so.
struct NoisyArithmetic {
  using Value = double;
  uint64_t state;

  Value add(Value a, Value b) { return noisy(a + b); }
  Value sub(Value a, Value b) { return noisy(a - b); }
  Value mul(Value a, Value b) { return noisy(a * b); }
  Value div(Value a, Value b) { return b == 0 ? std::numeric_limits<double>::quiet_NaN() : noisy(a / b); }
  Value exp(Value a) { return noisy(std::exp(a)); }
  Value sqrt(Value a) { return noisy(std::sqrt(a)); }
  Value max(Value a, Value b) const { return std::isnan(a) || a > b ? a : b; }
  Value greater(Value a, Value b) const { return nan_of<double>(a, b, a > b ? 1 : 0); }
  Value select(Value c, Value a, Value b) const { return nan_of(c, c, c != 0 ? a : b); }
  Value constant(const Rational& r) const { return static_cast<double>(r.num) / static_cast<double>(r.den); }
  Value round(Value a, DType) const { return a; }

 private:
  Value noisy(Value x) {
    state = state * 6364136223846793005U + 1442695040888963407U;  // Knuth's generator, enough for noise
    return x * (1 + static_cast<double>(static_cast<int64_t>(state)) * 0x1p-113);
  }
};

/// Nearest value of `type`, ties to even; overflow becomes infinity.
double round_to(double value, DType type);

template <std::floating_point T>
T RealArithmetic<T>::round(T a, DType type) const {
  return round_storage ? static_cast<T>(round_to(a, type)) : a;
}

/// ω^0, ω^1, … to any 64-bit exponent by eight look-ups, one for each byte.
class PowerTable {
 public:
  PowerTable(const PrimeField& field, uint64_t base);
  uint64_t power(const PrimeField& field, uint64_t exponent) const {
    uint64_t result = digits_[exponent & 255];
    for (size_t digit = 1; (exponent >>= 8) != 0; ++digit) {
      result = field.mul(result, digits_[digit * 256 + (exponent & 255)]);
    }
    return result;
  }

 private:
  std::vector<uint64_t> digits_;
};

class Graph;

/// By graph and operation: whether it is executed as a random function of its operands (FieldArithmetic::function).
using FreeOperators = std::unordered_map<const Graph*, std::vector<bool>>;

/// Z_p × Z_q with q | p − 1 (Mirage, section 5). Values carry a residue modulo p and, for exponents, one
/// modulo q, both in Montgomery form; exp(x) = ω^(x mod q) mod p, which has no residue modulo q: the Lax
/// conditions, checked before, keep a second exponential from ever reading it.
struct FieldArithmetic {
  struct Value {
    uint64_t p = 0;
    uint64_t q = 0;
    friend bool operator==(const Value&, const Value&) = default;
  };
  /// Which of the two residues of a tensor anything depends on.
  static constexpr uint8_t kResidueP = 1;
  static constexpr uint8_t kResidueQ = 2;
  static constexpr uint8_t kBothResidues = kResidueP | kResidueQ;

  /// What max is. By a random order is what it means (docs/verification.md); Zero and Random, two symmetric functions
  /// of the operands, find out whether a program's results depend on it at all, and stand for it where they do not.
  /// Free is a random associative and commutative function: what holds for every such function holds for max.
  enum class Maximum : uint8_t { ByOrder, Zero, Random, Free };

  /// The arguments of exp in the order of the calls, and one call whose result is multiplied by a constant:
  /// how the verifier learns which exponents an output entry depends on.
  struct ExponentLog {
    std::vector<uint64_t> arguments{};  ///< modulo q, in Montgomery form
    int64_t disturbed = -1;             ///< index of the call; −1 for none
    uint64_t factor = 0;
  };

  PrimeField fp;
  PrimeField fq;
  uint64_t omega;                  ///< a q-th root of unity in Z_p, in Montgomery form
  uint64_t order_seed;             ///< ranks the elements for max: a random total order
  bool divided_by_zero = false;    ///< the sample must be drawn again
  bool left_residues = false;      ///< sqrt met a non-residue; see sqrt
  uint8_t wanted = kBothResidues;  ///< residues of the outputs that the caller reads
  uint8_t live = kBothResidues;    ///< residues of the running operator's result that are read; the executor sets it
  std::shared_ptr<const PowerTable> powers{};  ///< of omega; optional, for speed
  ExponentLog* log = nullptr;
  Maximum maximum = Maximum::ByOrder;
  std::vector<Value>* compared = nullptr;  ///< where not null, what max was taken of is added here
  std::vector<Value>* roots = nullptr;     ///< where not null, the arguments of square roots are added here
  std::vector<Value>* divisors = nullptr;  ///< where not null, they are added here: of residues not live, 0
  /// Operators that are executed as random functions of their operands; the executor sets `free` from it for each.
  const FreeOperators* free_operators = nullptr;
  bool free = false;

  FieldArithmetic(const PrimeField& p, const PrimeField& q, uint64_t root_of_unity, uint64_t seed)
      : fp(p), fq(q), omega(root_of_unity), order_seed(seed) {}

  Value add(Value a, Value b) const { return {fp.add(a.p, b.p), fq.add(a.q, b.q)}; }
  Value sub(Value a, Value b) const { return {fp.sub(a.p, b.p), fq.sub(a.q, b.q)}; }
  Value mul(Value a, Value b) const { return {fp.mul(a.p, b.p), fq.mul(a.q, b.q)}; }
  /// Rows have one denominator more often than not, so the last inverse is kept.
  Value div(Value a, Value b) {
    Value result;
    if (divisors != nullptr) divisors->push_back({live & kResidueP ? b.p : 0, live & kResidueQ ? b.q : 0});
    if (live & kResidueP) {
      if (b.p == 0) divided_by_zero = true;
      if (b.p != denominator_.p) inverse_.p = fp.inverse(denominator_.p = b.p);
      result.p = fp.mul(a.p, inverse_.p);
    }
    if (live & kResidueQ) {
      if (b.q == 0) divided_by_zero = true;
      if (b.q != denominator_.q) inverse_.q = fq.inverse(denominator_.q = b.q);
      result.q = fq.mul(a.q, inverse_.q);
    }
    return result;
  }
  /// No q-residue remains; it is set to 1 so that dividing by an exponential is no division by zero.
  Value exp(Value a) {
    const uint64_t exponent = fq.to_integer(a.q);
    Value result{powers ? powers->power(fp, exponent) : fp.pow(omega, exponent), fq.one()};
    if (log != nullptr) {
      if (static_cast<int64_t>(log->arguments.size()) == log->disturbed) result.p = fp.mul(result.p, log->factor);
      log->arguments.push_back(a.q);
    }
    return result;
  }
  /// x^((p+1)/4) for p ≡ 3 mod 4: multiplicative on the whole field, and a true root of quadratic residues.
  Value sqrt(Value a) {
    if (roots != nullptr) roots->push_back({live & kResidueP ? a.p : 0, live & kResidueQ ? a.q : 0});
    return {live & kResidueP ? root(fp, a.p) : 0, live & kResidueQ ? root(fq, a.q) : 0};
  }
  /// A random function, named by `key`, of operands' residues modulo p: equal operands have equal results.
  Value function(uint64_t key, std::initializer_list<Value> operands) const {
    uint64_t state = mix(key ^ ~order_seed);
    for (const Value& operand : operands) state = mix(state ^ operand.p);
    return element(state);
  }
  Value max(Value a, Value b) {
    if (maximum == Maximum::Zero) return {};
    if (maximum == Maximum::Free) return free_maximum(a, b);
    if (maximum == Maximum::Random) {
      const uint64_t seed = mix(rank(a) + rank(b));  // a symmetric function, as max is
      return {fp.from_integer(seed), fq.from_integer(mix(seed))};
    }
    if (compared != nullptr) compared->insert(compared->end(), {a, b});
    return rank(a) < rank(b) ? b : a;
  }
  /// Integers, which iotas have, are compared as such: they are below kLargestInteger and random elements seldom are.
  /// Of all others the order is a random one.
  Value greater(Value a, Value b) const {
    const auto x = integer(a), y = integer(b);
    const bool is = x && y ? *x > *y : rank(b) < rank(a);
    return is ? Value{fp.one(), fq.one()} : Value{};
  }
  Value select(Value c, Value a, Value b) const { return c.p != 0 || c.q != 0 ? a : b; }
  Value constant(const Rational& r) const {
    if (r.den == 1) return {fp.from_signed(r.num), fq.from_signed(r.num)};
    return {fp.mul(fp.from_signed(r.num), fp.inverse(fp.from_signed(r.den))),
            fq.mul(fq.from_signed(r.num), fq.inverse(fq.from_signed(r.den)))};
  }
  Value round(Value a, DType) const { return a; }

 private:
  static constexpr int64_t kLargestInteger = int64_t{1} << 40;
  /// What it is modulo p, if that is a small integer.
  std::optional<int64_t> integer(Value a) const {
    const uint64_t most = std::min<uint64_t>(kLargestInteger, fp.modulus() / 2);
    const uint64_t residue = fp.to_integer(a.p);
    if (residue <= most) return static_cast<int64_t>(residue);
    const uint64_t below = fp.modulus() - residue;
    return below <= most ? std::optional(-static_cast<int64_t>(below)) : std::nullopt;
  }
  /// Uniform except for 2^-60, from a uniform word.
  Value element(uint64_t word) const { return {fp.from_integer(mix(word)), fq.from_integer(mix(~word))}; }
  /// The image of a sum over the multiset of what was compared: values that max did not make stand for themselves.
  Value free_maximum(Value a, Value b) {
    if (a.p == b.p) return a;
    const auto summand = [&](Value x) {
      const auto it = multisets_.find(x.p);
      return it != multisets_.end() ? it->second : mix(x.p ^ order_seed);
    };
    const uint64_t sum = summand(a) + summand(b);
    const Value result = element(mix(sum ^ order_seed));
    multisets_.emplace(result.p, sum);
    return result;
  }
  /// By the residue for exponents where the result has one, so that maxima in exponents ask for no other.
  uint64_t rank(Value a) const { return mix((live & kResidueQ ? a.q : a.p) ^ order_seed); }
  uint64_t root(const PrimeField& field, uint64_t a) {
    const uint64_t result = field.pow(a, (field.modulus() + 1) / 4);
    if (field.mul(result, result) != a) left_residues = true;
    return result;
  }

  Value denominator_{};
  Value inverse_{};
  std::unordered_map<uint64_t, uint64_t> multisets_;  ///< of free_maximum's results, by residue modulo p
};

/// Upper bounds on the degrees of what a program computes, from its own operators: executed on values that
/// stand for "a quotient of polynomials in the inputs, the exponentials and the roots". docs/verification.md
/// derives the verifier's error bound from them. Numbers are doubles so that they saturate.
struct DegreeArithmetic {
  struct Value {
    double num = 0;      ///< degree of the numerator in inputs and roots
    double den = 0;      ///< of the denominator
    double exp_num = 0;  ///< degree of the numerator in exponentials
    double exp_den = 0;
    double terms_num = 1;  ///< monomials in exponentials of the numerator
    double terms_den = 1;
    double exponents = 0;     ///< exponentials that the value depends on
    double argument_num = 0;  ///< largest degrees of their arguments
    double argument_den = 0;
    bool root = false;           ///< depends on a square root
    bool argument_root = false;  ///< an exponent does
    double height_num = 0;  ///< log2 of the sum of the magnitudes of the numerator's coefficients, which are integers
    double height_den = 0;
    double argument_height = 0;  ///< the largest of an exponent's
    double roots = 0;            ///< square roots that the value depends on
    double calls = 0;            ///< random functions (FieldArithmetic::function) that the value depends on
    double call_degree = 0;      ///< largest degree of their operands
    double call_exp_degree = 0;  ///< in exponentials
    double call_height = 0;
  };

  bool maxima_cancel = false;  ///< nothing depends on maxima: they count as constants
  bool maxima_free = false;    ///< they are random functions
  double function_degree = 1;  ///< what a random function of anything but constants counts as

  static Value with_context_of(Value result, const Value& a, const Value& b) {
    result.exponents = a.exponents + b.exponents;
    result.argument_num = std::max(a.argument_num, b.argument_num);
    result.argument_den = std::max(a.argument_den, b.argument_den);
    result.root = a.root || b.root;
    result.argument_root = a.argument_root || b.argument_root;
    result.argument_height = std::max(a.argument_height, b.argument_height);
    result.roots = a.roots + b.roots;
    result.calls = a.calls + b.calls;
    result.call_degree = std::max(a.call_degree, b.call_degree);
    result.call_exp_degree = std::max(a.call_exp_degree, b.call_exp_degree);
    result.call_height = std::max(a.call_height, b.call_height);
    return result;
  }
  Value add(const Value& a, const Value& b) const {
    Value result = with_context_of(
        {std::max(a.num + b.den, b.num + a.den), a.den + b.den, std::max(a.exp_num + b.exp_den, b.exp_num + a.exp_den),
         a.exp_den + b.exp_den, a.terms_num * b.terms_den + b.terms_num * a.terms_den, a.terms_den * b.terms_den},
        a, b);
    result.height_num = std::max(a.height_num + b.height_den, b.height_num + a.height_den) + 1;
    result.height_den = a.height_den + b.height_den;
    return result;
  }
  Value sub(const Value& a, const Value& b) const { return add(a, b); }
  Value mul(const Value& a, const Value& b) const {
    Value result = with_context_of({a.num + b.num, a.den + b.den, a.exp_num + b.exp_num, a.exp_den + b.exp_den,
                                    a.terms_num * b.terms_num, a.terms_den * b.terms_den},
                                   a, b);
    result.height_num = a.height_num + b.height_num;
    result.height_den = a.height_den + b.height_den;
    return result;
  }
  Value div(const Value& a, const Value& b) const {
    Value result = with_context_of({a.num + b.den, a.den + b.num, a.exp_num + b.exp_den, a.exp_den + b.exp_num,
                                    a.terms_num * b.terms_den, a.terms_den * b.terms_num},
                                   a, b);
    result.height_num = a.height_num + b.height_den;
    result.height_den = a.height_den + b.height_num;
    return result;
  }
  /// A new variable; the context of its argument stays.
  Value exp(const Value& a) const {
    Value result = with_context_of({0, 0, 1, 0, 1, 1}, a, {});
    result.exponents = a.exponents + 1;
    result.argument_num = std::max(a.argument_num, a.num);
    result.argument_den = std::max(a.argument_den, a.den);
    result.root = false;
    result.argument_root = a.root || a.argument_root;
    result.argument_height = std::max(a.argument_height, a.height_num + a.height_den);
    return result;
  }
  /// A random function of operands: a new variable.
  Value function(const Value& a, const Value& b) const {
    const bool constant = a.num + a.den + a.exp_num + a.exp_den + b.num + b.den + b.exp_num + b.exp_den == 0;
    Value result = with_context_of({constant ? 0 : function_degree, 0}, a, b);
    ++result.calls;
    for (const Value* operand : {&a, &b}) {
      result.call_degree = std::max(result.call_degree, operand->num + operand->den);
      result.call_exp_degree = std::max(result.call_exp_degree, operand->exp_num + operand->exp_den);
      result.call_height = std::max(result.call_height, operand->height_num + operand->height_den);
    }
    return result;
  }
  /// √(N/M) = √(N·M) / M: a new root of half the degree of N·M.
  Value sqrt(const Value& a) const {
    Value result = a;
    result.num = (a.num + a.den) / 2;
    result.exp_num = (a.exp_num + a.exp_den) / 2;
    result.terms_num = 1;
    result.root = true;
    result.height_num = (a.height_num + a.height_den) / 2;
    ++result.roots;
    return result;
  }
  /// For one order it is one of the two.
  Value max(const Value& a, const Value& b) const {
    if (maxima_cancel) return {};
    if (maxima_free) return function(a, b);
    Value result{std::max(a.num, b.num),
                 std::max(a.den, b.den),
                 std::max(a.exp_num, b.exp_num),
                 std::max(a.exp_den, b.exp_den),
                 std::max(a.terms_num, b.terms_num),
                 std::max(a.terms_den, b.terms_den)};
    result.height_num = std::max(a.height_num, b.height_num);
    result.height_den = std::max(a.height_den, b.height_den);
    return with_context_of(result, a, b);
  }
  /// Not polynomial: the verifier executes them as random functions.
  Value greater(const Value& a, const Value& b) const { return function(a, b); }
  Value select(const Value& c, const Value& a, const Value& b) const { return function(c, function(a, b)); }
  Value constant(const Rational& r) const {
    Value result;
    if (r.num != 0) result.height_num = std::log2(std::fabs(static_cast<double>(r.num)));
    result.height_den = std::log2(static_cast<double>(r.den));
    return result;
  }
  Value round(const Value& a, DType) const { return a; }
};

/// A handle to a term over the entries of the inputs; who owns the terms gives it meaning.
struct SymbolicValue {
  uint32_t id = 0;
};

/// What builds terms. It is an interface, so that operators know nothing of terms.
class SymbolicTerms {
 public:
  virtual ~SymbolicTerms() = default;
  virtual SymbolicValue add(SymbolicValue a, SymbolicValue b) = 0;
  virtual SymbolicValue sub(SymbolicValue a, SymbolicValue b) = 0;
  virtual SymbolicValue mul(SymbolicValue a, SymbolicValue b) = 0;
  virtual SymbolicValue div(SymbolicValue a, SymbolicValue b) = 0;
  virtual SymbolicValue exp(SymbolicValue a) = 0;
  virtual SymbolicValue sqrt(SymbolicValue a) = 0;
  virtual SymbolicValue max(SymbolicValue a, SymbolicValue b) = 0;
  virtual SymbolicValue greater(SymbolicValue a, SymbolicValue b) = 0;
  virtual SymbolicValue select(SymbolicValue c, SymbolicValue a, SymbolicValue b) = 0;
  virtual SymbolicValue constant(const Rational& r) = 0;
};

/// Executes a program to the formula of every entry (superopt/solver).
struct SymbolicArithmetic {
  using Value = SymbolicValue;
  SymbolicTerms& terms;

  Value add(Value a, Value b) const { return terms.add(a, b); }
  Value sub(Value a, Value b) const { return terms.sub(a, b); }
  Value mul(Value a, Value b) const { return terms.mul(a, b); }
  Value div(Value a, Value b) const { return terms.div(a, b); }
  Value exp(Value a) const { return terms.exp(a); }
  Value sqrt(Value a) const { return terms.sqrt(a); }
  Value max(Value a, Value b) const { return terms.max(a, b); }
  Value greater(Value a, Value b) const { return terms.greater(a, b); }
  Value select(Value c, Value a, Value b) const { return terms.select(c, a, b); }
  Value constant(const Rational& r) const { return terms.constant(r); }
  Value round(Value a, DType) const { return a; }
};

}  // namespace strata
