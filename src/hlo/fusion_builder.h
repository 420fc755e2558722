// What random fusions are put together with: instructions whose shapes are inferred, and choices among those at hand.
#pragma once

#include <optional>

#include "hlo/random_fusion.h"
#include "support/random.h"

namespace strata::hlo {

class FusionBuilder {
 public:
  FusionBuilder(uint64_t seed, const RandomFusionOptions& what) : random(seed), options(what) {}

  using Id = InstructionId;
  using Ids = std::vector<Id>;

  /// Adds an instruction whose operands are of the computation at hand. Its shape is inferred, with what the rule
  /// leaves open from `stated`. Instructions that return tuples are followed by their elements, of which one is
  /// returned.
  Id add(Opcode opcode, Ids operands, Attributes attributes = NoAttributes{}, std::vector<ComputationId> called = {},
         Shape stated = {});
  Id parameter(const Shape& shape);
  Id scalar(ElementType type, int64_t value);
  Id constant(const Literal& value);

  const Shape& shape(Id id) const { return fusion[id].shape; }
  /// An instruction that is an array and satisfies `fits`, late ones more often; none if there is none.
  std::optional<Id> pick(const std::function<bool(const Shape&)>& fits);
  /// Any array.
  Id pick_any();
  /// An array of exactly this shape: one at hand, or a new parameter, constant, iota or broadcast scalar.
  Id like(const Shape& shape);

  /// The same array with 0 for NaN, whose sign and bits differ between machines, where it may have one.
  Id without_nan(Id id);

  bool chance(double probability) { return random.uniform() < probability; }
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random.below(static_cast<uint64_t>(high - low + 1)));
  }
  ElementType any_type();
  ElementType any_type(const std::function<bool(ElementType)>& fits);
  Shape any_shape(int64_t min_rank = 0);
  /// A random permutation of 0 … count - 1.
  std::vector<int64_t> permutation(int64_t count);
  bool small(const std::vector<int64_t>& dims) const;

  /// f(a, b) = a op b on scalars.
  ComputationId combiner(Opcode opcode, ElementType type);
  /// f(a, b) = b.
  ComputationId second(ElementType type);
  /// f(a, b) of several operators, still commutative and associative except for rounding.
  ComputationId composed_combiner(ElementType type);
  /// f(a0, i0, a1, i1) = whichever a is larger, with its index; the smaller index where they are equal.
  ComputationId larger_with_index(ElementType type);
  /// f(a, b, …) = a < b, or another relation, by total order, for 2 · types.size() parameters.
  ComputationId comparator(const std::vector<ElementType>& types, CompareAttributes::Direction direction);
  /// f(x) = some function of one array, elementwise.
  ComputationId function_of(const Shape& shape);

  /// The module, with a root of everything that nothing uses.
  ModulePtr finish();

  Random random;
  const RandomFusionOptions& options;
  Module module;
  Computation fusion;

 private:
  ComputationId add_computation(std::string name, std::vector<Instruction> instructions);
};

/// Each adds one instruction (and what it needs) of its family, or nothing where the choice does not fit.
void add_random_elementwise(FusionBuilder& builder, Opcode opcode);
void add_random_movement(FusionBuilder& builder, Opcode opcode);
void add_random_computing(FusionBuilder& builder, Opcode opcode);
void add_random_control(FusionBuilder& builder, Opcode opcode);

}  // namespace strata::hlo
