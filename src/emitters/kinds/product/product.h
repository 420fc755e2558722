// Products with few rows: the larger operand, the weights, is read once, as it is stored.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "emitters/kinds/decision.h"
#include "emitters/kinds/epilogue.h"
#include "indexing/indexing_map.h"

namespace strata::emitters {

/// One dimension of a product; -1 where an array does not have it.
struct ProductDimension {
  int64_t size = 1;
  int64_t in_weights = -1, in_rows = -1, in_result = -1;
};

/// A dot of few rows by many columns.
struct ProductShape {
  hlo::InstructionId id = 0;
  int weights = 1;  ///< the operand that has the columns; the other one has the rows
  /// Those of columns and terms in the order in which the weights lie in memory, outermost first.
  std::vector<ProductDimension> batch, rows, columns, terms;
  bool terms_inside = false;  ///< terms lie beside each other in memory, else columns do
  int64_t together = 1;       ///< of the innermost dimension
  int64_t bytes = 1;          ///< of a weight as it is stored: of the widest array that has one for each

  int64_t batches() const;
  int64_t row_count() const;
  int64_t column_count() const;
  int64_t term_count() const;
};

/// Rows up to this are few: one more fragment of a matrix instruction than one.
inline constexpr int64_t kMostRows = 16;
/// Of s8 whose columns lie together: libraries want the terms together, and a transpose moves the weights twice more.
/// As many as leave registers for what is read beside the sums of 8 columns a lane.
inline constexpr int64_t kMostRowsOfBytes = 64;
/// Of 16-bit floats: reading the weights takes longer than multiplying them by so many rows, and each block's reading
/// of these from caches. As many as leave registers for what is read beside the sums of 4 columns a lane.
inline constexpr int64_t kMostRowsOfHalves = 64;
/// Of 16-bit floats in several batches whose weights are computed, such as gradients by attention's values: library and
/// kernel take as long there, by the model. Also the most rows that batches which share their weights are merged into,
/// such as a few queries of each head of a group that shares keys. As many as leave registers for 8 columns a lane.
inline constexpr int64_t kMostRowsOfBatches = 32;
/// Of 16-bit floats in several batches: a batch has so many weights that several blocks of the kernel share them. Of
/// others a library has a block for each.
inline constexpr int64_t kFewestWeightsOfBatch = int64_t{1} << 15;

/// Lanes of a warp that stand along the columns, and along the terms.
inline constexpr int64_t kLanesOfColumns = 8, kLanesOfTerms = 4;
/// Rows of one fragment of a matrix instruction.
inline constexpr int64_t kFragmentRows = 8;

/// The shape of a dot that the product emitter takes: at most kMostRows rows (or the others of these), at least as many
/// columns, more terms than a loop has (indexing::kFewTerms), numbers of 8 bits and more that are not complex. Nothing
/// of another instruction.
std::optional<ProductShape> product_shape(const hlo::Computation& computation, hlo::InstructionId id);

/// The dimension of an array whose elements lie beside each other in the memory that it is read from: through
/// elementwise operators and transposes, to what has an element for each of its own. -1 where all have one element.
int64_t innermost_in_memory(const hlo::Computation& computation, hlo::InstructionId id);

/// What multiplies the elements: multiply-adds, or the matrix instructions of 16-bit floats, which sum in f32, or of
/// s8, which sum in s32.
enum class ProductUnit { MultiplyAdds, Halves, Bytes };
ProductUnit product_unit(const hlo::Computation& computation, hlo::InstructionId dot);

/// How threads share the work. A warp's lanes stand 8 along the columns and 4 along the terms; a lane has `columns` and
/// `terms` of them in each step. Warps of a block share the terms of a column, or have columns of their own.
struct ProductTiling {
  ProductUnit unit = ProductUnit::MultiplyAdds;
  bool computed = false;   ///< weights are computed of what is read, in registers
  int64_t columns = 1;     ///< of a lane
  int64_t terms = 4;       ///< of a lane, in a step
  int64_t term_warps = 1;  ///< warps that share a column's terms
  int64_t column_warps = 1;
  int64_t steps = 1;       ///< that a lane reads at once
  int64_t iterations = 1;  ///< each of so many steps

  bool matrix() const { return unit != ProductUnit::MultiplyAdds; }
  /// Terms of a lane that one matrix instruction takes.
  int64_t fragment_terms() const { return unit == ProductUnit::Bytes ? 8 : 4; }
  int64_t warp_columns() const { return 8 * columns; }
  int64_t block_columns() const { return column_warps * warp_columns(); }
  int64_t step_terms() const { return 4 * terms; }
  int64_t covered_terms() const { return iterations * steps * term_warps * step_terms(); }
  int threads() const { return static_cast<int>(32 * term_warps * column_warps); }
  /// Rows that a lane has in the end, when lanes along the terms have added up what they have: a quarter of all.
  int64_t lane_rows(int64_t rows) const { return matrix() ? 2 * ((rows + 7) / 8) : (rows + 3) / 4; }
};
ProductTiling choose_product_tiling(const hlo::Computation& computation, const ProductShape& shape,
                                    const Target& target);

/// Registers of a thread: its sums, what it reads in an iteration, and addresses.
int64_t product_registers(const ProductTiling& tiling, const ProductShape& shape);

/// Shared memory of a block: what the warps that share terms have each summed up.
int64_t product_shared_bytes(const ProductTiling& tiling, const ProductShape& shape, int64_t sum_bytes);

/// Blocks that a multiprocessor has room for, by their threads, these registers and shared memory for sums of 32 bits;
/// at least one.
int64_t product_blocks(const ProductTiling& tiling, const ProductShape& shape, const Target& target);

/// Lines of the rows that the lanes of a block's warps read, each with one instruction for all rows of a fragment.
double product_row_lines(const ProductTiling& tiling, const ProductShape& shape, int64_t row_bytes);
/// Of a multiprocessor for each of them. Measured on an H200, 2026-11-29, where f16[8 to 64, 4096] by f16[4096, 4096]
/// take 9.7 to 26.9 µs where columns lie together and 6.1 to 12.8 µs where terms do.
inline constexpr double kSecondsOfRowLine = 1.4e-9;

/// Instructions of all threads for the multiply-adds of a product, or for its matrix instructions and what these need:
/// as many as pass while tensor cores multiply, where that takes longer.
double product_operations(const ProductTiling& tiling, const ProductShape& shape, const Target& target);

/// Threads of a block that compute each element of the rows, on average: those of all warps along the columns, and
/// where no matrix instructions share it among lanes, all lanes along the columns; rows and terms beyond the last too.
double threads_of_row_element(const ProductTiling& tiling, const ProductShape& shape);

struct ProductPlan {
  HeroSplit split;  ///< whose one hero is the product
  ProductShape shape;
  ProductTiling tiling;

  int64_t column_tiles() const;
  int64_t blocks() const { return shape.batches() * column_tiles(); }
};
/// Elements between the rows of a tile of parts, so that lanes along the terms write to banks of their own.
int64_t product_padding(const ProductTiling& tiling);

Result<void> emit_product(const ProductPlan& plan, FusionFunctions& functions, const std::string& name,
                          const Decision& decision);

}  // namespace strata::emitters
