#include "hlo/matrix_loops.h"

#include <fmt/format.h>

#include <algorithm>

namespace strata::hlo {
namespace {

using Value = TextBuilder::Value;
using Dims = TextBuilder::Dims;
using Values = std::vector<Value>;

constexpr ElementType kIndex = ElementType::S32;

/// Columns of a block of a matrix that has several.
constexpr int64_t kBlock = 64;
/// Exchanges of elements that are one expression.
constexpr int64_t kExchanges = 64;

int64_t rounded_up(int64_t size, int64_t to) { return (size + to - 1) / to * to; }

Value number(TextBuilder& text, int64_t value) { return text.constant(kIndex, value); }

/// of[:, at, :] and of[:, :, at].
Value row_of(TextBuilder& text, const Value& of, const Value& at) {
  const Value zero = number(text, 0);
  const Dims& dims = of.dims();
  return text.reshape(text.dynamic_slice(of, {zero, at, zero}, {dims[0], 1, dims[2]}), {dims[0], dims[2]});
}
Value column_of(TextBuilder& text, const Value& of, const Value& at) {
  const Value zero = number(text, 0);
  const Dims& dims = of.dims();
  return text.reshape(text.dynamic_slice(of, {zero, zero, at}, {dims[0], dims[1], 1}), {dims[0], dims[1]});
}
/// of[:, row, column].
Value element_of(TextBuilder& text, const Value& of, const Value& row, const Value& column) {
  return text.reshape(text.dynamic_slice(of, {number(text, 0), row, column}, {of.dims()[0], 1, 1}), {of.dims()[0]});
}
/// of[i, at[i]], or of[i, at[i], :].
Value picked(TextBuilder& text, const Value& of, const Value& at) {
  const int64_t batch = of.dims()[0];
  const bool rows = of.dims().size() == 3;
  const Dims dims = rows ? Dims{batch, of.dims()[2]} : Dims{batch};
  const Value places = text.reshape(at, {batch, 1});
  return text.add(array_shape(of.type(), dims),
                  fmt::format("gather({}, {}), offset_dims={{{}}}, "
                              "collapsed_slice_dims={{1}}, start_index_map={{1}}, "
                              "operand_batching_dims={{0}}, "
                              "start_indices_batching_dims={{0}}, index_vector_dim=1, "
                              "slice_sizes={{1,1{}}}",
                              of.name, places.name, rows ? "1" : "", rows ? fmt::format(",{}", dims[1]) : ""));
}
/// With 1 on the diagonal from row `from` on.
Value with_ones(TextBuilder& text, const Value& of, int64_t from) {
  const Value rows = text.iota(kIndex, of.dims(), 1), columns = text.iota(kIndex, of.dims(), 2);
  const Value here =
      text.binary("and", text.compare(rows, columns, "EQ"), text.compare(rows, number(text, from), "GE"));
  return text.select(here, text.constant(of.type(), 1), of);
}

/// Column by column: what is left of b is divided, and its multiples are subtracted from the rows below.
Value substituted(TextBuilder& text, const Value& a, const Value& b, bool unit_diagonal) {
  const auto step = [&](TextBuilder& body, const Value& j, const Values& state) -> Values {
    const Dims& dims = state[0].dims();
    Value x = row_of(body, state[0], j);
    if (!unit_diagonal) x = body.binary("divide", x, body.broadcast(element_of(body, state[1], j, j), x.dims(), {0}));
    const Value row = body.broadcast(x, dims, {0, 2});
    const Value factors = body.broadcast(column_of(body, state[1], j), dims, {0, 1});
    const Value rows = body.iota(kIndex, dims, 1);
    const Value below = body.binary("subtract", state[0], body.binary("multiply", factors, row));
    const Value kept = body.select(body.compare(rows, j, "GT"), below, state[0]);
    return {body.select(body.compare(rows, j, "EQ"), row, kept), state[1]};
  };
  return text.repeat(a.dims()[1], {b, a}, step)[0];
}

/// The blocks on the diagonals of [batch, n, n] as [batch, n / block, block, block]: in memory they are as far apart as
/// rows of (n + 1) · block elements.
Value diagonal_blocks(TextBuilder& text, const Value& a, int64_t block) {
  const int64_t batch = a.dims()[0], n = a.dims()[1], count = n / block;
  const Value row = text.pad(text.reshape(a, {batch, n * n}), {batch, n * n + n});
  const Value rows = text.slice(text.reshape(row, {batch, count, (n + 1) * block}), 2, 0, n * block);
  return text.slice(text.reshape(rows, {batch, count, block, n}), 3, 0, block);
}

/// Columns `from` … of a matrix of zeros, and those before: [batch, rows, n].
Value at_least(TextBuilder& text, const Value& of, int64_t dimension, const Value& from) {
  const Value index = text.iota(kIndex, of.dims(), dimension);
  return text.select(text.compare(index, from, "GE"), of, text.constant(of.type(), 0));
}

/// The columns of a block of a lower factor, [batch, rows, block], whose rows before the diagonal are 0.
Value factored_block(TextBuilder& text, const Value& block, const Value& first) {
  const int64_t width = block.dims()[2];
  const auto step = [&](TextBuilder& body, const Value& j, const Values& state) -> Values {
    const Dims& dims = state[0].dims();
    const Dims column{dims[0], dims[1]};
    const Value row = body.binary("add", state[1], j);
    const Value pivot = body.real(element_of(body, state[0], row, j));
    const Value positive = body.binary("and", body.compare(pivot, body.constant(pivot.type(), 0), "GT"),
                                       body.compare(pivot, body.constant(pivot.type(), "inf"), "LT"));
    const Value root = body.select(positive, body.unary("sqrt", pivot), body.constant(pivot.type(), "nan"));
    const Value diagonal = body.convert(root, block.type());
    const Value rows = body.iota(kIndex, column, 1);
    const Value each = body.broadcast(diagonal, column, {0});
    const Value below = body.binary("divide", column_of(body, state[0], j), each);
    const Value on = body.select(body.compare(rows, row, "EQ"), each, body.constant(block.type(), 0));
    const Value made = body.select(body.compare(rows, row, "GT"), below, on);
    const Value top = body.dynamic_slice(made, {number(body, 0), state[1]}, {dims[0], width});
    const Value columns = body.iota(kIndex, dims, 2);
    const Value here = body.broadcast(made, dims, {0, 1});
    const Value rest = body.binary("subtract", state[0],
                                   body.binary("multiply", here, body.broadcast(body.conjugate(top), dims, {0, 2})));
    const Value kept = body.select(body.compare(columns, j, "GT"), rest, state[0]);
    return {body.select(body.compare(columns, j, "EQ"), here, kept), state[1]};
  };
  return text.repeat(width, {block, first}, step)[0];
}

/// A block of columns after elimination, with what happened to its rows.
struct Eliminated {
  Value block, pivots, order;
};

/// `steps`: of all blocks. Rows are exchanged with the one that has the largest element of the column.
Eliminated eliminated(TextBuilder& text, const Value& block, const Value& pivots, const Value& first, int64_t columns,
                      int64_t steps) {
  const Value order = text.iota(kIndex, {block.dims()[0], block.dims()[1]}, 1);
  const auto step = [&](TextBuilder& body, const Value& j, const Values& state) -> Values {
    const Value &values = state[0], &places = state[2];
    const Dims& dims = values.dims();
    const Dims column{dims[0], dims[1]}, batch{dims[0]};
    const Value at = body.binary("add", state[3], j);
    const Value goes_on = body.compare(at, number(body, steps), "LT");
    const Value rows = body.iota(kIndex, column, 1);
    const Value candidates = column_of(body, values, j);
    Value size = body.unary("abs", body.real(candidates));
    if (is_complex(block.type())) {
      const Value other = body.add(array_shape(size.type(), column), fmt::format("imag({})", candidates.name));
      size = body.binary("add", size, body.unary("abs", other));
    }
    const Value left = body.select(body.compare(rows, at, "GE"), size, body.constant(size.type(), -1));
    const Value largest = body.select(goes_on, body.at_largest(left, rows, 1), at);
    const Value pivot_row = picked(body, values, largest), here = row_of(body, values, at);
    const Value pivot_place = picked(body, places, largest);
    const Value place = body.reshape(body.dynamic_slice(places, {number(body, 0), at}, {dims[0], 1}), batch);
    // Exchanged.
    const auto exchanged = [&](const Value& of, const Value& up, const Value& down, const Dims& along) {
      const Value index = body.iota(kIndex, of.dims(), 1);
      const Value moved = body.select(body.compare(index, body.broadcast(largest, of.dims(), {0}), "EQ"),
                                      body.broadcast(down, of.dims(), along), of);
      return body.select(body.compare(index, at, "EQ"), body.broadcast(up, of.dims(), along), moved);
    };
    const Value swapped = exchanged(values, pivot_row, here, {0, 2});
    // Rows below lose their multiple of the pivot's.
    const Value pivot = body.reshape(body.dynamic_slice(pivot_row, {number(body, 0), j}, {dims[0], 1}), batch);
    const Value divisor = body.broadcast(pivot, column, {0});
    const Value swapped_column = column_of(body, swapped, j);
    const Value vanishes = body.compare(divisor, body.constant(block.type(), 0), "EQ");
    const Value factor = body.broadcast(
        body.select(vanishes, swapped_column, body.binary("divide", swapped_column, divisor)), dims, {0, 1});
    const Value less =
        body.binary("subtract", swapped, body.binary("multiply", factor, body.broadcast(pivot_row, dims, {0, 2})));
    const Value all_columns = body.iota(kIndex, dims, 2);
    const Value right = body.select(body.compare(all_columns, j, "GT"), less, swapped);
    const Value changed = body.select(body.compare(all_columns, j, "EQ"), factor, right);
    const Value below = body.compare(body.iota(kIndex, dims, 1), at, "GT");
    const Value next = body.select(body.binary("and", below, body.spread(goes_on, dims)), changed, swapped);
    // Written as a whole, which one kernel does beside the rest.
    const Value& pivots_so_far = state[1];
    const Value number_of_pivot = body.iota(kIndex, pivots_so_far.dims(), 1);
    const Value all_pivots = body.select(body.compare(number_of_pivot, at, "EQ"),
                                         body.broadcast(largest, pivots_so_far.dims(), {0}), pivots_so_far);
    return {next, all_pivots, exchanged(places, pivot_place, place, {0}), state[3]};
  };
  const Values done = text.repeat(columns, {block, pivots, order, first}, step);
  return {done[0], done[1], done[2]};
}

}  // namespace

Value permuted(TextBuilder& text, const Value& of, const Value& at) {
  const Dims& dims = of.dims();
  const Value places = text.reshape(at, {dims[0], at.dims()[1], 1});
  return text.add(array_shape(of.type(), {dims[0], at.dims()[1], dims[2]}),
                  fmt::format("gather({}, {}), offset_dims={{2}}, "
                              "collapsed_slice_dims={{1}}, start_index_map={{1}}, "
                              "operand_batching_dims={{0}}, "
                              "start_indices_batching_dims={{0}}, index_vector_dim=2, "
                              "slice_sizes={{1,1,{}}}",
                              of.name, places.name, dims[2]));
}

Value matrices(TextBuilder& text, const Value& of) {
  const Dims& dims = of.dims();
  const size_t rank = dims.size();
  const int64_t elements = dims[rank - 2] * dims[rank - 1];
  const bool narrow = is_float(of.type()) && bit_width(of.type()) < 32;
  return text.convert(text.reshape(of, {of.shape.element_count() / elements, dims[rank - 2], dims[rank - 1]}),
                      narrow ? ElementType::F32 : of.type());
}

Value solve_lower(TextBuilder& text, const Value& a, const Value& b, bool unit_diagonal) {
  const int64_t batch = b.dims()[0], n = b.dims()[1], columns = b.dims()[2];
  if (n <= kLargestBlock) return substituted(text, a, b, unit_diagonal);
  // As many steps of a block as there are blocks.
  int64_t block = 16;
  while (block < kLargestBlock && block * block < n) block *= 2;
  const int64_t size = rounded_up(n, block), count = size / block;
  // What is not read may be NaN.
  const Value matrix = with_ones(text, text.pad(a, {batch, size, size}), unit_diagonal ? 0 : n);
  const Value sides = text.pad(b, {batch, size, columns});
  const Value blocks = text.reshape(diagonal_blocks(text, matrix, block), {batch * count, block, block});
  const Value zeros = text.spread(text.constant(b.type(), 0), {batch * count, block, block});
  const Value inverses = substituted(text, blocks, with_ones(text, zeros, 0), unit_diagonal);
  const auto step = [&](TextBuilder& body, const Value& k, const Values& state) -> Values {
    const Value zero = number(body, 0), first = body.binary("multiply", k, number(body, block));
    // What is not computed yet is 0.
    const Value known = body.product(body.dynamic_slice(state[1], {zero, first, zero}, {batch, block, size}), state[0]);
    const Value side = body.dynamic_slice(state[2], {zero, first, zero}, {batch, block, columns});
    const Value inverse = body.dynamic_slice(state[3], {zero, k, zero, zero}, {batch, 1, block, block});
    const Value x = body.product(body.reshape(inverse, {batch, block, block}), body.binary("subtract", side, known));
    return {body.dynamic_update(state[0], x, {zero, first, zero}), state[1], state[2], state[3]};
  };
  const Value none = text.spread(text.constant(b.type(), 0), sides.dims());
  const Value all = text.reshape(inverses, {batch, count, block, block});
  return text.cut(text.repeat(count, {none, matrix, sides, all}, step)[0], b.dims());
}

Value factor_positive(TextBuilder& text, const Value& a) {
  const int64_t batch = a.dims()[0], n = a.dims()[1];
  if (n <= kLargestBlock) return factored_block(text, a, number(text, 0));
  const int64_t size = rounded_up(n, kBlock);
  const auto step = [&](TextBuilder& body, const Value& k, const Values& state) -> Values {
    const Value zero = number(body, 0), first = body.binary("multiply", k, number(body, kBlock));
    const Value columns = body.dynamic_slice(state[0], {zero, zero, first}, {batch, size, kBlock});
    const Value block = factored_block(body, at_least(body, columns, 1, first), first);
    const Value rest = body.binary("subtract", state[0], body.product(block, body.conjugate(block), true));
    return {body.dynamic_update(rest, block, {zero, zero, first})};
  };
  const Value padded = with_ones(text, text.pad(a, {batch, size, size}), n);
  return text.cut(text.repeat(size / kBlock, {padded}, step)[0], a.dims());
}

LuFactors factor_with_pivots(TextBuilder& text, const Value& a) {
  const int64_t batch = a.dims()[0], m = a.dims()[1], n = a.dims()[2], steps = std::min(m, n);
  const auto no_pivots = [&](int64_t count) { return text.spread(number(text, 0), {batch, count}); };
  if (steps <= kLargestBlock) {
    const Eliminated done = eliminated(text, a, no_pivots(steps), number(text, 0), steps, steps);
    return {done.block, done.pivots};
  }
  const int64_t added = rounded_up(steps, kBlock) - steps;
  const int64_t rows = m + added, columns = n + added;
  const auto step = [&](TextBuilder& body, const Value& k, const Values& state) -> Values {
    const Value zero = number(body, 0), first = body.binary("multiply", k, number(body, kBlock));
    const Value next = body.binary("add", first, number(body, kBlock));
    const Value block = body.dynamic_slice(state[0], {zero, zero, first}, {batch, rows, kBlock});
    const Eliminated done = eliminated(body, block, state[1], first, kBlock, steps);
    const Value all = body.dynamic_update(permuted(body, state[0], done.order), done.block, {zero, zero, first});
    // Of the columns after the block, its rows are solved for, and those below lose their multiples.
    const Value above = body.dynamic_slice(all, {zero, first, zero}, {batch, kBlock, columns});
    const Value corner = body.dynamic_slice(done.block, {zero, first, zero}, {batch, kBlock, kBlock});
    const Value solved = at_least(body, substituted(body, corner, above, true), 2, next);
    const Value later = body.compare(body.iota(kIndex, above.dims(), 2), next, "GE");
    const Value updated = body.dynamic_update(all, body.select(later, solved, above), {zero, first, zero});
    const Value below = at_least(body, done.block, 1, next);
    return {body.binary("subtract", updated, body.product(below, solved)), done.pivots};
  };
  const Value padded = text.pad(a, {batch, rows, columns});
  const Values done = text.repeat((steps + added) / kBlock, {padded, no_pivots(steps + added)}, step);
  return {text.cut(done[0], a.dims()), text.cut(done[1], {batch, steps})};
}

namespace {

/// Reflector j, [batch, m, 1], of the columns below the diagonal.
Value reflector(TextBuilder& text, const Value& column, const Value& j) {
  const Value rows = text.iota(kIndex, column.dims(), 1);
  const Value on = text.select(text.compare(rows, j, "EQ"), text.constant(column.type(), 1),
                               text.spread(text.constant(column.type(), 0), column.dims()));
  return text.select(text.compare(rows, j, "GT"), column, on);
}

/// of - factor · v · vᴴ · of, with v: [batch, m].
Value reflected(TextBuilder& text, const Value& of, const Value& v, const Value& factor) {
  const Dims& dims = of.dims();
  const Value row = text.product(text.reshape(text.conjugate(v), {dims[0], 1, dims[1]}), of);
  const Value scaled = text.binary("multiply", v, text.broadcast(factor, v.dims(), {0}));
  const Value across = text.broadcast(text.reshape(row, {dims[0], dims[2]}), dims, {0, 2});
  return text.binary("subtract", of, text.binary("multiply", text.broadcast(scaled, dims, {0, 1}), across));
}

Value sum_of_squares(TextBuilder& text, const Value& of) {
  const Dims& dims = of.dims();
  const Value product =
      text.product(text.reshape(text.conjugate(of), {dims[0], 1, dims[1]}), text.reshape(of, {dims[0], dims[1], 1}));
  return text.real(text.reshape(product, {dims[0]}));
}

/// Of each column, [batch]; 1 of columns of zeros. What is divided by it has squares that neither vanish nor overflow.
Value largest_magnitude(TextBuilder& text, const Value& of) {
  const Value magnitudes = text.add(array_shape(text.real(of).type(), of.dims()), fmt::format("abs({})", of.name));
  const Value zero = text.constant(magnitudes.type(), 0);
  const Value largest = text.unary("negate", text.least(text.unary("negate", magnitudes), {1}, zero));
  return text.select(text.compare(largest, zero, "GT"), largest, text.constant(magnitudes.type(), 1));
}

}  // namespace

// As LAPACK: a reflector's factor is 0 where the column has nothing below the diagonal and is real on it.
Reflectors factor_by_reflectors(TextBuilder& text, const Value& a) {
  const int64_t batch = a.dims()[0], steps = std::min(a.dims()[1], a.dims()[2]);
  const auto step = [&](TextBuilder& body, const Value& j, const Values& state) -> Values {
    const Value& values = state[0];
    const Dims& dims = values.dims();
    const Dims column{dims[0], dims[1]}, each{dims[0]};
    const ElementType type = values.type();
    const Value column_here = column_of(body, values, j), rows = body.iota(kIndex, column, 1);
    const Value zero = body.constant(type, 0);
    const Value scale = largest_magnitude(body, body.select(body.compare(rows, j, "GE"), column_here, zero));
    const Value scale_here = body.convert(scale, type);
    const Value here = body.binary("divide", column_here, body.broadcast(scale_here, column, {0}));
    const Value alpha = body.binary("divide", element_of(body, values, j, j), scale_here);
    const Value below = body.select(body.compare(rows, j, "GT"), here, zero);
    const Value rest = sum_of_squares(body, below), part = body.real(alpha);
    const Value real_zero = body.constant(part.type(), 0);
    const Value size =
        body.unary("sqrt", body.binary("add", rest, sum_of_squares(body, body.reshape(alpha, {batch, 1}))));
    const Value beta =
        body.convert(body.select(body.compare(part, real_zero, "GE"), body.unary("negate", size), size), type);
    Value none = body.compare(rest, real_zero, "EQ");
    if (is_complex(type)) none = body.binary("and", none, body.compare(alpha, body.convert(part, type), "EQ"));
    const Value difference = body.binary("subtract", beta, alpha);
    const Value factor = body.select(none, zero, body.binary("divide", difference, beta));
    const Value divisor = body.select(none, body.constant(type, 1), body.unary("negate", difference));
    const Value v = reflector(body, body.binary("divide", here, body.broadcast(divisor, column, {0})), j);
    const Value rest_of_matrix = reflected(body, values, v, body.conjugate(factor));
    const Value diagonal = body.binary("multiply", body.select(none, alpha, beta), scale_here);
    const Value on = body.broadcast(diagonal, column, {0});
    const Value made =
        body.select(body.compare(rows, j, "GT"), v, body.select(body.compare(rows, j, "EQ"), on, column_here));
    const Value columns = body.iota(kIndex, dims, 2);
    const Value right = body.select(body.compare(columns, j, "GT"), rest_of_matrix, values);
    const Value next = body.select(body.compare(columns, j, "EQ"), body.broadcast(made, dims, {0, 1}), right);
    const Dims& factors = state[1].dims();
    const Value number_of_factor = body.iota(kIndex, factors, 1);
    const Value all =
        body.select(body.compare(number_of_factor, j, "EQ"), body.broadcast(factor, factors, {0}), state[1]);
    return {next, all};
  };
  const Value none = text.spread(text.constant(a.type(), 0), {batch, steps});
  const Values done = text.repeat(steps, {a, none}, step);
  return {done[0], done[1]};
}

Value product_of_reflectors(TextBuilder& text, const Reflectors& reflectors) {
  const int64_t steps = reflectors.factors.dims()[1];
  const auto step = [&](TextBuilder& body, const Value& k, const Values& state) -> Values {
    const Value j = body.binary("subtract", number(body, steps - 1), k);
    const Value v = reflector(body, column_of(body, state[1], j), j);
    const Value factor =
        body.reshape(body.dynamic_slice(state[2], {number(body, 0), j}, {v.dims()[0], 1}), {v.dims()[0]});
    return {reflected(body, state[0], v, factor), state[1], state[2]};
  };
  const Value zeros = text.spread(text.constant(reflectors.both.type(), 0), reflectors.both.dims());
  return text.repeat(steps, {with_ones(text, zeros, 0), reflectors.both, reflectors.factors}, step)[0];
}

// Each element's place is followed from the last exchange back to the first: so all elements are computed on their own,
// and a block of exchanges is one expression.
Value permutation_of(TextBuilder& text, const Value& pivots, int64_t n) {
  const int64_t batch = pivots.dims()[0], steps = pivots.dims()[1], block = std::min(kExchanges, steps);
  const auto traced = [&](TextBuilder& body, Value place, const Value& exchanges, const Value& first) {
    for (int64_t j = block; j-- > 0;) {
      const Value here = body.binary("add", first, number(body, j));
      const Value other = body.broadcast(body.reshape(body.slice(exchanges, 1, j, j + 1), {batch}), {batch, n}, {0});
      const Value down = body.select(body.compare(place, other, "EQ"), here, place);
      place = body.select(body.compare(place, here, "EQ"), other, down);
    }
    return place;
  };
  const Value places = text.iota(kIndex, {batch, n}, 1);
  if (steps == block) return traced(text, places, pivots, number(text, 0));
  // What is added exchanges elements with themselves.
  const int64_t size = rounded_up(steps, block), count = size / block;
  const Value index = text.iota(kIndex, {batch, size}, 1);
  const Value all = text.select(text.compare(index, number(text, steps), "LT"), text.pad(pivots, {batch, size}), index);
  const auto step = [&](TextBuilder& body, const Value& k, const Values& state) -> Values {
    const Value block_number = body.binary("subtract", number(body, count - 1), k);
    const Value first = body.binary("multiply", block_number, number(body, block));
    const Value exchanges = body.dynamic_slice(state[1], {number(body, 0), first}, {batch, block});
    return {traced(body, state[0], exchanges, first), state[1]};
  };
  return text.repeat(count, {places, all}, step)[0];
}

}  // namespace strata::hlo
