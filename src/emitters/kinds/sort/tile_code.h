// Sorting and merging in a block: elements in registers and in shared memory.
#pragma once

#include <vector>

#include "emitters/dialect/dialect.h"
#include "emitters/kinds/code.h"

namespace strata::emitters {

/// Counts and places within a row or a tile, as i32.
class Integers {
 public:
  using Builder = mlir::ImplicitLocOpBuilder;
  using Value = mlir::Value;
  static Value constant(Builder& builder, int64_t value);
  static Value of_index(Builder& builder, Value index);
  static Value to_index(Builder& builder, Value integer);
  static Value add(Builder& builder, Value a, Value b);
  static Value add(Builder& builder, Value a, int64_t b);
  static Value subtract(Builder& builder, Value a, Value b);
  static Value multiply(Builder& builder, Value a, int64_t b);
  static Value minimum(Builder& builder, Value a, Value b);
  static Value maximum(Builder& builder, Value a, Value b);
  /// The value, or the nearer end of [0, most].
  static Value clamp(Builder& builder, Value value, Value most);
  static Value less(Builder& builder, Value a, Value b);
};

/// One element of each array.
using Element = Values;
/// The elements of a thread, in order.
using Items = std::vector<Element>;

/// Two sorted runs in a tile, i32 each.
struct RunPair {
  mlir::Value a, a_count, b, b_count;
};

/// A comparison that is no order makes the order of elements arbitrary; no place outside of runs is read or written.
class TileCode {
 public:
  using Builder = mlir::ImplicitLocOpBuilder;
  using Value = mlir::Value;

  /// `items`: elements of a thread.
  TileCode(mlir::func::FuncOp less, int64_t items) : less_(less), items_(items) {}

  /// Whether `a` comes before `b`: i1.
  Value less(Builder& builder, mlir::ValueRange a, mlir::ValueRange b) const;

  /// Tiles for that many elements, one of each type, as one value of a thread's elements has them.
  static Values allocate(Builder& builder, mlir::TypeRange types, int64_t elements);
  static Values sync(Builder& builder, mlir::ValueRange tiles);
  static Element load(Builder& builder, mlir::ValueRange tiles, Value place);
  static Values store(Builder& builder, const Element& element, mlir::ValueRange tiles, Value place);
  /// A thread's elements from `first` (i32) on.
  Items load_items(Builder& builder, mlir::ValueRange tiles, Value first) const;
  Values store_items(Builder& builder, const Items& items, mlir::ValueRange tiles, Value first) const;

  /// Sorts a thread's elements, stably. Only the first `count` (i32) of them change places; all, without a count.
  Items sorted(Builder& builder, Items items, Value count) const;

  /// How many of the first `diagonal` elements of both runs together come from the first one. `read` gives element i of
  /// a run; it may be asked for one before the first and behind the last one. Of equal elements those of the first run
  /// come first. `steps`: an index, at least 1 + ⌊log2⌋ of the elements of the shorter run.
  using Read = llvm::function_ref<Element(Builder&, Value number)>;
  Value split(Builder& builder, const RunPair& runs, Value diagonal, Value steps, Read read_a, Read read_b) const;
  /// The thread's elements: those of both runs merged, from `diagonal` on. What lies behind the end is arbitrary.
  Items merged(Builder& builder, mlir::ValueRange tiles, const RunPair& runs, Value diagonal, Value steps) const;

  static Values flat(const Items& items);
  Items items_of(mlir::ValueRange flat) const;

 private:
  mlir::func::FuncOp less_;
  int64_t items_;
};

}  // namespace strata::emitters
