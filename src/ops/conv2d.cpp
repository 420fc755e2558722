#include "indexing/simplify.h"
#include "ops/elementwise.h"
#include "ops/reads.h"

namespace strata {

/// result[n, o, y, x] = Σ_{c, i, j} X[n, c, y·stride + i − padding, x·stride + j − padding] · W[o, c, i, j], where
/// entries of X outside its borders are 0.
struct Conv2d {
  static constexpr OpTraits traits{.name = "conv2d",
                                   .summary = "X[n, c, h, w] * W[o, c, i, j], not mirrored, borders padded with 0",
                                   .arity = 2,
                                   .levels = {.kernel = true, .block = false, .thread = false},
                                   .products = 1,
                                   .algebra = {.linear = kFirstOperand | kSecondOperand},
                                   .abstract_expression = "sum(c·i·j, mul(E(X), E(W)))"};
  static constexpr std::array attributes{
      AttributeSpec{"stride", AttributeKind::Int, false, "rows and columns between results; default 1"},
      AttributeSpec{"padding", AttributeKind::Int, false, "rows and columns of zeros around X; default 0"}};
  static constexpr CudaLowering cuda = library_cuda("conv2d");

  static Result<TensorType> infer(const OpScope&, OperandTypes operands, const Attributes& attributes) {
    const TensorType& x = operands[0];
    const TensorType& w = operands[1];
    const int64_t stride = attributes.integer_or("stride", 1);
    const int64_t padding = attributes.integer_or("padding", 0);
    if (x.dtype != w.dtype) return differing_types(x.dtype, w.dtype);
    if (x.shape.size() != 4 || w.shape.size() != 4) {
      return invalid("{} * {}: an image [n, c, h, w] and a filter [o, c, i, j] are needed", to_string(x), to_string(w));
    }
    if (x.shape[1] != w.shape[1]) return invalid("{} and {} channels differ", x.shape[1], w.shape[1]);
    if (stride < 1) return invalid("stride={} is below 1", stride);
    if (padding < 0 || padding > kLargestPadding) return invalid("padding={} is not 0 … {}", padding, kLargestPadding);
    TensorType result{x.dtype, {x.shape[0], w.shape[0], 0, 0}};
    for (size_t d = 2; d < 4; ++d) {
      const int64_t room = x.shape[d] + 2 * padding - w.shape[d];
      if (room < 0) return invalid("{} does not fit into {} with padding={}", to_string(w), to_string(x), padding);
      result.shape[d] = room / stride + 1;
    }
    return result;
  }
  static IndexLabels labels(OperandTypes, const Attributes&) {
    constexpr int kFree = IndexLabels::kFree;
    enum { kImage, kFilter, kChannel };
    return {{{kImage, kChannel, kFree, kFree}, {kFilter, kChannel, kFree, kFree}}, {kImage, kFilter, kFree, kFree}};
  }
  static OperandReads reads(OperandTypes operands, const Attributes& attributes) {
    using indexing::Expr;
    const Shape& x = operands[0].shape;
    const Shape& w = operands[1].shape;
    const int64_t stride = attributes.integer_or("stride", 1);
    const int64_t padding = attributes.integer_or("padding", 0);
    const Shape result = infer({}, operands, attributes).value().shape;
    OperandReads reads(2, map_from(result));
    for (auto& map : reads) {
      const Expr channel = add_range(map, w[1]);
      const Expr row = add_range(map, w[2]);
      const Expr column = add_range(map, w[3]);
      const Expr image_row = Expr::dim(2) * stride + row - padding;
      const Expr image_column = Expr::dim(3) * stride + column - padding;
      if (&map == &reads[0]) {
        map.results = {Expr::dim(0), channel, image_row, image_column};
      } else {
        map.results = {Expr::dim(1), channel, row, column};
      }
      map.constraints = {{image_row, indexing::below(x[2])}, {image_column, indexing::below(x[3])}};
      map = simplify(map, indexing::UnusedVariables::Keep);
    }
    return reads;
  }
  static ExprId expression(ExprBuilder& b, const OpScope&, std::span<const ExprId> e, OperandTypes operands,
                           const Attributes&) {
    const Shape& w = operands[1].shape;
    return b.sum(w[1] * w[2] * w[3], b.mul(e[0], e[1]));
  }
  template <class A>
  static void eval(const EvalArgs<A>& args) {
    A& a = args.arithmetic;
    const auto& x = *args.operands[0];
    const auto& w = *args.operands[1];
    auto& result = args.result;
    const int64_t stride = args.attributes.integer_or("stride", 1);
    const int64_t padding = args.attributes.integer_or("padding", 0);
    const int64_t channels = w.shape[1], rows = w.shape[2], columns = w.shape[3];
    const int64_t height = x.shape[2], width = x.shape[3];
    for (int64_t at = 0; at < result.size(); ++at) {
      const int64_t column = at % result.shape[3], row = at / result.shape[3] % result.shape[2];
      const int64_t filter = at / (result.shape[3] * result.shape[2]) % result.shape[1];
      const int64_t image = at / (result.shape[3] * result.shape[2] * result.shape[1]);
      const int64_t top = row * stride - padding, left = column * stride - padding;
      bool first = true;
      for (int64_t c = 0; c < channels; ++c) {
        for (int64_t i = std::max<int64_t>(0, -top); i < std::min(rows, height - top); ++i) {
          for (int64_t j = std::max<int64_t>(0, -left); j < std::min(columns, width - left); ++j) {
            const auto term = a.mul(x[((image * channels + c) * height + top + i) * width + left + j],
                                    w[((filter * channels + c) * rows + i) * columns + j]);
            result[at] = first ? term : a.add(result[at], term);
            first = false;
          }
        }
      }
      if (first) result[at] = a.constant({0, 1});  // the filter lies in the padding
    }
  }

 private:
  static constexpr int64_t kLargestPadding = int64_t{1} << 30;
};

}  // namespace strata

STRATA_DEFINE_OP(Conv2d)
