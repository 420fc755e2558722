#include "emitters/elemental/known_functions.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include "hlo/compute.h"
#include "hlo/evaluate.h"

namespace strata::emitters {
namespace {

using hlo::Computation;
using hlo::Instruction;
using hlo::InstructionId;
using hlo::Literal;
using hlo::Opcode;

constexpr size_t kLeastOperators = 20;
constexpr size_t kMostOperators = 200;

/// Arguments of all sizes, near 0 and ±1 more, and the special ones.
std::vector<double> arguments() {
  std::vector<double> values = {0.0, -0.0, 1.0, -1.0, 2.0, -2.0, HUGE_VAL, -HUGE_VAL, std::nan(""), 1e30, -1e30};
  std::mt19937 random(1);
  std::uniform_real_distribution<double> unit(-1, 1);
  for (int i = 0; i < 1000; ++i) values.push_back(12 * unit(random));
  for (int i = 0; i < 1000; ++i) values.push_back(std::ldexp(unit(random), static_cast<int>(random() % 40) - 36));
  for (int i = 0; i < 500; ++i) {
    const double near = 1 - std::ldexp(std::fabs(unit(random)), -static_cast<int>(random() % 24));
    values.push_back(i % 2 == 0 ? near : -near);
  }
  return values;
}

/// Whether a result is erfc's, as exactly as exp(-x²) of a rounded x² makes it, and 0 where that is subnormal.
bool is_erfc(double x, double result) {
  const double exact = std::erfc(x);
  if (std::isnan(exact)) return std::isnan(result);
  const double size = std::min(std::fabs(x), 30.0);
  return std::fabs(result - exact) <= 0x1p-20 * (1 + size * size) * exact + 0x1p-120;
}

/// Whether a result is erf⁻¹'s, as exactly as log(1 - x²) of a rounded x² makes it: that has the error 2^-25, or none
/// where x² lies on its numbers' grid (for 1 - |x| = d the error is d² at most).
bool is_erf_inv(double x, double result) {
  const double size = std::fabs(x);
  if (!(size <= 1)) return std::isnan(result);
  if (size == 1) return result == std::copysign(HUGE_VAL, x);
  if (std::signbit(x) != std::signbit(result)) return false;
  // The first step of Newton's method tells how far it is.
  const double y = std::fabs(result);
  const double slope = 2 / std::sqrt(std::acos(-1.0)) * std::exp(-y * y);
  const double off = (size < 0.5 ? std::erf(y) - size : (1 - size) - std::erfc(y)) / slope;
  const double rest = (1 - size) * (1 + size);
  return std::fabs(off) <= (0x1p-20 + std::min(0x1p-26 / rest, rest / 8)) * y + 0x1p-120;
}

/// An array of one number, or these, of f32 or f64.
Literal literal(hlo::ElementType type, const std::vector<double>& values) {
  Literal result(hlo::array_shape(type, {static_cast<int64_t>(values.size())}));
  for (size_t i = 0; i < values.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    if (type == hlo::ElementType::F64) {
      result.set<double>(at, values[i]);
    } else {
      result.set<float>(at, static_cast<float>(values[i]));
    }
  }
  return result;
}

double number(const Literal& values, int64_t at) {
  return values.type() == hlo::ElementType::F64 ? values.get<double>(at) : values.get<float>(at);
}

bool is_f32_or_f64(const hlo::Shape& shape) {
  return shape.is_array() && (shape.type == hlo::ElementType::F32 || shape.type == hlo::ElementType::F64);
}

bool is_elementwise(const Instruction& it) {
  switch (hlo::family(it.opcode)) {
    case hlo::Family::Unary:
    case hlo::Family::Binary:
      return true;
    default:
      return it.opcode == Opcode::Select;
  }
}

/// A part of a computation that is computed from one value, element by element.
class Cone {
 public:
  Cone(const Computation& computation, InstructionId root) : computation_(computation), root_(root) {
    frontier_.insert(root);
  }

  /// Goes on to the next value from which alone the root is computed; nothing where there is none.
  std::optional<InstructionId> next() {
    do {
      const InstructionId last = *frontier_.rbegin();
      const Instruction& it = computation_[last];
      if (!is_elementwise(it) || operators_.size() == kMostOperators) return std::nullopt;
      frontier_.erase(last);
      operators_.insert(last);
      for (const InstructionId operand : it.operands) {
        if (!is_constant(operand)) frontier_.insert(operand);
      }
      if (frontier_.empty()) return std::nullopt;
    } while (frontier_.size() > 1);
    return *frontier_.begin();
  }

  size_t size() const { return operators_.size(); }
  bool has(Opcode opcode) const {
    return std::any_of(operators_.begin(), operators_.end(),
                       [&](InstructionId id) { return computation_[id].opcode == opcode; });
  }

  /// The part as a computation of arrays of these sizes.
  Computation part(const std::vector<int64_t>& dims) const {
    Computation part;
    std::map<InstructionId, InstructionId> moved;
    const auto add = [&](Instruction it) {
      it.shape = hlo::array_shape(it.shape.type, dims);
      part.instructions.push_back(std::move(it));
      return static_cast<InstructionId>(part.instructions.size()) - 1;
    };
    const InstructionId argument = *frontier_.begin();
    moved[argument] =
        add({"x", Opcode::Parameter, computation_[argument].shape, {}, {}, hlo::ParameterAttributes{0}, {}});
    part.parameters = {0};
    for (const InstructionId id : operators_) {
      Instruction it = computation_[id];
      for (InstructionId& operand : it.operands) {
        if (!moved.contains(operand)) moved[operand] = add(constant(operand, dims));
        operand = moved.at(operand);
      }
      moved[id] = add(std::move(it));
    }
    part.root = moved.at(root_);
    return part;
  }

