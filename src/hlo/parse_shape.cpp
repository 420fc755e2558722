#include "hlo/parse_parts.h"

namespace strata::hlo {
namespace {

constexpr size_t kMaxRank = 64;
/// More than any device holds, and few enough that counts of bytes and operations fit 63 bits.
constexpr int64_t kMostElements = int64_t{1} << 40;

Result<void> parse_dimensions(Cursor& cursor, Shape& shape) {
  STRATA_CHECK(cursor.expect("["));
  int64_t count = 1;
  while (!cursor.accept("]")) {
    if (!shape.dims.empty()) STRATA_CHECK(cursor.expect(","));
    const size_t place = cursor.offset();
    if (cursor.ahead("<=") || cursor.ahead("?")) {
      return cursor.error("dynamic sizes are not supported", "compile the function for fixed sizes");
    }
    STRATA_TRY(const int64_t size, cursor.integer("a size"));
    if (size < 0) return cursor.error_at(place, fmt::format("a size is negative: {}", size));
    // Sizes of zero do not hide others that overflow: strides are products of them.
    if (__builtin_mul_overflow(count, std::max<int64_t>(size, 1), &count) || count > kMostElements) {
      return cursor.error_at(place, "an array has more than 2^40 elements",
                             "no device holds so many; make its shape smaller");
    }
    shape.dims.push_back(size);
    if (shape.dims.size() > kMaxRank) {
      return cursor.error_at(place, fmt::format("an array has more than {} dimensions", kMaxRank));
    }
  }
  return {};
}

/// {1,0:T(8,128)S(1)}: what follows the colon says where and how elements lie, not what they are.
Result<bool> parse_layout(Cursor& cursor, Shape& shape) {
  shape.minor_to_major = default_layout(shape.dims.size());
  // A brace after a space opens the computation whose result the shape is.
  if (!cursor.adjacent('{')) return false;
  const size_t place = cursor.offset();
  STRATA_CHECK(cursor.expect("{"));
  std::vector<int64_t> layout;
  while (!cursor.ahead("}") && !cursor.ahead(":")) {
    if (!layout.empty()) STRATA_CHECK(cursor.expect(","));
    STRATA_TRY(const int64_t dimension, cursor.integer("a dimension"));
    layout.push_back(dimension);
  }
  bool tiled = false;
  if (cursor.accept(":")) {
    while (!cursor.ahead("}")) {
      if (cursor.done()) return cursor.expected("'}'");
      // T(…) is a tile; # and * give the types of tables that dynamic sizes need.
      tiled |= cursor.peek() == 'T';
      if (!cursor.accept("#") && !cursor.accept("*")) STRATA_CHECK(cursor.word("a tile or memory space"));
      while (cursor.ahead("(")) STRATA_CHECK(cursor.skip_balanced());
    }
  }
  STRATA_CHECK(cursor.expect("}"));
  // Scalars may have {} and, as XLA prints them, any array {:S(5)}.
  if (layout.empty()) return tiled;
  std::vector<bool> seen(shape.dims.size());
  const auto fresh = [&](int64_t d) {
    if (d < 0 || d >= shape.rank() || seen[static_cast<size_t>(d)]) return false;
    seen[static_cast<size_t>(d)] = true;
    return true;
  };
  for (int64_t d : layout) {
    if (layout.size() != shape.dims.size() || !fresh(d)) {
      return cursor.error_at(place, fmt::format("a layout is no permutation of the {} dimensions", shape.dims.size()));
    }
  }
  shape.minor_to_major = std::move(layout);
  return tiled;
}

Result<ParsedShape> parse(Cursor& cursor, int depth) {
  ParsedShape result;
  Shape& shape = result.shape;
  if (depth > kMaxTupleDepth) return cursor.error("tuples are nested too deeply");
  if (cursor.accept("(")) {
    std::vector<Shape> elements;
    while (!cursor.accept(")")) {
      if (!elements.empty()) STRATA_CHECK(cursor.expect(","));
      STRATA_TRY(ParsedShape element, parse(cursor, depth + 1));
      elements.push_back(std::move(element.shape));
      result.tiled |= element.tiled;
    }
    shape = tuple_shape(std::move(elements));
    if (shape.elements.total() >= kManyShapes) return cursor.error("a tuple has 2^22 elements or more in all");
    return result;
  }
  const size_t place = cursor.offset();
  STRATA_TRY(const std::string_view word, cursor.word("a shape"));
  const auto type = element_type_named(word);
  if (!type) {
    return cursor.error_at(place, fmt::format("unknown element type '{}'", word),
                           "docs/hlo.md lists the types that are supported");
  }
  shape.type = *type;
  STRATA_CHECK(parse_dimensions(cursor, shape));
  if (*type == ElementType::Token && !shape.dims.empty()) return cursor.error_at(place, "a token has no dimensions");
  STRATA_TRY(result.tiled, parse_layout(cursor, shape));
  return result;
}

}  // namespace

Result<ParsedShape> parse_shape(Cursor& cursor) { return parse(cursor, 0); }

bool shape_ahead(Cursor cursor) {
  if (cursor.ahead("(")) return true;
  if (cursor.ahead("%")) return false;
  return cursor.word("a shape").has_value() && cursor.ahead("[");
}

}  // namespace strata::hlo
