// Every elementwise operator on every type: what emit_scalar makes against the interpreter.
#include "emitters/elemental/scalar_operators.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "emitters/elemental/scalar_jit_test.h"
#include "hlo/compute.h"
#include "hlo/evaluate.h"
#include "hlo/small_float.h"
#include "hlo/verify.h"

namespace strata::emitters {
namespace {

using hlo::ElementType;
using hlo::Family;
using hlo::Literal;
using hlo::Opcode;
using Direction = hlo::CompareAttributes::Direction;

std::vector<ElementType> all_types() {
  std::vector<ElementType> types;
  for (int i = 0; hlo::is_array(static_cast<ElementType>(i)); ++i) types.push_back(static_cast<ElementType>(i));
  return types;
}

/// Bits of an element in a literal that mean something.
int bits_of(ElementType type) { return type == ElementType::C128 ? 64 : hlo::bit_width(type); }

// --- cases ---

struct Case {
  std::string name;
  hlo::Module module;  ///< of one computation of one instruction and its parameters
  hlo::Instruction& root() { return module.computations[0].instructions.back(); }
  const hlo::Computation& computation() const { return module.computations[0]; }
  const hlo::Instruction& root() const { return computation().root_instruction(); }
  ElementType operand_type(size_t i) const { return computation().operand_shape(root(), i).type; }
};

/// All pairs of operands where there are few, else a few thousand.
int64_t element_count(const std::vector<ElementType>& operands) {
  int bits = 0;
  for (const ElementType type : operands) bits += type == ElementType::C128 ? 128 : hlo::bit_width(type);
  return bits <= 16 ? int64_t{1} << bits : 4096;
}

Case make_case(Opcode opcode, const std::vector<ElementType>& operands, ElementType to, hlo::Attributes attributes) {
  Case made;
  hlo::Computation computation;
  hlo::Instruction root;
  const int64_t count = element_count(operands);
  made.name = fmt::format("{}", name(opcode));
  for (size_t i = 0; i < operands.size(); ++i) {
    const auto id = static_cast<hlo::InstructionId>(i);
    hlo::Instruction parameter;
    parameter.name = fmt::format("p{}", i);
    parameter.shape = hlo::array_shape(operands[i], {count});
    parameter.attributes = hlo::ParameterAttributes{static_cast<int64_t>(i)};
    computation.instructions.push_back(parameter);
    computation.parameters.push_back(id);
    root.operands.push_back(id);
    made.name += fmt::format("_{}", name(operands[i]));
  }
  root.name = "root";
  root.opcode = opcode;
  root.shape = hlo::array_shape(to, {count});
  root.attributes = std::move(attributes);
  if (hlo::family(opcode) == Family::Conversion) made.name += fmt::format("_{}", name(to));
  computation.root = static_cast<hlo::InstructionId>(operands.size());
  computation.instructions.push_back(root);
  made.module.computations.push_back(std::move(computation));
  return made;
}

/// Every operator with every type of its operands, defined or not.
std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const Opcode opcode : hlo::all_opcodes()) {
    if (!emitters::is_elementwise(opcode)) continue;
    for (const ElementType type : all_types()) {
      std::vector<ElementType> operands(static_cast<size_t>(hlo::arity(opcode)), type);
      if (opcode == Opcode::Select) operands[0] = ElementType::Pred;
      if (opcode == Opcode::Compare) {
        for (int i = 0; i < 18; ++i) {
          const hlo::CompareAttributes how{static_cast<Direction>(i / 3),
                                           static_cast<hlo::CompareAttributes::Order>(i % 3)};
          cases.push_back(make_case(opcode, operands, type, how));
          cases.back().name += fmt::format("_{}", i);
        }
      } else if (opcode == Opcode::ReducePrecision) {
        for (const auto& [exponent, mantissa] :
             {std::pair(8, 7), {5, 10}, {5, 2}, {4, 3}, {1, 0}, {8, 0}, {2, 23}, {11, 52}, {3, 1}}) {
          cases.push_back(make_case(opcode, operands, type, hlo::ReducePrecisionAttributes{exponent, mantissa}));
          cases.back().name += fmt::format("_{}_{}", exponent, mantissa);
        }
      } else if (hlo::family(opcode) == Family::Conversion) {
        for (const ElementType to : all_types()) cases.push_back(make_case(opcode, operands, to, {}));
      } else {
        cases.push_back(make_case(opcode, operands, type, {}));
      }
    }
  }
  return cases;
}

