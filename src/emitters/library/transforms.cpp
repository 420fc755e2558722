// Fourier transforms of HLO as cuFFT takes them.
#include <numeric>

#include "emitters/library/call_plan.h"

namespace strata::emitters {
namespace {

using hlo::Computation;
using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;

FftKind kind_of(hlo::FftAttributes::Type type) {
  switch (type) {
    case hlo::FftAttributes::Type::FFT:
      return FftKind::Forward;
    case hlo::FftAttributes::Type::IFFT:
      return FftKind::Inverse;
    case hlo::FftAttributes::Type::RFFT:
      return FftKind::FromReal;
    case hlo::FftAttributes::Type::IRFFT:
      return FftKind::ToReal;
  }
  return FftKind::Forward;
}

std::vector<int64_t> in_order(size_t rank) {
  std::vector<int64_t> order(rank);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

}  // namespace

Result<CallPlan> plan_transform(const Computation& computation, const Users& users, InstructionId id) {
  const Instruction& it = computation[id];
  const auto& attributes = it.as<hlo::FftAttributes>();
  const hlo::Shape& operand = computation.operand_shape(it, 0);
  Fft fft;
  fft.kind = kind_of(attributes.type);
  fft.lengths = attributes.lengths;
  fft.wide = operand.type == hlo::ElementType::F64 || operand.type == hlo::ElementType::C128;
  if (it.shape.element_count() == 0 || operand.element_count() == 0) return unsupported("it has no elements");
  fft.batch = operand.element_count() / fft.read();
  CallPlan plan;
  plan.contraction = plan.result = id;
  plan.attributes = it.attributes;
  if (fft.kind == FftKind::Inverse || fft.kind == FftKind::ToReal) {
    // The library does not divide, which preparation.cpp has undone behind the transform.
    const auto lengths = std::accumulate(fft.lengths.begin(), fft.lengths.end(), 1.0, std::multiplies<>());
    const std::optional<InstructionId> user = only_user(users, id);
    if (!user || computation[*user].opcode != Opcode::Multiply ||
        constant_value(computation, computation[*user].operands[1]) != lengths)
      return unsupported("it divides by its length");
    plan.result = *user;
  }
  const hlo::Shape row_major = hlo::array_shape(operand.type, operand.dims);
  for (const MemoryView& view : memory_views(computation, it.operands[0])) {
    if (!plan.operands.empty() || view.strides != hlo::memory_strides(row_major) ||
        computation[view.memory].shape.element_count() != operand.element_count())
      continue;
    plan.operands.push_back({view.memory, {}});
    // What nothing else reads and a kernel computes anew in each run.
    fft.overwrites = view.memory == it.operands[0] && computation[view.memory].opcode == Opcode::Multiply &&
                     only_user(users, view.memory) == id;
  }
  if (plan.operands.empty()) plan.operands.push_back({it.operands[0], in_order(operand.dims.size())});
  if (!computation[plan.result].shape.has_default_layout()) {
    plan.result_permutation = in_order(it.shape.dims.size());
    plan.result_shape = hlo::array_shape(it.shape.type, it.shape.dims);
  }
  plan.work = fft;
  return plan;
}

}  // namespace strata::emitters
