#include "indexing/memory_access.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdlib>
#include <functional>
#include <set>

#include "indexing/thread_maps.h"

namespace strata::indexing {
namespace {

constexpr int64_t kMaxRangeValues = 64;

/// The indices that one lane accesses at once; none outside of the domain.
using Lane = std::vector<std::vector<int64_t>>;
using Warp = std::vector<Lane>;

/// Some values of the range variables: all, or with long steps.
std::vector<std::vector<int64_t>> range_samples(const IndexingMap& map, int vector) {
  std::vector<std::vector<int64_t>> result{{}};
  for (size_t i = 0; i < map.ranges.size(); ++i) {
    const Interval range = map.ranges[i];
    const auto limit = kMaxRangeValues / static_cast<int64_t>(result.size());
    const int64_t values = static_cast<int>(i) == vector ? 1 : std::clamp<int64_t>(limit, 1, range.size());
    std::vector<std::vector<int64_t>> longer;
    for (const std::vector<int64_t>& head : result) {
      for (int64_t k = 0; k < values; ++k) {
        longer.push_back(head);
        longer.back().push_back(range.lo + (values == 1 ? 0 : (range.size() - 1) / (values - 1) * k));
      }
    }
    result = std::move(longer);
  }
  return result;
}

class Warps {
 public:
  Warps(const IndexingMap& map, int vector) : map_(map), vector_(vector) {
    for (const RuntimeVariable& variable : map.runtime) runtime_.push_back(variable.range.lo);
  }

  void visit(const std::function<void(const Warp&)>& access) const {
    const Interval blocks = map_.dims[kBlock];
    const Interval threads = map_.dims[kThread];
    if (map_.known_empty || blocks.empty() || threads.empty()) return;
    const auto samples = range_samples(map_, vector_);
    for (const int64_t block : std::set<int64_t>{blocks.lo, blocks.lo + (blocks.hi - blocks.lo) / 2, blocks.hi}) {
      for (int64_t first = floor_div(threads.lo, kWarpSize) * kWarpSize; first <= threads.hi; first += kWarpSize) {
        for (const std::vector<int64_t>& ranges : samples) {
          Warp warp;
          for (int64_t thread = first; thread < first + kWarpSize; ++thread)
            warp.push_back(lane(block, thread, ranges));
          access(warp);
        }
      }
    }
  }

 private:
  Lane lane(int64_t block, int64_t thread, std::vector<int64_t> ranges) const {
    std::vector<int64_t> dims(map_.dims.size());
    for (size_t i = 0; i < dims.size(); ++i) dims[i] = map_.dims[i].lo;
    dims[kBlock] = block;
    dims[kThread] = thread;
    Lane result;
    const auto v = static_cast<size_t>(vector_);
    const Interval values = vector_ < 0 ? Interval{0, 0} : map_.ranges[v];
    for (int64_t value = values.lo; value <= values.hi; ++value) {
      if (vector_ >= 0) ranges[v] = value;
      const Point point{dims, ranges, runtime_};
      if (!in_domain(map_, point)) continue;
      if (auto index = evaluate(map_, point)) result.push_back(std::move(*index));
    }
    return result;
  }

