#include "hlo/compute.h"
#include "hlo/evaluate_parts.h"
#include "hlo/fourier.h"
#include "hlo/strided.h"

namespace strata::hlo {
namespace {

using Number = FourierTransform::Number;
using Type = FftAttributes::Type;

/// Transforms all lines along a dimension of an array of sizes `dims`.
void transform_lines(std::vector<Number>& values, const std::vector<int64_t>& dims, size_t d, bool inverse) {
  const int64_t length = dims[d];
  const int64_t stride = row_major_strides(dims)[d];
  const FourierTransform transform(length);
  std::vector<Number> line(static_cast<size_t>(length));
  const int64_t count = static_cast<int64_t>(values.size()) / length;
  for (int64_t i = 0; i < count; ++i) {
    Number* first = values.data() + i / stride * stride * length + i % stride;
    for (int64_t k = 0; k < length; ++k) line[static_cast<size_t>(k)] = first[k * stride];
    if (inverse) {
      transform.inverse(line.data());
    } else {
      transform.forward(line.data());
    }
    for (int64_t k = 0; k < length; ++k) first[k * stride] = line[static_cast<size_t>(k)];
  }
}

/// The first `kept` numbers of each row.
std::vector<Number> beginnings(const std::vector<Number>& rows, int64_t length, int64_t kept) {
  std::vector<Number> result;
  for (auto row = rows.begin(); row != rows.end(); row += length) result.insert(result.end(), row, row + kept);
  return result;
}

/// Rows whose second half is the conjugate of the first, mirrored. What has no partner there counts as real.
std::vector<Number> completed(const std::vector<Number>& halves, int64_t half, int64_t length) {
  std::vector<Number> result;
  for (auto row = halves.begin(); row != halves.end(); row += half) {
    for (int64_t k = 0; k < length; ++k) {
      const bool alone = k == 0 || 2 * k == length;
      result.push_back(alone ? Number(row[k].real()) : k < half ? row[k] : std::conj(row[length - k]));
    }
  }
  return result;
}

}  // namespace

Literal evaluate_fft(const Instruction& instruction, const Literal& operand) {
  const auto& a = instruction.as<FftAttributes>();
  const Shape shape = array_shape(instruction.shape.type, instruction.shape.dims);
  if (is_empty(shape.dims) || is_empty(operand.shape().dims)) return Literal(shape);
  const bool inverse = a.type == Type::IFFT || a.type == Type::IRFFT;
  std::vector<int64_t> dims = operand.shape().dims;
  const size_t inner = dims.size() - 1;
  const size_t outermost = dims.size() - a.lengths.size();
  std::vector<Number> values;
  if (a.type == Type::RFFT) {
    for (double x : load_all<double>(operand)) values.emplace_back(x);
  } else {
    values = load_all<Number>(operand);
  }
  // The inner dimension comes last where it is a half: only the whole spectrum mirrors itself.
  for (size_t d = outermost; d < inner && a.type == Type::IRFFT; ++d) transform_lines(values, dims, d, inverse);
  if (a.type == Type::IRFFT) {
    values = completed(values, dims[inner], a.lengths.back());
    dims[inner] = a.lengths.back();
  }
  transform_lines(values, dims, inner, inverse);
  if (a.type == Type::RFFT) {
    values = beginnings(values, dims[inner], shape.dims[inner]);
    dims[inner] = shape.dims[inner];
  }
  for (size_t d = outermost; d < inner && a.type != Type::IRFFT; ++d) transform_lines(values, dims, d, inverse);
  if (a.type != Type::IRFFT) return literal_of(shape, values);
  std::vector<double> reals;
  for (const Number& value : values) reals.push_back(value.real());
  return literal_of(shape, reals);
}

}  // namespace strata::hlo
