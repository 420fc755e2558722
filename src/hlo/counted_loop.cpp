#include "hlo/counted_loop.h"

#include <algorithm>
#include <tuple>

#include "hlo/literal.h"
#include "hlo/source_of.h"

namespace strata::hlo {
namespace {

/// A scalar that is a constant, or a leaf of the computation's only parameter.
struct Scalar {
  std::optional<int64_t> value;
  int64_t leaf = -1;
};

std::optional<Scalar> scalar(const Computation& computation, InstructionId id, int64_t leaf = 0) {
  while (true) {
    std::tie(id, leaf) = source_of(computation, id, leaf);
    const Instruction& it = computation[id];
    if (it.opcode == Opcode::Parameter) return Scalar{{}, leaf};
    if (!it.shape.is_array() || it.shape.element_count() != 1 || !is_integer(it.shape.type)) return std::nullopt;
    if (it.opcode == Opcode::Constant) return Scalar{it.as<ConstantAttributes>().value.get_integer(0)};
    const bool same = it.opcode == Opcode::Copy || it.opcode == Opcode::Reshape || it.opcode == Opcode::Bitcast ||
                      it.opcode == Opcode::Broadcast;
    if (!same || computation.operand_shape(it, 0).type != it.shape.type) return std::nullopt;
    id = it.operands[0];
    leaf = 0;
  }
}

using Comparison = CompareAttributes::Direction;

Comparison mirrored(Comparison direction) {
  switch (direction) {
    case Comparison::LT:
      return Comparison::GT;
    case Comparison::LE:
      return Comparison::GE;
    case Comparison::GT:
      return Comparison::LT;
    case Comparison::GE:
      return Comparison::LE;
    default:
      return direction;
  }
}

/// Iterations while `first` + k · `step` compares so with `bound`.
std::optional<int64_t> iterations(int64_t first, int64_t step, Comparison direction, int64_t bound) {
  constexpr int64_t kLarge = int64_t{1} << 40;
  if (step == 0 || std::abs(first) > kLarge || std::abs(bound) > kLarge || std::abs(step) > kLarge) return std::nullopt;
  const bool up = step > 0;
  if (direction == Comparison::NE) {
    if ((bound - first) % step != 0 || (bound - first) / step < 0) return std::nullopt;
    return (bound - first) / step;
  }
  if (direction == Comparison::LE) ++bound;
  if (direction == Comparison::GE) --bound;
  const bool below = direction == Comparison::LT || direction == Comparison::LE;
  if (direction == Comparison::EQ) return std::nullopt;
  const int64_t way = below ? bound - first : first - bound;
  if (way <= 0) return 0;
  if (below != up) return std::nullopt;
  const int64_t size = std::abs(step);
  return (way + size - 1) / size;
}

/// The leaf of a loop's state that begins as a constant, and to which the body adds one.
std::optional<CountedLoop::Counter> counter_at(const Computation& computation, const Instruction& loop,
                                               const Computation& body, int64_t leaf) {
  const auto initial = scalar(computation, loop.operands[0], leaf);
  if (!initial || !initial->value) return std::nullopt;
  const Instruction& next = body[source_of(body, body.root, leaf).first];
  if (next.opcode != Opcode::Add && next.opcode != Opcode::Subtract) return std::nullopt;
  auto a = scalar(body, next.operands[0]);
  auto b = scalar(body, next.operands[1]);
  if (!a || !b) return std::nullopt;
  if (next.opcode == Opcode::Add && a->value) std::swap(a, b);
  if (a->value || a->leaf != leaf || !b->value) return std::nullopt;
  return CountedLoop::Counter{leaf, *initial->value, next.opcode == Opcode::Add ? *b->value : -*b->value};
}

}  // namespace

bool fits(int64_t number, ElementType type) {
  const int bits = bit_width(type);
  if (!is_signed(type) && number < 0) return false;
  if (bits >= 64) return true;
  const int64_t most = (int64_t{1} << (is_signed(type) ? bits - 1 : bits)) - 1;
  return number <= most && number >= -most - 1;
}

const CountedLoop::Counter* CountedLoop::counter(int64_t leaf) const {
  const auto found = std::find_if(counters.begin(), counters.end(), [&](const Counter& it) { return it.leaf == leaf; });
  return found == counters.end() ? nullptr : &*found;
}

std::optional<CountedLoop> counted_loop(const Module& module, const Computation& computation, InstructionId loop) {
  const Instruction& it = computation[loop];
  const Computation& condition = module[it.called[0]];
  const Computation& body = module[it.called[1]];
  const Instruction& compare = condition.root_instruction();
  if (compare.opcode != Opcode::Compare || !is_integer(condition.operand_shape(compare, 0).type)) return std::nullopt;
  auto left = scalar(condition, compare.operands[0]);
  auto right = scalar(condition, compare.operands[1]);
  if (!left || !right) return std::nullopt;
  // A bound that is part of the state.
  for (auto* side : {&left, &right}) {
    if ((*side)->value) continue;
    const auto [id, from] = source_of(body, body.root, (*side)->leaf);
    if (body[id].opcode != Opcode::Parameter || from != (*side)->leaf) continue;
    const auto initial = scalar(computation, it.operands[0], (*side)->leaf);
    if (!initial || !initial->value) return std::nullopt;
    (*side)->value = initial->value;
  }
  Comparison direction = compare.as<CompareAttributes>().direction;
  if (left->value && !right->value) {
    std::swap(left, right);
    direction = mirrored(direction);
  }
  if (left->value || !right->value) return std::nullopt;
  const auto first = counter_at(computation, it, body, left->leaf);
  if (!first) return std::nullopt;
  const auto count = iterations(first->first, first->step, direction, *right->value);
  if (!count) return std::nullopt;
  CountedLoop found;
  found.count = *count;
  for (int64_t leaf = 0; leaf < leaf_count(it.shape); ++leaf) {
    const auto counter = counter_at(computation, it, body, leaf);
    const ElementType type = leaf_of(it.shape, leaf).type;
    if (counter && fits(counter->first + found.count * counter->step, type)) found.counters.push_back(*counter);
  }
  return found.counter(left->leaf) != nullptr ? std::optional(found) : std::nullopt;
}

}  // namespace strata::hlo
