// Which dots are products of few rows, and how threads share them.
#include <algorithm>
#include <cmath>

#include "emitters/elemental/scalar_operators.h"
#include "emitters/kinds/memory_views.h"
#include "emitters/kinds/product/product.h"
#include "hlo/indexing/evaluations.h"

namespace strata::emitters {
namespace {

using hlo::Computation;
using hlo::ElementType;
using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;
using indexing::ceil_div;

using Dimensions = std::vector<int64_t>;

int64_t count_of(const std::vector<ProductDimension>& dims) {
  int64_t count = 1;
  for (const ProductDimension& one : dims) count *= one.size;
  return count;
}

bool is_number(ElementType type) {
  return type != ElementType::Pred && !hlo::is_complex(type) && hlo::bit_width(type) >= 8;
}

Dimensions free_dimensions(const hlo::Shape& shape, const Dimensions& batch, const Dimensions& contracting) {
  Dimensions found;
  for (int64_t d = 0; d < shape.rank(); ++d) {
    const bool taken = std::find(batch.begin(), batch.end(), d) != batch.end() ||
                       std::find(contracting.begin(), contracting.end(), d) != contracting.end();
    if (!taken) found.push_back(d);
  }
  return found;
}

/// The largest power of two up to `most` that divides the number.
int64_t vector_of(int64_t number, int64_t most) {
  int64_t vector = 1;
  while (vector * 2 <= most && number % (vector * 2) == 0) vector *= 2;
  return vector;
}

/// Whether an array is computed of others, instead of read as it is or in another order.
bool is_computed(const Computation& computation, InstructionId id) {
  const auto moves = [](const Instruction& it) {
    return it.opcode == Opcode::Transpose || it.opcode == Opcode::Bitcast || it.opcode == Opcode::Reshape;
  };
  while (moves(computation[id])) id = computation[id].operands[0];
  return computation[id].opcode != Opcode::Parameter;
}

/// Bytes of a number as matrix instructions take it; 0 where there are none.
int64_t multiplied_bytes(ProductUnit unit) {
  return unit == ProductUnit::Halves ? 2 : unit == ProductUnit::Bytes ? 1 : 0;
}

/// Bytes of a weight in registers.
int64_t held_bytes(const ProductTiling& tiling, const ProductShape& shape) {
  return std::max(shape.bytes, multiplied_bytes(tiling.unit));
}

constexpr int64_t kVectorBytes = 16;  ///< that a lane loads at once, at most
constexpr int64_t kSumBytes = 4;      ///< of matrix instructions, and most others

int64_t power_below(double x) {
  int64_t power = 1;
  while (static_cast<double>(power * 2) <= x) power *= 2;
  return power;
}

}  // namespace

int64_t ProductShape::batches() const { return count_of(batch); }
int64_t ProductShape::row_count() const { return count_of(rows); }
int64_t ProductShape::column_count() const { return count_of(columns); }
int64_t ProductShape::term_count() const { return count_of(terms); }

int64_t innermost_in_memory(const Computation& computation, InstructionId id) {
  const Dimensions order = order_in_memory(computation, id, Through::Elements);
  return order.empty() ? -1 : order.back();
}

std::optional<ProductShape> product_shape(const Computation& computation, InstructionId id) {
  const Instruction& it = computation[id];
  if (it.opcode != Opcode::Dot || !is_number(it.shape.type) || it.shape.element_count() == 0) return std::nullopt;
  const auto& a = it.as<hlo::DotAttributes>();
  const hlo::Shape& lhs = computation.operand_shape(it, 0);
  const hlo::Shape& rhs = computation.operand_shape(it, 1);
  if (!is_number(lhs.type) || !is_number(rhs.type) || !indexing::is_long_reduction(computation, it))
    return std::nullopt;
  const Dimensions lhs_free = free_dimensions(lhs, a.lhs_batch, a.lhs_contracting);
  const Dimensions rhs_free = free_dimensions(rhs, a.rhs_batch, a.rhs_contracting);
  const auto size = [](const hlo::Shape& shape, const Dimensions& dims) {
    int64_t all = 1;
    for (const int64_t d : dims) all *= shape.dim(d);
    return all;
  };
  ProductShape made;
  made.id = id;
  made.weights = size(lhs, lhs_free) > size(rhs, rhs_free) ? 0 : 1;
  const bool left = made.weights == 0;
  const auto& [w, x] = left ? std::tie(lhs, rhs) : std::tie(rhs, lhs);
  const Dimensions& w_free = left ? lhs_free : rhs_free;
  const Dimensions& x_free = left ? rhs_free : lhs_free;
  const ProductUnit unit = product_unit(computation, id);
  const int64_t batches = size(lhs, a.lhs_batch), of_batch = w.element_count() / batches;
  const auto most_rows = [&] {
    if (unit != ProductUnit::Halves) return unit == ProductUnit::Bytes ? kMostRowsOfBytes : kMostRows;
    if (batches == 1) return kMostRowsOfHalves;
    if (of_batch < kFewestWeightsOfBatch) return kMostRows;
    const bool computed = is_computed(computation, it.operands[static_cast<size_t>(made.weights)]);
    return computed ? kMostRowsOfBatches : kMostRowsOfHalves;
  };
  const int64_t most = most_rows();
  if (size(x, x_free) > most || size(w, w_free) < size(x, x_free)) return std::nullopt;
  int64_t next = 0;
  for (size_t i = 0; i < a.lhs_batch.size(); ++i) {
    const int64_t in_lhs = a.lhs_batch[i], in_rhs = a.rhs_batch[i];
    made.batch.push_back({lhs.dim(in_lhs), left ? in_lhs : in_rhs, left ? in_rhs : in_lhs, next++});
  }
  for (const int64_t d : lhs_free) {
    if (left) {
      made.columns.push_back({lhs.dim(d), d, -1, next++});
    } else {
      made.rows.push_back({lhs.dim(d), -1, d, next++});
    }
  }
  for (const int64_t d : rhs_free) {
    if (left) {
      made.rows.push_back({rhs.dim(d), -1, d, next++});
    } else {
      made.columns.push_back({rhs.dim(d), d, -1, next++});
    }
  }
  for (size_t i = 0; i < a.lhs_contracting.size(); ++i) {
    const int64_t in_lhs = a.lhs_contracting[i], in_rhs = a.rhs_contracting[i];
    made.terms.push_back({lhs.dim(in_lhs), left ? in_lhs : in_rhs, left ? in_rhs : in_lhs, -1});
  }
  const InstructionId weights = it.operands[static_cast<size_t>(made.weights)];
  const InstructionId source = source_in_memory(computation, weights, Through::Elements).memory;
  made.bytes = hlo::byte_width(computation[source].shape.type);
  const Dimensions order = order_in_memory(computation, weights, Through::Elements);
  const auto depth = [&](const ProductDimension& one) { return std::find(order.begin(), order.end(), one.in_weights); };
  for (auto* group : {&made.columns, &made.terms}) {
    std::sort(group->begin(), group->end(),
              [&](const auto& one, const auto& other) { return depth(one) < depth(other); });
  }
  if (!order.empty()) {
    const int64_t d = order.back();
    const auto has = [&](const std::vector<ProductDimension>& group) {
      return std::any_of(group.begin(), group.end(), [&](const auto& one) { return one.in_weights == d; });
    };
    made.terms_inside = has(made.terms);
    made.together = has(made.batch) ? 1 : w.dim(d);
  }
  const bool columns_inside = made.together > 1 && !made.terms_inside;
  if (unit == ProductUnit::Bytes && made.row_count() > kMostRows && !columns_inside) return std::nullopt;
  return made;
}

ProductUnit product_unit(const Computation& computation, InstructionId dot) {
  const Instruction& it = computation[dot];
  const ElementType type = computation.operand_shape(it, 0).type;
  if (computation.operand_shape(it, 1).type != type) return ProductUnit::MultiplyAdds;
  if (type == ElementType::S8 && it.shape.type == ElementType::S32) return ProductUnit::Bytes;
  const bool half = type == ElementType::BF16 || type == ElementType::F16;
  return half && (it.shape.type == type || it.shape.type == ElementType::F32) ? ProductUnit::Halves
                                                                              : ProductUnit::MultiplyAdds;
}

int64_t product_blocks(const ProductTiling& tiling, const ProductShape& shape, const Target& target) {
  const int64_t registers = ceil_div(product_registers(tiling, shape), 8) * 8;
  const int64_t shared = product_shared_bytes(tiling, shape, kSumBytes) + target.reserved_shared_memory;
  return std::max<int64_t>(std::min<int64_t>({target.registers / (registers * tiling.threads()),
                                              target.threads_per_multiprocessor / tiling.threads(),
                                              target.multiprocessor_shared_memory / shared}),
                           1);
}

/// The part of the memory's bandwidth that the bytes on their way use: all of it needs as many as come in the time that
/// one takes. Where not all blocks are there at once, the last ones leave multiprocessors idle.
double busy_memory(const ProductTiling& tiling, const ProductShape& shape, const Target& target) {
  const int64_t blocks = shape.batches() * ceil_div(shape.column_count(), tiling.block_columns());
  const int64_t slots = product_blocks(tiling, shape, target) * target.multiprocessors;
  const auto bytes = static_cast<double>(tiling.threads() * tiling.steps * tiling.terms * tiling.columns * shape.bytes);
  const double together = static_cast<double>(std::min(blocks, slots)) * bytes;
  const double even =
      blocks <= slots ? 1 : static_cast<double>(blocks) / static_cast<double>(ceil_div(blocks, slots) * slots);
  return even * std::min(together / (target.rates.memory_bandwidth * target.rates.busy_load_latency), 1.0);
}

ProductTiling choose_product_tiling(const Computation& computation, const ProductShape& shape, const Target& target) {
  constexpr int64_t kSectorBytes = 32, kLineBytes = 128;
  constexpr int64_t kBytesOnTheirWay = 128;          // of a lane
  constexpr int64_t kSums = 64, kSumsOfBytes = 128;  // registers of a thread for what it adds up
  constexpr int64_t kColumnsApart = 4;               // of a lane whose vectors are terms
  constexpr double kWarps = 32;                      // of a multiprocessor
  constexpr int64_t kMostWarps = 16, kFewestWarps = 4;
  constexpr double kOfCutLines = 0.8;  // of the bandwidth of whole lines: docs/emitters-products.md
  ProductTiling made;
  made.unit = product_unit(computation, shape.id);
  made.computed = is_computed(computation, computation[shape.id].operands[static_cast<size_t>(shape.weights)]);
  const int64_t rows = shape.row_count(), columns = shape.column_count(), terms = shape.term_count();
  const int64_t vector = vector_of(shape.together, std::max<int64_t>(kVectorBytes / shape.bytes, 1));
  const int64_t fewest = made.matrix() ? 2 : 1;  // a matrix instruction has two columns of a lane
  const int64_t sums = made.unit == ProductUnit::Bytes ? kSumsOfBytes : kSums;
  const int64_t most = std::max(sums / (made.lane_rows(rows) * (made.matrix() ? 1 : 4)), fewest);
  const auto blocks = [&] { return shape.batches() * ceil_div(columns, made.warp_columns()); };
  if (shape.terms_inside) {
    // The four lanes along the terms read whole lines: of half lines memory gave a fifth less
    // (docs/emitters-products.md).
    // Without matrix instructions a lane has all rows at its terms in registers, so that it takes a vector of them.
    const int64_t line = made.matrix() ? kLineBytes / 4 : kVectorBytes;
    made.terms = std::max(vector_of(shape.together, std::max<int64_t>(line / shape.bytes, 1)), made.fragment_terms());
    const int64_t room = kBytesOnTheirWay / (made.terms * held_bytes(made, shape));
    made.columns =
        std::clamp(std::min(kColumnsApart, room), fewest, std::max(power_below(static_cast<double>(most)), fewest));
  } else {
    made.terms = made.fragment_terms();
    made.columns = std::clamp(vector, fewest, std::max(power_below(static_cast<double>(most)), fewest));
  }
  const auto halves = [&] {
    if (made.columns <= fewest) return false;
    return shape.terms_inside || made.warp_columns() * shape.bytes > kSectorBytes;
  };
  // Where weights are multiplied as they are read, a multiprocessor has little to do: fewer blocks than there are of
  // those have as many bytes on their way, unless they are less than half of them.
  const bool simple = made.matrix() && !made.computed;
  const int64_t fewest_blocks = simple ? target.multiprocessors / 2 + 1 : int64_t{target.multiprocessors};
  while (blocks() < fewest_blocks && halves()) made.columns /= 2;
  const int64_t steps = ceil_div(terms, made.step_terms());
  ProductTiling best;
  double busiest = -1;
  bool best_fits = false;
  const auto consider = [&] {
    // As many steps at once as registers have room for, which share the iterations evenly. A multiprocessor has the
    // threads of as many blocks as there are for each.
    const int64_t here = ceil_div(shape.batches() * ceil_div(columns, made.block_columns()), target.multiprocessors);
    const int64_t each = ceil_div(steps, made.term_warps);
    const int64_t loaded = made.terms * made.columns * held_bytes(made, shape);
    for (int64_t at_once = std::max<int64_t>(kBytesOnTheirWay / loaded, 1);; at_once /= 2) {
      made.iterations = ceil_div(each, at_once);
      made.steps = ceil_div(each, made.iterations);
      const int64_t threads =
          simple ? std::min<int64_t>(static_cast<int64_t>(32 * kWarps), here * made.threads()) : made.threads();
      if (at_once == 1 || product_registers(made, shape) * threads <= target.registers) break;
    }
    const bool fits = !made.matrix() || (product_registers(made, shape) * made.threads() <= target.registers &&
                                         product_shared_bytes(made, shape, kSumBytes) <= target.shared_memory);
    const bool cuts_lines = !shape.terms_inside && made.warp_columns() * shape.bytes < kLineBytes;
    const double busy = simple ? (cuts_lines ? kOfCutLines : 1) * busy_memory(made, shape, target) : 1;
    if (fits == best_fits ? busy > 1.02 * busiest : fits) {
      busiest = busy;
      best_fits = fits;
      best = made;
    }
  };
  // Of the numbers of warps, the one that keeps most of the memory's bandwidth busy; more where that is equal.
  const auto consider_warps = [&] {
    const double share = kWarps * target.multiprocessors / static_cast<double>(blocks());
    const int64_t most_warps = std::min(power_below(std::clamp<double>(share, kFewestWarps, kMostWarps)),
                                        power_below(static_cast<double>(steps)));
    for (made.term_warps = most_warps; made.term_warps >= std::min(most_warps, kFewestWarps); made.term_warps /= 2) {
      const int64_t fewest_beside = std::min(std::max<int64_t>(kFewestWarps / made.term_warps, 1),
                                             power_below(static_cast<double>(ceil_div(columns, made.warp_columns()))));
      made.column_warps = fewest_beside;
      // Warps beside each other read the same rows at about the same time, from L1. Smaller blocks share work more
      // evenly.
      while (simple && made.term_warps * made.column_warps * 2 <= kMostWarps &&
             shape.batches() * (columns / (2 * made.block_columns())) >= target.multiprocessors) {
        made.column_warps *= 2;
      }
      // Of halves, whose sums take little room, all of them: so they were measured.
      const int64_t least = made.unit == ProductUnit::Bytes ? fewest_beside : made.column_warps;
      for (; made.column_warps >= least; made.column_warps /= 2) consider();
    }
  };
  consider_warps();
  // Where sums of all rows take the registers of more warps, half as many columns a lane may leave more bytes on their
  // way.
  if (made.unit == ProductUnit::Bytes && !shape.terms_inside && halves()) {
    made.columns /= 2;
    consider_warps();
  }
  return best;
}

int64_t product_registers(const ProductTiling& tiling, const ProductShape& shape) {
  constexpr int64_t kAddresses = 20;
  const int64_t fragments = ceil_div(shape.row_count(), 8);
  const int64_t sums = tiling.columns * (tiling.matrix() ? 2 * fragments : shape.row_count());
  const int64_t weights = tiling.steps * tiling.terms * tiling.columns * held_bytes(tiling, shape);
  // Caches have the rows: those of a step are read when it is multiplied.
  const int64_t rows =
      tiling.terms * (tiling.matrix() ? fragments * multiplied_bytes(tiling.unit) : shape.row_count() * 4);
  return sums + ceil_div(weights + rows, 4) + kAddresses;
}

double product_operations(const ProductTiling& tiling, const ProductShape& shape, const Target& target) {
  const double weights =
      static_cast<double>(shape.batches() * shape.column_count()) * static_cast<double>(tiling.covered_terms());
  const auto rows = static_cast<double>(shape.row_count());
  if (!tiling.matrix()) return weights * rows;
  // A matrix instruction takes two columns of a lane's terms. Halves are packed in pairs; of bytes eight permutations
  // make words of the terms of four columns, if columns lie together.
  const double of_weight = tiling.unit == ProductUnit::Halves ? 1 : 0.5;
  const double fragments = std::ceil(rows / kFragmentRows);
  const double issued = of_weight + fragments / static_cast<double>(2 * tiling.fragment_terms());
  const double rate = target.rates.matrix_rate * 2 / static_cast<double>(multiplied_bytes(tiling.unit));
  return weights * std::max(issued, fragments * kFragmentRows * target.rates.scalar_rate / rate);
}

double product_row_lines(const ProductTiling& tiling, const ProductShape& shape, int64_t row_bytes) {
  const int64_t together = kLanesOfTerms * std::min(tiling.terms, std::max<int64_t>(kVectorBytes / row_bytes, 1));
  return static_cast<double>(shape.row_count() * ceil_div(shape.term_count(), together) * tiling.column_warps);
}

double threads_of_row_element(const ProductTiling& tiling, const ProductShape& shape) {
  const auto rows = static_cast<double>(shape.row_count());
  const double filled = std::ceil(rows / kFragmentRows) * kFragmentRows / rows;
  return static_cast<double>(tiling.column_warps) * (tiling.matrix() ? filled : kLanesOfColumns) *
         static_cast<double>(tiling.covered_terms()) / static_cast<double>(shape.term_count());
}

int64_t ProductPlan::column_tiles() const { return ceil_div(shape.column_count(), tiling.block_columns()); }

int64_t product_padding(const ProductTiling& tiling) { return tiling.block_columns() % 16 == 0 ? 8 : 0; }

int64_t product_shared_bytes(const ProductTiling& tiling, const ProductShape& shape, int64_t sum_bytes) {
  const int64_t rows = 4 * tiling.lane_rows(shape.row_count());
  return tiling.term_warps * rows * (tiling.block_columns() + product_padding(tiling)) * sum_bytes;
}

}  // namespace strata::emitters
