// HLO modules as values: a module is built by the parser (parse.h) or by a program, checked by verify.h, and never
// changed after that.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "hlo/literal.h"
#include "hlo/opcode.h"
#include "hlo/shape.h"
#include "support/error.h"

namespace strata::hlo {

/// Index of an instruction in Computation::instructions.
using InstructionId = int32_t;
/// Index of a computation in Module::computations.
using ComputationId = int32_t;

struct NoAttributes {
  friend bool operator==(const NoAttributes&, const NoAttributes&) = default;
};

struct ParameterAttributes {
  int64_t number = 0;
};

struct ConstantAttributes {
  Literal value;
  /// The text leaves the elements out ("{...}"); those of `value` are made up.
  bool elided = false;
};

/// broadcast: the result's dimension of each operand dimension. transpose: the operand's dimension of each result
/// dimension. reduce, reverse: the dimensions reduced, reversed. concatenate, iota, get-dimension-size: exactly one.
/// map: all dimensions in order.
struct DimensionsAttributes {
  std::vector<int64_t> dimensions;
};

/// The order that floats are compared in. Partial: IEEE's, where a comparison with NaN is false except for NE. Weak:
/// -inf < … < -0 = +0 < … < inf < NaN, all NaN being equal. Total: -NaN < -inf < … < -0 < +0 < … < inf < NaN.
/// Other types have one order, and Partial here.
struct CompareAttributes {
  enum class Direction : uint8_t { EQ, NE, LT, LE, GT, GE };
  enum class Order : uint8_t { Partial, Weak, Total };
  Direction direction = Direction::EQ;
  Order order = Order::Partial;
};

struct ReducePrecisionAttributes {
  int exponent_bits = 8;
  int mantissa_bits = 23;
};

/// start ≤ i < limit in steps of stride, one entry a dimension.
struct SliceAttributes {
  std::vector<int64_t> starts, limits, strides;
};

struct DynamicSliceAttributes {
  std::vector<int64_t> sizes;
};

/// Elements added before, after and between those of each dimension; low and high may be negative (elements are taken
/// away after the interior ones are added).
struct PadAttributes {
  std::vector<int64_t> low, high, interior;
};

/// Names as in XLA's operation semantics.
struct GatherAttributes {
  std::vector<int64_t> offset_dims, collapsed_slice_dims, operand_batching_dims, start_indices_batching_dims,
      start_index_map, slice_sizes;
  int64_t index_vector_dim = 0;
  bool indices_are_sorted = false;
};

struct ScatterAttributes {
  std::vector<int64_t> update_window_dims, inserted_window_dims, input_batching_dims, scatter_indices_batching_dims,
      scatter_dims_to_operand_dims;
  int64_t index_vector_dim = 0;
  bool indices_are_sorted = false;
  bool unique_indices = false;
};

/// One dimension of a window.
struct WindowDimension {
  int64_t size = 1, stride = 1, pad_low = 0, pad_high = 0, lhs_dilate = 1, rhs_dilate = 1;
  bool reversed = false;
  friend bool operator==(const WindowDimension&, const WindowDimension&) = default;
};

struct WindowAttributes {
  std::vector<WindowDimension> window;
};

/// How far operands of a dot or a convolution may be rounded before they are multiplied.
enum class OperandPrecision : uint8_t {
  Default,  ///< the module does not say
  Exact,    ///< not at all: operand_precision of high or highest, or an algorithm of another kind than the following
  Tf32,     ///< to the 11 significant bits of TF32: algorithm=dot_tf32_tf32_f32
  Bf16,     ///< to bf16: algorithm=dot_bf16_bf16_f32
  F16,      ///< to f16: algorithm=dot_f16_f16_f32
};

/// The algorithm that asks for a precision, in HLO's text; empty where none does.
constexpr std::string_view algorithm_of(OperandPrecision precision) {
  switch (precision) {
    case OperandPrecision::Tf32:
      return "dot_tf32_tf32_f32";
    case OperandPrecision::Bf16:
      return "dot_bf16_bf16_f32";
    case OperandPrecision::F16:
      return "dot_f16_f16_f32";
    case OperandPrecision::Default:
    case OperandPrecision::Exact:
      break;
  }
  return "";
}

/// Whether operands of f32 may be rounded to TF32: it has as many bits as f16, and more than bf16.
constexpr bool allows_tf32(OperandPrecision precision) { return !algorithm_of(precision).empty(); }

struct DotAttributes {
  std::vector<int64_t> lhs_batch, rhs_batch, lhs_contracting, rhs_contracting;
  OperandPrecision precision = OperandPrecision::Default;
};

/// window and the three lists of spatial dimensions have one entry a spatial dimension, in the same order.
struct ConvolutionAttributes {
  std::vector<WindowDimension> window;
  int64_t input_batch = 0, input_feature = 0, kernel_input_feature = 0, kernel_output_feature = 0, output_batch = 0,
          output_feature = 0;
  std::vector<int64_t> input_spatial, kernel_spatial, output_spatial;
  int64_t feature_group_count = 1, batch_group_count = 1;
  OperandPrecision precision = OperandPrecision::Default;
};

struct SortAttributes {
  int64_t dimension = 0;
  bool is_stable = false;
};

/// Of equal elements the first ones are taken; where not is_stable, others may be.
struct TopKAttributes {
  int64_t k = 0;
  bool largest = true;
  bool is_stable = true;
};

/// The first operands are arrays with the dimension that is walked along, the last `carries` of them what is handed
/// from step to step. The computation takes the arrays' slices of a step, without the dimension, and the carries; it
/// returns a step's results and the next carries. The results are the steps', along the dimension, and the last
/// carries.
struct ScanAttributes {
  int64_t dimension = 0;
  int64_t carries = 0;
  bool is_reverse = false;
  /// What the text says: whether the computation combines in any grouping (sums_in_any_grouping of expand_scans.h).
  std::optional<bool> is_associative;
};

/// The generator that makes bits of a state. Default leaves the choice to the code that runs it.
struct RandomAttributes {
  enum class Algorithm : uint8_t { Default, ThreeFry, Philox };
  Algorithm algorithm = Algorithm::Default;
};

/// The triangle of the operand whose elements are read, and in which the factor's are written.
struct CholeskyAttributes {
  bool lower = false;
};

/// The transform of the innermost dimensions, as many as there are lengths. The lengths are those of the real or
/// complex signal; of RFFT's results and IRFFT's operands the innermost dimension has the first half only, length / 2
/// + 1.
struct FftAttributes {
  enum class Type : uint8_t { FFT, IFFT, RFFT, IRFFT };
  Type type = Type::FFT;
  std::vector<int64_t> lengths;
};

/// op(a) · x = b, or x · op(a) = b where not left_side; a is read on and below the diagonal where lower, else on and
/// above it, and not on it where unit_diagonal.
struct TriangularSolveAttributes {
  enum class Transpose : uint8_t { NoTranspose, Transpose, Adjoint };
  bool left_side = false;
  bool lower = false;
  bool unit_diagonal = false;
  Transpose transpose_a = Transpose::NoTranspose;
};

/// What is added to the variances, and the dimension whose places have a mean and a variance each.
struct BatchNormAttributes {
  float epsilon = 0;
  int64_t feature_index = 0;
};

struct TupleIndexAttributes {
  int64_t index = 0;
};

struct FusionAttributes {
  std::string kind = "kLoop";
};

/// Attributes of operators that are only parsed and printed: names and texts, in order. Computations are in
/// Instruction::called, where they are listed as "@0", "@1" … here.
struct RawAttributes {
  std::vector<std::pair<std::string, std::string>> entries;
};

using Attributes =
    std::variant<NoAttributes, ParameterAttributes, ConstantAttributes, DimensionsAttributes, CompareAttributes,
                 ReducePrecisionAttributes, SliceAttributes, DynamicSliceAttributes, PadAttributes, GatherAttributes,
                 ScatterAttributes, WindowAttributes, DotAttributes, ConvolutionAttributes, SortAttributes,
                 TopKAttributes, ScanAttributes, RandomAttributes, CholeskyAttributes, FftAttributes,
                 TriangularSolveAttributes, BatchNormAttributes, TupleIndexAttributes, FusionAttributes, RawAttributes>;

struct Instruction {
  std::string name;  ///< without %; unique in its computation
  Opcode opcode = Opcode::Parameter;
  Shape shape;
  std::vector<InstructionId> operands;
  /// The computations that it calls: to_apply or calls; while: condition, body; conditional: the branches, for a pred
  /// the true one first; select-and-scatter: select, scatter.
  std::vector<ComputationId> called;
  Attributes attributes;
  SourceLocation location;  ///< of its name in the text; unknown if built otherwise

  /// The attributes that the table names for the opcode.
  template <class T>
  const T& as() const {
    return std::get<T>(attributes);
  }
  const std::vector<int64_t>& dimensions() const { return as<DimensionsAttributes>().dimensions; }
};

/// Operands stand before their users.
struct Computation {
  std::string name;
  std::vector<Instruction> instructions;
  std::vector<InstructionId> parameters;  ///< by number
  InstructionId root = 0;

  const Instruction& operator[](InstructionId id) const { return instructions[static_cast<size_t>(id)]; }
  const Instruction& root_instruction() const { return (*this)[root]; }
  const Shape& operand_shape(const Instruction& instruction, size_t i) const {
    return (*this)[instruction.operands[i]].shape;
  }
};

/// Called computations stand before their callers.
struct Module {
  std::string name;
  std::vector<Computation> computations;
  ComputationId entry = 0;
  bool fusion = false;  ///< the text had no ENTRY: the last computation is to run as one fusion

  const Computation& operator[](ComputationId id) const { return computations[static_cast<size_t>(id)]; }
  const Computation& entry_computation() const { return (*this)[entry]; }
};

using ModulePtr = std::shared_ptr<const Module>;

}  // namespace strata::hlo
