#include "emitters/lax/associative.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "emitters/lax/to_ir.h"
#include "hlo/compute.h"
#include "superopt/decide.h"

namespace strata::emitters {
namespace {

using hlo::Computation;
using hlo::ElementType;
using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;
using Ids = std::vector<InstructionId>;

constexpr double kSeconds = 5;             ///< of a proof
constexpr size_t kMostTruthValues = 9;     ///< of three operands: 512 cases
constexpr size_t kMostInstructions = 512;  ///< of both groupings

bool is_pred(const Instruction& it) { return it.shape.type == ElementType::Pred; }

Ids results_of(const Computation& computation) {
  const Instruction& root = computation.root_instruction();
  return root.opcode == Opcode::Tuple ? root.operands : Ids{computation.root};
}

/// Expressions in three operands of a combiner, equal ones once, with what follows from known truth values folded.
class Expressions {
 public:
  explicit Expressions(const Computation& combiner) : combiner_(combiner) {}

  const Instruction& operator[](InstructionId id) const { return instructions_[static_cast<size_t>(id)]; }
  size_t size() const { return instructions_.size(); }

  InstructionId parameter(ElementType type) {
    const auto number = static_cast<int64_t>(instructions_.size());
    return append({"x" + std::to_string(number),
                   Opcode::Parameter,
                   hlo::array_shape(type, {}),
                   {},
                   {},
                   hlo::ParameterAttributes{number},
                   {}});
  }

  InstructionId truth(bool value) {
    std::optional<InstructionId>& known = value ? true_ : false_;
    if (!known) {
      const hlo::Shape shape = hlo::array_shape(ElementType::Pred, {});
      const auto literal = hlo::literal_of<uint64_t>(shape, {value ? uint64_t{1} : uint64_t{0}});
      known = append({"t", Opcode::Constant, shape, {}, {}, hlo::ConstantAttributes{literal, false}, {}});
    }
    return *known;
  }

  Ids combined(const Ids& a, const Ids& b) {
    Ids values;
    for (size_t i = 0; i < combiner_.instructions.size(); ++i) {
      const Instruction& it = combiner_.instructions[i];
      if (it.opcode == Opcode::Tuple) {
        values.push_back(-1);
      } else if (it.opcode == Opcode::Parameter) {
        const auto number = static_cast<size_t>(it.as<hlo::ParameterAttributes>().number);
        values.push_back(number < a.size() ? a[number] : b[number - a.size()]);
      } else {
        Ids operands;
        for (const InstructionId operand : it.operands) operands.push_back(values[static_cast<size_t>(operand)]);
        values.push_back(made(static_cast<InstructionId>(i), std::move(operands)));
      }
    }
    Ids results;
    for (const InstructionId id : results_of(combiner_)) results.push_back(values[static_cast<size_t>(id)]);
    return results;
  }

 private:
  InstructionId append(Instruction it) {
    instructions_.push_back(std::move(it));
    return static_cast<InstructionId>(instructions_.size()) - 1;
  }

  std::optional<bool> known(InstructionId id) const {
    if (id == true_) return true;
    if (id == false_) return false;
    return std::nullopt;
  }

  InstructionId made(InstructionId like, Ids operands) {
    const Instruction& it = combiner_[like];
    if (it.opcode == Opcode::Constant && is_pred(it))
      return truth(it.as<hlo::ConstantAttributes>().value.get_integer(0) != 0);
    if (it.opcode == Opcode::Select) {
      if (const auto value = known(operands[0])) return operands[*value ? 1 : 2];
      if (operands[1] == operands[2]) return operands[1];
    }
    if (is_pred(it)) {
      if (const std::optional<InstructionId> folded = folded_truth(it.opcode, operands)) return *folded;
    }
    // Operators of one combiner that read the same are the same where they are one instruction of it, or have no
    // attributes.
    const bool plain = std::holds_alternative<hlo::NoAttributes>(it.attributes);
    const auto key = std::tuple(it.opcode, it.shape.type, plain ? InstructionId{-1} : like, operands);
    const auto found = alike_.find(key);
    if (found != alike_.end()) return found->second;
    Instruction copy = it;
    copy.name = "e" + std::to_string(instructions_.size());
    copy.operands = std::move(operands);
    return alike_[key] = append(std::move(copy));
  }

  std::optional<InstructionId> folded_truth(Opcode opcode, const Ids& operands) {
    const bool is_and = opcode == Opcode::And, is_or = opcode == Opcode::Or;
    if (opcode == Opcode::Not) {
      if (const auto value = known(operands[0])) return truth(!*value);
    }
    if (!is_and && !is_or) return std::nullopt;
    for (size_t k = 0; k < 2; ++k) {
      const auto value = known(operands[k]);
      if (!value) continue;
      return *value == is_or ? operands[k] : operands[1 - k];
    }
    if (operands[0] == operands[1]) return operands[0];
    return std::nullopt;
  }

