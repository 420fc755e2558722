#include <algorithm>

#include "hlo/compute.h"
#include "hlo/evaluate_parts.h"
#include "hlo/strided.h"

namespace strata::hlo {
namespace {

using Integers = std::vector<int64_t>;

bool contains(const Integers& list, int64_t value) { return std::find(list.begin(), list.end(), value) != list.end(); }

/// The numbers of an array, transposed, in the type in which they are summed.
template <class T>
std::vector<T> transposed(const Literal& literal, const Integers& order) {
  const Integers strides = row_major_strides(literal.shape().dims);
  Strided from;
  Integers dims;
  for (int64_t d : order) {
    from.strides.push_back(strides[static_cast<size_t>(d)]);
    dims.push_back(literal.shape().dim(d));
  }
  Literal moved(array_shape(literal.type(), dims));
  copy_strided(dims, moved.mutable_bytes(), {0, row_major_strides(dims)}, literal.bytes(), from,
               static_cast<size_t>(byte_width(literal.type())));
  return load_all<T>(moved);
}

/// Batch dimensions, then the others, then the contracting ones.
Integers batch_free_contracting(int64_t rank, const Integers& batch, const Integers& contracting) {
  Integers order = batch;
  for (int64_t d = 0; d < rank; ++d) {
    if (!contains(batch, d) && !contains(contracting, d)) order.push_back(d);
  }
  order.insert(order.end(), contracting.begin(), contracting.end());
  return order;
}

int64_t product_of(const Shape& shape, const Integers& dims) {
  int64_t product = 1;
  for (int64_t d : dims) product *= shape.dim(d);
  return product;
}

/// sum += a · b, modulo 2^64 for integers.
template <class T>
void add_product(T& sum, T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    sum = static_cast<T>(static_cast<uint64_t>(sum) + static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  } else if constexpr (std::is_floating_point_v<T>) {
    sum += a * b;
  } else {
    sum += T(a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real());
  }
}

/// A spatial dimension's part of a convolution: which input and kernel elements meet at an output place.
struct Pair {
  int64_t input, kernel;  ///< offsets in elements
};

class Convolution {
 public:
  Convolution(const Instruction& instruction, const Shape& input, const Shape& kernel)
      : a_(instruction.as<ConvolutionAttributes>()),
        input_(input),
        kernel_(kernel),
        input_strides_(row_major_strides(input.dims)),
        kernel_strides_(row_major_strides(kernel.dims)) {}

  /// All pairs of elements of the first feature that are multiplied for the output at `place` (spatial).
  std::vector<Pair> pairs(const Integers& place) const {
    std::vector<Pair> result{{0, 0}};
    for (size_t d = 0; d < a_.window.size(); ++d) {
      const WindowDimension& w = a_.window[d];
      const int64_t input_dim = a_.input_spatial[d];
      const int64_t kernel_stride = kernel_strides_[static_cast<size_t>(a_.kernel_spatial[d])];
      std::vector<Pair> next;
      for (const Pair& pair : result) {
        for (int64_t k = 0; k < w.size; ++k) {
          const int64_t dilated = place[d] * w.stride - w.pad_low + k * w.rhs_dilate;
          if (dilated < 0 || dilated % w.lhs_dilate != 0 || dilated / w.lhs_dilate >= input_.dim(input_dim)) continue;
          next.push_back({pair.input + dilated / w.lhs_dilate * input_strides_[static_cast<size_t>(input_dim)],
                          pair.kernel + (w.reversed ? w.size - 1 - k : k) * kernel_stride});
        }
      }
      result = std::move(next);
    }
    return result;
  }

