#include "emitters/fusion/convolution_sums.h"

#include <algorithm>
#include <optional>

#include "emitters/fusion/product_parts.h"
#include "hlo/indexing/evaluations.h"

namespace strata::emitters {
namespace {

using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;
using hlo::Shape;
using Dimensions = std::vector<int64_t>;

/// Sums of one kernel, each of which has its terms in a register and their code in the loop.
constexpr int64_t kMostPlaces = 16;

class Sums : ProductPartsRewriter {
 public:
  explicit Sums(const hlo::Module& module) : ProductPartsRewriter(module) {}

  hlo::Module run() {
    return rewrite([&](const Instruction& it, const Instruction& copy) -> std::optional<InstructionId> {
      if (it.opcode != Opcode::Convolution || !is_of_sums(it)) return std::nullopt;
      return sums_of(it, copy);
    });
  }

 private:
  bool is_of_sums(const Instruction& it) const {
    const auto& a = it.as<hlo::ConvolutionAttributes>();
    const Shape &lhs = from_.operand_shape(it, 0), &rhs = from_.operand_shape(it, 1);
    const hlo::TypeKind kind = hlo::kind(it.shape.type);
    const bool of_library = kind == hlo::TypeKind::Float && hlo::bit_width(it.shape.type) <= 32;
    if (a.window.empty() || (a.window.size() > 1 && of_library) || kind == hlo::TypeKind::Pred) return false;
    if (lhs.type != it.shape.type || rhs.type != it.shape.type || it.shape.element_count() == 0) return false;
    if (!lhs.has_default_layout() || !rhs.has_default_layout() || !it.shape.has_default_layout()) return false;
    // One image of each group, and one channel of the result.
    if (a.feature_group_count != 1 || it.shape.dim(a.output_batch) != 1) return false;
    if (it.shape.dim(a.output_feature) != a.batch_group_count) return false;
    int64_t places = 1, terms = lhs.dim(a.input_feature);
    for (size_t i = 0; i < a.window.size(); ++i) {
      if (a.window[i].reversed) return false;
      places *= it.shape.dim(a.output_spatial[i]);
      terms *= a.window[i].size;
    }
    return places <= kMostPlaces && terms > indexing::kFewTerms;
  }

  InstructionId sums_of(const Instruction& it, const Instruction& copy) {
    const auto& a = it.as<hlo::ConvolutionAttributes>();
    const bool narrow = hlo::kind(it.shape.type) == hlo::TypeKind::Float && hlo::bit_width(it.shape.type) < 32;
    const hlo::ElementType type = narrow ? hlo::ElementType::F32 : it.shape.type;
    const InstructionId images = padded(it, copy.operands[0]);
    const InstructionId window = in_order_of_images(it, copy.operands[1]);
    const InstructionId factors = converted(it, window, type);
    const InstructionId initial = zero(type);
    const hlo::ComputationId sum = sum_of(type);
    Dimensions summed = a.input_spatial;
    summed.push_back(a.input_feature);
    std::sort(summed.begin(), summed.end());
    const int64_t channels = a.batch_group_count;
    std::vector<InstructionId> sums;
    Dimensions place(a.window.size(), 0);
    for (bool more = true; more;) {
      const InstructionId below = converted(it, elements_below(it, images, place), type);
      const InstructionId product = add(it.name + ".products", Opcode::Multiply, shape(below), {below, factors});
      const InstructionId one = add(it.name + ".sum", Opcode::Reduce, hlo::array_shape(type, {channels}),
                                    {product, initial}, hlo::DimensionsAttributes{summed}, {sum});
      sums.push_back(add(it.name + ".row", Opcode::Reshape, hlo::array_shape(type, {1, channels}), {one}));
      more = false;
      for (size_t i = place.size(); i-- > 0 && !more;) {
        more = ++place[i] < it.shape.dim(a.output_spatial[i]);
        if (!more) place[i] = 0;
      }
    }
    return in_order_of_result(it, sums, type);
  }

  InstructionId converted(const Instruction& it, InstructionId id, hlo::ElementType type) {
    if (shape(id).type == type) return id;
    return add(it.name + ".wide", Opcode::Convert, hlo::array_shape(type, shape(id).dims), {id});
  }

