#include "hlo/jacobi_loops.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "hlo/matrix_loops.h"

namespace strata::hlo {
namespace {

using Value = TextBuilder::Value;
using Dims = TextBuilder::Dims;
using Values = std::vector<Value>;

constexpr ElementType kIndex = ElementType::S32;
/// Matrices take 5 to 12; after these something is wrong, and info says so.
constexpr int64_t kMostSweeps = 40;

Value number(TextBuilder& text, int64_t value) { return text.constant(kIndex, value); }

double epsilon_of(ElementType type) {
  return type == ElementType::F64 ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
}

Value real_constant(TextBuilder& text, ElementType type, double value) {
  return text.constant(type, fmt::format("{:.17g}", value));
}

Value magnitude(TextBuilder& text, const Value& of) { return text.unary("abs", of); }

/// of[:, at, :] for at: [n].
Value rows_at(TextBuilder& text, const Value& of, const Value& at) {
  const Dims& dims = of.dims();
  return text.add(array_shape(of.type(), {dims[0], at.dims()[0], dims[2]}),
                  fmt::format("gather({}, {}), offset_dims={{0,2}}, collapsed_slice_dims={{1}}, start_index_map={{1}}, "
                              "index_vector_dim=1, slice_sizes={{{},1,{}}}",
                              of.name, text.reshape(at, {at.dims()[0], 1}).name, dims[0], dims[2]));
}

/// of[:, at] and of[:, :, at] for at: [n].
Value columns_at(TextBuilder& text, const Value& of, const Value& at) {
  Dims dims = of.dims(), sizes = dims;
  const bool matrix = dims.size() == 3;
  dims.back() = at.dims()[0];
  sizes.back() = 1;
  const size_t last = dims.size() - 1;
  return text.add(array_shape(of.type(), dims),
                  fmt::format("gather({}, {}), offset_dims={{0{}}}, collapsed_slice_dims={{{}}}, "
                              "start_index_map={{{}}}, index_vector_dim=1, slice_sizes={{{}{},1}}",
                              of.name, text.reshape(at, {at.dims()[0], 1}).name, matrix ? ",1" : "", last, last,
                              sizes[0], matrix ? fmt::format(",{}", sizes[1]) : ""));
}

/// of[:, row[i], column[i]].
Value elements_at(TextBuilder& text, const Value& of, const Value& row, const Value& column) {
  const int64_t batch = of.dims()[0], n = row.dims()[0];
  const Value places = text.concatenate({text.reshape(row, {n, 1}), text.reshape(column, {n, 1})}, 1);
  return text.add(array_shape(of.type(), {batch, n}),
                  fmt::format("gather({}, {}), offset_dims={{0}}, collapsed_slice_dims={{1,2}}, "
                              "start_index_map={{1,2}}, index_vector_dim=1, slice_sizes={{{},1,1}}",
                              of.name, places.name, batch));
}

/// s32[n]: with whom each of n players meets in round 0 … n - 2 of a tournament in which all pairs meet once; n is
/// even.
Value partners(TextBuilder& text, int64_t n, const Value& round) {
  const Value players = text.iota(kIndex, {n}, 0), circle = number(text, n - 1);
  const auto within = [&](const Value& of) { return text.binary("remainder", of, text.spread(circle, of.dims())); };
  const Value from = text.binary("add", text.spread(round, {n}), circle);
  const Value across = within(text.binary("subtract", from, players));
  // One of the circle would meet itself, and meets the last one, who stands in its middle.
  const Value others = text.select(text.compare(across, players, "EQ"), circle, across);
  const Value alone = within(text.binary("multiply", round, number(text, n / 2)));
  return text.select(text.compare(players, circle, "EQ"), alone, others);
}

/// Of each player a rotation with its partner: new = own + factor · (partner's + share · own). Small rotations so add
/// little to own, which is rounded once: a cosine that is rounded itself would make all of a row longer or shorter.
struct Rotations {
  Value factor, share;  ///< [batch, n]: the sine with its sign, and −factor / (1 + cosine)
  Value tangent;        ///< the diagonal's element loses so much of that beside it
};
/// That make the element beside the diagonal 0, of diagonals and these elements: [batch, n].
Rotations rotations(TextBuilder& text, const Value& own, const Value& other, const Value& beside, const Value& places,
                    const Value& rotates) {
  const ElementType type = own.type();
  const Value zero = text.constant(type, 0), one = text.constant(type, 1), minus = text.constant(type, -1);
  const Value players = text.iota(kIndex, own.dims(), 1);
  const Value first = text.compare(players, text.broadcast(places, own.dims(), {1}), "LT");
  const Value tau = text.binary("divide", text.binary("subtract", other, own), text.binary("add", beside, beside));
  const Value size = magnitude(text, tau);
  const Value positive =
      text.binary("or", text.compare(tau, zero, "GT"), text.binary("and", text.compare(tau, zero, "EQ"), first));
  const Value sign = text.select(positive, one, text.spread(minus, own.dims()));
  const Value root = text.unary("sqrt", text.binary("add", one, text.binary("multiply", tau, tau)));
  const Value angle = text.binary("divide", sign, text.binary("add", size, root));
  const Value tangent = text.select(rotates, angle, zero);
  const Value length = text.unary("sqrt", text.binary("add", one, text.binary("multiply", tangent, tangent)));
  const Value cosine = text.binary("divide", one, length);
  const Value sine = text.binary("multiply", tangent, cosine);
  return {text.unary("negate", sine), text.binary("divide", sine, text.binary("add", one, cosine)), tangent};
}

/// Rows or columns, by the dimension, of [batch, …, …].
Value rotated(TextBuilder& text, const Value& of, const Rotations& by, const Value& places, int64_t dimension) {
  const auto along = [&](const Value& value) { return text.broadcast(value, of.dims(), {0, dimension}); };
  const Value others = dimension == 1 ? rows_at(text, of, places) : columns_at(text, of, places);
  const Value added = text.binary("add", others, text.binary("multiply", along(by.share), of));
  return text.binary("add", of, text.binary("multiply", along(by.factor), added));
}

Value sum_of_squares(TextBuilder& text, const Value& of) {
  const Dims& dims = of.dims();
  return text.sum(text.binary("multiply", of, of), {static_cast<int64_t>(dims.size()) - 1});
}

/// Matrices of magnitudes up to 2, and what they were divided by: powers of 2, so that nothing is rounded.
struct Scaled {
  Value matrices, scale, finite;  ///< scale, finite: [batch]; what is not finite is 0
};
Scaled scaled(TextBuilder& text, const Value& a) {
  const ElementType type = a.type();
  const bool wide = type == ElementType::F64;
  const ElementType bits = wide ? ElementType::U64 : ElementType::U32;
  const Value zero = text.constant(type, 0), batch_zero = text.spread(zero, {a.dims()[0]});
  const Value largest = text.unary("negate", text.least(text.unary("negate", magnitude(text, a)), {1, 2}, zero));
  const Value finite = text.compare(largest, text.constant(type, "inf"), "LT");
  const auto cast = [&](const Value& of, ElementType to) {
    return text.add(array_shape(to, of.dims()), fmt::format("bitcast-convert({})", of.name));
  };
  const Value exponent = text.constant(bits, wide ? int64_t{0x7ff0000000000000} : int64_t{0x7f800000});
  const Value power = cast(text.binary("and", cast(largest, bits), exponent), type);
  const Value usable = text.binary("and", finite, text.compare(power, batch_zero, "GT"));
  const Value scale = text.select(usable, power, text.constant(type, 1));
  const Value divided = text.binary("divide", a, text.broadcast(scale, a.dims(), {0}));
  return {text.select(text.broadcast(finite, a.dims(), {0}), divided, zero), scale, finite};
}

Value nan_unless(TextBuilder& text, const Value& finite, const Value& value) {
  return text.select(text.broadcast(finite, value.dims(), {0}), value, text.constant(value.type(), "nan"));
}

/// 1 for each matrix that has any, of pred[batch, n]; else 0.
Value any_of(TextBuilder& text, const Value& which) {
  const Value none = number(text, 0);
  const Value least = text.least(text.select(which, number(text, -1), text.spread(none, which.dims())), {1}, none);
  return text.unary("negate", least);
}

/// Rounds of sweeps, until no matrix has anything left to do. The step gives the next state and which players, pred,
/// had something to do.
struct Swept {
  Values state;
  Value left;  ///< s32[batch]: whether the last sweep still had something to do
};
using Round = std::function<std::pair<Values, Value>(TextBuilder& body, const Value& places, const Values& state)>;
Swept swept(TextBuilder& text, int64_t batch, int64_t n, const Values& state, const Round& round) {
  const auto sweep = [&](TextBuilder& body, const Value&, const Values& before) -> Values {
    Values inner(before.begin() + 2, before.end());
    inner.push_back(body.spread(number(body, 0), {batch, n}));
    const auto step = [&](TextBuilder& within, const Value& at, const Values& now) -> Values {
      auto [next, busy] = round(within, partners(within, n, at), Values(now.begin(), now.end() - 1));
      next.push_back(within.select(busy, number(within, 1), now.back()));
      return next;
    };
    Values after = body.repeat(n - 1, inner, step);
    const Value left = any_of(body, body.compare(after.back(), number(body, 0), "GT"));
    after.pop_back();
    const Value most = body.least(body.unary("negate", left), {0}, number(body, 0));
    after.insert(after.begin(), {body.compare(most, number(body, 0), "LT"), left});
    return after;
  };
  Values first{text.constant(ElementType::Pred, "true"), text.spread(number(text, 1), {batch})};
  first.insert(first.end(), state.begin(), state.end());
  const Values done = text.repeat_while(kMostSweeps, first, sweep);
  return {Values(done.begin() + 2, done.end()), done[1]};
}

Value identities(TextBuilder& text, ElementType type, const Dims& dims) {
  const Value same = text.compare(text.iota(kIndex, dims, 1), text.iota(kIndex, dims, 2), "EQ");
  return text.select(same, text.constant(type, 1), text.spread(text.constant(type, 0), dims));
}

int64_t even(int64_t n) { return n + n % 2; }

}  // namespace

// Two-sided rotations. The element beside the diagonal becomes 0 and those on it what is known of them: computed like
// the others they would gather roundings of the diagonal's size. An eigenvalue errs by no more than what is left
// beside the diagonal, which was at most ε times the norm before the last rotation.
Eigenpairs eigenpairs(TextBuilder& text, const Value& a, bool lower) {
  const int64_t batch = a.dims()[0], n = a.dims()[1], size = even(n);
  const ElementType type = a.type();
  const Value in_triangle =
      text.compare(text.iota(kIndex, a.dims(), 1), text.iota(kIndex, a.dims(), 2), lower ? "GE" : "LE");
  const Scaled given = scaled(text, text.select(in_triangle, a, text.transpose(a)));
  const Dims dims{batch, size, size};
  const Value matrix = text.pad(given.matrices, dims);  // what is added is never rotated
  const Value norm = text.unary("sqrt", text.sum(sum_of_squares(text, matrix), {1}));
  const Value bound = text.binary("multiply", norm, real_constant(text, type, epsilon_of(type)));
  const auto round = [&](TextBuilder& body, const Value& places, const Values& state) -> std::pair<Values, Value> {
    const Value& values = state[0];
    const Value players = body.iota(kIndex, {size}, 0), zero = body.constant(type, 0);
    const Value own = elements_at(body, values, players, players);
    const Value twice =
        body.binary("add", elements_at(body, values, players, places), elements_at(body, values, places, players));
    const Value beside = body.binary("multiply", twice, real_constant(body, type, 0.5));
    const Rotations by =
        rotations(body, own, columns_at(body, own, places), beside, places, body.compare(beside, zero, "NE"));
    const Value both = rotated(body, rotated(body, values, by, places, 1), by, places, 2);
    const Value rows = body.iota(kIndex, dims, 1), columns = body.iota(kIndex, dims, 2);
    const Value diagonal = body.binary("subtract", own, body.binary("multiply", by.tangent, beside));
    const Value met = body.compare(columns, body.broadcast(places, dims, {1}), "EQ");
    const Value next = body.select(body.compare(rows, columns, "EQ"), body.broadcast(diagonal, dims, {0, 1}),
                                   body.select(met, zero, both));
    const Value limit = body.broadcast(state[2], own.dims(), {0});
    return {{next, rotated(body, state[1], by, places, 1), state[2]},
            body.compare(magnitude(body, beside), limit, "GT")};
  };
  const Swept done = swept(text, batch, size, {matrix, identities(text, type, dims), bound}, round);
  const Value players = text.iota(kIndex, {n}, 0);
  const auto [values, order] =
      text.sorted(elements_at(text, done.state[0], players, players), text.iota(kIndex, {batch, n}, 1), "LT");
  const Value vectors = permuted(text, text.cut(done.state[1], {batch, n, n}), order);
  return {nan_unless(text, given.finite, text.binary("multiply", values, text.broadcast(given.scale, {batch, n}, {0}))),
          nan_unless(text, given.finite, text.transpose(vectors)), done.left};
}

// One-sided rotations of the rows of g: k rows of l ≥ k elements, until all are orthogonal to each other. The
// rotations' product is one of the factors. The other one is the orthogonal factor of the rows, which are as good as
// orthogonal: so rows of 0, and those that full factors have beside them, get what is missing.
SingularValues singular_values(TextBuilder& text, const Value& a, SingularVectors vectors) {
  const int64_t batch = a.dims()[0], m = a.dims()[1], n = a.dims()[2], k = std::min(m, n), l = std::max(m, n);
  const ElementType type = a.type();
  const int64_t size = even(k);
  const bool tall = m >= n, wanted = vectors != SingularVectors::None;
  const Scaled given = scaled(text, tall ? text.transpose(a) : a);
  Value rows = text.pad(given.matrices, {batch, size, l});  // what is added is never rotated
  if (wanted) rows = text.concatenate({rows, identities(text, type, {batch, size, size})}, 2);
  const double tolerance = epsilon_of(type) * std::sqrt(static_cast<double>(l));
  const auto round = [&](TextBuilder& body, const Value& places, const Values& state) -> std::pair<Values, Value> {
    const Value part = body.slice(state[0], 2, 0, l);
    const Value own = sum_of_squares(body, part), other = columns_at(body, own, places);
    const Value beside = body.sum(body.binary("multiply", part, rows_at(body, part, places)), {2});
    const Value lengths = body.binary("multiply", body.unary("sqrt", own), body.unary("sqrt", other));
    const Value limit = body.binary("multiply", lengths, real_constant(body, type, tolerance));
    const Value busy = body.compare(magnitude(body, beside), limit, "GT");
    return {{rotated(body, state[0], rotations(body, own, other, beside, places, busy), places, 1)}, busy};
  };
  const Swept done = swept(text, batch, size, {rows}, round);
  const Value found = text.slice(done.state[0], 1, 0, k), part = text.slice(found, 2, 0, l);
  const Value lengths = text.unary("sqrt", sum_of_squares(text, part));
  const auto [values, order] = text.sorted(lengths, text.iota(kIndex, {batch, k}, 1), "GT");
  SingularValues made;
  made.info = done.left;
  made.values =
      nan_unless(text, given.finite, text.binary("multiply", values, text.broadcast(given.scale, {batch, k}, {0})));
  if (!wanted) return made;
  const Value small =
      nan_unless(text, given.finite, permuted(text, text.slice(text.slice(found, 2, l, l + size), 2, 0, k), order));
  const Reflectors factor = factor_by_reflectors(text, text.transpose(permuted(text, part, order)));
  const int64_t columns = vectors == SingularVectors::Full ? l : k;
  const Value basis = product_of_reflectors(text, {text.pad(factor.both, {batch, l, columns}), factor.factors});
  const Value places = text.iota(kIndex, {k}, 0);
  const Value negative = text.compare(elements_at(text, factor.both, places, places), text.constant(type, 0), "LT");
  const Value signs = text.select(negative, text.constant(type, -2), text.spread(text.constant(type, 0), {batch, k}));
  // 1 where padding put 0.
  const Value factors = text.binary("add", text.constant(type, 1), text.pad(signs, {batch, columns}));
  const Value large =
      nan_unless(text, given.finite, text.binary("multiply", basis, text.broadcast(factors, basis.dims(), {0, 2})));
  made.left = tall ? large : text.transpose(small);
  made.right = tall ? small : text.transpose(large);
  return made;
}

}  // namespace strata::hlo
