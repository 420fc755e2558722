#include "hlo/recurrence_region.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "hlo/compute.h"

namespace strata::hlo {
namespace {

/// Whether an operator is more than what polynomials are made of.
bool is_function(Opcode opcode) {
  switch (opcode) {
    case Opcode::Abs:
    case Opcode::Compare:
    case Opcode::Exp:
    case Opcode::Log:
    case Opcode::Log1p:
    case Opcode::Maximum:
    case Opcode::Minimum:
    case Opcode::Negate:
    case Opcode::Select:
    case Opcode::Subtract:
      return true;
    default:
      return false;
  }
}

bool holds(CompareAttributes::Direction direction, double a, double b) {
  switch (direction) {
    case CompareAttributes::Direction::EQ:
      return a == b;
    case CompareAttributes::Direction::NE:
      return a != b;
    case CompareAttributes::Direction::LT:
      return a < b;
    case CompareAttributes::Direction::LE:
      return a <= b;
    case CompareAttributes::Direction::GT:
      return a > b;
    case CompareAttributes::Direction::GE:
      return a >= b;
  }
  return false;
}

/// A list of one world, element by element; empty where a needed one is.
template <class T, class Compute>
std::vector<T> zipped(const std::vector<T>& a, const std::vector<T>& b, const Compute& compute) {
  std::vector<T> result;
  if (a.empty() || b.empty()) return result;
  result.reserve(a.size());
  for (size_t i = 0; i < a.size(); ++i) result.push_back(compute(a[i], b[i]));
  return result;
}

template <class T, class Compute>
std::vector<T> mapped(const std::vector<T>& a, const Compute& compute) {
  std::vector<T> result;
  result.reserve(a.size());
  for (const T& one : a) result.push_back(compute(one));
  return result;
}

/// Element i of the list that `choice` names for it; in a world that all of the chosen lists have.
FieldNumbers chosen(const std::vector<const FieldNumbers*>& from, const std::vector<size_t>& choice) {
  FieldNumbers result;
  const auto take = [&](auto world) {
    auto& list = result.*world;
    for (size_t i = 0; i < choice.size(); ++i) {
      const auto& source = from[choice[i]]->*world;
      if (source.empty()) {
        list.clear();
        return;
      }
      list.push_back(source[i]);
    }
  };
  take(&FieldNumbers::plain);
  take(&FieldNumbers::powers);
  take(&FieldNumbers::inverse);
  take(&FieldNumbers::reals);
  return result;
}

}  // namespace

std::optional<double> constant_everywhere(const Computation& computation, InstructionId id) {
  const Instruction& it = computation[id];
  if (it.opcode == Opcode::Broadcast) return constant_everywhere(computation, it.operands[0]);
  if (it.opcode != Opcode::Constant || it.shape.element_count() != 1 || kind(it.shape.type) != TypeKind::Float)
    return std::nullopt;
  const Literal& value = it.as<ConstantAttributes>().value;
  return visit_accumulator_type(it.shape.type, [&](auto zero) -> std::optional<double> {
    using T = decltype(zero);
    if constexpr (std::is_floating_point_v<T>) {
      return static_cast<double>(value.get<T>(0));
    } else {
      return std::nullopt;
    }
  });
}

std::optional<RecurrenceRegion> RecurrenceRegion::of(const Computation& computation, InstructionId result,
                                                     int64_t dimension) {
  RecurrenceRegion region(computation, result, dimension);
  // Sums of what is put in place; what these read has fewer elements.
  std::vector<InstructionId> placed{result}, parts;
  while (!placed.empty()) {
    const InstructionId id = placed.back();
    placed.pop_back();
    if (!region.seen_.insert(id).second) continue;
    if (!region.is_placed(id)) return std::nullopt;
    region.inside_.push_back(id);
    auto& next = computation[id].opcode == Opcode::Add ? placed : parts;
    for (const InstructionId operand : region.arrays_of(id)) next.push_back(operand);
  }
  while (!parts.empty()) {
    const InstructionId id = parts.back();
    parts.pop_back();
    if (!region.seen_.insert(id).second) continue;
    if (region.length(id) == region.length(result)) {
      region.leaves_.push_back(id);
      if (region.leaves_.size() > kMostLeaves) return std::nullopt;
    } else if (region.is_part(id)) {
      region.inside_.push_back(id);
      region.has_functions_ |= is_function(computation[id].opcode);
      for (const InstructionId operand : region.arrays_of(id)) parts.push_back(operand);
    } else {
      return std::nullopt;
    }
  }
  std::sort(region.inside_.begin(), region.inside_.end());
  return region;
}

/// The operands that are arrays along the dimension: not what pads fill in.
std::vector<InstructionId> RecurrenceRegion::arrays_of(InstructionId id) const {
  const Instruction& it = at(id);
  if (it.opcode == Opcode::Broadcast) return {};
  return it.opcode == Opcode::Pad ? std::vector{it.operands[0]} : it.operands;
}

bool RecurrenceRegion::is_placed(InstructionId id) const {
  const Instruction& it = at(id);
  return it.opcode == Opcode::Add || (is_padded(it) && length(it.operands[0]) < length(result_));
}

bool RecurrenceRegion::is_part(InstructionId id) const {
  const Instruction& it = at(id);
  if (length(id) > length(result_)) return false;
  switch (it.opcode) {
    case Opcode::Add:
    case Opcode::Multiply:
      return true;
    case Opcode::Broadcast:
      return constant_everywhere(*computation_, id).has_value();
    case Opcode::Slice:
      return only_along(it);
    case Opcode::Pad:
      return is_padded(it);
    case Opcode::Concatenate:
      return it.dimensions()[0] == dimension_;
    default:
      return is_function(it.opcode);
  }
}

bool RecurrenceRegion::is_padded(const Instruction& it) const {
  return it.opcode == Opcode::Pad && constant_everywhere(*computation_, it.operands[1]) == 0 && only_along(it);
}

/// Whether a slice or a pad changes nothing along other dimensions.
bool RecurrenceRegion::only_along(const Instruction& it) const {
  const Shape& from = computation_->operand_shape(it, 0);
  for (size_t d = 0; d < from.dims.size(); ++d) {
    if (static_cast<int64_t>(d) == dimension_) continue;
    if (it.shape.dims[d] != from.dims[d]) return false;
    if (it.opcode == Opcode::Pad && it.as<PadAttributes>().low[d] != 0) return false;
  }
  return true;
}

FieldNumbers RecurrenceRegion::draw(const PrimeField& field, Random& random, double scale) const {
  FieldNumbers leaf;
  const auto count = static_cast<size_t>(length(result_));
  for (size_t i = 0; i < count; ++i) leaf.plain.push_back(random.below(field.modulus()));
  if (!has_functions_) return leaf;
  for (size_t i = 0; i < count; ++i) {
    leaf.powers.push_back(1 + random.below(field.modulus() - 1));
    leaf.inverse.push_back(field.inverse(leaf.powers.back()));
    leaf.reals.push_back(scale * random.uniform(-1, 1));
  }
  return leaf;
}

/// A number that is no integer is none of the field, and only 0 has a power there.
FieldNumbers RecurrenceRegion::everywhere(const PrimeField& field, double value, size_t count) const {
  FieldNumbers result;
  if (value == std::trunc(value) && std::abs(value) < 0x1p20)
    result.plain.assign(count, field.from_signed(static_cast<int64_t>(value)));
  if (!has_functions_) return result;
  if (value == 0) {
    result.powers.assign(count, field.one());
    result.inverse = result.powers;
  }
  result.reals.assign(count, value);
  return result;
}

FieldNumbers RecurrenceRegion::moved(const Instruction& it, size_t count,
                                     const std::vector<const FieldNumbers*>& operands, const PrimeField& field) const {
  const auto d = static_cast<size_t>(dimension_);
  // Of each element the operand that it comes from, and its place there.
  std::vector<std::pair<size_t, size_t>> sources;
  std::vector<const FieldNumbers*> from = operands;
  FieldNumbers zero;
  if (it.opcode == Opcode::Slice) {
    const auto& slice = it.as<SliceAttributes>();
    for (size_t i = 0; i < count; ++i)
      sources.emplace_back(0, static_cast<size_t>(slice.starts[d]) + i * static_cast<size_t>(slice.strides[d]));
  } else if (it.opcode == Opcode::Pad) {
    zero = everywhere(field, 0, 1);
    from.push_back(&zero);
    sources.assign(count, {1, 0});
    const auto& pad = it.as<PadAttributes>();
    const auto elements = length(it.operands[0]);
    for (int64_t i = 0; i < elements; ++i) {
      const int64_t place = pad.low[d] + i * (pad.interior[d] + 1);
      if (place >= 0 && place < static_cast<int64_t>(count))
        sources[static_cast<size_t>(place)] = {0, static_cast<size_t>(i)};
    }
  } else {
    assert(it.opcode == Opcode::Concatenate);
    for (size_t k = 0; k < it.operands.size(); ++k) {
      const auto elements = static_cast<size_t>(length(it.operands[k]));
      for (size_t i = 0; i < elements; ++i) sources.emplace_back(k, i);
    }
  }
  FieldNumbers result;
  const auto take = [&](auto world) {
    auto& list = result.*world;
    for (const auto& [operand, place] : sources) {
      const auto& source = from[operand]->*world;
      if (source.empty()) {
        list.clear();
        return;
      }
      list.push_back(source[place]);
    }
  };
  take(&FieldNumbers::plain);
  take(&FieldNumbers::powers);
  take(&FieldNumbers::inverse);
  take(&FieldNumbers::reals);
  return result;
}

FieldNumbers RecurrenceRegion::computed(const PrimeField& field, const Instruction& it, size_t count,
                                        const std::vector<const FieldNumbers*>& operands) const {
  const FieldNumbers& a = *operands[0];
  const FieldNumbers& b = *operands.back();
  const auto mul = [&](uint64_t x, uint64_t y) { return field.mul(x, y); };
  const auto add = [&](uint64_t x, uint64_t y) { return field.add(x, y); };
  // The first or the second of two lists, by reals that decide.
  const auto by_reals = [&](const std::vector<const FieldNumbers*>& from, const auto& is_second) {
    if (a.reals.empty() || b.reals.empty()) return FieldNumbers{};
    std::vector<size_t> choice;
    for (size_t i = 0; i < count; ++i) choice.push_back(is_second(i) ? 1 : 0);
    return chosen(from, choice);
  };
  FieldNumbers result;
  switch (it.opcode) {
    case Opcode::Add:
      result.plain = zipped(a.plain, b.plain, add);
      result.powers = zipped(a.powers, b.powers, mul);
      result.inverse = zipped(a.inverse, b.inverse, mul);
      result.reals = zipped(a.reals, b.reals, [](double x, double y) { return x + y; });
      return result;
    case Opcode::Subtract:
      result.plain = zipped(a.plain, b.plain, [&](uint64_t x, uint64_t y) { return field.sub(x, y); });
      result.powers = zipped(a.powers, b.inverse, mul);
      result.inverse = zipped(a.inverse, b.powers, mul);
      result.reals = zipped(a.reals, b.reals, [](double x, double y) { return x - y; });
      return result;
    case Opcode::Negate:
      result.plain = mapped(a.plain, [&](uint64_t x) { return field.sub(0, x); });
      result.powers = a.inverse;
      result.inverse = a.powers;
      result.reals = mapped(a.reals, [](double x) { return -x; });
      return result;
    case Opcode::Multiply:
      result.plain = zipped(a.plain, b.plain, mul);
      result.reals = zipped(a.reals, b.reals, [](double x, double y) { return x * y; });
      return result;
    case Opcode::Exp:
      result.plain = a.powers;
      result.reals = mapped(a.reals, [](double x) { return std::exp(x); });
      return result;
    case Opcode::Log:
    case Opcode::Log1p: {
      const bool plus_one = it.opcode == Opcode::Log1p;
      result.powers = mapped(a.plain, [&](uint64_t x) { return plus_one ? field.add(x, field.one()) : x; });
      result.inverse = mapped(result.powers, [&](uint64_t x) { return field.inverse(x); });
      result.reals = mapped(a.reals, [&](double x) { return plus_one ? std::log1p(x) : std::log(x); });
      return result;
    }
    case Opcode::Maximum:
      return by_reals(operands, [&](size_t i) { return b.reals[i] > a.reals[i]; });
    case Opcode::Minimum:
      return by_reals(operands, [&](size_t i) { return b.reals[i] < a.reals[i]; });
    case Opcode::Abs: {
      Instruction negation = it;
      negation.opcode = Opcode::Negate;
      const FieldNumbers negated = computed(field, negation, count, operands);
      return by_reals({&a, &negated}, [&](size_t i) { return a.reals[i] < 0; });
    }
    case Opcode::Compare: {
      const auto direction = it.as<CompareAttributes>().direction;
      result.reals = zipped(a.reals, b.reals, [&](double x, double y) { return holds(direction, x, y) ? 1.0 : 0.0; });
      return result;
    }
    default: {
      assert(it.opcode == Opcode::Select);
      return by_reals({operands[1], operands[2]}, [&](size_t i) { return a.reals[i] == 0; });
    }
  }
}

FieldNumbers RecurrenceRegion::compute(const PrimeField& field, const std::vector<FieldNumbers>& leaves) const {
  std::map<InstructionId, FieldNumbers> values;
  std::map<InstructionId, size_t> readers;
  for (size_t i = 0; i < leaves_.size(); ++i) values[leaves_[i]] = leaves[i];
  for (const InstructionId id : inside_) {
    for (const InstructionId operand : arrays_of(id)) ++readers[operand];
  }
  for (const InstructionId id : inside_) {
    const Instruction& it = at(id);
    const auto count = static_cast<size_t>(length(id));
    const std::vector<InstructionId> arrays = arrays_of(id);
    std::vector<const FieldNumbers*> operands;
    for (const InstructionId operand : arrays) operands.push_back(&values.at(operand));
    switch (it.opcode) {
      case Opcode::Broadcast:
        values[id] = everywhere(field, *constant_everywhere(*computation_, id), count);
        break;
      case Opcode::Concatenate:
      case Opcode::Pad:
      case Opcode::Slice:
        values[id] = moved(it, count, operands, field);
        break;
      default:
        values[id] = computed(field, it, count, operands);
    }
    for (const InstructionId operand : arrays) {
      if (--readers[operand] == 0) values.erase(operand);
    }
  }
  return values.at(result_);
}

}  // namespace strata::hlo
