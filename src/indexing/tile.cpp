#include "indexing/tile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace strata::indexing {
namespace {

/// A set of variables: dimensions from bit 0 on, then range variables.
using Variables = uint64_t;
constexpr size_t kMostVariables = 64;

int64_t span_of(const TileDim& dim) { return saturating_mul(dim.stride, dim.size - 1); }

TileDim scaled(TileDim dim, int64_t factor) {
  if (factor < 0) dim.offset = saturating_add(dim.offset, span_of(dim));  // the last position is the first one
  const int64_t magnitude = factor < 0 ? saturating_mul(factor, -1) : factor;
  dim.offset = saturating_mul(dim.offset, factor);
  dim.stride = saturating_mul(dim.stride, magnitude);
  dim.multiple = saturating_mul(dim.multiple, magnitude);
  return dim;
}

/// All sums of a position of one and a position of the other.
TileDim sum_of(TileDim a, TileDim b) {
  if (a.stride > b.stride) std::swap(a, b);
  TileDim sum = a;
  sum.runs = saturating_mul(a.runs, b.runs);
  sum.offset = saturating_add(a.offset, b.offset);
  sum.multiple = common_divisor(a.multiple, b.multiple);
  if (b.size <= 1) {
    sum.size = b.size == 0 ? 0 : a.size;
    return sum;
  }
  if (a.size <= 1) {
    sum.size = a.size == 0 ? 0 : b.size;
    sum.stride = b.stride;
    return sum;
  }
  const int64_t span = saturating_add(span_of(a), span_of(b));
  if (b.stride % a.stride == 0 && b.stride <= saturating_mul(a.stride, a.size)) {
    sum.size = saturating_add(span / a.stride, 1);
  } else if (b.stride > span_of(a)) {  // apart
    sum.runs = saturating_mul(sum.runs, b.size);
    sum.multiple = common_divisor(sum.multiple, b.stride);
  } else {
    sum.stride = common_divisor(a.stride, b.stride);
    sum.size = saturating_add(span / sum.stride, 1);
  }
  return sum;
}

/// What is known of where runs begin, modulo `divisor`: the least and the greatest remainder.
Interval remainders(const TileDim& dim, int64_t divisor) {
  const int64_t step = common_divisor(dim.multiple, divisor);
  const int64_t least = floor_mod(dim.offset, step);
  return {least, dim.multiple % divisor == 0 ? floor_mod(dim.offset, divisor) : divisor - step + least};
}

TileDim quotient_of(const TileDim& dim, int64_t divisor) {
  const bool known = dim.multiple % divisor == 0;
  TileDim quotient = dim;
  quotient.offset = known ? floor_div(dim.offset, divisor) : 0;
  quotient.multiple = known ? dim.multiple / divisor : 1;
  if (dim.size <= 1) return quotient;
  if (dim.stride % divisor == 0) {
    quotient.stride = dim.stride / divisor;
    return quotient;
  }
  quotient.stride = 1;
  quotient.size = saturating_add(remainders(dim, divisor).hi, span_of(dim)) / divisor + 1;
  return quotient;
}

TileDim remainder_of(const TileDim& dim, int64_t divisor) {
  const Interval first = remainders(dim, divisor);
  const int64_t step = common_divisor(dim.multiple, divisor);
  TileDim remainder = dim;
  remainder.offset = first.lo;
  remainder.multiple = dim.multiple % divisor == 0 ? 0 : step;
  remainder.runs = std::min(dim.runs, divisor / step);  // others lie where these do
  const bool stands = dim.size <= 1 || dim.stride % divisor == 0;
  if (stands) {
    remainder.size = std::min<int64_t>(dim.size, 1);
    remainder.stride = 1;
    return remainder;
  }
  if (saturating_add(first.hi, span_of(dim)) < divisor) return remainder;
  // It goes around: the remainders that are a common step apart, all of them where it goes far enough.
  const int64_t common = common_divisor(dim.stride, divisor);
  remainder.stride = common;
  remainder.size = divisor / common;
  const bool known = dim.multiple % common == 0;
  remainder.offset = known ? floor_mod(dim.offset, common) : 0;
  remainder.multiple = known ? 0 : 1;
  if (known) remainder.runs = 1;
  return remainder;
}

/// The part of it that may lie in an interval.
TileDim clamped(TileDim dim, const Interval& bounds) {
  if (dim.runs != 1 || dim.size == 0 || bounds.empty()) {
    if (bounds.empty()) dim.size = 0;
    return dim;
  }
  if (dim.multiple != 0) {
    const int64_t most =
        bounds.lo == kLeast || bounds.hi == kGreatest ? dim.size : (bounds.size() - 1) / dim.stride + 1;
    if (most >= dim.size) return dim;
    dim.size = most;
    dim.multiple = common_divisor(dim.multiple, dim.stride);
    return dim;
  }
  const int64_t last = saturating_add(dim.offset, span_of(dim));
  const int64_t skipped =
      dim.offset >= bounds.lo ? 0 : ceil_div(saturating_add(bounds.lo, saturating_mul(dim.offset, -1)), dim.stride);
  const int64_t dropped =
      last <= bounds.hi ? 0 : ceil_div(saturating_add(last, saturating_mul(bounds.hi, -1)), dim.stride);
  dim.size = std::max<int64_t>(dim.size - skipped - dropped, 0);
  dim.offset = saturating_add(dim.offset, saturating_mul(skipped, dim.stride));
  return dim;
}

/// Follows one map.
class ImageFinder {
 public:
  ImageFinder(const IndexingMap& map, const Tile& tile) : map_(map) {
    for (size_t d = 0; d < map.dims.size(); ++d) variables_.push_back(clamped(tile[d], map.dims[d]));
    for (const Interval& range : map.ranges) {
      TileDim all;
      all.size = range.size();
      all.offset = range.lo;
      variables_.push_back(all);
    }
  }

