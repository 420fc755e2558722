// Convolutions of HLO as cuDNN takes them: two or three spatial dimensions, tensors in one of two orders.
#include <algorithm>
#include <numeric>

#include "emitters/library/call_plan.h"
#include "superopt/codegen/libraries.h"

namespace strata::emitters {
namespace {

using hlo::Computation;
using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;
using Dimensions = std::vector<int64_t>;

/// A tensor's dimensions in the order of memory: outermost (images, filters), channels and the spatial ones.
Dimensions in_order(int64_t outer, int64_t channels, const Dimensions& spatial, bool channels_last) {
  Dimensions order{outer};
  if (!channels_last) order.push_back(channels);
  order.insert(order.end(), spatial.begin(), spatial.end());
  if (channels_last) order.push_back(channels);
  return order;
}

bool lies_in(const Dimensions& order, const Dimensions& sizes, const Dimensions& strides) {
  int64_t expected = 1;
  for (size_t i = order.size(); i-- > 0;) {
    const auto d = static_cast<size_t>(order[i]);
    if (sizes[d] != 1 && strides[d] != expected) return false;
    expected *= sizes[d];
  }
  return true;
}

class ConvolutionPlanner {
 public:
  ConvolutionPlanner(const Computation& computation, const Users& users, InstructionId id, const Target& target)
      : target_(target),
        computation_(computation),
        users_(users),
        id_(id),
        it_(computation[id]),
        attributes_(it_.as<hlo::ConvolutionAttributes>()),
        x_(computation.operand_shape(it_, 0)),
        w_(computation.operand_shape(it_, 1)) {}

  Result<CallPlan> plan(std::optional<bool> channels_last) {
    STRATA_CHECK(take_type());
    if (const std::optional<Convolution> gradient = gradient_of(attributes_, x_, w_, it_.shape)) {
      const auto [type, tf32] = std::pair(work_.type, work_.tf32);
      work_ = *gradient;
      std::tie(work_.type, work_.tf32) = std::tie(type, tf32);
    } else {
      STRATA_CHECK(take_sizes());
    }
    // What is copied is read and written; on tensor cores the library's kernels want channels last, and the library
    // copies what lies otherwise by kernels of its own.
    std::optional<double> least;
    const bool on_tensor_cores = work_.type != DType::F32 || work_.tf32;
    for (const bool last : {on_tensor_cores, !on_tensor_cores}) {
      if (channels_last && *channels_last != last) continue;
      CallPlan plan;
      Convolution work = work_;
      work.channels_last = last;
      const auto copied = static_cast<double>(choose(plan, last));
      const double seconds = library_seconds(work, target_) + 2 * copied / target_.rates.memory_bandwidth;
      if (least && seconds >= *least) continue;
      least = seconds;
      plan.work = work;
      best_ = std::move(plan);
    }
    best_.contraction = best_.result = id_;
    if (work_.part == ConvolutionPart::Result) take_relu();
    return best_;
  }

 private:
  Result<void> take_type() {
    const auto type = library_type(x_.type);
    if (!type || *type == DType::F64 || w_.type != x_.type || it_.shape.type != x_.type)
      return unsupported("cuDNN is not asked for {} by {} to {}", hlo::name(x_.type), hlo::name(w_.type),
                         hlo::name(it_.shape.type));
    if (it_.shape.element_count() == 0 || x_.element_count() == 0 || w_.element_count() == 0)
      return unsupported("it has no elements");
    work_.type = *type;
    work_.tf32 = *type == DType::F32 && hlo::allows_tf32(attributes_.precision);
    return {};
  }

  Result<void> take_sizes() {
    const size_t rank = attributes_.window.size();
    if (rank != 2 && rank != 3) return unsupported("it has {} spatial dimensions", rank);
    if (attributes_.batch_group_count != 1) return unsupported("it has groups of images");
    for (const hlo::WindowDimension& each : attributes_.window) {
      if (each.reversed) return unsupported("its filters are reversed");
      if (each.lhs_dilate != 1) return unsupported("its images are dilated");
      if (each.pad_low != each.pad_high || each.pad_low < 0) return unsupported("its padding differs at both ends");
    }
    work_.images = x_.dim(attributes_.input_batch);
    work_.channels = x_.dim(attributes_.input_feature);
    work_.filters = w_.dim(attributes_.kernel_output_feature);
    work_.groups = attributes_.feature_group_count;
    work_.spatial.clear();
    for (size_t i = 0; i < rank; ++i) {
      const hlo::WindowDimension& each = attributes_.window[i];
      work_.spatial.push_back({.size = x_.dim(attributes_.input_spatial[i]),
                               .filter = each.size,
                               .stride = each.stride,
                               .padding = each.pad_low,
                               .dilation = each.rhs_dilate});
      if (each.pad_low > (each.size - 1) * each.rhs_dilate) return unsupported("its padding is wider than its filters");
    }
    return {};
  }

