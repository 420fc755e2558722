#include <charconv>
#include <cmath>
#include <complex>
#include <limits>
#include <type_traits>

#include "hlo/compute.h"
#include "hlo/parse_parts.h"
#include "support/random.h"

namespace strata::hlo {
namespace {

class LiteralParser {
 public:
  explicit LiteralParser(Cursor& cursor) : cursor_(cursor) {}

  Result<Literal> parse(const Shape& shape) {
    if (shape.is_tuple()) return parse_tuple(shape);
    if (!shape.is_array()) return cursor_.error("a token has no constants");
    // Older texts repeat the shape of arrays with two dimensions or more.
    if (shape_ahead(cursor_) && !cursor_.ahead("(")) {
      STRATA_TRY(const ParsedShape repeated, parse_shape(cursor_));
      if (!same_shape(repeated.shape, shape)) {
        return cursor_.error(fmt::format("a constant of {} stands where {} is stated",
                                         to_string_without_layout(repeated.shape), to_string_without_layout(shape)));
      }
    }
    if (shape.element_count() == 0) {
      if (!cursor_.ahead("{")) return cursor_.expected("'{'");
      STRATA_CHECK(cursor_.skip_balanced());
      return Literal(shape);
    }
    if (elements_left_out()) {
      elided_ = true;
      STRATA_CHECK(cursor_.skip_balanced());
      return made_up(shape);
    }
    // Before memory is taken for elements that the text cannot hold.
    const size_t rest = cursor_.source().text().size() - cursor_.offset();
    if (static_cast<uint64_t>(shape.element_count()) > rest) {
      return cursor_.error(fmt::format("the text ends before the {} elements of a constant", shape.element_count()));
    }
    Literal literal(shape);
    std::byte* bytes = literal.mutable_bytes();
    int64_t next = 0;
    STRATA_CHECK(parse_dimension(shape, 0, bytes, next));
    return literal;
  }

  bool elided() const { return elided_; }

 private:
  bool elements_left_out() const {
    Cursor ahead = cursor_;
    while (ahead.accept("{")) continue;
    return ahead.ahead("...");
  }

  Result<Literal> made_up(const Shape& shape) {
    constexpr int64_t kMaxBytes = int64_t{1} << 32;
    if (shape.element_count() > kMaxBytes / byte_width(shape.type)) {
      return cursor_.error(
          fmt::format("a constant of {} without elements is too large to be made up", to_string_without_layout(shape)));
    }
    Literal literal(shape);
    std::byte* bytes = literal.mutable_bytes();
    Random random(static_cast<uint64_t>(shape.element_count()));
    visit_accumulator_type(shape.type, [&](auto zero) {
      using T = decltype(zero);
      for (int64_t i = 0; i < literal.size(); ++i) {
        T value{};
        if constexpr (std::is_integral_v<T>) {
          value = static_cast<T>(random.below(2));
        } else {
          value = random.uniform(-1, 1);
        }
        store(shape.type, bytes, i, 1, &value);
      }
    });
    return literal;
  }

  Result<Literal> parse_tuple(const Shape& shape) {
    STRATA_CHECK(cursor_.expect("("));
    std::vector<Literal> elements;
    for (const Shape& element : shape.elements) {
      if (!elements.empty()) STRATA_CHECK(cursor_.expect(","));
      STRATA_TRY(Literal literal, parse(element));
      elements.push_back(std::move(literal));
    }
    STRATA_CHECK(cursor_.expect(")"));
    return Literal::tuple(std::move(elements));
  }

  Result<void> parse_dimension(const Shape& shape, size_t d, std::byte* bytes, int64_t& next) {
    if (d == shape.dims.size()) return parse_element(shape.type, bytes, next++);
    STRATA_CHECK(cursor_.expect("{"));
    for (int64_t i = 0; i < shape.dims[d]; ++i) {
      if (i > 0) STRATA_CHECK(cursor_.expect(","));
      STRATA_CHECK(parse_dimension(shape, d + 1, bytes, next));
    }
    if (!cursor_.ahead("}")) return cursor_.expected(fmt::format("'}}' after {} elements", shape.dims[d]));
    return cursor_.expect("}");
  }