  std::optional<Tile> image() {
    if (map_.known_empty) return Tile(map_.results.size(), TileDim{.size = 0});
    if (variables_.size() > kMostVariables) return std::nullopt;
    const int64_t places = runtime_places();
    Tile tile;
    for (const Expr& result : map_.results) {
      std::optional<TileDim> dim = positions_of(result);
      if (!dim) return std::nullopt;
      if (&result == first_runtime_) dim->runs = saturating_mul(dim->runs, places);
      for (const Constraint& constraint : map_.constraints) {
        if (constraint.expr == result) *dim = clamped(*dim, constraint.bounds);
      }
      tile.push_back(*dim);
    }
    return tile;
  }

 private:
  size_t number_of(const Expr& variable) const {
    return static_cast<size_t>(variable.number()) + (variable.kind() == ExprKind::Range ? map_.dims.size() : 0);
  }

  /// Those that it has outside runtime variables.
  Variables plain_variables_of(const Expr& expr) const {
    if (expr.kind() == ExprKind::Dimension || expr.kind() == ExprKind::Range) return Variables{1} << number_of(expr);
    Variables found = 0;
    for (const Expr& part : expr.operands()) found |= plain_variables_of(part);
    return found;
  }

  /// Those that its runtime variables depend on.
  Variables runtime_variables_of(const Expr& expr) const {
    Variables found = 0;
    if (expr.kind() == ExprKind::Runtime) {
      for (const Expr& index : map_.runtime[static_cast<size_t>(expr.number())].element)
        found |= plain_variables_of(index) | runtime_variables_of(index);
    }
    for (const Expr& part : expr.operands()) found |= runtime_variables_of(part);
    return found;
  }