  /// Which operands and result have to be transposed for this order; their bytes.
  int64_t choose(CallPlan& plan, bool last) const {
    hlo::ConvolutionAttributes a = attributes_;
    int64_t copied = 0;
    Dimensions spatial(attributes_.window.size());
    std::iota(spatial.begin(), spatial.end(), last ? 1 : 2);
    const int64_t channels = last ? std::ssize(spatial) + 1 : 1;
    const bool of_filters = work_.part == ConvolutionPart::Filters, of_images = work_.part == ConvolutionPart::Images;
    // The dimensions in their order, which they get where the operand is transposed.
    const auto operand = [&](size_t i, int64_t& outer, int64_t& inner, Dimensions& places) {
      const Dimensions order = in_order(outer, inner, places, last);
      const InstructionId id = it_.operands[i];
      const hlo::Shape& shape = computation_[id].shape;
      for (const MemoryView& view : memory_views(computation_, id)) {
        if (!lies_in(order, shape.dims, view.strides) ||
            computation_[view.memory].shape.element_count() != shape.element_count())
          continue;
        plan.operands.push_back({view.memory, {}});
        return;
      }
      plan.operands.push_back({id, order});
      copied += shape.element_count() * hlo::byte_width(shape.type);
      std::tie(outer, inner, places) = std::tuple(0, channels, spatial);
    };
    operand(0, of_filters ? a.input_feature : a.input_batch, of_filters ? a.input_batch : a.input_feature,
            a.input_spatial);
    const bool swapped = of_filters || of_images;
    operand(1, swapped ? a.kernel_input_feature : a.kernel_output_feature,
            swapped ? a.kernel_output_feature : a.kernel_input_feature, a.kernel_spatial);
    int64_t& outer = of_filters ? a.output_feature : a.output_batch;
    int64_t& inner = of_filters ? a.output_batch : a.output_feature;
    const Dimensions order = in_order(outer, inner, a.output_spatial, last);
    if (!lies_in(order, it_.shape.dims, hlo::memory_strides(it_.shape))) {
      std::tie(outer, inner, a.output_spatial) = std::tuple(0, channels, spatial);
      plan.result_shape = hlo::array_shape(it_.shape.type, Dimensions(order.size()));
      plan.result_permutation.resize(order.size());
      for (size_t i = 0; i < order.size(); ++i) {
        plan.result_shape.dims[i] = it_.shape.dim(order[i]);
        plan.result_permutation[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
      }
      copied += it_.shape.element_count() * hlo::byte_width(it_.shape.type);
    }
    plan.attributes = a;
    return copied;
  }

  void take_relu() {
    const auto relu = relu_of(computation_, users_, id_);
    // With channels first the library has no algorithm that does both (tests/gpu/check_convolutions.py); of three
    // spatial dimensions it was not asked.
    auto& work = std::get<Convolution>(best_.work);
    if (!relu || !work.channels_last || work.spatial.size() != 2 || computation_[*relu].shape != it_.shape ||
        !best_.result_permutation.empty())
      return;
    work.relu = true;
    best_.result = *relu;
  }

  const Target& target_;
  const Computation& computation_;
  const Users& users_;
  const InstructionId id_;
  const Instruction& it_;
  const hlo::ConvolutionAttributes& attributes_;
  const hlo::Shape& x_;
  const hlo::Shape& w_;
  Convolution work_;
  CallPlan best_;
};

}  // namespace

Result<CallPlan> plan_convolution(const Computation& computation, const Users& users, InstructionId convolution,
                                  const Target& target, std::optional<bool> channels_last) {
  return ConvolutionPlanner(computation, users, convolution, target).plan(channels_last);
}

}  // namespace strata::emitters