// --- arguments ---

std::vector<uint64_t> special_integers(int bits) {
  const uint64_t smallest = uint64_t{1} << (bits - 1);
  const auto width = static_cast<uint64_t>(bits);
  const uint64_t minus_one = ~uint64_t{0};
  return {0,
          1,
          2,
          3,
          7,
          minus_one,
          minus_one - 1,
          minus_one - 2,
          smallest,
          smallest + 1,
          smallest - 1,
          smallest - 2,
          width,
          width - 1,
          width + 1,
          100,
          40};
}

/// The last few lie just above what is halfway between two numbers of a narrower type.
std::vector<double> special_floats() {
  const double infinity = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> values = {infinity, nan, 0, 1, 0.5, 1.5, 2.5, 3, 3.7, 8, 1e-3, 1e-5, 3.14159, 88.5, 127.5, 128};
  for (const double more : {255.5,
                            256.0,
                            32767.5,
                            32768.0,
                            65504.0,
                            0x1p31,
                            0x1p32,
                            0x1p63,
                            0x1p64,
                            0x1.fffffep62,
                            3e38,
                            0x1p-126,
                            0x1p-149,
                            0x1p-130,
                            1e300,
                            5e-324,
                            0x1.01p0,
                            0x1.010001p0,
                            0x1.0100000001p0,
                            0x1.0020000001p0,
                            0x1.0800000001p0,
                            0x1.1000000001p0,
                            0x1.2000000001p0,
                            0x1.4000000001p0}) {
    values.push_back(more);
  }
  for (size_t i = values.size(); i-- > 0;) values.push_back(-values[i]);
  return values;
}

/// Operand `number` of the elements: all bit patterns, or all tuples of specials, then random bits and random numbers.
class Arguments {
 public:
  Literal make(const hlo::Shape& shape, size_t number, int lower_bits, bool exhaustive) {
    Literal literal(shape);
    const ElementType type = shape.type;
    for (int64_t i = 0; i < literal.size(); ++i) {
      if (hlo::is_complex(type)) {
        literal.set(i, std::complex<double>(real(i, number * 2), real(i, number * 2 + 1)));
      } else if (exhaustive) {
        set_bits(literal, i, static_cast<uint64_t>(i) >> lower_bits);
      } else if (hlo::is_float(type)) {
        i % 2 != 0 && i > kSpecials ? set_bits(literal, i, random_()) : literal.set(i, real(i, number));
      } else {
        set_bits(literal, i, integer(bits_of(type), i, number));
      }
    }
    return literal;
  }

 private:
  static constexpr int64_t kSpecials = 3000;

  /// A combination of specials for each operand that is another one for each of the first elements.
  template <class T>
  static T special(const std::vector<T>& specials, int64_t i, size_t number) {
    auto rest = static_cast<uint64_t>(i);
    for (size_t n = 0; n < number; ++n) rest = n == 0 ? rest / specials.size() : rest * 31 + 7;
    return specials[rest % specials.size()];
  }
  uint64_t integer(int bits, int64_t i, size_t number) {
    if (i < kSpecials) return special(special_integers(bits), i, number);
    return i % 2 == 0 ? random_() : random_() % 64 - 32;
  }
  double real(int64_t i, size_t number) {
    static const std::vector<double> specials = special_floats();
    if (i < kSpecials) return special(specials, i, number);
    return std::normal_distribution<double>(0, i % 3 == 0 ? 1 : 20)(random_);
  }
  static void set_bits(Literal& literal, int64_t i, uint64_t bits) {
    const ElementType type = literal.type();
    const auto width = static_cast<size_t>(hlo::byte_width(type));
    bits = hlo::wrap_unsigned(bits, bits_of(type));
    if (hlo::is_signed(type)) bits = static_cast<uint64_t>(hlo::wrap_signed(static_cast<int64_t>(bits), bits_of(type)));
    std::memcpy(literal.mutable_bytes() + static_cast<size_t>(i) * width, &bits, width);
  }

