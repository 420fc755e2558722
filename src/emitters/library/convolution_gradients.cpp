// Convolutions of HLO that are gradients of others.
#include <algorithm>

#include "emitters/library/call_plan.h"

namespace strata::emitters {
namespace {

using hlo::WindowDimension;

/// Whether the convolution that was found has a result of these sizes, and filters that reach over its padding.
std::optional<Convolution> if_whole(const Convolution& c, int64_t rows, int64_t columns) {
  const int64_t least = std::min(c.filter_height, c.filter_width);
  if (c.padding < 0 || c.padding > (least - 1) * c.dilation || c.result_height() != rows || c.result_width() != columns)
    return std::nullopt;
  return c;
}

}  // namespace

bool is_filter_gradient(const hlo::ConvolutionAttributes& a, const hlo::Shape& lhs, const hlo::Shape& result) {
  if (a.window.size() != 2 || a.feature_group_count != 1) return false;
  const std::vector<int64_t> strides = hlo::memory_strides(lhs);
  if (strides[static_cast<size_t>(a.input_feature)] < strides[static_cast<size_t>(a.input_batch)]) return false;
  const auto& [height, width] = std::tie(a.window[0], a.window[1]);
  const auto plain = [](const WindowDimension& d) { return !d.reversed && d.lhs_dilate == 1; };
  return plain(height) && plain(width) && height.stride == width.stride && height.rhs_dilate == width.rhs_dilate &&
         height.size * width.size > result.dim(a.output_spatial[0]) * result.dim(a.output_spatial[1]);
}

bool is_image_gradient(const hlo::ConvolutionAttributes& a) {
  if (a.window.size() != 2 || a.feature_group_count != 1 || a.batch_group_count != 1) return false;
  const auto& [height, width] = std::tie(a.window[0], a.window[1]);
  const auto mirrored = [](const WindowDimension& d) { return (d.reversed || d.size == 1) && d.stride == 1; };
  return mirrored(height) && mirrored(width) && height.lhs_dilate == width.lhs_dilate && height.lhs_dilate > 1 &&
         height.rhs_dilate == width.rhs_dilate;
}

std::optional<Convolution> gradient_of(const hlo::ConvolutionAttributes& a, const hlo::Shape& lhs,
                                       const hlo::Shape& rhs, const hlo::Shape& result) {
  const bool of_filters = is_filter_gradient(a, lhs, result);
  if (!of_filters && !is_image_gradient(a)) return std::nullopt;
  const auto& [height, width] = std::tie(a.window[0], a.window[1]);
  const auto spatial = [](const hlo::Shape& shape, const std::vector<int64_t>& dims) {
    return std::pair(shape.dim(dims[0]), shape.dim(dims[1]));
  };
  Convolution c;
  if (of_filters) {
    // Channels stand where images do, and results are filters: what lies a step apart in one is so dilated in the
    // other.
    c.part = ConvolutionPart::Filters;
    if (height.pad_low != width.pad_low) return std::nullopt;
    c.images = lhs.dim(a.input_feature);
    c.channels = lhs.dim(a.input_batch);
    std::tie(c.height, c.width) = spatial(lhs, a.input_spatial);
    c.filters = rhs.dim(a.kernel_output_feature);
    std::tie(c.filter_height, c.filter_width) = spatial(result, a.output_spatial);
    c.stride = height.rhs_dilate;
    c.dilation = height.stride;
    c.padding = height.pad_low;
    c.groups = a.batch_group_count;
    return if_whole(c, height.size, width.size);
  }
  c.part = ConvolutionPart::Images;
  c.images = lhs.dim(a.input_batch);
  c.filters = lhs.dim(a.input_feature);
  c.channels = rhs.dim(a.kernel_output_feature);
  std::tie(c.height, c.width) = spatial(result, a.output_spatial);
  std::tie(c.filter_height, c.filter_width) = std::pair(height.size, width.size);
  c.stride = height.lhs_dilate;
  c.dilation = height.rhs_dilate;
  c.padding = (height.size - 1) * c.dilation - height.pad_low;
  if (c.padding != (width.size - 1) * c.dilation - width.pad_low) return std::nullopt;
  const auto [rows, columns] = spatial(lhs, a.input_spatial);
  return if_whole(c, rows, columns);
}

}  // namespace strata::emitters
