#include "hlo/shape_rules.h"

namespace strata::hlo {
namespace {

// Sets of kinds of types, one bit a kind.
constexpr int bit(TypeKind type_kind) { return 1 << static_cast<int>(type_kind); }
constexpr int kPred = bit(TypeKind::Pred);
constexpr int kIntegers = bit(TypeKind::Signed) | bit(TypeKind::Unsigned);
constexpr int kFloat = bit(TypeKind::Float);
constexpr int kComplex = bit(TypeKind::Complex);
constexpr int kNumbers = kIntegers | kFloat | kComplex;

int operand_kinds(Opcode opcode) {
  switch (opcode) {
    case Opcode::Cbrt:
    case Opcode::Ceil:
    case Opcode::Erf:
    case Opcode::Floor:
    case Opcode::IsFinite:
    case Opcode::RoundNearestAfz:
    case Opcode::RoundNearestEven:
    case Opcode::Complex:
    case Opcode::ReducePrecision:
      return kFloat;
    case Opcode::Real:
    case Opcode::Imag:
    case Opcode::Atan2:
      return kFloat | kComplex;
    case Opcode::Not:
    case Opcode::And:
    case Opcode::Or:
    case Opcode::Xor:
      return kPred | kIntegers;
    case Opcode::Popcnt:
    case Opcode::Clz:
    case Opcode::Mulhi:
    case Opcode::ShiftLeft:
    case Opcode::ShiftRightArithmetic:
    case Opcode::ShiftRightLogical:
      return kIntegers;
    case Opcode::Abs:
    case Opcode::Negate:
    case Opcode::Sign:
    case Opcode::Subtract:
    case Opcode::Divide:
    case Opcode::Power:
      return kNumbers;
    case Opcode::Remainder:
      return kIntegers | kFloat;
    case Opcode::Maximum:
    case Opcode::Minimum:
    case Opcode::Clamp:
      return kPred | kIntegers | kFloat;
    case Opcode::Add:
    case Opcode::Multiply:
    case Opcode::Compare:
    case Opcode::Select:
    case Opcode::Convert:
    case Opcode::BitcastConvert:
      return kPred | kNumbers;
    default:
      break;
  }
  return kFloat | kComplex;  // the other unary functions
}

Result<void> check_kind(const RuleContext& context, size_t operand) {
  const ElementType type = context.operand(operand).type;
  if (is_defined_for(context.instruction.opcode, type)) return {};
  return invalid("it is not defined for {}", name(type));
}

Result<void> same_operands(const RuleContext& context, size_t first, size_t second) {
  if (same_shape(context.operand(first), context.operand(second))) return {};
  return invalid("operands {} and {} differ: {} and {}", first, second,
                 to_string_without_layout(context.operand(first)), to_string_without_layout(context.operand(second)));
}

Shape with_type(Shape shape, ElementType type) {
  shape.type = type;
  return shape;
}

Result<Shape> infer_unary(const RuleContext& context) {
  STRATA_CHECK(check_kind(context, 0));
  const Shape& operand = context.operand(0);
  switch (context.instruction.opcode) {
    case Opcode::IsFinite:
      return with_type(operand, ElementType::Pred);
    case Opcode::Abs:
    case Opcode::Real:
    case Opcode::Imag:
      return is_complex(operand.type) ? with_type(operand, part_type(operand.type)) : operand;
    default:
      return operand;
  }
}

Result<Shape> infer_binary(const RuleContext& context) {
  STRATA_CHECK(check_kind(context, 0));
  STRATA_CHECK(same_operands(context, 0, 1));
  const Shape& operand = context.operand(0);
  switch (context.instruction.opcode) {
    case Opcode::Compare: {
      using Direction = CompareAttributes::Direction;
      const Direction direction = context.instruction.as<CompareAttributes>().direction;
      if (is_complex(operand.type) && direction != Direction::EQ && direction != Direction::NE) {
        return invalid("complex numbers have no order");
      }
      return with_type(operand, ElementType::Pred);
    }
    case Opcode::Complex:
      if (operand.type == ElementType::F32) return with_type(operand, ElementType::C64);
      if (operand.type == ElementType::F64) return with_type(operand, ElementType::C128);
      return invalid("complex numbers have parts of f32 or f64, not {}", name(operand.type));
    default:
      return operand;
  }
}

Result<Shape> infer_ternary(const RuleContext& context) {
  STRATA_CHECK(check_kind(context, 1));
  const Shape& result = context.operand(1);
  if (context.instruction.opcode == Opcode::Select) {
    STRATA_CHECK(same_operands(context, 1, 2));
    const Shape& condition = context.operand(0);
    const bool fits = condition.rank() == 0 || same_dims(condition, result);
    if (condition.type != ElementType::Pred || !fits) {
      return invalid("the condition is {}; expected pred of the same sizes or pred[]",
                     to_string_without_layout(condition));
    }
    return result;
  }
  for (size_t i : {size_t{0}, size_t{2}}) {
    const Shape& limit = context.operand(i);
    if (limit.type != result.type || (limit.rank() != 0 && !same_dims(limit, result))) {
      return invalid("the limit {} fits no {}", to_string_without_layout(limit), to_string_without_layout(result));
    }
  }
  return result;
}

/// Bits that an element takes where its bits matter: pred is a byte.
int64_t stored_bits(ElementType type) { return type == ElementType::Pred ? 8 : bit_width(type); }

Result<Shape> infer_bitcast_convert(const RuleContext& context) {
  const Shape& operand = context.operand(0);
  const ElementType type = context.instruction.shape.type;
  if (!is_array(type)) return invalid("it makes an array");
  const int64_t from = stored_bits(operand.type);
  const int64_t to = stored_bits(type);
  Shape result = with_type(operand, type);
  if (from == to) return result;
  if (is_complex(type) || is_complex(operand.type)) return invalid("complex numbers are only cast to the same width");
  if (std::max(from, to) % std::min(from, to) != 0) return invalid("{} bits are no multiple of {}", from, to);
  if (from > to) {
    result.dims.push_back(from / to);
  } else {
    if (result.dims.empty() || result.dims.back() != to / from) {
      return invalid("the innermost dimension of {} has to be {}", to_string_without_layout(operand), to / from);
    }
    result.dims.pop_back();
  }
  return array_shape(type, result.dims);
}

Result<Shape> infer_conversion(const RuleContext& context) {
  STRATA_CHECK(check_kind(context, 0));
  const Instruction& instruction = context.instruction;
  const Shape& operand = context.operand(0);
  switch (instruction.opcode) {
    case Opcode::Convert:
      if (!instruction.shape.is_array()) return invalid("it makes an array");
      return with_type(operand, instruction.shape.type);
    case Opcode::BitcastConvert:
      return infer_bitcast_convert(context);
    default: {
      const auto& attributes = instruction.as<ReducePrecisionAttributes>();
      if (attributes.exponent_bits < 1 || attributes.mantissa_bits < 0) {
        return invalid("it needs at least 1 exponent bit and 0 mantissa bits");
      }
      return operand;
    }
  }
}

Result<Shape> infer_leaf(const RuleContext& context) {
  const Instruction& instruction = context.instruction;
  const Shape& shape = instruction.shape;
  switch (instruction.opcode) {
    case Opcode::Constant:
      return instruction.as<ConstantAttributes>().value.shape();
    case Opcode::Iota: {
      if (!shape.is_array() || shape.type == ElementType::Pred) return invalid("it is an array of numbers");
      if (instruction.dimensions().size() != 1) return invalid("it has one dimension");
      if (shape.rank() == 0) return invalid("a scalar has no dimension to count along");
      STRATA_CHECK(check_dimensions(instruction.dimensions(), shape.rank(), "the dimension"));
      return shape;
    }
    case Opcode::PartitionId:
    case Opcode::ReplicaId:
      return array_shape(ElementType::U32, {});
    default:
      return shape;
  }
}

}  // namespace

bool is_defined_for(Opcode opcode, ElementType type) {
  return (operand_kinds(opcode) & (1 << static_cast<int>(kind(type)))) != 0;
}

Result<Shape> infer_elementwise(const RuleContext& context) {
  switch (family(context.instruction.opcode)) {
    case Family::Unary:
      return infer_unary(context);
    case Family::Binary:
      return infer_binary(context);
    case Family::Ternary:
      return infer_ternary(context);
    case Family::Conversion:
      return infer_conversion(context);
    default:
      return infer_leaf(context);
  }
}

}  // namespace strata::hlo