  std::mt19937_64 random_{20261};
};

std::vector<Literal> make_arguments(const Case& c) {
  Arguments arguments;
  std::vector<Literal> literals;
  std::vector<ElementType> types;
  for (size_t i = 0; i < c.root().operands.size(); ++i) types.push_back(c.operand_type(i));
  const bool exhaustive = element_count(types) != 4096;
  int lower_bits = 0;
  for (size_t i = 0; i < types.size(); ++i) {
    literals.push_back(arguments.make(c.computation().operand_shape(c.root(), i), i, lower_bits, exhaustive));
    lower_bits += hlo::bit_width(types[i]);
  }
  return literals;
}

// --- comparison ---

/// Functions that have an error.
bool is_inexact(Opcode opcode, ElementType type) {
  switch (opcode) {
    case Opcode::Abs:
    case Opcode::Divide:
    case Opcode::Sign:
    case Opcode::Sqrt:
      return hlo::is_complex(type);
    case Opcode::Atan2:
    case Opcode::Power:
      return hlo::is_float(type) || hlo::is_complex(type);
    case Opcode::Ceil:
    case Opcode::Clz:
    case Opcode::Floor:
    case Opcode::Imag:
    case Opcode::IsFinite:
    case Opcode::Negate:
    case Opcode::Not:
    case Opcode::Popcnt:
    case Opcode::Real:
    case Opcode::RoundNearestAfz:
    case Opcode::RoundNearestEven:
      return false;
    default:
      return hlo::family(opcode) == Family::Unary;
  }
}

/// Half the last place of 1 in the type.
double epsilon(ElementType type) {
  if (type == ElementType::F8E8M0FNU) return 0.5;
  return std::ldexp(1.0, -1 - hlo::format_of(type).mantissa_bits);
}

bool close(double expected, double actual, double size, ElementType type) {
  if (std::isnan(expected)) return std::isnan(actual);
  if (expected == actual) return true;
  if (!std::isfinite(expected) || !std::isfinite(actual)) return false;
  const double tiny = hlo::bit_width(type) == 64 ? 0x1p-1074 : hlo::bit_width(type) == 32 ? 0x1p-149 : 0x1p-30;
  return std::abs(expected - actual) <= 8 * epsilon(type) * size + 2 * tiny;
}

bool is_finite(const Literal& literal, int64_t i) {
  const auto z = literal.get<std::complex<double>>(i);
  return std::isfinite(z.real()) && std::isfinite(z.imag());
}

/// atan2 and power of complex numbers are made of other functions, and what is not finite on the way becomes NaN in
/// other parts than the interpreter's: only the finite is compared.
bool is_compared(const Case& c, const std::vector<Literal>& arguments, const Literal& expected, int64_t i) {
  const Opcode opcode = c.root().opcode;
  if ((opcode != Opcode::Atan2 && opcode != Opcode::Power) || !hlo::is_complex(expected.type())) return true;
  return is_finite(arguments[0], i) && is_finite(arguments[1], i) && is_finite(expected, i);
}

bool agrees(const Case& c, const Literal& expected, const Literal& actual, int64_t i) {
  const ElementType type = expected.type();
  const auto width = static_cast<size_t>(hlo::byte_width(type));
  if (std::memcmp(expected.bytes() + i * width, actual.bytes() + i * width, width) == 0) return true;
  // The interpreter keeps the bits of a pred that was cast.
  if (type == ElementType::Pred) return (expected.get_integer(i) != 0) == (actual.get_integer(i) != 0);
  const Opcode opcode = c.root().opcode;
  const bool inexact = is_inexact(opcode, c.operand_type(0));
  if (hlo::is_complex(type)) {
    const auto x = expected.get<std::complex<double>>(i);
    const auto y = actual.get<std::complex<double>>(i);
    const ElementType part = hlo::part_type(type);
    const double size = inexact ? std::abs(x) : 0;
    return close(x.real(), y.real(), size, part) && close(x.imag(), y.imag(), size, part);
  }
  if (!hlo::is_float(type)) return false;
  const auto x = expected.get<double>(i);
  const auto y = actual.get<double>(i);
  if (std::isnan(x)) return std::isnan(y);
  const bool zeros_equal = opcode == Opcode::Maximum || opcode == Opcode::Minimum || opcode == Opcode::Clamp || inexact;
  if (x == 0 && y == 0) return zeros_equal;
  return inexact && close(x, y, std::abs(x), type);
}