  const IndexingMap& map_;
  const int vector_;
  std::vector<int64_t> runtime_;
};

/// Places of bytes, in bytes.
using Bytes = std::set<int64_t>;

/// Counts those of an access and the units of `unit_bytes` that they would fill.
bool add_bytes(AccessCost& cost, const Bytes& bytes, int64_t unit_bytes) {
  if (bytes.empty()) return false;
  const auto count = static_cast<int64_t>(bytes.size());
  ++cost.accesses;
  cost.bytes += count;
  cost.least += ceil_div(count, unit_bytes);
  return true;
}

}  // namespace

AccessCost global_access(const IndexingMap& map, const std::vector<int64_t>& strides, int element_bits, int vector) {
  assert(map.dims.size() > kThread && map.results.size() == strides.size());
  AccessCost cost;
  Warps(map, vector).visit([&](const Warp& warp) {
    Bytes bytes;
    std::set<int64_t> sectors;
    for (const Lane& lane : warp) {
      for (const std::vector<int64_t>& index : lane) {
        int64_t position = 0;
        for (size_t i = 0; i < index.size(); ++i) position += index[i] * strides[i];
        // Elements of less than a byte share it.
        const int64_t last = (position * element_bits + element_bits - 1) / 8;
        for (int64_t byte = position * element_bits / 8; byte <= last; ++byte) {
          bytes.insert(byte);
          sectors.insert(floor_div(byte, kSectorBytes));
        }
      }
    }
    if (add_bytes(cost, bytes, kSectorBytes)) cost.units += static_cast<int64_t>(sectors.size());
  });
  return cost;
}

namespace {

int64_t divisor_of(const Expr& expr);

/// (base floordiv first) mod (end / first), times a coefficient; end is 0 where there is no mod.
struct Digits {
  Expr base;
  int64_t first = 1;
  int64_t end = 0;
  int64_t coefficient = 0;
};

Digits digits_of(const Term& term) {
  Digits digits{term.atom, 1, 0, term.coefficient};
  if (digits.base.kind() == ExprKind::Mod && digits.base.rhs().is_constant()) {
    digits.end = digits.base.rhs().value();
    digits.base = Expr(digits.base.lhs());
  }
  if (digits.base.kind() == ExprKind::FloorDiv && digits.base.rhs().is_constant()) {
    digits.first = digits.base.rhs().value();
    digits.end = saturating_mul(digits.end, digits.first);
    digits.base = Expr(digits.base.lhs());
  }
  return digits;
}

/// A number that divides a sum of digits of one expression. Where their places divide one another, all are sums of the
/// finest digits, and so the divisor is that of these digits' coefficients: d - (d mod 8) * 3 is a multiple of 2.
int64_t divisor_of(const std::vector<Digits>& sum) {
  int64_t separate = 0;
  std::set<int64_t> places{1};
  for (const Digits& one : sum) {
    Expr atom = floor_div(one.base, one.first);
    if (one.end > 0) atom = mod(atom, one.end / one.first);
    // Where the product is no int64_t, the coefficient alone divides too.
    separate = common_divisor(separate, checked_mul(one.coefficient, divisor_of(atom)).value_or(one.coefficient));
    places.insert(one.first);
    if (one.end > 0) places.insert(one.end);
  }
  int64_t together = 0;
  for (auto place = places.begin(); place != places.end(); ++place) {
    const auto next = std::next(place);
    if (next != places.end() && (*next % *place != 0 || *next == kGreatest)) return separate;
    int64_t coefficient = 0;
    for (const Digits& one : sum) {
      if (*place < one.first || (one.end > 0 && *place >= one.end)) continue;
      const auto product = checked_mul(one.coefficient, *place / one.first);
      const auto total = product ? checked_add(coefficient, *product) : std::nullopt;
      if (!total || *total == kLeast) return separate;
      coefficient = *total;
    }
    together = common_divisor(together, coefficient);
  }
  // Multiples of both are what the values are; the greater one is the stronger fact for powers of two.
  return std::max(separate, together);
}

/// A number that divides all values of the expression; 0 if they are 0.
int64_t divisor_of(const Expr& expr) {
  switch (expr.kind()) {
    case ExprKind::Constant:
      return expr.value() == kLeast ? 1 : std::abs(expr.value());
    case ExprKind::Sum: {
      int64_t divisor = divisor_of(Expr::constant(expr.offset()));
      std::vector<std::vector<Digits>> sums;  // of the same expression each
      for (const Term& term : expr.terms()) {
        const Digits digits = digits_of(term);
        const auto known =
            std::find_if(sums.begin(), sums.end(), [&](const auto& sum) { return sum.front().base == digits.base; });
        if (known == sums.end()) {
          sums.push_back({digits});
        } else {
          known->push_back(digits);
        }
      }
      for (const std::vector<Digits>& sum : sums) divisor = common_divisor(divisor, divisor_of(sum));
      return divisor;
    }
    case ExprKind::Mod:
      return common_divisor(divisor_of(expr.lhs()), divisor_of(expr.rhs()));
    case ExprKind::Product: {
      int64_t divisor = 1;
      for (const Expr& factor : expr.factors()) divisor = saturating_mul(divisor, divisor_of(factor));
      return divisor;
    }
    default:
      return 1;
  }
}

/// An expression that is equal to the given one modulo the width: remainders by its multiples do not matter.
Expr modulo(const Expr& expr, int64_t width) {
  if (expr.kind() == ExprKind::Mod && expr.rhs().is_constant() && expr.rhs().value() % width == 0) {
    return modulo(expr.lhs(), width);
  }
  if (expr.kind() != ExprKind::Sum) return expr;
  Expr sum = Expr::constant(expr.offset());
  for (const Term& term : expr.terms()) sum = sum + modulo(term.atom, width) * term.coefficient;
  return sum;
}

bool is_multiple(const Expr& expr, int64_t width) {
  if (divisor_of(expr) % width == 0) return true;
  const Expr same = modulo(expr, width);
  return !same.is_undefined() && divisor_of(same) % width == 0;
}

}  // namespace

int64_t vector_width(const IndexingMap& positions, int range, int64_t limit) {
  assert(positions.results.size() == 1);
  const Expr variable = Expr::range(range);
  const Expr rest = positions.results[0] - variable;
  const Interval values = positions.ranges[static_cast<size_t>(range)];
  const bool guarded = std::any_of(positions.constraints.begin(), positions.constraints.end(),
                                   [&](const Constraint& c) { return c.expr.uses(ExprKind::Range, range); });
  if (guarded || values.lo != 0 || rest.is_undefined() || rest.uses(ExprKind::Range, range)) return 1;
  int64_t width = 1;
  while (width * 2 <= limit && values.size() % (width * 2) == 0 && is_multiple(rest, width * 2)) width *= 2;
  return width;
}

int64_t SharedTile::address(const std::vector<int64_t>& index) const {
  assert(index.size() == shape.size());
  if (shape.empty()) return 0;
  int64_t row = 0;
  for (size_t i = 0; i + 1 < shape.size(); ++i) row = row * shape[i] + index[i];
  int64_t column = index.back();
  if (swizzle_chunk > 0) {
    const int64_t chunks = shape.back() / swizzle_chunk;
    assert(shape.back() % swizzle_chunk == 0 && (chunks & (chunks - 1)) == 0);
    column = (column / swizzle_chunk ^ (row & (chunks - 1))) * swizzle_chunk + column % swizzle_chunk;
  }
  return row * (shape.back() + padding) + column;
}

int64_t SharedTile::bytes() const {
  int64_t elements = 1;
  for (size_t i = 0; i < shape.size(); ++i) elements *= shape[i] + (i + 1 == shape.size() ? padding : 0);
  return elements * element_bytes;
}

AccessCost shared_access(const IndexingMap& map, const SharedTile& tile, int vector) {
  assert(map.dims.size() > kThread && map.results.size() == tile.shape.size());
  constexpr int64_t kWord = 4;
  AccessCost cost;
  Warps(map, vector).visit([&](const Warp& warp) {
    size_t widest = 1;
    for (const Lane& lane : warp) widest = std::max(widest, lane.size());
    const auto lane_bytes = static_cast<int64_t>(widest) * tile.element_bytes;
    const auto together = static_cast<size_t>(std::clamp<int64_t>(kBanks * kWord / lane_bytes, 1, kWarpSize));
    Bytes all;
    for (size_t first = 0; first < warp.size(); first += together) {
      std::array<std::set<int64_t>, kBanks> words;
      for (size_t i = first; i < first + together; ++i) {
        for (const std::vector<int64_t>& index : warp[i]) {
          const int64_t start = tile.address(index) * tile.element_bytes;
          for (int64_t byte = start; byte < start + tile.element_bytes; ++byte) {
            all.insert(byte);
            words[static_cast<size_t>(byte / kWord % kBanks)].insert(byte / kWord);
          }
        }
      }
      size_t most = 0;
      for (const auto& bank : words) most = std::max(most, bank.size());
      cost.units += static_cast<int64_t>(most);
    }
    add_bytes(cost, all, kBanks * kWord);
  });
  return cost;
}

}  // namespace strata::indexing
