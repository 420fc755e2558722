// Scatters as gathers: where the windows that two indices take are the same or disjoint, an output is rows, each of
// which some updates go to. Kernels find out which, and the last one writes each row once. docs/emitters.md says how.
#pragma once

#include "emitters/elemental/function_emitter.h"
#include "emitters/kinds/code.h"
#include "emitters/kinds/combiners.h"
#include "emitters/kinds/kernel.h"
#include "emitters/kinds/plan.h"

namespace strata::emitters {

/// How the updates of a row are found.
enum class RowIndex {
  Inverse,  ///< a row has one update at most, or any one of several stays
  Sorted,   ///< the updates of a row follow each other
  Counted,  ///< those of each row are counted; each takes a slot of the row's, or where there is none, a place in a
            ///< list
};

/// What the rows of a scatter are. A row is an index in the dimensions that windows have one element of; its elements
/// are numbered in the other dimensions. Both in the order in which they lie in the output's memory.
struct ScatterRows {
  hlo::InstructionId scatter = 0, indices = 0;
  std::vector<hlo::InstructionId> operands, updates;  ///< of each array
  int64_t count = 0;                                  ///< of windows
  int64_t rows = 0;
  int64_t window = 0;  ///< elements of a window
  int64_t width = 1;   ///< elements of a row, of which windows may leave some out

  std::vector<indexing::IndexingMap>
      starts;                              ///< (window's number) → index of the indices, for each scattered dimension
  indexing::IndexingMap fits;              ///< (window's number, starts…) → nothing, where the whole window fits
  indexing::IndexingMap row;               ///< the same, where it does → row
  indexing::IndexingMap row_of_output;     ///< (index of the output) → row
  indexing::IndexingMap output_of_row;     ///< (row, which of its elements, as they lie) → index of the output
  bool rows_are_outermost = true;          ///< whether the elements of a row lie together
  indexing::IndexingMap covered;           ///< the same → nothing, where windows reach to
  indexing::IndexingMap update_of_output;  ///< (index of the output…, window's number) → index of the updates
  indexing::IndexingMap element_of_output;  ///< (index of the output) → element of the window, as updates lie
  indexing::IndexingMap update_of_element;  ///< (element of the window, window's number) → index of the updates
  int64_t output_run = 1;                   ///< elements of the output that lie together and are of one row
  int64_t update_run = 1;                   ///< elements of the updates that lie together and are of one window
};

/// The plan, and the same where a model says that another emitter is faster.
Result<Plan> plan_scatter_rows(const Fusion& fusion);
Result<Plan> plan_scatter_rows_at_any_cost(const Fusion& fusion);

/// Unsupported for windows that may overlap.
Result<ScatterRows> scatter_rows(const Fusion& fusion);

/// How the updates of a row come together.
struct RowCombination {
  bool replaces = false;         ///< any update takes the element's place
  std::optional<Combiner> name;  ///< if parts may be combined by themselves
};
/// That of the root, which is a scatter. Unsupported for a computation of other types.
Result<RowCombination> row_combination(const Fusion& fusion);

/// How many updates a row has at most where windows go to rows at random, `share` a row: half a row, of all of them, is
/// expected to have more (Poisson's distribution; its normal approximation where it is wide).
int64_t likely_most(double share, double rows);

/// What is counted of all rows together: entries of short lists, chunks of long ones, and whether there are lists.
enum class Total : int { Entries = 0, Chunks = 1, Overflows = 2, Number = 3 };

/// How the kernels do it.
struct ScatterRowsPlan {
  ScatterRows shape;
  RowIndex index = RowIndex::Counted;
  bool replaces = false;  ///< else updates are combined with the operand's elements
  int64_t vector = 1;     ///< elements of the output that a thread writes together, all of one row
  int64_t unroll = 1;     ///< how many times
  int64_t first = 1;      ///< entries of a row that are read together, before it is known whether there are more
  int64_t batch = 1;      ///< of those after them
  /// Entries of a list that are combined by themselves, so that a long list is not one thread's; 0: lists are not cut.
  int64_t chunk = 0;
  int64_t chunk_vector = 1;
  int64_t chunk_batch = 1;   ///< entries of a chunk that are read together
  int64_t chunk_groups = 1;  ///< of threads that share a chunk: if more than one, a block has one chunk
  int64_t record = 1;  ///< elements from one row's record to the next; many, where few would share a part of the cache
  // Counted:
  int64_t slots = 1;               ///< entries that each row has a place for; what is more goes to lists
  int64_t tally = 0;               ///< windows of a thread, where blocks count theirs in shared memory first; else 0
  int64_t windows_per_thread = 1;  ///< of the kernel that puts lists in order
  int64_t longest = 0;             ///< entries of a list that has no chunks of its own, where lists are cut

