#include "emitters/library/padded_convolutions.h"

#include <array>

#include "emitters/library/call_plan.h"
#include "hlo/entry_rewriter.h"
#include "superopt/codegen/libraries.h"

namespace strata::emitters {
namespace {

using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;
using hlo::Shape;

constexpr int64_t kAlignment = 8;  ///< elements of 16 bits

int64_t filled(int64_t size) { return ceil_div(size, kAlignment) * kAlignment; }

class Filler : hlo::EntryRewriter {
 public:
  Filler(const hlo::Module& module, const Target& target)
      : EntryRewriter(module), target_(target), users_(users_of(from_)) {}

  hlo::Module run() {
    return rewrite([&](const Instruction& it, const Instruction& copy) -> std::optional<InstructionId> {
      if (it.opcode != Opcode::Convolution) return std::nullopt;
      const auto plan = plan_of(it, {}), last = plan_of(it, true);
      if (!plan || !last) return std::nullopt;
      const Shapes to = filled_shapes(it, std::get<Convolution>(plan->work));
      return pays(it, *plan, *last, to) ? std::optional(fill(copy, to)) : std::nullopt;
    });
  }

 private:
  struct Shapes {
    Shape x, w, result;
  };

  /// How a library takes it as it is.
  std::optional<CallPlan> plan_of(const Instruction& it, std::optional<bool> channels_last) const {
    const auto& a = it.as<hlo::ConvolutionAttributes>();
    if (a.feature_group_count != 1 || a.batch_group_count != 1) return std::nullopt;
    const auto id = static_cast<InstructionId>(&it - from_.instructions.data());
    auto plan = plan_convolution(from_, users_, id, target_, channels_last);
    if (!plan || size_of(std::get<Convolution>(plan->work).type) != 2) return std::nullopt;
    return std::move(*plan);
  }

  /// The same arrays with channels and filters filled up. What a gradient of filters sums over is images.
  Shapes filled_shapes(const Instruction& it, const Convolution& work) const {
    const auto& a = it.as<hlo::ConvolutionAttributes>();
    const auto with = [](const Shape& shape, std::initializer_list<int64_t> dimensions) {
      std::vector<int64_t> dims = shape.dims;
      for (const int64_t d : dimensions) dims[static_cast<size_t>(d)] = filled(dims[static_cast<size_t>(d)]);
      return hlo::array_shape(shape.type, dims);
    };
    const Shape &x = from_.operand_shape(it, 0), &w = from_.operand_shape(it, 1);
    if (work.part == ConvolutionPart::Filters)
      return {with(x, {a.input_batch}), with(w, {a.kernel_output_feature}),
              with(it.shape, {a.output_batch, a.output_feature})};
    return {with(x, {a.input_feature}), with(w, {a.kernel_input_feature, a.kernel_output_feature}),
            with(it.shape, {a.output_feature})};
  }

  /// What has to lie in another order is read and written either way; filling it up is done with that.
  bool pays(const Instruction& it, const CallPlan& plan, const CallPlan& last, const Shapes& to) const {
    const auto& work = std::get<Convolution>(plan.work);
    Convolution larger = work;
    larger.channels = filled(work.channels);
    larger.filters = filled(work.filters);
    if (larger.channels == work.channels && larger.filters == work.filters) return false;
    larger.channels_last = true;
    double seconds = library_seconds(larger, target_), before = library_seconds(work, target_);
    const std::array from{&from_.operand_shape(it, 0), &from_.operand_shape(it, 1), &it.shape};
    const std::array padded{&to.x, &to.w, &to.result};
    const auto copied = [](const CallPlan& of) {
      return std::array{!of.operands[0].permutation.empty(), !of.operands[1].permutation.empty(),
                        !of.result_permutation.empty()};
    };
    for (size_t i = 0; i < from.size(); ++i) {
      const auto bytes = [&](const Shape& other) {
        return static_cast<double>((from[i]->element_count() + other.element_count()) * size_of(work.type));
      };
      const bool is_padded = from[i]->dims != padded[i]->dims;
      if (copied(plan)[i]) before += bytes(*from[i]) / target_.rates.memory_bandwidth;
      if (copied(last)[i] || is_padded) seconds += bytes(*padded[i]) / target_.rates.memory_bandwidth;
      if (is_padded && !copied(last)[i]) seconds += target_.rates.launch;
    }
    return seconds < before;
  }

  InstructionId fill(const Instruction& it, const Shapes& to) {
    const InstructionId x = resized(it.operands[0], to.x.dims), w = resized(it.operands[1], to.w.dims);
    const InstructionId made = add(it.name + ".filled", Opcode::Convolution, to.result, {x, w}, it.attributes);
    const Shape result = hlo::array_shape(it.shape.type, it.shape.dims);
    const std::vector<int64_t> starts(result.dims.size(), 0), strides(result.dims.size(), 1);
    const InstructionId part = result.dims == to.result.dims ? made
                                                             : add(it.name + ".part", Opcode::Slice, result, {made},
                                                                   hlo::SliceAttributes{starts, result.dims, strides});
    return it.shape.has_default_layout() ? part : add(it.name + ".copy", Opcode::Copy, it.shape, {part});
  }

  const Target& target_;
  const Users users_;
};

}  // namespace

hlo::Module with_padded_convolutions(const hlo::Module& module, const Target& target) {
  return Filler(module, target).run();
}

}  // namespace strata::emitters
