#include <algorithm>
#include <numeric>

#include "hlo/compute.h"
#include "hlo/evaluate_parts.h"
#include "hlo/strided.h"

namespace strata::hlo {
namespace {

using Integers = std::vector<int64_t>;

/// Two sorted runs that become one.
struct Merge {
  int64_t left, left_end, right, right_end, out;
};

/// Merge sort from short runs to long ones, stable. All merges of a pass go in step, so that one call of the comparison
/// serves them all; and a comparison that is no order harms nothing but the result.
Result<Integers> sorted_places(const std::vector<Literal>& operands, const ScalarFunction& less, int64_t lists,
                               int64_t length, const Integers& places) {
  Integers order = places;
  Integers merged(order.size());
  for (int64_t run = 1; run < length; run *= 2) {
    std::vector<Merge> open;
    for (int64_t list = 0; list < lists; ++list) {
      for (int64_t begin = 0; begin < length; begin += 2 * run) {
        const int64_t start = list * length + begin;
        const int64_t middle = list * length + std::min(begin + run, length);
        open.push_back({start, middle, middle, list * length + std::min(begin + 2 * run, length), start});
      }
    }
    while (!open.empty()) {
      // Finished merges copy what is left of one side, and go.
      std::erase_if(open, [&](Merge& m) {
        if (m.left != m.left_end && m.right != m.right_end) return false;
        std::copy(order.begin() + m.left, order.begin() + m.left_end, merged.begin() + m.out);
        std::copy(order.begin() + m.right, order.begin() + m.right_end, merged.begin() + m.out + (m.left_end - m.left));
        return true;
      });
      if (open.empty()) break;
      Integers left, right;
      for (const Merge& m : open) {
        left.push_back(order[static_cast<size_t>(m.left)]);
        right.push_back(order[static_cast<size_t>(m.right)]);
      }
      std::vector<Literal> arguments;
      for (const Literal& operand : operands) {
        arguments.push_back(pick(operand, right));
        arguments.push_back(pick(operand, left));
      }
      STRATA_TRY(const auto is_less, less(arguments, static_cast<int64_t>(open.size())));
      for (size_t i = 0; i < open.size(); ++i) {
        Merge& m = open[i];
        int64_t& taken = is_less[0].bytes()[i] != std::byte{0} ? m.right : m.left;
        merged[static_cast<size_t>(m.out++)] = order[static_cast<size_t>(taken++)];
      }
    }
    std::swap(order, merged);
  }
  return order;
}

/// The offsets of all elements, those along dimension `d` one after the other.
Integers offsets_along(const Integers& dims, size_t d) {
  Integers outer_dims = dims;
  Integers outer_strides = row_major_strides(dims);
  const int64_t stride = outer_strides[d];
  outer_dims[d] = 1;
  Integers offsets;
  if (is_empty(dims)) return offsets;
  Integers index(dims.size());
  do {
    const int64_t start = dot_product(index, outer_strides);
    for (int64_t i = 0; i < dims[d]; ++i) offsets.push_back(start + i * stride);
  } while (next_index(index, outer_dims));
  return offsets;
}

}  // namespace

Result<Literal> evaluate_sort(const Instruction& instruction, const std::vector<Literal>& operands,
                              const ScalarFunction& less) {
  const Shape& shape = operands[0].shape();
  if (shape.rank() == 0) return one_or_tuple(operands);
  const size_t d = static_cast<size_t>(instruction.as<SortAttributes>().dimension);
  const Integers places = offsets_along(shape.dims, d);
  const int64_t length = shape.dims[d];
  const int64_t lists = length == 0 ? 0 : static_cast<int64_t>(places.size()) / length;
  STRATA_TRY(const Integers order, sorted_places(operands, less, lists, length, places));
  std::vector<Literal> results;
  for (const Literal& operand : operands) {
    Literal result(operand.shape());
    put(result, places, pick(operand, order));
    results.push_back(std::move(result));
  }
  return one_or_tuple(std::move(results));
}

Literal evaluate_top_k(const Literal& operand, const Shape& shape, bool largest) {
  std::vector<Literal> results{Literal(shape.elements[0]), Literal(shape.elements[1])};
  const int64_t length = operand.shape().dims.back();
  const int64_t k = shape.elements[0].dims.back();
  const int64_t rows = k == 0 ? 0 : results[0].size() / k;
  std::byte* values = results[0].mutable_bytes();
  std::byte* places = results[1].mutable_bytes();
  visit_compute_type(operand.type(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_arithmetic_v<T>) {
      // NaN is above all numbers, as in the total order; -0 and 0 differ there too.
      const auto before = [largest](T a, T b) {
        if (!largest) std::swap(a, b);
        if constexpr (std::is_floating_point_v<T>) return std::strong_order(a, b) > 0;
        return a > b;
      };
      std::vector<T> row(static_cast<size_t>(length));
      for (int64_t r = 0; r < rows; ++r) {
        load(operand, r * length, 1, length, row.data());
        Integers order(row.size());
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
          return before(row[static_cast<size_t>(a)], row[static_cast<size_t>(b)]);
        });
        for (int64_t i = 0; i < k; ++i) {
          const int64_t place = order[static_cast<size_t>(i)];
          store(operand.type(), values, r * k + i, 1, &row[static_cast<size_t>(place)]);
          store(ElementType::S32, places, r * k + i, 1, &place);
        }
      }
    }
  });
  return Literal::tuple(std::move(results));
}

}  // namespace strata::hlo