std::string describe(const Literal& literal, int64_t i) {
  if (hlo::is_complex(literal.type())) {
    const auto z = literal.get<std::complex<double>>(i);
    return fmt::format("({:a}, {:a})", z.real(), z.imag());
  }
  if (hlo::is_float(literal.type())) return fmt::format("{0:a} = {0}", literal.get<double>(i));
  return fmt::format("{}", literal.get_integer(i));
}

int occurrences(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(EmitScalar, AgreesWithTheInterpreter) {
  ScalarJit jit;
  std::vector<Case> cases;
  int refused = 0;
  for (Case& c : all_cases()) {
    const Result<hlo::Shape> shape = infer_shape(c.module, c.computation(), c.root());
    if (shape) c.root().shape = *shape;
    const bool elementwise = shape && hlo::same_dims(*shape, c.computation().operand_shape(c.root(), 0));
    const Result<void> added = jit.add(c.name, c.computation());
    EXPECT_EQ(added.has_value(), elementwise) << c.name;
    EXPECT_TRUE(added || added.error().code == ErrorCode::Unsupported);
    if (added && elementwise) {
      cases.push_back(std::move(c));
    } else {
      ++refused;
    }
  }
  const std::string text = jit.compile();
  EXPECT_EQ(occurrences(text, "func.func private @strata_logistic_f32(f32) -> f32"), 1);
  EXPECT_EQ(occurrences(text, "func.func private @strata_f32_to_f8e4m3fn(f32) -> i8"), 1);
  int64_t elements = 0;
  for (const Case& c : cases) {
    const std::vector<Literal> arguments = make_arguments(c);
    const Result<Literal> expected = evaluate(c.module, c.computation(), arguments);
    ASSERT_TRUE(expected) << c.name << ": " << expected.error().to_string();
    const Literal actual = jit.run(c.name, arguments, c.root().shape);
    int64_t compared = 0;
    int64_t wrong = 0;
    std::string first;
    for (int64_t i = 0; i < actual.size(); ++i) {
      if (!is_compared(c, arguments, *expected, i)) continue;
      ++compared;
      if (agrees(c, *expected, actual, i)) continue;
      if (++wrong > 1) continue;
      for (const Literal& argument : arguments) first += describe(argument, i) + ", ";
      first += "expected " + describe(*expected, i) + ", have " + describe(actual, i);
    }
    elements += compared;
    EXPECT_GE(2 * compared, actual.size()) << c.name;
    EXPECT_EQ(wrong, 0) << c.name << ", of " << actual.size() << ": " << first;
  }
  fmt::print("{} pairs of operator and types, {} elements; {} refused\n", cases.size(), elements, refused);
}

TEST(EmitScalar, RefusesWithThePlace) {
  ScalarJit jit;
  Case c = make_case(Opcode::Tan, {ElementType::S32}, ElementType::S32, {});
  c.root().location = {std::make_shared<const std::string>("x.hlo"), 3, 5};
  const Result<void> added = jit.add("f", c.computation());
  ASSERT_FALSE(added);
  EXPECT_THAT(added.error().to_string(),
              testing::StartsWith("x.hlo:3:5: error: tan is not defined for elements of s32"));
}

TEST(EmitConstant, HasTheBits) {
  ScalarJit jit;
  std::vector<Literal> literals;
  for (const ElementType type : all_types()) {
    literals.push_back(Arguments().make(hlo::array_shape(type, {64}), 0, 0, false));
    jit.add_constant(fmt::format("{}", name(type)), literals.back());
  }
  jit.compile();
  for (const Literal& literal : literals) {
    EXPECT_TRUE(identical(jit.run(std::string(name(literal.type())), {}, literal.shape()), literal))
        << name(literal.type());
  }
}

}  // namespace
}  // namespace strata::emitters
