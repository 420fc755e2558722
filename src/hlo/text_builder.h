// Computations written as text, for passes that replace instructions (replace_instructions.h).
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hlo/hlo.h"

namespace strata::hlo {

/// One computation. Values are what its instructions give; they have names that are unique in it. Shapes are stated and
/// checked by the parser alone: a mistake here is an error there.
class TextBuilder {
 public:
  using Dims = std::vector<int64_t>;

  struct Value {
    std::string name;
    Shape shape;
    ElementType type() const { return shape.type; }
    const Dims& dims() const { return shape.dims; }
  };

  TextBuilder() = default;

  Value parameter(int64_t number, const Shape& shape);
  /// `call` is all that comes after the shape, as "add(a, b)".
  Value add(const Shape& shape, std::string_view call);
  /// A scalar, as HLO writes it.
  Value constant(ElementType type, std::string_view value);
  Value constant(ElementType type, int64_t value) { return constant(type, std::to_string(value)); }
  Value iota(ElementType type, const Dims& dims, int64_t dimension);

  /// Elementwise. Scalars among arrays stand for arrays of one value.
  Value unary(std::string_view name, const Value& of);
  Value binary(std::string_view name, Value a, Value b);
  Value compare(Value a, Value b, std::string_view direction);
  Value select(Value which, Value yes, Value no);
  Value convert(const Value& of, ElementType type);
  /// Of complex numbers; others stay as they are.
  Value conjugate(const Value& of);
  Value real(const Value& of);

  /// Dimension i of the value is dimension at[i] of the result.
  Value broadcast(const Value& of, const Dims& dims, const Dims& at);
  /// A scalar for each element; arrays stay as they are.
  Value spread(const Value& of, const Dims& dims);
  Value reshape(const Value& of, const Dims& dims);
  Value slice(const Value& of, int64_t dimension, int64_t from, int64_t to);
  /// The first elements of each dimension.
  Value cut(const Value& of, const Dims& dims);
  /// Zeros after the last elements.
  Value pad(const Value& of, const Dims& dims);
  Value reverse(const Value& of, const Dims& dimensions);
  Value concatenate(const std::vector<Value>& parts, int64_t dimension);
  /// The last two dimensions exchanged.
  Value transpose(const Value& of);
  /// The starts are scalars.
  Value dynamic_slice(const Value& of, const std::vector<Value>& starts, const Dims& sizes);
  Value dynamic_update(const Value& of, const Value& update, const std::vector<Value>& starts);
  /// Products of batches of matrices: of b or, where it says so, of its transposes.
  Value product(const Value& a, const Value& b, bool transposed = false);

  Value tuple(const std::vector<Value>& elements);
  Value element(const Value& of, int64_t index);
  /// The next state, of the number of the iteration (an s32) and the state.
  using Step = std::function<std::vector<Value>(TextBuilder& body, const Value& number, const std::vector<Value>&)>;
  /// The state after so many iterations. A body has no values of what is around it but its state's.
  std::vector<Value> repeat(int64_t times, const std::vector<Value>& state, const Step& step);
  /// The same while state[0], a pred that is true at first, is true.
  std::vector<Value> repeat_while(int64_t most, const std::vector<Value>& state, const Step& step);
  /// Along the dimension, of two arrays of one shape, the first element with the largest number of the first array.
  /// What the second array has there.
  Value at_largest(const Value& numbers, const Value& marks, int64_t dimension);
  /// The least along the dimensions.
  Value least(const Value& of, const Dims& dimensions, const Value& most);

  Value sum(const Value& of, const Dims& dimensions);
  /// Along the last dimension, so that each is LT or GT the next one; equal ones stay in their order. The second array
  /// moves with the first.
  std::pair<Value, Value> sorted(const Value& keys, const Value& marks, std::string_view direction);

  /// The module whose entry gives this value.
  std::string module(const Value& root) const;

 private:
  explicit TextBuilder(std::string prefix) : prefix_(std::move(prefix)) {}
  std::string computation(std::string_view name, const Value& root) const;
  std::vector<Value> loop(int64_t most, const std::vector<Value>& state, const Step& step, bool until_false);
  /// Along the dimensions, of these elements and the first one, by an operator of two.
  Value reduced(const Value& of, const Dims& dimensions, const Value& first, std::string_view op);
  /// The name of another computation.
  std::string called(std::string_view what);
  /// Adds a computation that has been written.
  void take(TextBuilder& made, std::string_view name, const Value& root);

  std::vector<std::string> lines_;
  std::string computations_;  ///< that this one calls
  std::string prefix_;        ///< of their names
  int called_ = 0;
};

}  // namespace strata::hlo