  /// Whether slots are combined by chunks; there are a multiple of the chunk then.
  bool slots_are_cut() const { return index == RowIndex::Counted && chunk > 0 && slots >= 2 * chunk; }
  int64_t slot_chunks_of_row() const { return slots_are_cut() ? slots / chunk : 0; }
  int64_t slot_chunks() const { return shape.rows * slot_chunks_of_row(); }
  /// Whether a thread of the kernel that says where lists begin has a row, not a window.
  bool lists_by_row() const { return shape.rows < shape.count; }
  /// Lists longer than this have chunks of their own, which begin here; there are at most so many.
  int64_t longest_list() const { return chunk == 0 ? shape.count : longest; }
  int64_t first_chunk() const { return chunk == 0 ? shape.count : (shape.count + chunk - 1) / chunk * chunk; }
  int64_t list_chunks() const {
    if (chunk == 0 || shape.count <= longest_list()) return 0;
    return index == RowIndex::Sorted ? shape.count / chunk : shape.count / chunk + shape.count / longest + 1;
  }
  int64_t records() const {
    return shape.rows + (index == RowIndex::Counted ? static_cast<int64_t>(Total::Number) : 0);
  }
  int64_t positions() const { return first_chunk() + list_chunks() * chunk; }  ///< of the order
  int64_t chunks() const { return slot_chunks() + list_chunks(); }             ///< those of slots come first
};

/// How many elements, of how many updates, a thread has at a time.
void choose_row_widths(ScatterRowsPlan& plan, const Fusion& fusion);

/// The temporaries, by number. The first one is zero before the first kernel.
enum class RowTemporary : int {
  /// What a row has, in one load.
  /// Inverse: 1 + its window, or 0. Sorted: two elements, 1 + its last window, or 0, and its first one.
  /// Counted, of 64 bits: the number of its windows, and in the upper half the sum of the windows' numbers, which is
  /// the
  /// window where it has one; after the rows what `Total` says.
  Rows = 0,
  SortedParts = 1,
  Slots = 1,   ///< (row, slot) → window; a row's only window is not there if `first` is more than 0
  Ranks = 2,   ///< window → which of its row's it is
  Starts = 3,  ///< row → where its list begins
  Order = 4,   ///< the lists, of windows
  CountedParts = 5,
};

/// What the kernels of one fusion have in common while they are written.
struct RowsEmission {
  FusionFunctions& functions;
  const ScatterRowsPlan& plan;
  const Decision& decision;
  std::string name;
  mlir::func::FuncOp combine;  ///< (elements, updates) → elements, of wide types; none where updates replace

  /// Kernel number `launch`, which only reads the temporaries of these numbers.
  Kernel kernel(size_t launch, std::vector<size_t> only_read) const {
    return Kernel(functions, name, decision, launch, std::move(only_read));
  }
};

// count.cpp, index.cpp: the kernels that find out which updates go to each row.
Result<void> emit_count(const RowsEmission& emission, size_t launch);
Result<void> emit_starts(const RowsEmission& emission, size_t launch);
Result<void> emit_order(const RowsEmission& emission, size_t launch);
Result<void> emit_inverse(const RowsEmission& emission, size_t launch);
/// Where the lists begin and end, for sorted indices.
Result<void> emit_ends(const RowsEmission& emission, size_t launch);

// chunks.cpp: combines parts of long lists.
Result<void> emit_chunks(const RowsEmission& emission, size_t launch);

// output.cpp: writes the rows.
Result<void> emit_rows(const RowsEmission& emission, size_t launch);

// code.cpp: pieces of them.

/// The row that a window is put in; -1 if it does not fit.
Result<mlir::Value> row_of(mlir::ImplicitLocOpBuilder& builder, const RowsEmission& emission, mlir::ValueRange inputs,
                           mlir::Value window);
/// An element of a temporary as an index, and an index into one.
mlir::Value load_index(mlir::ImplicitLocOpBuilder& builder, mlir::Value temporary, mlir::Value position);
mlir::Value store_index(mlir::ImplicitLocOpBuilder& builder, mlir::Value index, mlir::Value temporary,
                        mlir::Value position);
/// Where the record of a row is, and of a total; where an element of a row's run is; the number of a row's slot.
mlir::Value record_of(mlir::ImplicitLocOpBuilder& builder, const ScatterRowsPlan& plan, mlir::Value row);
mlir::Value total_of(mlir::ImplicitLocOpBuilder& builder, const ScatterRowsPlan& plan, Total total);
mlir::Value run_of(mlir::ImplicitLocOpBuilder& builder, const ScatterRowsPlan& plan, mlir::Value row, int64_t which);
mlir::Value slot_of(mlir::ImplicitLocOpBuilder& builder, const ScatterRowsPlan& plan, mlir::Value row,
                    mlir::Value number);
/// Both halves of a record as indices: the number of windows, and the sum of theirs.
std::pair<mlir::Value, mlir::Value> record_fields(mlir::ImplicitLocOpBuilder& builder, mlir::Value record);
/// The number of a row's windows; of all rows' chunks.
mlir::Value load_count(mlir::ImplicitLocOpBuilder& builder, const ScatterRowsPlan& plan, mlir::Value records,
                       mlir::Value row);
mlir::Value load_total(mlir::ImplicitLocOpBuilder& builder, const ScatterRowsPlan& plan, mlir::Value records,
                       Total total);

}  // namespace strata::emitters