  /// Each value of the variables that runtime values depend on gives a place of its own, anywhere: the first result
  /// with a runtime variable has so many runs, and the variables are single unknown values from then on. There are no
  /// more places than the runtime values have together with what else results depend on.
  int64_t runtime_places() {
    Variables depends = 0, others = 0;
    int64_t values = 1;
    for (const Expr& result : map_.results) {
      others |= plain_variables_of(result);
      if (!result.uses(ExprKind::Runtime)) continue;
      if (first_runtime_ == nullptr) first_runtime_ = &result;
      depends |= runtime_variables_of(result);
    }
    for (size_t r = 0; r < map_.runtime.size(); ++r) {
      const Expr variable = Expr::runtime(static_cast<int>(r));
      const auto uses_it = [&](const Expr& result) { return result.uses(ExprKind::Runtime, variable.number()); };
      if (std::ranges::any_of(map_.results, uses_it)) values = saturating_mul(values, map_.runtime[r].range.size());
    }
    int64_t places = 1;
    for (size_t v = 0; v < variables_.size(); ++v) {
      if ((depends >> v & 1U) == 0) continue;
      places = saturating_mul(places, variables_[v].count());
      if ((others >> v & 1U) != 0) values = saturating_mul(values, variables_[v].count());
      variables_[v] = {.size = std::min<int64_t>(variables_[v].size, 1), .multiple = 1};
    }
    return std::min(places, values);
  }

  std::optional<TileDim> positions_of(const Expr& expr) {
    switch (expr.kind()) {
      case ExprKind::Constant: {
        TileDim dim;
        dim.offset = expr.value();
        return dim;
      }
      case ExprKind::Dimension:
      case ExprKind::Range:
        return variables_[number_of(expr)];
      case ExprKind::Runtime:
        return TileDim{.multiple = 1};
      case ExprKind::FloorDiv:
      case ExprKind::Mod: {
        if (!expr.rhs().is_constant() || expr.rhs().value() <= 0) return std::nullopt;
        const std::optional<TileDim> of = positions_of(expr.lhs());
        if (!of) return std::nullopt;
        const int64_t divisor = expr.rhs().value();
        return expr.kind() == ExprKind::FloorDiv ? quotient_of(*of, divisor) : remainder_of(*of, divisor);
      }
      case ExprKind::Sum: {
        std::vector<TileDim> parts;
        for (size_t i = 0; i < expr.atoms().size(); ++i) {
          const std::optional<TileDim> part = positions_of(expr.atoms()[i]);
          if (!part) return std::nullopt;
          parts.push_back(scaled(*part, expr.coefficients()[i]));
        }
        std::ranges::sort(parts, {}, &TileDim::stride);
        TileDim sum = parts.front();
        for (size_t i = 1; i < parts.size(); ++i) sum = sum_of(sum, parts[i]);
        sum.offset = saturating_add(sum.offset, expr.value());
        return sum;
      }
      case ExprKind::Product:
      case ExprKind::Undefined:
        break;
    }
    return std::nullopt;
  }

  const IndexingMap& map_;
  std::vector<TileDim> variables_;
  const Expr* first_runtime_ = nullptr;  ///< of the results
};

}  // namespace

Tile whole_tile(const std::vector<int64_t>& shape) {
  Tile tile;
  for (const int64_t extent : shape) tile.push_back({.size = extent});
  return tile;
}

Tile tile_along_memory(const std::vector<int64_t>& shape, const std::vector<int64_t>& minor_to_major,
                       int64_t elements) {
  Tile tile(shape.size());
  int64_t rest = elements;
  for (const int64_t d : minor_to_major) {
    TileDim& dim = tile[static_cast<size_t>(d)];
    dim.size = std::min(shape[static_cast<size_t>(d)], rest);
    dim.multiple = dim.size == shape[static_cast<size_t>(d)] ? 0 : dim.size;
    rest = dim.size > 0 ? ceil_div(rest, dim.size) : 1;
  }
  return tile;
}

double elements_of(const Tile& tile) {
  double count = 1;
  for (const TileDim& dim : tile) count *= static_cast<double>(dim.runs) * static_cast<double>(dim.size);
  return count;
}