  /// With all that windows reach beyond the images, and between their elements.
  InstructionId padded(const Instruction& it, InstructionId images) {
    const auto& a = it.as<hlo::ConvolutionAttributes>();
    const size_t rank = shape(images).dims.size();
    hlo::PadAttributes pad{Dimensions(rank, 0), Dimensions(rank, 0), Dimensions(rank, 0)};
    Shape larger = shape(images);
    for (size_t i = 0; i < a.window.size(); ++i) {
      const auto d = static_cast<size_t>(a.input_spatial[i]);
      pad.low[d] = a.window[i].pad_low;
      pad.high[d] = a.window[i].pad_high;
      pad.interior[d] = a.window[i].lhs_dilate - 1;
      larger.dims[d] += pad.low[d] + pad.high[d] + std::max<int64_t>(larger.dims[d] - 1, 0) * pad.interior[d];
    }
    if (larger.dims == shape(images).dims) return images;
    return add(it.name + ".padded", Opcode::Pad, larger, {images, zero(larger.type)}, pad);
  }

  /// The window's elements, with each dimension where images have theirs.
  InstructionId in_order_of_images(const Instruction& it, InstructionId window) {
    const auto& a = it.as<hlo::ConvolutionAttributes>();
    Dimensions order(shape(window).dims.size());
    order[static_cast<size_t>(a.input_batch)] = a.kernel_output_feature;
    order[static_cast<size_t>(a.input_feature)] = a.kernel_input_feature;
    for (size_t i = 0; i < a.window.size(); ++i) order[static_cast<size_t>(a.input_spatial[i])] = a.kernel_spatial[i];
    return transposed(it, window, order);
  }

  InstructionId transposed(const Instruction& it, InstructionId id, const Dimensions& order) {
    if (std::is_sorted(order.begin(), order.end())) return id;
    Dimensions sizes;
    for (const int64_t d : order) sizes.push_back(shape(id).dim(d));
    return add(it.name + ".turned", Opcode::Transpose, hlo::array_shape(shape(id).type, sizes), {id},
               hlo::DimensionsAttributes{order});
  }

  InstructionId elements_below(const Instruction& it, InstructionId images, const Dimensions& place) {
    const auto& a = it.as<hlo::ConvolutionAttributes>();
    Shape part = shape(images);
    const size_t rank = part.dims.size();
    hlo::SliceAttributes slice{Dimensions(rank, 0), part.dims, Dimensions(rank, 1)};
    for (size_t i = 0; i < place.size(); ++i) {
      const auto d = static_cast<size_t>(a.input_spatial[i]);
      const hlo::WindowDimension& each = a.window[i];
      slice.starts[d] = place[i] * each.stride;
      slice.limits[d] = slice.starts[d] + (each.size - 1) * each.rhs_dilate + 1;
      slice.strides[d] = each.rhs_dilate;
      part.dims[d] = each.size;
    }
    if (part.dims == shape(images).dims) return images;
    return add(it.name + ".below", Opcode::Slice, part, {images}, slice);
  }

  /// The sums of all places, one after the other, as the convolution has them.
  InstructionId in_order_of_result(const Instruction& it, const std::vector<InstructionId>& sums,
                                   hlo::ElementType type) {
    const auto& a = it.as<hlo::ConvolutionAttributes>();
    const int64_t channels = a.batch_group_count;
    InstructionId all = sums[0];
    if (sums.size() > 1) {
      all = add(it.name + ".places", Opcode::Concatenate, hlo::array_shape(type, {std::ssize(sums), channels}), sums,
                hlo::DimensionsAttributes{Dimensions{0}});
    }
    Dimensions sizes, order(it.shape.dims.size());
    for (const int64_t d : a.output_spatial) {
      order[static_cast<size_t>(d)] = std::ssize(sizes);
      sizes.push_back(it.shape.dim(d));
    }
    order[static_cast<size_t>(a.output_feature)] = std::ssize(sizes);
    order[static_cast<size_t>(a.output_batch)] = std::ssize(sizes) + 1;
    sizes.insert(sizes.end(), {channels, 1});
    all = add(it.name + ".apart", Opcode::Reshape, hlo::array_shape(type, sizes), {all});
    return transposed(it, converted(it, all, it.shape.type), order);
  }
};

}  // namespace

hlo::Module with_convolution_sums(const hlo::Module& module) { return Sums(module).run(); }

}  // namespace strata::emitters