  const Computation& combiner_;
  std::vector<Instruction> instructions_;
  std::optional<InstructionId> true_, false_;
  std::map<std::tuple<Opcode, ElementType, InstructionId, Ids>, InstructionId> alike_;
};

/// What an expression reads, itself too.
std::set<InstructionId> reach(const Expressions& expressions, InstructionId root) {
  std::set<InstructionId> seen;
  Ids pending{root};
  while (!pending.empty()) {
    const InstructionId id = pending.back();
    pending.pop_back();
    if (!seen.insert(id).second) continue;
    pending.insert(pending.end(), expressions[id].operands.begin(), expressions[id].operands.end());
  }
  return seen;
}

/// Whether the expressions are polynomials with integer coefficients: then what holds for real numbers holds in every
/// commutative ring, as integers modulo 2^n and complex numbers are.
bool is_polynomial(const Expressions& expressions, const std::set<InstructionId>& members) {
  return std::all_of(members.begin(), members.end(), [&](InstructionId id) {
    const Instruction& it = expressions[id];
    switch (it.opcode) {
      case Opcode::Parameter:
        return true;
      case Opcode::Add:
      case Opcode::Subtract:
      case Opcode::Multiply:
      case Opcode::Negate:
        return !is_pred(it);
      case Opcode::Constant: {
        if (hlo::is_complex(it.shape.type) || is_pred(it)) return false;
        const hlo::Literal& value = it.as<hlo::ConstantAttributes>().value;
        return hlo::visit_accumulator_type(it.shape.type, [&](auto zero) {
          using T = decltype(zero);
          if constexpr (std::is_arithmetic_v<T>) {
            const auto number = static_cast<double>(value.get<T>(0));
            return number == std::trunc(number) && std::abs(number) < 0x1p20;
          } else {
            return false;
          }
        });
      }
      default:
        return false;
    }
  });
}

/// An expression as a module of arrays of a few elements, of which all numbers are f32 where `as_reals`.
class ExpressionModule {
 public:
  ExpressionModule(const Expressions& expressions, bool as_reals) : expressions_(expressions), as_reals_(as_reals) {
    entry_.name = "main";
  }

  /// Parameters are those of `members`, in their order, at least one. Their sum is a result too: programs name their
  /// inputs as they come, and both groupings' must have the same names.
  hlo::Module make(InstructionId root, const std::set<InstructionId>& members) {
    for (const InstructionId id : members) {
      if (expressions_[id].opcode == Opcode::Parameter) moved_[id] = moved(id);
    }
    InstructionId sum = entry_.parameters[0];
    for (const InstructionId parameter : entry_.parameters) {
      const std::string name = "sum" + std::to_string(entry_.instructions.size());
      sum = append({name, Opcode::Add, entry_[sum].shape, {sum, parameter}, {}, hlo::NoAttributes{}, {}});
    }
    for (const InstructionId id : members) {
      if (expressions_[id].opcode != Opcode::Parameter) moved_[id] = moved(id);
    }
    const InstructionId result = moved_.at(root);
    const hlo::Shape both = hlo::tuple_shape({entry_[sum].shape, entry_[result].shape});
    entry_.root = append({"both", Opcode::Tuple, both, {sum, result}, {}, hlo::NoAttributes{}, {}});
    hlo::Module module;
    module.name = "combiner";
    module.computations.push_back(std::move(entry_));
    return module;
  }

 private:
  static hlo::Shape array_of(ElementType type) { return hlo::array_shape(type, {4}); }

  InstructionId moved(InstructionId id) {
    Instruction it = expressions_[id];
    const ElementType type = as_reals_ ? ElementType::F32 : it.shape.type;
    it.shape = array_of(type);
    for (InstructionId& operand : it.operands) operand = moved_.at(operand);
    if (it.opcode == Opcode::Parameter) {
      it.attributes = hlo::ParameterAttributes{std::ssize(entry_.parameters)};
      entry_.parameters.push_back(static_cast<InstructionId>(entry_.instructions.size()));
    }
    if (it.opcode == Opcode::Constant) {
      const hlo::Literal value = it.as<hlo::ConstantAttributes>().value;
      const hlo::Shape scalar = hlo::array_shape(type, {});
      hlo::visit_accumulator_type(value.type(), [&](auto zero) {
        using T = decltype(zero);
        if constexpr (std::is_arithmetic_v<T>) {
          const auto number = static_cast<double>(value.get<T>(0));
          it.attributes = hlo::ConstantAttributes{as_reals_ ? hlo::literal_of<double>(scalar, {number}) : value, false};
        }
      });
      it.shape = scalar;
      const InstructionId constant = append(it);
      return append({it.name + "_everywhere",
                     Opcode::Broadcast,
                     array_of(type),
                     {constant},
                     {},
                     hlo::DimensionsAttributes{},
                     {}});
    }
    if (it.opcode != Opcode::Minimum) return append(it);
    // min(a, b) = -max(-a, -b).
    for (InstructionId& operand : it.operands) operand = negated(operand);
    it.opcode = Opcode::Maximum;
    return negated(append(it));
  }

