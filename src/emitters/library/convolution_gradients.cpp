// Convolutions of HLO that are gradients of others.
#include <utility>

#include "emitters/library/call_plan.h"

namespace strata::emitters {
namespace {

using hlo::WindowDimension;

/// Whether filters reach over the padding of the convolution that was found.
std::optional<Convolution> if_whole(Convolution c) {
  for (const ConvolutionDimension& each : c.spatial) {
    if (each.padding < 0 || each.padding > (each.filter - 1) * each.dilation) return std::nullopt;
  }
  return c;
}

bool has_spatial_dimensions(const hlo::ConvolutionAttributes& a) {
  return a.window.size() == 2 || a.window.size() == 3;
}

}  // namespace

bool is_filter_gradient(const hlo::ConvolutionAttributes& a, const hlo::Shape& lhs, const hlo::Shape& result) {
  if (!has_spatial_dimensions(a) || a.feature_group_count != 1) return false;
  const std::vector<int64_t> strides = hlo::memory_strides(lhs);
  if (strides[static_cast<size_t>(a.input_feature)] < strides[static_cast<size_t>(a.input_batch)]) return false;
  int64_t windows = 1, filters = 1;
  for (size_t i = 0; i < a.window.size(); ++i) {
    const WindowDimension& d = a.window[i];
    if (d.reversed || d.lhs_dilate != 1) return false;
    windows *= d.size;
    filters *= result.dim(a.output_spatial[i]);
  }
  return windows > filters;
}

bool is_image_gradient(const hlo::ConvolutionAttributes& a) {
  if (!has_spatial_dimensions(a) || a.feature_group_count != 1 || a.batch_group_count != 1) return false;
  bool dilated = false;
  for (const WindowDimension& d : a.window) {
    if ((!d.reversed && d.size != 1) || d.stride != 1) return false;
    dilated = dilated || d.lhs_dilate > 1;
  }
  return dilated;
}

std::optional<Convolution> gradient_of(const hlo::ConvolutionAttributes& a, const hlo::Shape& lhs,
                                       const hlo::Shape& rhs, const hlo::Shape& result) {
  const bool of_filters = is_filter_gradient(a, lhs, result);
  if (!of_filters && !is_image_gradient(a)) return std::nullopt;
  Convolution c;
  c.spatial.clear();
  if (of_filters) {
    // Channels stand where images do, and results are filters: what lies a step apart in one is so dilated in the
    // other.
    c.part = ConvolutionPart::Filters;
    c.images = lhs.dim(a.input_feature);
    c.channels = lhs.dim(a.input_batch);
    c.filters = rhs.dim(a.kernel_output_feature);
    c.groups = a.batch_group_count;
    for (size_t i = 0; i < a.window.size(); ++i) {
      const WindowDimension& d = a.window[i];
      c.spatial.push_back({.size = lhs.dim(a.input_spatial[i]),
                           .filter = result.dim(a.output_spatial[i]),
                           .stride = d.rhs_dilate,
                           .padding = d.pad_low,
                           .dilation = d.stride});
      if (c.spatial.back().result() != d.size) return std::nullopt;
    }
    return if_whole(std::move(c));
  }
  c.part = ConvolutionPart::Images;
  c.images = lhs.dim(a.input_batch);
  c.filters = lhs.dim(a.input_feature);
  c.channels = rhs.dim(a.kernel_output_feature);
  for (size_t i = 0; i < a.window.size(); ++i) {
    const WindowDimension& d = a.window[i];
    c.spatial.push_back({.size = result.dim(a.output_spatial[i]),
                         .filter = d.size,
                         .stride = d.lhs_dilate,
                         .padding = (d.size - 1) * d.rhs_dilate - d.pad_low,
                         .dilation = d.rhs_dilate});
    if (c.spatial.back().result() != lhs.dim(a.input_spatial[i])) return std::nullopt;
  }
  return if_whole(std::move(c));
}

}  // namespace strata::emitters