  /// The root's values, given those of its argument.
  std::vector<double> evaluate(const std::vector<double>& values) const {
    hlo::Module module;
    module.computations.push_back(part({static_cast<int64_t>(values.size())}));
    module.name = module.computations[0].name = "part";
    module.entry = 0;
    const Literal given = literal(computation_[*frontier_.begin()].shape.type, values);
    const Result<Literal> result = hlo::evaluate(module, std::span(&given, 1));
    std::vector<double> results;
    for (size_t i = 0; result && i < values.size(); ++i) results.push_back(number(*result, static_cast<int64_t>(i)));
    return results;
  }

 private:
  const Instruction* scalar_constant(InstructionId id) const {
    const Instruction* it = &computation_[id];
    if (it->opcode == Opcode::Broadcast) it = &computation_[it->operands[0]];
    const bool scalar = it->opcode == Opcode::Constant && is_f32_or_f64(it->shape) && it->shape.element_count() == 1;
    return scalar ? it : nullptr;
  }
  bool is_constant(InstructionId id) const { return scalar_constant(id) != nullptr; }

  Instruction constant(InstructionId id, const std::vector<int64_t>& dims) const {
    const Instruction& scalar = *scalar_constant(id);
    const double value = number(scalar.as<hlo::ConstantAttributes>().value, 0);
    const auto count = static_cast<size_t>(hlo::array_shape(scalar.shape.type, dims).element_count());
    const Literal values = literal(scalar.shape.type, std::vector<double>(count, value));
    const hlo::Shape shape = hlo::array_shape(scalar.shape.type, dims);
    return {scalar.name, Opcode::Constant, shape, {}, {}, hlo::ConstantAttributes{values.with_shape(shape), false}, {}};
  }

  const Computation& computation_;
  InstructionId root_;
  std::set<InstructionId> frontier_, operators_;
};

struct KnownFunction {
  const char* name;      ///< of the computation. No text can have it: it is not a word
  const char* function;  ///< of the math library
  hlo::ElementType type;
  Opcode operator_in_it;  ///< a text of it has this
  bool (*is_result)(double x, double result);
};

constexpr KnownFunction kFunctions[] = {
    {"erfc of f32", "strata_erfc_f32", hlo::ElementType::F32, Opcode::Exp, is_erfc},
    {"erfc of f64", "strata_erfc_f64", hlo::ElementType::F64, Opcode::Exp, is_erfc},
    {"erf_inv of f32", "strata_erf_inv_f32", hlo::ElementType::F32, Opcode::Log1p, is_erf_inv},
};

/// Whether a part of a computation computes the function.
bool computes(const Cone& cone, const KnownFunction& function) {
  const std::vector<double> given = arguments();
  const std::vector<double> results = cone.evaluate(given);
  if (results.size() != given.size()) return false;
  for (size_t i = 0; i < given.size(); ++i) {
    // What is given is rounded to f32 first.
    const double x = function.type == hlo::ElementType::F32 ? static_cast<float>(given[i]) : given[i];
    if (!function.is_result(x, results[i])) return false;
  }
  return true;
}

struct Found {
  Cone cone;
  InstructionId argument;
  const KnownFunction* function;
};

/// The part of a computation by which a select is a known function of a value.
std::optional<Found> find_function(const Computation& computation, InstructionId id) {
  const Instruction& it = computation[id];
  if (it.opcode != Opcode::Select || !is_f32_or_f64(it.shape)) return std::nullopt;
  Cone cone(computation, id);
  while (const std::optional<InstructionId> from = cone.next()) {
    if (cone.size() < kLeastOperators || computation[*from].shape.type != it.shape.type) continue;
    for (const KnownFunction& function : kFunctions) {
      if (function.type == it.shape.type && cone.has(function.operator_in_it) && computes(cone, function))
        return Found{cone, *from, &function};
    }
  }
  return std::nullopt;
}

}  // namespace

const char* known_function(const std::string& computation) {
  for (const KnownFunction& known : kFunctions) {
    if (computation == known.name) return known.function;
  }
  return nullptr;
}

std::optional<hlo::Module> with_known_functions(const hlo::Module& module, hlo::ComputationId id) {
  const Computation& from = module[id];
  std::optional<hlo::Module> changed;
  std::vector<bool> used(from.instructions.size(), false);
  used[static_cast<size_t>(from.root)] = true;
  for (size_t i = from.instructions.size(); i-- > 0;) {
    if (!used[i]) continue;
    const auto found = find_function(from, static_cast<InstructionId>(i));
    for (const InstructionId operand : found ? std::vector{found->argument} : from.instructions[i].operands) {
      used[static_cast<size_t>(operand)] = true;
    }
    if (!found) continue;
    if (!changed) changed = module;
    Computation function = found->cone.part({});
    function.name = found->function->name;
    const auto number = static_cast<hlo::ComputationId>(changed->computations.size());
    changed->computations.push_back(std::move(function));
    Instruction& it = changed->computations[static_cast<size_t>(id)].instructions[i];
    std::vector<int64_t> dimensions(it.shape.dims.size());
    for (size_t d = 0; d < dimensions.size(); ++d) dimensions[d] = static_cast<int64_t>(d);
    it.opcode = Opcode::Map;
    it.operands = {found->argument};
    it.called = {number};
    it.attributes = hlo::DimensionsAttributes{dimensions};
  }
  return changed;
}

}  // namespace strata::emitters