  Result<void> parse_element(ElementType type, std::byte* bytes, int64_t index) {
    const size_t place = cursor_.offset();
    switch (kind(type)) {
      case TypeKind::Pred: {
        uint64_t value = 0;
        if (cursor_.accept("true") || cursor_.accept("1")) {
          value = 1;
        } else if (!cursor_.accept("false") && !cursor_.accept("0")) {
          return cursor_.expected("true or false");
        }
        store(type, bytes, index, 1, &value);
        return {};
      }
      case TypeKind::Signed: {
        STRATA_TRY(const int64_t value, cursor_.integer("an integer"));
        if (wrap_signed(value, bit_width(type)) != value) return does_not_fit(place, type);
        store(type, bytes, index, 1, &value);
        return {};
      }
      case TypeKind::Unsigned: {
        STRATA_TRY(const uint64_t value, unsigned_integer());
        if (wrap_unsigned(value, bit_width(type)) != value) return does_not_fit(place, type);
        store(type, bytes, index, 1, &value);
        return {};
      }
      case TypeKind::Float: {
        STRATA_TRY(const double value, real(type));
        store(type, bytes, index, 1, &value);
        return {};
      }
      default:
        break;
    }
    std::complex<double> value;
    if (cursor_.accept("(")) {
      STRATA_TRY(const double re, real(part_type(type)));
      STRATA_CHECK(cursor_.expect(","));
      STRATA_TRY(const double im, real(part_type(type)));
      STRATA_CHECK(cursor_.expect(")"));
      value = {re, im};
    } else {
      STRATA_TRY(const double re, real(part_type(type)));
      value = re;
    }
    store(type, bytes, index, 1, &value);
    return {};
  }

  tl::unexpected<Error> does_not_fit(size_t place, ElementType type) {
    return cursor_.error_at(place, fmt::format("a number does not fit {}", name(type)));
  }

  Result<uint64_t> unsigned_integer() {
    const size_t place = cursor_.offset();
    STRATA_TRY(const std::string_view word, cursor_.word("an unsigned integer"));
    uint64_t value = 0;
    const auto [end, status] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (status == std::errc::result_out_of_range) return cursor_.error_at(place, "a number does not fit 64 bits");
    if (status != std::errc{} || end != word.data() + word.size()) {
      return cursor_.error_at(place, fmt::format("expected an unsigned integer, found '{}'", word));
    }
    return value;
  }

  /// f32 is read at once, so that it is rounded once; all other types from the nearest double.
  Result<double> real(ElementType type) {
    const bool negative = cursor_.accept("-");
    if (!negative) cursor_.accept("+");
    const double sign = negative ? -1 : 1;
    if (cursor_.accept("inf")) return sign * std::numeric_limits<double>::infinity();
    if (cursor_.accept("nan")) {
      if (cursor_.ahead("(")) STRATA_CHECK(cursor_.skip_balanced());  // the payload has no meaning
      return std::copysign(std::numeric_limits<double>::quiet_NaN(), sign);
    }
    const size_t begin = cursor_.offset();
    const std::string_view rest = cursor_.text(begin, cursor_.source().text().size());
    const char* const first = rest.data();
    double value = 0;
    size_t length = 0;
    const auto read = [&](auto number) {
      const auto [end, status] = std::from_chars(first, first + rest.size(), number);
      length = static_cast<size_t>(end - first);
      value = static_cast<double>(number);
      return status;
    };
    std::errc status = type == ElementType::F32 ? read(0.0F) : read(0.0);
    // Out of range: from_chars leaves the number alone; both are rounded as IEEE has it by strtod.
    if (status == std::errc::result_out_of_range) {
      value = std::strtod(std::string(rest.substr(0, length)).c_str(), nullptr);
      if (type == ElementType::F32) value = static_cast<double>(static_cast<float>(value));
      status = {};
    }
    if (status != std::errc{} || rest.front() == '-') return cursor_.expected("a number");
    cursor_ = cursor_.from(begin + length);
    return std::copysign(value, sign);
  }

  Cursor& cursor_;
  bool elided_ = false;
};

}  // namespace

Result<ConstantAttributes> parse_constant(Cursor& cursor, const Shape& shape) {
  LiteralParser parser(cursor);
  STRATA_TRY(Literal value, parser.parse(shape));
  return ConstantAttributes{std::move(value), parser.elided()};
}

Result<Literal> parse_literal(Cursor& cursor, const Shape& shape) {
  const size_t place = cursor.offset();
  STRATA_TRY(ConstantAttributes constant, parse_constant(cursor, shape));
  if (constant.elided) return cursor.error_at(place, "the elements are left out");
  return std::move(constant.value);
}

}  // namespace strata::hlo
