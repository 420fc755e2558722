// What is written out by halves along one dimension, computed of random elements of a field.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "hlo/hlo.h"
#include "ops/prime_field.h"
#include "support/random.h"

namespace strata::hlo {

/// Elements along the dimension that is scanned, each as what it is in three worlds. Rational functions of numbers and
/// of the exponentials of others hold in all of them; an empty list says that elements are no such function.
struct FieldNumbers {
  std::vector<uint64_t> plain;            ///< of the field
  std::vector<uint64_t> powers, inverse;  ///< what stands for e to the power of the element, and 1 over that
  std::vector<double> reals;              ///< by which comparisons and maxima are decided
};

/// What an array is made of by elementwise operators and movements along one dimension, down to arrays of as many
/// elements. All else about its dimensions is the same for all elements.
class RecurrenceRegion {
 public:
  static constexpr size_t kMostLeaves = 3;

  /// Of an array that is a sum of shorter ones in their places. Nothing where it is made of anything else.
  static std::optional<RecurrenceRegion> of(const Computation& computation, InstructionId result, int64_t dimension);

  const std::vector<InstructionId>& leaves() const { return leaves_; }
  const std::vector<InstructionId>& inside() const { return inside_; }
  /// Whether anything in it is more than sums and products: numbers of the leaves then need all three worlds.
  bool has_functions() const { return has_functions_; }

  /// Random elements of a leaf; reals are normal, times `scale`.
  FieldNumbers draw(const PrimeField& field, Random& random, double scale) const;
  /// The result's elements of those of the leaves, by number.
  FieldNumbers compute(const PrimeField& field, const std::vector<FieldNumbers>& leaves) const;

 private:
  RecurrenceRegion(const Computation& computation, InstructionId result, int64_t dimension)
      : computation_(&computation), result_(result), dimension_(dimension) {}

  const Instruction& at(InstructionId id) const { return (*computation_)[id]; }
  int64_t length(InstructionId id) const { return at(id).shape.dim(dimension_); }
  std::vector<InstructionId> arrays_of(InstructionId id) const;
  bool is_placed(InstructionId id) const;
  bool is_part(InstructionId id) const;
  bool is_padded(const Instruction& it) const;
  bool only_along(const Instruction& it) const;
  FieldNumbers everywhere(const PrimeField& field, double value, size_t count) const;
  FieldNumbers moved(const Instruction& it, size_t count, const std::vector<const FieldNumbers*>& operands,
                     const PrimeField& field) const;
  FieldNumbers computed(const PrimeField& field, const Instruction& it, size_t count,
                        const std::vector<const FieldNumbers*>& operands) const;

  const Computation* computation_;
  InstructionId result_;
  int64_t dimension_;
  bool has_functions_ = false;
  std::set<InstructionId> seen_;
  std::vector<InstructionId> inside_, leaves_;
};

/// The number that all elements of a broadcast of a scalar constant of floats are, or that such a constant is.
std::optional<double> constant_everywhere(const Computation& computation, InstructionId id);

}  // namespace strata::hlo
