#include "emitters/lax/masks.h"

#include <algorithm>

#include "hlo/compute.h"

namespace strata::emitters {
namespace {

using hlo::ElementType;
using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;
using Direction = hlo::CompareAttributes::Direction;

/// What s32 holds. Sums of a rank's number of these stay far below 2^63.
constexpr int64_t kLargest = int64_t{1} << 31;

bool small(int64_t x) { return -kLargest < x && x < kLargest; }

LaxValue constant(double value) {
  LaxValue made;
  made.kind = LaxValue::Kind::Constant;
  made.constant = value;
  return made;
}

}  // namespace

Result<void> LaxMasks::take(InstructionId id, Known known) {
  taken_.resize(static_cast<size_t>(id) + 1);
  STRATA_TRY(taken_.back(), taken(id, from_[id], known));
  if (const auto& made = taken_.back().sum) {
    // Each element: integers of the module wrap around, sums of indices do not.
    int64_t least = made->start, most = made->start;
    for (size_t d = 0; d < made->steps.size(); ++d) {
      int64_t last = 0;
      if (!small(made->steps[d]) || __builtin_mul_overflow(made->steps[d], axes_.sizes(id)[d] - 1, &last) ||
          !small(last))
        return unsupported("it counts beyond 2^31");
      (last < 0 ? least : most) += last;
    }
    if (!small(least) || !small(most)) return unsupported("it counts beyond 2^31");
  }
  return {};
}

Result<LaxMasks::Taken> LaxMasks::taken(InstructionId id, const Instruction& it, Known known) {
  const bool truth = it.shape.type == ElementType::Pred;
  if (known == Known::Splat) {
    if (it.opcode != Opcode::Constant) {
      const Taken& from = operand(it, 0);
      if (from.sum && !truth) return Taken{Sum{from.sum->start, std::vector<int64_t>(axes_.sizes(id).size(), 0)}, {}};
      if (from.mask && truth) return Taken{{}, from.mask};
      return unsupported("it makes an integer of another type");
    }
    const double value = hlo::load_all<double>(it.as<hlo::ConstantAttributes>().value)[0];
    if (truth) return Taken{{}, constant(value)};
    if (std::abs(value) >= static_cast<double>(kLargest)) return unsupported("it counts beyond 2^31");
    return Taken{Sum{static_cast<int64_t>(value), std::vector<int64_t>(axes_.sizes(id).size(), 0)}, {}};
  }
  switch (it.opcode) {
    case Opcode::Broadcast:
    case Opcode::Convert:
    case Opcode::Copy:
    case Opcode::Reshape:
    case Opcode::Transpose:
      return moved(id, it);
    default:
      break;
  }
  if (!truth) {
    STRATA_TRY(Sum made, sum(id, it));
    return Taken{std::move(made), {}};
  }
  STRATA_TRY(LaxValue made, it.opcode == Opcode::Compare ? compare(id, it) : logical(id, it));
  return Taken{{}, std::move(made)};
}

Result<LaxMasks::Taken> LaxMasks::moved(InstructionId id, const Instruction& it) const {
  const Taken& of = operand(it, 0);
  const bool truth = it.shape.type == ElementType::Pred;
  if (truth != of.mask.has_value()) return unsupported("it makes integers of truth values, or these of integers");
  if (it.opcode == Opcode::Convert || it.opcode == Opcode::Copy) return of;
  std::vector<int> old_ones;
  if (it.opcode == Opcode::Reshape) {
    if (axes_.sizes(it.operands[0]) != axes_.sizes(id)) return unsupported("it regroups what it counts");
    return of;
  }
  old_ones = axes_.sources(id, it);
  if (of.mask) return Taken{{}, of.mask->is_constant() ? *of.mask : of.mask->renamed(old_ones)};
  Sum made{of.sum->start, {}};
  for (const int d : old_ones) made.steps.push_back(d < 0 ? 0 : of.sum->steps[static_cast<size_t>(d)]);
  return Taken{std::move(made), {}};
}

Result<LaxMasks::Sum> LaxMasks::sum(InstructionId id, const Instruction& it) const {
  Sum made{0, std::vector<int64_t>(axes_.sizes(id).size(), 0)};
  if (it.opcode == Opcode::Iota) {
    const int along = axes_.joined(id, it.dimensions()[0]);
    if (along >= 0) made.steps[static_cast<size_t>(along)] = 1;
    return made;
  }
  const auto add = [&](const Sum& of, int64_t times) {
    made.start += times * of.start;
    for (size_t d = 0; d < made.steps.size(); ++d) made.steps[d] += times * of.steps[d];
  };
  std::vector<const Sum*> operands;
  for (size_t i = 0; i < it.operands.size(); ++i) {
    if (!operand(it, i).sum) return unsupported("it selects integers");
    operands.push_back(&*operand(it, i).sum);
  }
  const auto is_constant = [](const Sum& of) {
    return std::all_of(of.steps.begin(), of.steps.end(), [](int64_t step) { return step == 0; });
  };
  switch (it.opcode) {
    case Opcode::Add:
      add(*operands[0], 1);
      add(*operands[1], 1);
      return made;
    case Opcode::Subtract:
      add(*operands[0], 1);
      add(*operands[1], -1);
      return made;
    case Opcode::Negate:
      add(*operands[0], -1);
      return made;
    case Opcode::Multiply:
      if (!is_constant(*operands[0])) std::swap(operands[0], operands[1]);
      if (!is_constant(*operands[0])) return unsupported("it multiplies indices");
      add(*operands[1], operands[0]->start);
      return made;
    default:
      return unsupported("integers by {}", hlo::name(it.opcode));
  }
}

Result<LaxValue> LaxMasks::compare(InstructionId id, const Instruction& it) {
  const Taken& a = operand(it, 0);
  const Taken& b = operand(it, 1);
  if (!a.sum || !b.sum) return unsupported("it compares truth values");
  // Integers: a ≥ b is a − b + 1 > 0.
  const auto above = [&](int sign, int64_t more) {
    Sum difference{sign * (a.sum->start - b.sum->start) + more, {}};
    for (size_t d = 0; d < a.sum->steps.size(); ++d)
      difference.steps.push_back(sign * (a.sum->steps[d] - b.sum->steps[d]));
    return positive(id, difference);
  };
  switch (it.as<hlo::CompareAttributes>().direction) {
    case Direction::GT:
      return above(1, 0);
    case Direction::GE:
      return above(1, 1);
    case Direction::LT:
      return above(-1, 0);
    case Direction::LE:
      return above(-1, 1);
    case Direction::EQ:
    case Direction::NE: {
      STRATA_TRY(const LaxValue least, above(1, 1));
      STRATA_TRY(const LaxValue most, above(-1, 1));
      STRATA_TRY(const LaxValue equal, both(least, most));
      return it.as<hlo::CompareAttributes>().direction == Direction::EQ ? equal : negated(equal);
    }
  }
  return unsupported("it compares in another way");
}

Result<LaxValue> LaxMasks::positive(InstructionId id, const Sum& sum) {
  const std::vector<int64_t>& sizes = axes_.sizes(id);
  Arrangement along;
  for (size_t d = 0; d < sizes.size(); ++d)
    if (sum.steps[d] != 0 && sizes[d] > 1) along.push_back(static_cast<int>(d));
  if (along.empty()) return constant(sum.start > 0 ? 1 : 0);
  if (along.size() > 2) return unsupported("it compares indices along {} dimensions", along.size());
  const auto first = static_cast<size_t>(along.front()), last = static_cast<size_t>(along.back());
  const bool two = along.size() == 2;
  Shape rows{sizes[first]}, columns{1};
  if (two) rows.push_back(1), columns.push_back(sizes[last]);
  STRATA_TRY(const TensorId a, tensors_.iota(rows, {0, {sum.start, 1}, sum.steps[first]}));
  STRATA_TRY(const TensorId b, tensors_.iota(columns, two ? Iota{1, {}, -sum.steps[last]} : Iota{0, {}, 0}));
  STRATA_TRY(const TensorId made, tensors_.builder().add(OpKind::Greater, {a, b}));
  return tensors_.made(made, along, sizes.size());
}

Result<LaxValue> LaxMasks::both(const LaxValue& a, const LaxValue& b) {
  if (a.is_constant()) return a.constant == 0 ? a : b;
  if (b.is_constant()) return b.constant == 0 ? b : a;
  return operators_.multiply(a, b);
}

Result<LaxValue> LaxMasks::negated(const LaxValue& a) {
  if (a.is_constant()) return constant(a.constant == 0 ? 1 : 0);
  return operators_.subtract(constant(1), a);
}

Result<LaxValue> LaxMasks::logical(InstructionId, const Instruction& it) {
  std::vector<LaxValue> operands;
  for (size_t i = 0; i < it.operands.size(); ++i) {
    if (!operand(it, i).mask) return unsupported("truth values by {} of integers", hlo::name(it.opcode));
    operands.push_back(*operand(it, i).mask);
  }
  const auto either = [&](const LaxValue& a, const LaxValue& b) -> Result<LaxValue> {
    if (a.is_constant()) return a.constant == 0 ? b : a;
    if (b.is_constant()) return b.constant == 0 ? a : b;
    STRATA_TRY(const LaxValue no_a, negated(a));
    STRATA_TRY(const LaxValue no_b, negated(b));
    STRATA_TRY(const LaxValue none, both(no_a, no_b));
    return negated(none);
  };
  switch (it.opcode) {
    case Opcode::And:
      return both(operands[0], operands[1]);
    case Opcode::Or:
      return either(operands[0], operands[1]);
    case Opcode::Not:
      return negated(operands[0]);
    case Opcode::Select: {
      STRATA_TRY(const LaxValue first, both(operands[0], operands[1]));
      STRATA_TRY(const LaxValue no, negated(operands[0]));
      STRATA_TRY(const LaxValue second, both(no, operands[2]));
      return either(first, second);
    }
    default:
      return unsupported("truth values by {}", hlo::name(it.opcode));
  }
}

}  // namespace strata::emitters