  template <class T>
  Literal run(const Shape& shape, const std::vector<T>& input, const std::vector<T>& kernel) const {
    std::vector<T> output(static_cast<size_t>(shape.element_count()));
    const Integers strides = row_major_strides(shape.dims);
    const int64_t batch = shape.dim(a_.output_batch);
    const int64_t features = shape.dim(a_.output_feature);
    const int64_t inner = kernel_.dim(a_.kernel_input_feature);
    const auto stride = [](const Integers& all, int64_t d) { return all[static_cast<size_t>(d)]; };
    Integers spatial_dims;
    for (int64_t d : a_.output_spatial) spatial_dims.push_back(shape.dim(d));
    Integers place(spatial_dims.size());
    if (is_empty(shape.dims)) return literal_of(shape, output);
    do {
      const std::vector<Pair> met = pairs(place);
      int64_t at = 0;
      for (size_t d = 0; d < place.size(); ++d) at += place[d] * stride(strides, a_.output_spatial[d]);
      for (int64_t n = 0; n < batch; ++n) {
        for (int64_t f = 0; f < features; ++f) {
          // Groups of output features read their own input features, or their own part of the batch.
          const int64_t group = f / (features / a_.feature_group_count);
          const int64_t batch_group = f / (features / a_.batch_group_count);
          const int64_t input_base = (n + batch_group * batch) * stride(input_strides_, a_.input_batch) +
                                     group * inner * stride(input_strides_, a_.input_feature);
          const int64_t kernel_base = f * stride(kernel_strides_, a_.kernel_output_feature);
          T sum{};
          for (int64_t i = 0; i < inner; ++i) {
            const int64_t from = input_base + i * stride(input_strides_, a_.input_feature);
            const int64_t weight = kernel_base + i * stride(kernel_strides_, a_.kernel_input_feature);
            for (const Pair& pair : met) {
              add_product(sum, input[static_cast<size_t>(from + pair.input)],
                          kernel[static_cast<size_t>(weight + pair.kernel)]);
            }
          }
          output[static_cast<size_t>(at + n * stride(strides, a_.output_batch) +
                                     f * stride(strides, a_.output_feature))] = sum;
        }
      }
    } while (next_index(place, spatial_dims));
    return literal_of(shape, output);
  }

 private:
  const ConvolutionAttributes& a_;
  const Shape& input_;
  const Shape& kernel_;
  Integers input_strides_, kernel_strides_;
};

/// An operand of another kind of number than the result, as one of its kind.
Literal in_kind_of(ElementType result, const Literal& operand) {
  const ElementType type = operand.type();
  const bool both_integers = !is_float(result) && !is_complex(result);
  if (kind(type) == kind(result) || both_integers) return operand;
  const ElementType wide = is_complex(result) ? ElementType::C128 : ElementType::F64;
  return evaluate_convert(operand, array_shape(wide, operand.shape().dims));
}

}  // namespace

Literal evaluate_dot(const Instruction& instruction, const Literal& left_operand, const Literal& right_operand) {
  const Literal lhs = in_kind_of(instruction.shape.type, left_operand);
  const Literal rhs = in_kind_of(instruction.shape.type, right_operand);
  const auto& a = instruction.as<DotAttributes>();
  const int64_t batches = product_of(lhs.shape(), a.lhs_batch);
  const int64_t depth = product_of(lhs.shape(), a.lhs_contracting);
  const int64_t per_row = batches * depth;
  const int64_t rows = per_row == 0 ? 0 : lhs.size() / per_row;
  const int64_t columns = per_row == 0 ? 0 : rhs.size() / per_row;
  return visit_accumulator_type(instruction.shape.type, [&](auto zero) {
    using T = decltype(zero);
    const auto left = transposed<T>(lhs, batch_free_contracting(lhs.shape().rank(), a.lhs_batch, a.lhs_contracting));
    const auto right = transposed<T>(rhs, batch_free_contracting(rhs.shape().rank(), a.rhs_batch, a.rhs_contracting));
    std::vector<T> output(static_cast<size_t>(instruction.shape.element_count()));
    size_t next = 0;
    for (int64_t b = 0; b < batches; ++b) {
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < columns; ++j) {
          const T* x = left.data() + (b * rows + i) * depth;
          const T* y = right.data() + (b * columns + j) * depth;
          T sum{};
          for (int64_t k = 0; k < depth; ++k) add_product(sum, x[k], y[k]);
          output[next++] = sum;
        }
      }
    }
    return literal_of(instruction.shape, output);
  });
}

Literal evaluate_convolution(const Instruction& instruction, const Literal& operand, const Literal& weights) {
  const Literal input = in_kind_of(instruction.shape.type, operand);
  const Literal kernel = in_kind_of(instruction.shape.type, weights);
  return visit_accumulator_type(instruction.shape.type, [&](auto zero) {
    using T = decltype(zero);
    return Convolution(instruction, input.shape(), kernel.shape())
        .run<T>(instruction.shape, load_all<T>(input), load_all<T>(kernel));
  });
}

}  // namespace strata::hlo
