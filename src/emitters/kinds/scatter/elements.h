// What the kernels of a scatter by rows do with vectors of elements.
#pragma once

#include <functional>

#include "emitters/kinds/scatter/rows.h"

namespace strata::emitters {

/// Elements that lie together, of each array: a vector, or a scalar where it is one element.
using Elements = Values;

/// Where elements are read and written while a kernel is made: `place` has the index of the output, or the element of
/// the window, for element `v` of a vector.
using Place = std::function<Values(mlir::ImplicitLocOpBuilder&, mlir::Value v)>;

class ElementCode {
 public:
  using Builder = mlir::ImplicitLocOpBuilder;
  using Value = mlir::Value;

  /// `width`: elements of a vector.
  ElementCode(const RowsEmission& emission, const Kernel& kernel, int64_t width);

  /// For each element: `body` has its number and gives a scalar an array, of the types given.
  using Body = llvm::function_ref<Values(Builder&, Value v)>;
  Elements for_each(Builder& builder, llvm::ArrayRef<mlir::Type> types, Body body);

  /// Element `v` of each.
  Values element(Builder& builder, mlir::ValueRange elements, Value v) const;

  llvm::SmallVector<mlir::Type> narrow_types(Builder& builder) const;
  llvm::SmallVector<mlir::Type> wide_types(Builder& builder) const;
  Elements nothing(Builder& builder, llvm::ArrayRef<mlir::Type> types);

  /// The elements of instructions, one an array, at the index that `index` gives.
  Elements read(Builder& builder, const std::vector<hlo::InstructionId>& from, const Place& index);

  Values widen(Builder& builder, Values values) const;
  Values narrow(Builder& builder, Values values) const;
  Elements widen_all(Builder& builder, const Elements& elements);
  Elements narrow_all(Builder& builder, const Elements& elements);

  /// What wide elements become by more of them, which are wide already or not; `condition`, if any, says whether.
  Elements combined(Builder& builder, const Elements& state, const Elements& more, bool wide, Value condition = {});

  /// Entries of a list, or parts that are combined already.
  struct Entries {
    Value begin, end;
    bool wide = false;
    int64_t batch = 1;                                  ///< how many are read together
    std::function<Value(Builder&, Value number)> find;  ///< what `read` wants of an entry
    std::function<Elements(Builder&, Value found)> read;
    int64_t stride = 1;  ///< from one to the next
  };
  /// Wide elements combined with those of the entries.
  Elements fold(Builder& builder, const Entries& entries, const Elements& state);
  /// The wide elements of the entries combined, of which there is one at least.
  Elements fold(Builder& builder, Entries entries);

  /// The first error of a function that gives no result to hand it on with.
  std::optional<Error>& error() { return error_; }

 private:
  /// The elements of entries from `from` on, and for all but the first whether there is such an entry.
  struct Batch {
    std::vector<Elements> elements;
    std::vector<Value> there;
  };
  Batch read_batch(Builder& builder, const Entries& entries, Value from);

  Value nothing(Builder& builder, mlir::Type type);

  const RowsEmission& emission_;
  const ScatterRowsPlan& plan_;
  const Kernel& kernel_;
  int64_t width_;
  std::vector<hlo::ElementType> types_;
  std::optional<Error> error_;
};

}  // namespace strata::emitters
