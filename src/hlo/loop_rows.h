// What the body of a counted loop does with rows of arrays: one row an iteration.
#pragma once

#include <optional>
#include <vector>

#include "hlo/counted_loop.h"
#include "hlo/hlo.h"

namespace strata::hlo {

/// A while loop of known length whose state is a flat tuple of arrays. The body's parameter is read by
/// get-tuple-element alone, and its root is a tuple.
class LoopRows {
 public:
  /// An integer that is `first` + k · `slope` in iteration k.
  struct Affine {
    int64_t first = 0;
    int64_t slope = 0;
    bool operator==(const Affine&) const = default;
  };

  /// A row of an array of the state that stays as it is.
  struct Row {
    int64_t leaf = 0;
    Affine at;
    InstructionId index = 0;               ///< of the body, which is `at`
    std::vector<ElementType> converted{};  ///< to these types, one after the other
  };

  /// A row that the body writes into an array of the state, which nothing else in it reads, and of which the loop
  /// writes every row once.
  struct Written {
    InstructionId value = 0;  ///< without the dimension of one element, before it is converted
    Affine at;
    InstructionId index = 0;
    std::vector<ElementType> converted{};
  };

  /// What the body writes into an array of the state that nothing in it reads, of which all iterations write all.
  struct Part {
    InstructionId value = 0;  ///< as many dimensions as the array
    size_t dimension = 0;     ///< along which iterations write different parts, from `at` on
    Affine at;
  };

  /// An array to which each iteration adds something, and which nothing else in the body reads.
  struct Sum {
    InstructionId core = 0;              ///< a dot or a reduction by sums
    std::vector<InstructionId> after{};  ///< linear operators of one operand from it to what is added, in order
  };

  /// Nothing where the loop is another one. The module must outlive it.
  static std::optional<LoopRows> of(const Module& module, const Computation& computation, InstructionId loop);

  const Computation& body() const { return *body_; }
  int64_t count() const { return counted_.count; }
  int64_t leaves() const { return static_cast<int64_t>(body_->root_instruction().operands.size()); }
  const Shape& leaf_shape(int64_t leaf) const { return (*body_)[(*body_).parameters[0]].shape.elements[leaf]; }

  bool is_invariant(int64_t leaf) const;
  /// The leaf of the state that an instruction of the body is.
  std::optional<int64_t> leaf_of(InstructionId id) const;
  std::optional<Affine> affine(InstructionId id) const;
  /// Whether parts of `size` rows that begin at the index are all of so many rows, each once.
  bool covers(const Affine& at, int64_t rows, int64_t size = 1) const;
  std::optional<Row> row(InstructionId id) const;
  /// Whether the loop writes all of an array of the state, which nothing in the body reads: each iteration another part
  /// along some dimension, or the whole.
  bool fills(int64_t leaf) const { return part(leaf).has_value(); }
  /// What is written then.
  std::optional<Part> part(int64_t leaf) const;
  std::optional<Written> written(int64_t leaf) const;
  std::optional<Sum> sum(int64_t leaf) const;
  /// Whether it is computed of constants and of arrays that stay as they are, by a few operators that move or convert.
  bool stays(InstructionId id) const;
  /// A counter that begins at 0 and counts all iterations, as an instruction of the body.
  std::optional<InstructionId> counter() const;
  int64_t uses(InstructionId id) const { return uses_[static_cast<size_t>(id)]; }

 private:
  /// affine(), as if integers had no bounds.
  std::optional<Affine> affine_number(InstructionId id) const;
  LoopRows(const Module& module, const Computation& body, CountedLoop counted);
  bool is_read_once(int64_t leaf) const;
  /// The dynamic-update-slice that makes an array of the state, and alone reads it; null if none does.
  const Instruction* update_of(int64_t leaf) const;

  const Module* module_;
  const Computation* body_;
  CountedLoop counted_;
  std::vector<int64_t> uses_;  ///< of each instruction of the body, as operand
};

}  // namespace strata::hlo
