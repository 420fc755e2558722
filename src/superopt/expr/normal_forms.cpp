#include "superopt/expr/normal_forms.h"

#include <algorithm>
#include <cassert>

namespace strata {
namespace {

uint64_t hash_of(const Atom& atom) {
  return Hasher{}
      .add(static_cast<uint64_t>(atom.kind))
      .add(atom.name)
      .add(static_cast<uint64_t>(atom.value.num))
      .add(static_cast<uint64_t>(atom.value.den))
      .add(static_cast<uint64_t>(atom.parameter))
      .add_all(atom.arguments)
      .value();
}

uint64_t hash_of(const Monomial& m) {
  Hasher hasher;
  hasher.add(static_cast<uint64_t>(m.extent)).add(uint64_t{m.root} << 32 | m.denominator).add(m.exponent);
  for (const Factor& f : m.atoms) hasher.add(uint64_t{f.atom} << 32 | f.power);
  return hasher.value();
}

uint64_t hash_of(const std::vector<Term>& sum) {
  Hasher hasher;
  for (const Term& t : sum) hasher.add(t.monomial).add(t.count);
  return hasher.value();
}

template <class T>
uint32_t intern_in(StableArray<T>& array, LookupTable& index, T value) {
  const uint64_t hash = hash_of(value) >> 1;  // the top bit is left for the table's "empty"
  const auto same = [&](uint32_t id) { return array[id] == value; };
  if (const auto present = index.find(hash, same)) return *present;
  return index.find_or_insert(hash, same, [&] { return array.push(std::move(value)); });
}

uint64_t key_of(uint32_t a, uint32_t b) { return uint64_t{a} << 32 | b; }

/// The value that `table` has for `key`, or else compute()'s. No lock is held while it computes: it recurses,
/// and two threads that compute the same get the same handle.
template <class Compute>
uint32_t memoised(LookupTable& table, uint64_t key, Compute&& compute) {
  if (const auto known = table.find(key)) return *known;
  const uint32_t value = compute();
  table.insert(key, value);
  return value;
}

}  // namespace

NormalForms::NormalForms() {
  intern(Sum{{intern(Monomial{}), 1}});  // kOne
  sums_.push({});                        // kOversized, which no sum equals
}

AtomId NormalForms::intern(Atom atom) { return intern_in(atoms_, atom_index_, std::move(atom)); }
MonomialId NormalForms::intern(Monomial monomial) {
  return intern_in(monomials_, monomial_index_, std::move(monomial));
}
ExprId NormalForms::intern(Sum sum) { return intern_in(sums_, sum_index_, std::move(sum)); }

ExprId NormalForms::expr_of(AtomId atom) {
  Monomial monomial;
  monomial.atoms.push_back({atom, 1});
  return expr_of(std::move(monomial));
}

std::optional<AtomId> NormalForms::sole_atom(ExprId e) const {
  const auto sum = terms(e);
  if (sum.size() != 1 || sum[0].count != 1) return std::nullopt;
  const Monomial& m = monomial(sum[0].monomial);
  const bool bare = m.extent == 1 && m.root == kOne && m.denominator == kOne && m.exponent == Monomial::kNoExponent;
  if (!bare || m.atoms.size() != 1 || m.atoms[0].power != 1) return std::nullopt;
  return m.atoms[0].atom;
}

ExprId NormalForms::input(std::string_view name) {
  return expr_of(intern(Atom{Atom::Kind::Input, std::string(name), {}, 0, {}}));
}

ExprId NormalForms::constant(const Rational& value) {
  if (value == Rational{1, 1}) return kOne;
  return expr_of(intern(Atom{Atom::Kind::Constant, {}, value, 0, {}}));
}

ExprId NormalForms::add(ExprId a, ExprId b) {
  if (a == kOversized || b == kOversized) return kOversized;
  if (a > b) std::swap(a, b);
  return memoised(added_, key_of(a, b), [&] { return compute_add(a, b); });
}

ExprId NormalForms::mul(ExprId a, ExprId b) {
  if (a == kOversized || b == kOversized) return kOversized;
  if (a == kOne) return b;
  if (b == kOne) return a;
  if (a > b) std::swap(a, b);
  return memoised(multiplied_, key_of(a, b), [&] { return compute_mul(a, b); });
}

ExprId NormalForms::div(ExprId a, ExprId b) {
  if (a == kOversized || b == kOversized) return kOversized;
  if (b == kOne) return a;
  return memoised(divided_, key_of(a, b), [&] {
    Monomial reciprocal;
    reciprocal.denominator = b;
    return mul(a, expr_of(std::move(reciprocal)));
  });
}

ExprId NormalForms::exp(ExprId a) {
  if (a == kOversized) return kOversized;
  return memoised(exponentials_, a, [&] {
    Monomial monomial;
    monomial.exponent = a;
    return expr_of(std::move(monomial));
  });
}

ExprId NormalForms::sqrt(ExprId a) {
  if (a == kOversized) return kOversized;
  return memoised(roots_, a, [&] {
    Monomial monomial;
    monomial.root = a;
    return expr_of(std::move(monomial));
  });
}

ExprId NormalForms::sum(int64_t k, ExprId a) {
  assert(k >= 1);
  if (k == 1) return a;
  Monomial extent;
  extent.extent = k;
  return mul(expr_of(std::move(extent)), a);
}

ExprId NormalForms::function(std::string_view name, int64_t parameter, std::span<const ExprId> arguments,
                             bool commutative) {
  if (std::ranges::find(arguments, kOversized) != arguments.end()) return kOversized;
  if (name == "reduce_max" && arguments.size() == 1) return reduce_max(parameter, arguments[0]);
  if (name == "max") return maximum(parameter, arguments);
  Atom atom{Atom::Kind::Function, std::string(name), {}, parameter, {arguments.begin(), arguments.end()}};
  if (commutative) std::ranges::sort(atom.arguments);
  return expr_of(intern(std::move(atom)));
}

ExprId NormalForms::reduce_max(int64_t extent, ExprId argument) {
  assert(extent >= 1);
  if (extent == 1) return argument;
  if (const auto inner = sole_atom(argument)) {
    const Atom& a = atom(*inner);
    if (a.kind == Atom::Kind::Function && a.name == "reduce_max") {
      if (__builtin_mul_overflow(extent, a.parameter, &extent)) return kOversized;
      argument = a.arguments[0];
    }
  }
  return expr_of(intern(Atom{Atom::Kind::Function, "reduce_max", {}, extent, {argument}}));
}

ExprId NormalForms::maximum(int64_t parameter, std::span<const ExprId> arguments) {
  Atom result{Atom::Kind::Function, "max", {}, parameter, {}};
  for (const ExprId argument : arguments) {
    const auto inner = sole_atom(argument);
    const Atom* a = inner ? &atom(*inner) : nullptr;
    if (a != nullptr && a->kind == Atom::Kind::Function && a->name == "max" && a->parameter == parameter) {
      result.arguments.insert(result.arguments.end(), a->arguments.begin(), a->arguments.end());
    } else {
      result.arguments.push_back(argument);
    }
  }
  if (result.arguments.size() == 1) return result.arguments[0];
  std::ranges::sort(result.arguments);
  return expr_of(intern(std::move(result)));
}

ExprId NormalForms::compute_add(ExprId a, ExprId b) {
  const auto x = terms(a);
  const auto y = terms(b);
  Sum result;
  result.reserve(x.size() + y.size());
  size_t i = 0;
  size_t j = 0;
  while (i < x.size() || j < y.size()) {
    const int order = i == x.size() ? -1 : j == y.size() ? 1 : compare(x[i].monomial, y[j].monomial);
    Term term = order >= 0 ? x[i] : y[j];
    if (order == 0 && __builtin_add_overflow(x[i].count, y[j].count, &term.count)) return kOversized;
    result.push_back(term);
    i += order >= 0;
    j += order <= 0;
  }
  return result.size() > kMaxTerms ? kOversized : intern(std::move(result));
}

ExprId NormalForms::compute_mul(ExprId a, ExprId b) {
  const auto x = terms(a);
  const auto y = terms(b);
  // An order that multiplication respects keeps at least this many products apart.
  if (x.size() + y.size() - 1 > kMaxTerms) return kOversized;
  Sum products;
  products.reserve(x.size() * y.size());
  for (const Term& s : x) {
    for (const Term& t : y) {
      Term product;
      if (__builtin_mul_overflow(s.count, t.count, &product.count)) return kOversized;
      const auto monomial = multiply(s.monomial, t.monomial);
      if (!monomial) return kOversized;
      product.monomial = *monomial;
      products.push_back(product);
    }
  }
  if (x.size() == 1 || y.size() == 1) return intern(std::move(products));  // in order already
  // Equal monomials meet by handle first: the order proper is dearer to compare.
  std::ranges::sort(products, {}, &Term::monomial);
  Sum result;
  for (const Term& product : products) {
    if (result.empty() || result.back().monomial != product.monomial) {
      result.push_back(product);
    } else if (__builtin_add_overflow(result.back().count, product.count, &result.back().count)) {
      return kOversized;
    }
  }
  if (result.size() > kMaxTerms) return kOversized;
  std::ranges::sort(result, [&](const Term& s, const Term& t) { return compare(s.monomial, t.monomial) > 0; });
  return intern(std::move(result));
}

std::optional<MonomialId> NormalForms::multiply(MonomialId a, MonomialId b) {
  static constexpr MonomialId kNone = ~MonomialId{0};
  if (a > b) std::swap(a, b);
  const MonomialId product = memoised(monomial_products_, key_of(a, b), [&] {
    auto result = compute_multiply(monomial(a), monomial(b));
    return result ? intern(std::move(*result)) : kNone;
  });
  return product == kNone ? std::nullopt : std::optional(product);
}

std::optional<Monomial> NormalForms::compute_multiply(const Monomial& a, const Monomial& b) {
  Monomial result;
  if (__builtin_mul_overflow(a.extent, b.extent, &result.extent)) return std::nullopt;
  result.atoms.reserve(a.atoms.size() + b.atoms.size());
  size_t i = 0;
  size_t j = 0;
  while (i < a.atoms.size() || j < b.atoms.size()) {
    if (j == b.atoms.size() || (i < a.atoms.size() && a.atoms[i].atom < b.atoms[j].atom)) {
      result.atoms.push_back(a.atoms[i++]);
    } else if (i == a.atoms.size() || b.atoms[j].atom < a.atoms[i].atom) {
      result.atoms.push_back(b.atoms[j++]);
    } else {
      Factor factor = a.atoms[i++];
      if (__builtin_add_overflow(factor.power, b.atoms[j++].power, &factor.power)) return std::nullopt;
      result.atoms.push_back(factor);
    }
  }
  result.root = mul(a.root, b.root);
  result.denominator = mul(a.denominator, b.denominator);
  result.exponent = a.exponent == Monomial::kNoExponent   ? b.exponent
                    : b.exponent == Monomial::kNoExponent ? a.exponent
                                                          : add(a.exponent, b.exponent);
  if (result.root == kOversized || result.denominator == kOversized || result.exponent == kOversized) {
    return std::nullopt;
  }
  return result;
}

}  // namespace strata
