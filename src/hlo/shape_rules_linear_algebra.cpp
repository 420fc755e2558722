#include <algorithm>

#include "hlo/shape_rules.h"

namespace strata::hlo {
namespace {

std::string text(const Shape& shape) { return to_string_without_layout(shape); }

Result<void> check_number(const Shape& shape, std::string_view what) {
  if (is_float(shape.type) || is_complex(shape.type)) return {};
  return with_remedy(invalid("{} has floats or complex numbers, not {}", what, name(shape.type)),
                     "convert it before, to f32 for instance");
}

Result<void> check_square(const Shape& shape, std::string_view what) {
  const size_t rank = shape.dims.size();
  if (rank >= 2 && shape.dims[rank - 1] == shape.dims[rank - 2]) return {};
  return with_remedy(invalid("{} is {}, no square matrix or batch of such", what, text(shape)),
                     "its last two dimensions have the same size");
}

Result<Shape> infer_cholesky(const RuleContext& context) {
  const Shape& operand = context.operand(0);
  STRATA_CHECK(check_number(operand, "the operand"));
  STRATA_CHECK(check_square(operand, "the operand"));
  return array_shape(operand.type, operand.dims);
}

Result<Shape> infer_triangular_solve(const RuleContext& context) {
  const Shape& a = context.operand(0);
  const Shape& b = context.operand(1);
  STRATA_CHECK(check_number(a, "the matrix"));
  STRATA_CHECK(check_square(a, "the matrix"));
  if (a.type != b.type) {
    return with_remedy(invalid("the matrix is {} and the right-hand sides are {}", name(a.type), name(b.type)),
                       "convert one to the type of the other");
  }
  const size_t rank = a.dims.size();
  if (b.dims.size() != rank || !std::equal(a.dims.begin(), a.dims.end() - 2, b.dims.begin())) {
    return with_remedy(invalid("the batches of {} and {} differ", text(a), text(b)),
                       "all dimensions but the last two are the same");
  }
  const bool left = context.instruction.as<TriangularSolveAttributes>().left_side;
  if (b.dims[left ? rank - 2 : rank - 1] != a.dims[rank - 1]) {
    return with_remedy(invalid("a matrix of {} does not fit right-hand sides of {}", text(a), text(b)),
                       left ? "with left_side=true they have as many rows as the matrix"
                            : "without left_side=true they have as many columns as the matrix");
  }
  return array_shape(b.type, b.dims);
}

Result<Shape> infer_fft(const RuleContext& context) {
  const Shape& operand = context.operand(0);
  const auto& a = context.instruction.as<FftAttributes>();
  using Type = FftAttributes::Type;
  const bool from_real = a.type == Type::RFFT;
  const auto types =
      from_real ? std::pair{ElementType::F32, ElementType::F64} : std::pair{ElementType::C64, ElementType::C128};
  if (operand.type != types.first && operand.type != types.second) {
    return with_remedy(
        invalid("the operand of this transform is {} or {}, not {}", name(types.first), name(types.second),
                name(operand.type)),
        from_real ? "fft_type=FFT takes complex numbers" : "convert it before; fft_type=RFFT takes real numbers");
  }
  const size_t count = a.lengths.size();
  if (count < 1 || count > 3 || count > operand.dims.size()) {
    return with_remedy(invalid("fft_length has {} lengths, and the operand is {}", count, text(operand)),
                       "there are 1 to 3, one for each of the innermost dimensions");
  }
  std::vector<int64_t> dims = operand.dims;
  const size_t first = dims.size() - count;
  for (size_t i = 0; i < count; ++i) {
    const int64_t length = a.lengths[i];
    const bool half = i + 1 == count && (a.type == Type::IRFFT || from_real);
    const int64_t halved = length == 0 ? 0 : length / 2 + 1;
    const int64_t needed = half && !from_real ? halved : length;
    if (length < 0 || dims[first + i] != needed) {
      return with_remedy(invalid("fft_length has {} where dimension {} of {} has size {}", length, first + i,
                                 text(operand), dims[first + i]),
                         needed == length
                             ? "a length is its dimension's size; pad or slice the operand before"
                             : "the innermost dimension of IRFFT's operand has half the length, rounded down, plus 1");
    }
    dims[first + i] = half && from_real ? halved : length;
  }
  if (from_real) return array_shape(operand.type == ElementType::F32 ? ElementType::C64 : ElementType::C128, dims);
  return array_shape(a.type == Type::IRFFT ? part_type(operand.type) : operand.type, dims);
}

/// Vectors of as many numbers as the operand has features, of floats of any width.
Result<void> check_features(const RuleContext& context, size_t i, int64_t features) {
  const Shape& shape = context.operand(i);
  if (is_float(shape.type) && shape.dims == std::vector{features}) return {};
  return with_remedy(invalid("operand {} is {}, not {} floats", i, text(shape), features),
                     "there is one for each place of the dimension feature_index");
}

/// The stated type of a tuple's element, where that is a float: results may have more bits than the operand.
ElementType stated_type(const Shape& stated, size_t i, ElementType otherwise) {
  if (stated.elements.size() <= i || !is_float(stated.elements[i].type)) return otherwise;
  return stated.elements[i].type;
}

}  // namespace

Result<Shape> infer_linear_algebra(const RuleContext& context) {
  switch (context.instruction.opcode) {
    case Opcode::Cholesky:
      return infer_cholesky(context);
    case Opcode::Fft:
      return infer_fft(context);
    default:
      return infer_triangular_solve(context);
  }
}

Result<Shape> infer_normalisation(const RuleContext& context) {
  const Instruction& instruction = context.instruction;
  const int64_t feature = instruction.as<BatchNormAttributes>().feature_index;
  const Shape& operand = context.operand(0);
  if (!is_float(operand.type)) return invalid("the operand has floats, not {}", name(operand.type));
  if (feature < 0 || feature >= operand.rank()) {
    return with_remedy(invalid("feature_index={} is no dimension of {}", feature, text(operand)),
                       "dimensions are numbered from 0");
  }
  const int64_t features = operand.dim(feature);
  const bool gradient = instruction.opcode == Opcode::BatchNormGrad;
  for (size_t i = 1; i < context.operand_count(); ++i) {
    if (gradient && i + 1 == context.operand_count()) {
      const Shape& grad = context.operand(i);
      if (!is_float(grad.type) || !same_dims(grad, operand)) {
        return invalid("the result's gradient is {}, and the operand {}", text(grad), text(operand));
      }
      continue;
    }
    STRATA_CHECK(check_features(context, i, features));
  }
  const Shape whole = array_shape(operand.type, operand.dims);
  if (instruction.opcode == Opcode::BatchNormInference) return whole;
  const auto of_features = [&](size_t i) {
    return array_shape(stated_type(instruction.shape, i, operand.type), {features});
  };
  return tuple_shape({whole, of_features(1), of_features(2)});
}

}  // namespace strata::hlo
