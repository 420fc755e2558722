#include "hlo/random_fusion.h"

#include "hlo/fusion_builder.h"
#include "hlo/shape_rules.h"

namespace strata::hlo {
namespace {

using Id = FusionBuilder::Id;

/// An array of a type that the operator is defined for: one at hand, or one that is converted.
Id operand_for(FusionBuilder& builder, Opcode opcode) {
  const auto fits = [&](const Shape& shape) { return is_defined_for(opcode, shape.type); };
  if (const auto found = builder.pick(fits)) return *found;
  const Id source = builder.pick_any();
  Shape shape = builder.shape(source);
  shape.type = builder.any_type([&](ElementType type) { return is_defined_for(opcode, type); });
  return builder.add(Opcode::Convert, {source}, NoAttributes{}, {}, shape);
}

CompareAttributes random_comparison(FusionBuilder& builder, ElementType type) {
  CompareAttributes result;
  result.direction = static_cast<CompareAttributes::Direction>(builder.between(0, is_complex(type) ? 1 : 5));
  using Order = CompareAttributes::Order;
  if (is_float(type) && builder.chance(0.2)) result.order = builder.chance(0.5) ? Order::Total : Order::Weak;
  return result;
}

void add_bitcast_convert(FusionBuilder& builder) {
  const Id operand = builder.without_nan(builder.pick_any());
  const Shape source = builder.shape(operand);
  const auto bits = [](ElementType type) { return type == ElementType::Pred ? 8 : bit_width(type); };
  const auto fits = [&](ElementType type) {
    // Bytes that are neither 0 nor 1 are no pred.
    if (type == ElementType::Pred) return false;
    const int from = bits(source.type);
    const int to = bits(type);
    if (from == to) return true;
    if (is_complex(type) || is_complex(source.type)) return false;
    return from > to ? from / to * source.element_count() <= builder.options.max_elements
                     : source.rank() > 0 && source.dims.back() == to / from;
  };
  Shape shape = source;
  shape.type = builder.any_type(fits);
  if (fits(shape.type)) builder.add(Opcode::BitcastConvert, {operand}, NoAttributes{}, {}, shape);
}

}  // namespace

void add_random_elementwise(FusionBuilder& builder, Opcode opcode) {
  if (opcode == Opcode::BitcastConvert) return add_bitcast_convert(builder);
  const Id first = operand_for(builder, opcode);
  const Shape shape = builder.shape(first);
  const Shape scalar = array_shape(shape.type, {});
  switch (opcode) {
    case Opcode::Complex:
      if (shape.type == ElementType::F32 || shape.type == ElementType::F64) {
        builder.add(opcode, {first, builder.like(shape)});
      }
      return;
    case Opcode::Compare: {
      const CompareAttributes how = random_comparison(builder, shape.type);
      const Id second = builder.like(shape);
      if (how.order == CompareAttributes::Order::Total) {
        builder.add(opcode, {builder.without_nan(first), builder.without_nan(second)}, how);
      } else {
        builder.add(opcode, {first, second}, how);
      }
      return;
    }
    case Opcode::Select: {
      const bool one = builder.chance(0.2);
      const Id condition = builder.like(array_shape(ElementType::Pred, one ? std::vector<int64_t>{} : shape.dims));
      builder.add(opcode, {condition, first, builder.like(shape)});
      return;
    }
    case Opcode::Clamp: {
      const Id low = builder.like(builder.chance(0.5) ? scalar : shape);
      builder.add(opcode, {low, first, builder.like(builder.chance(0.5) ? scalar : shape)});
      return;
    }
    case Opcode::Convert: {
      Shape stated = shape;
      stated.type = builder.any_type();
      builder.add(opcode, {first}, NoAttributes{}, {}, stated);
      return;
    }
    case Opcode::ReducePrecision:
      builder.add(
          opcode, {first},
          ReducePrecisionAttributes{static_cast<int>(builder.between(2, 9)), static_cast<int>(builder.between(0, 12))});
      return;
    case Opcode::Iota: {
      Shape stated = builder.any_shape(1);
      if (stated.type == ElementType::Pred) stated.type = ElementType::S32;
      builder.add(opcode, {}, DimensionsAttributes{{builder.between(0, stated.rank() - 1)}}, {}, stated);
      return;
    }
    default:
      break;
  }
  if (arity(opcode) == 1) {
    builder.add(opcode, {first});
  } else {
    builder.add(opcode, {first, builder.like(shape)});
  }
}

bool random_fusions_have(Opcode opcode) {
  if (opcode == Opcode::Scan || opcode == Opcode::RngBitGenerator) return false;
  switch (family(opcode)) {
    case Family::LinearAlgebra:
    case Family::Normalisation:
    case Family::Unsupported:
      return false;
    default:
      return true;
  }
}

ModulePtr random_fusion(uint64_t seed, const RandomFusionOptions& options) {
  FusionBuilder builder(seed, options);
  for (int64_t count = builder.between(1, 3); count > 0; --count) builder.parameter(builder.any_shape());
  std::vector<Opcode> opcodes;
  for (Opcode opcode : all_opcodes()) {
    if (opcode == Opcode::Parameter || opcode == Opcode::Constant || !random_fusions_have(opcode)) continue;
    if (family(opcode) == Family::Control && !options.control) continue;
    if (options.allows(opcode)) opcodes.push_back(opcode);
  }
  const int64_t target = builder.between(1, options.max_instructions);
  for (int64_t step = 0; step < target && !opcodes.empty(); ++step) {
    const Opcode opcode = opcodes[builder.random.below(opcodes.size())];
    switch (family(opcode)) {
      case Family::Movement:
        add_random_movement(builder, opcode);
        break;
      case Family::Contraction:
      case Family::Computing:
        add_random_computing(builder, opcode);
        break;
      case Family::Control:
        add_random_control(builder, opcode);
        break;
      case Family::Leaf:
        if (opcode == Opcode::Iota) {
          add_random_elementwise(builder, opcode);
        } else {
          builder.add(opcode, {});
        }
        break;
      default:
        add_random_elementwise(builder, opcode);
    }
  }
  return builder.finish();
}

}  // namespace strata::hlo
