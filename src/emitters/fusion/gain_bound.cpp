#include "emitters/fusion/gain_bound.h"

#include <algorithm>
#include <iterator>

#include "hlo/scan_window.h"

namespace strata::emitters {
namespace {

using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;

constexpr double kRounding = 1e-9;

bool reads_part(const Instruction& it) {
  switch (it.opcode) {
    case Opcode::Slice:
    case Opcode::DynamicSlice:
    case Opcode::DynamicUpdateSlice:
    case Opcode::Gather:
    case Opcode::ReduceWindow:
    case Opcode::Convolution:
      return true;
    case Opcode::Pad: {
      const auto& pad = it.as<hlo::PadAttributes>();
      const auto cuts = [](const std::vector<int64_t>& by) {
        return std::any_of(by.begin(), by.end(), [](int64_t elements) { return elements < 0; });
      };
      return cuts(pad.low) || cuts(pad.high);
    }
    default:
      return !it.called.empty() && it.opcode != Opcode::Reduce && it.opcode != Opcode::Scatter &&
             it.opcode != Opcode::Map && it.opcode != Opcode::Sort;
  }
}

}  // namespace

std::vector<unsigned> instruction_traits(const hlo::Computation& computation) {
  std::vector<unsigned> traits;
  for (const Instruction& it : computation.instructions) {
    const bool paced = it.opcode == Opcode::Dot || hlo::scan_window(computation, it).has_value();
    traits.push_back((reads_part(it) ? kReadsPart : 0U) | (it.opcode == Opcode::Broadcast ? kSpreads : 0U) |
                     (paced ? kPricedByEmitter : 0U));
  }
  return traits;
}

double GainBound::microseconds_of(std::span<const ArrayValue> values) const {
  double bytes = 0;
  for (const ArrayValue& value : values) {
    const hlo::Shape& shape = hlo::leaf_of(computation_[value.instruction].shape, value.element);
    bytes += static_cast<double>(shape.element_count()) * hlo::byte_width(shape.type);
  }
  return ratings_.microseconds_of(bytes);
}

double GainBound::microseconds_of_shared(const BoundedGroup& a, const BoundedGroup& b) const {
  std::vector<ArrayValue> shared;
  std::set_intersection(a.inputs.begin(), a.inputs.end(), b.inputs.begin(), b.inputs.end(), std::back_inserter(shared));
  return microseconds_of(shared);
}

double GainBound::of_readers(const BoundedGroup& first, const BoundedGroup& second) const {
  const KernelTime &a = first.time, &b = second.time;
  const double least = std::max({a.all_memory + b.all_memory - microseconds_of_shared(first, second), a.cache, b.cache,
                                 a.operations, b.operations, a.thread, b.thread});
  return (a.all + b.all) * (1 + kRounding) - (a.launch + least);
}

double GainBound::of_pair(const BoundedGroup& producer, const BoundedGroup& consumer,
                          std::span<const ArrayValue> passed, std::span<const ArrayValue> gone) const {
  const KernelTime &from = producer.time, &to = consumer.time;
  const bool in_part = (consumer.traits & kReadsPart) != 0;
  const unsigned all = producer.traits | consumer.traits;
  double memory = std::max(to.all_memory - microseconds_of(passed), 0.0);
  if (in_part) {
    memory += microseconds_of(passed) - microseconds_of(gone);
  } else {
    const double twice = microseconds_of(gone) + microseconds_of_shared(producer, consumer);
    memory = std::max(memory + from.all_memory - twice, memory);
  }
  // What both of them compute, they compute once: the longer of two.
  double operations = (all & kPricedByEmitter) != 0 ? 0 : to.computing;
  if (!in_part && (all & (kPricedByEmitter | kSpreads)) == 0) operations = std::max(operations, from.computing);
  return (from.all + to.all) * (1 + kRounding) - (ratings_.launch() + std::max(memory, operations));
}

double GainBound::of_launch(const KernelTime& first, const KernelTime& second) const {
  return (first.all + second.all) * (1 + kRounding) - ratings_.launch();
}

}  // namespace strata::emitters