std::optional<Tile> union_of(const Tile& a, const Tile& b) {
  const auto is_known = [](const TileDim& dim) { return dim.runs == 1 && dim.stride == 1 && dim.multiple == 0; };
  if (!std::ranges::all_of(a, is_known) || !std::ranges::all_of(b, is_known)) return std::nullopt;
  std::optional<size_t> differs;
  for (size_t d = 0; d < a.size(); ++d) {
    if (a[d] == b[d]) continue;
    if (differs) return std::nullopt;
    differs = d;
  }
  if (!differs) return a;
  const auto [first, second] = std::minmax(
      a[*differs], b[*differs], [](const TileDim& one, const TileDim& other) { return one.offset < other.offset; });
  if (second.offset > saturating_add(first.offset, first.size)) return std::nullopt;
  const int64_t end = std::max(saturating_add(first.offset, first.size), saturating_add(second.offset, second.size));
  Tile both = a;
  both[*differs] = {.size = end - first.offset, .offset = first.offset};
  return both;
}

std::optional<Tile> image_of(const Tile& tile, const IndexingMap& map) { return ImageFinder(map, tile).image(); }

namespace {

/// What lies together in memory, but for gaps smaller than a unit.
struct Pieces {
  double count = 1;
  double bytes = 0;       ///< of each; 0 of nothing
  int64_t alignment = 1;  ///< of where they begin
};

Pieces pieces_of(const Tile& tile, const std::vector<int64_t>& strides, int64_t element_bytes, int64_t unit_bytes) {
  std::vector<size_t> order(tile.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t d) { return strides[d]; });
  Pieces pieces{1, static_cast<double>(element_bytes), unit_bytes};
  const auto begins_by = [&](int64_t positions, size_t d) {
    const int64_t elements = saturating_mul(positions, strides[d]);
    pieces.alignment = common_divisor(pieces.alignment, saturating_mul(elements, element_bytes));
  };
  bool is_one = true;
  for (const size_t d : order) {
    const TileDim& dim = tile[d];
    if (dim.count() == 0) return {0, 0, unit_bytes};
    begins_by(dim.offset, d);
    begins_by(dim.multiple, d);
    const double pitch = static_cast<double>(dim.stride) * static_cast<double>(strides[d] * element_bytes);
    if (dim.size > 1) {
      is_one = is_one && pitch - pieces.bytes < static_cast<double>(unit_bytes);
      if (is_one) {
        pieces.bytes += pitch * static_cast<double>(dim.size - 1);
      } else {
        pieces.count *= static_cast<double>(dim.size);
        begins_by(dim.stride, d);
      }
    }
    if (dim.runs > 1) {
      is_one = false;
      pieces.count *= static_cast<double>(dim.runs);
    }
  }
  return pieces;
}

}  // namespace

double moved_bytes(const Tile& tile, const std::vector<int64_t>& strides, int64_t element_bytes, int64_t unit_bytes) {
  const Pieces pieces = pieces_of(tile, strides, element_bytes, unit_bytes);
  const auto unit = static_cast<double>(unit_bytes), step = static_cast<double>(pieces.alignment);
  return pieces.count * (std::ceil(pieces.bytes / step) * step + unit - step);
}

double times_apart(const Tile& tile, const std::vector<int64_t>& strides, int64_t element_bytes, int64_t unit_bytes) {
  const Pieces pieces = pieces_of(tile, strides, element_bytes, unit_bytes);
  const auto unit = static_cast<double>(unit_bytes);
  const double least = std::ceil(elements_of(tile) * static_cast<double>(element_bytes) / unit);
  return least > 0 ? std::max(pieces.count * std::ceil(pieces.bytes / unit) / least, 1.0) : 1;
}

std::string to_string(const Tile& tile) {
  std::vector<std::string> dims;
  for (const TileDim& dim : tile) {
    std::string text = dim.runs == 1 ? std::to_string(dim.size) : fmt::format("{} runs of {}", dim.runs, dim.size);
    if (dim.stride != 1 && dim.size > 1) text += fmt::format(":{}", dim.stride);
    if (dim.offset != 0) text += fmt::format(" from {}", dim.offset);
    dims.push_back(text);
  }
  return fmt::format("[{}]", fmt::join(dims, ", "));
}

}  // namespace strata::indexing
