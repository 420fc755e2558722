// The parts of the interpreter (evaluate.h), one a family of operators. Operands and attributes are verified.
#pragma once

#include <array>
#include <optional>
#include <unordered_map>

#include "hlo/hlo.h"

namespace strata::hlo {

/// An elementwise instruction over arrays of `result`'s number of elements, or of one element for all.
Literal evaluate_elementwise(const Instruction& instruction, const Shape& result, const std::vector<Literal>& operands);
Literal evaluate_unary(Opcode opcode, const Shape& result, const Literal& operand);
/// Each number as the result's type has it: floats to integers towards zero and clamped to their range, NaN as 0;
/// integers modulo 2^bits; to pred whether it is not 0; complex numbers lose their imaginary part.
Literal evaluate_convert(const Literal& operand, const Shape& result);
Literal evaluate_reduce_precision(const Literal& operand, const Shape& result, const ReducePrecisionAttributes& how);
/// The same bits as elements of another type, in order of rising significance where widths differ.
Literal reinterpret_bits(const Literal& operand, const Shape& result);
Literal evaluate_iota(const Shape& result, int64_t dimension);
/// Reuses the bytes of operand 0 of a dynamic-update-slice where nobody else holds them.
Literal evaluate_movement(const Instruction& instruction, std::vector<Literal>& operands);
Literal evaluate_dot(const Instruction& instruction, const Literal& lhs, const Literal& rhs);
Literal evaluate_convolution(const Instruction& instruction, const Literal& input, const Literal& kernel);
/// The k largest (or smallest) of each row by total order, first come first, and their places.
Literal evaluate_top_k(const Literal& operand, const Shape& result, bool largest);
/// Not positive definite: NaN in the whole matrix. The other triangle is 0.
Literal evaluate_cholesky(const Instruction& instruction, const Literal& operand);
Literal evaluate_triangular_solve(const Instruction& instruction, const Literal& a, const Literal& b);
Literal evaluate_fft(const Instruction& instruction, const Literal& operand);

class Evaluator;

/// A computation on scalars, applied to many at once.
class ScalarFunction {
 public:
  ScalarFunction(Evaluator& evaluator, const Computation& computation);

  /// `arguments` have `count` elements each, or one for all; so has each result exactly `count`.
  Result<std::vector<Literal>> operator()(const std::vector<Literal>& arguments, int64_t count) const;
  /// The operator, where the function is nothing but add, multiply, minimum, maximum, and, or, xor of its two
  /// parameters.
  std::optional<Opcode> combiner() const { return combiner_; }
  /// Whether the function returns its second parameter and has two.
  bool returns_second() const { return returns_second_; }

 private:
  Evaluator& evaluator_;
  const Computation& computation_;
  bool vectorised_;
  std::optional<Opcode> combiner_;
  bool returns_second_ = false;
};

Result<Literal> evaluate_map(const Instruction& instruction, const std::vector<Literal>& operands,
                             const ScalarFunction& function);
Result<Literal> evaluate_reduce(const Instruction& instruction, const std::vector<Literal>& operands,
                                const ScalarFunction& function);
Result<Literal> evaluate_reduce_window(const Instruction& instruction, const std::vector<Literal>& operands,
                                       const ScalarFunction& function);
Result<Literal> evaluate_scatter(const Instruction& instruction, const std::vector<Literal>& operands,
                                 const ScalarFunction& function);
Result<Literal> evaluate_select_and_scatter(const Instruction& instruction, const std::vector<Literal>& operands,
                                            const ScalarFunction& select, const ScalarFunction& scatter);
Result<Literal> evaluate_sort(const Instruction& instruction, const std::vector<Literal>& operands,
                              const ScalarFunction& less);

/// Ten rounds of Philox on four words of 32 bits.
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);
/// Twenty rounds of Threefry on two words of 32 bits.
std::array<uint32_t, 2> threefry(std::array<uint32_t, 2> counter, std::array<uint32_t, 2> key);
/// Bits of the counter state[1] and those after it under the key state[0], and the state after them. Philox's counter
/// has 64 bits more: state[2], or where there is none, the key's.
Literal evaluate_random_bits(const Instruction& instruction, const Literal& state);

/// Calls the computation step by step on the slices of its inputs and what it handed on.
Result<Literal> evaluate_scan(Evaluator& evaluator, const Computation& step, const Instruction& instruction,
                              const std::vector<Literal>& operands);

/// Runs computations of one module.
class Evaluator {
 public:
  explicit Evaluator(const Module& module) : module_(module) {}

  Result<Literal> run(const Computation& computation, std::vector<Literal> arguments);
  /// The computation takes scalars; here each parameter is an array of `count` elements or one, and so is the result.
  /// Only where can_vectorise() holds.
  Result<Literal> run_lanes(const Computation& computation, std::vector<Literal> arguments, int64_t count);
  /// Whether every instruction works on scalars only and element by element.
  bool can_vectorise(const Computation& computation) const;

 private:
  Result<Literal> run_instruction(const Instruction& instruction, std::vector<Literal>& operands);
  Result<Literal> run_control(const Instruction& instruction, std::vector<Literal>& operands);
  Result<Literal> run_computing(const Instruction& instruction, std::vector<Literal>& operands);

  bool works_on_scalars(const Computation& computation) const;

  const Module& module_;
  mutable std::unordered_map<const Computation*, bool> vectorised_;  ///< what is known of can_vectorise()
};

/// A literal's element, or some of them in order, as a literal of one dimension.
Literal pick(const Literal& literal, const std::vector<int64_t>& indices);
/// result[indices[i]] = values[i].
void put(Literal& result, const std::vector<int64_t>& indices, const Literal& values);
/// One literal, or a tuple of them.
Literal one_or_tuple(std::vector<Literal> literals);
/// The results' shapes of a variadic operator.
std::vector<Shape> result_shapes(const Shape& shape);

}  // namespace strata::hlo