  InstructionId negated(InstructionId id) {
    const std::string name = "minus" + std::to_string(entry_.instructions.size());
    return append({name, Opcode::Negate, entry_[id].shape, {id}, {}, hlo::NoAttributes{}, {}});
  }

  InstructionId append(Instruction it) {
    entry_.instructions.push_back(std::move(it));
    return static_cast<InstructionId>(entry_.instructions.size()) - 1;
  }

  const Expressions& expressions_;
  bool as_reals_;
  Computation entry_;
  std::map<InstructionId, InstructionId> moved_;
};

bool equal_as_programs(const Expressions& expressions, InstructionId a, InstructionId b) {
  const std::set<InstructionId> of_a = reach(expressions, a), of_b = reach(expressions, b);
  const auto is_float = [&](InstructionId id) { return hlo::is_float(expressions[id].shape.type); };
  const bool floats =
      std::all_of(of_a.begin(), of_a.end(), is_float) && std::all_of(of_b.begin(), of_b.end(), is_float);
  const bool polynomials = is_polynomial(expressions, of_a) && is_polynomial(expressions, of_b);
  if (!floats && !polynomials) return false;
  const auto parameters = [&](const std::set<InstructionId>& members) {
    Ids found;
    for (const InstructionId id : members) {
      if (expressions[id].opcode == Opcode::Parameter) found.push_back(id);
    }
    return found;
  };
  if (parameters(of_a) != parameters(of_b) || parameters(of_a).empty()) return false;
  const hlo::Module left = ExpressionModule(expressions, polynomials).make(a, of_a);
  const hlo::Module right = ExpressionModule(expressions, polynomials).make(b, of_b);
  const Result<LaxProgram> first = lax_program(left, left.entry_computation());
  const Result<LaxProgram> second = lax_program(right, right.entry_computation());
  if (!first || !second) return false;
  VerifyOptions verification;
  verification.time_limit = kSeconds;
  SolverOptions solving;
  solving.time_limit = kSeconds;
  const Result<Decision> decision = decide(*first->graph, *second->graph, verification, solving);
  return decision && decision->verdict == Verdict::Equivalent;
}

bool is_associative_operator(const Instruction& it) {
  switch (it.opcode) {
    case Opcode::Add:
    case Opcode::Multiply:
    case Opcode::Minimum:
    case Opcode::Maximum:
    case Opcode::And:
    case Opcode::Or:
    case Opcode::Xor:
      return true;
    default:
      return false;
  }
}

/// Whether a result is an associative operator of the two operands that belong to it.
bool is_operator_of_its_own(const Computation& combiner, size_t i) {
  const Instruction& it = combiner[results_of(combiner)[i]];
  const Ids both{combiner.parameters[i], combiner.parameters[i + combiner.parameters.size() / 2]};
  return is_associative_operator(it) &&
         std::is_permutation(it.operands.begin(), it.operands.end(), both.begin(), both.end());
}

/// With the truth values among the operands as the bits of `values`.
bool is_associative_where(const Computation& combiner, const std::vector<bool>& is_own, uint64_t values) {
  Expressions expressions(combiner);
  const size_t count = is_own.size();
  Ids operands[3];
  uint64_t rest = values;
  for (Ids& of : operands) {
    for (size_t i = 0; i < count; ++i) {
      const Instruction& parameter = combiner[combiner.parameters[i]];
      if (is_pred(parameter)) {
        of.push_back(expressions.truth((rest & 1) != 0));
        rest >>= 1;
      } else {
        of.push_back(expressions.parameter(parameter.shape.type));
      }
    }
  }
  const auto& [x, y, z] = operands;
  const Ids left = expressions.combined(expressions.combined(x, y), z);
  const Ids right = expressions.combined(x, expressions.combined(y, z));
  if (expressions.size() > kMostInstructions) return false;
  for (size_t i = 0; i < count; ++i) {
    if (is_own[i] || left[i] == right[i]) continue;
    if (!equal_as_programs(expressions, left[i], right[i])) return false;
  }
  return true;
}

}  // namespace

bool is_associative(const Computation& combiner) {
  const size_t count = combiner.parameters.size() / 2;
  std::vector<bool> is_own;
  size_t truth_values = 0;
  for (size_t i = 0; i < count; ++i) {
    is_own.push_back(is_operator_of_its_own(combiner, i));
    if (is_pred(combiner[combiner.parameters[i]])) truth_values += 3;
  }
  if (std::all_of(is_own.begin(), is_own.end(), [](bool own) { return own; })) return true;
  if (truth_values > kMostTruthValues) return false;
  for (uint64_t values = 0; values < (uint64_t{1} << truth_values); ++values) {
    if (!is_associative_where(combiner, is_own, values)) return false;
  }
  return true;
}

}  // namespace strata::emitters
