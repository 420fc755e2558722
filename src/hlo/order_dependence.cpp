#include "hlo/order_dependence.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <optional>
#include <set>

#include "hlo/compute.h"
#include "hlo/evaluate_parts.h"
#include "hlo/inline_calls.h"
#include "hlo/typical_arguments.h"

namespace strata::hlo {
namespace {

struct Laws {
  bool associative = true, commutative = true;
  bool any_order = true;  ///< f(f(a, b), c) = f(f(a, c), b): all that updates of one element, one by one, need
};

Laws laws_of(Opcode opcode) {
  switch (opcode) {
    case Opcode::Add:
    case Opcode::And:
    case Opcode::Maximum:
    case Opcode::Minimum:
    case Opcode::Multiply:
    case Opcode::Or:
    case Opcode::Xor:
      return {};
    case Opcode::Divide:
    case Opcode::Subtract:
      return {false, false, true};
    default:
      return {false, false, false};
  }
}

bool is_known(Opcode opcode) { return laws_of(opcode).any_order; }

/// Of a computation whose every result is one operator on the two parameters that belong to it; nothing where it is
/// another.
std::optional<Laws> laws_by_structure(const Computation& computation) {
  const Instruction& root = computation.root_instruction();
  const std::vector<InstructionId> results =
      root.opcode == Opcode::Tuple ? root.operands : std::vector<InstructionId>{computation.root};
  if (computation.parameters.size() != 2 * results.size()) return std::nullopt;
  Laws laws;
  for (size_t i = 0; i < results.size(); ++i) {
    const InstructionId first = computation.parameters[i];
    const InstructionId second = computation.parameters[i + results.size()];
    const Instruction& result = computation[results[i]];
    if (results[i] == first || results[i] == second) {
      laws.commutative = false;  // the first or the last one of all
      laws.any_order &= results[i] == first;
      continue;
    }
    const Laws one = laws_of(result.opcode);
    const bool turned = result.operands == std::vector{second, first};
    if (!is_known(result.opcode) || (!turned && result.operands != std::vector{first, second})) return std::nullopt;
    if (turned && !one.commutative) return std::nullopt;
    laws.associative &= one.associative;
    laws.commutative &= one.commutative;
  }
  return laws;
}

/// Of what part of a number a few roundings of its type are.
double roundings(ElementType type) {
  switch (type) {
    case ElementType::F64:
    case ElementType::C128:
      return 1e-10;
    case ElementType::F32:
    case ElementType::C64:
      return 1e-4;
    case ElementType::F16:
      return 0.02;
    case ElementType::BF16:
      return 0.1;
    default:
      return kind(type) == TypeKind::Float ? 0.5 : 0;
  }
}

/// How many lanes of two values differ by more than roundings.
int64_t differing(const std::vector<Literal>& a, const std::vector<Literal>& b, int64_t lanes) {
  std::vector<bool> differs(static_cast<size_t>(lanes));
  for (size_t k = 0; k < a.size(); ++k) {
    const double unit = roundings(a[k].type());
    visit_accumulator_type(a[k].type(), [&](auto zero) {
      using T = decltype(zero);
      const std::vector<T> x = load_all<T>(a[k]);
      const std::vector<T> y = load_all<T>(b[k]);
      for (size_t i = 0; i < x.size(); ++i) {
        if constexpr (std::is_integral_v<T>) {
          if (x[i] != y[i]) differs[i] = true;
        } else {
          const std::complex<double> p(x[i]), q(y[i]);
          const double size = std::abs(p) + std::abs(q);
          if (std::isfinite(size) && std::abs(p - q) > unit * (size + 1)) differs[i] = true;
        }
      }
    });
  }
  return std::count(differs.begin(), differs.end(), true);
}

/// On random values; nothing where it cannot be evaluated.
std::optional<Laws> laws_by_trial(const Module& module, const Computation& computation) {
  constexpr int64_t kLanes = 512;
  Evaluator evaluator(module);
  const ScalarFunction function(evaluator, computation);
  const size_t count = computation.parameters.size() / 2;
  Random random(1);
  using Values = std::vector<Literal>;
  const auto draw = [&] {
    Values values;
    for (size_t i = 0; i < count; ++i)
      values.push_back(
          typical_literal(array_shape(computation[computation.parameters[i]].shape.type, {kLanes}), random));
    return values;
  };
  bool failed = false;
  const auto combine = [&](const Values& a, const Values& b) -> Values {
    Values arguments = a;
    arguments.insert(arguments.end(), b.begin(), b.end());
    auto result = failed ? Result<Values>(a) : function(arguments, kLanes);
    failed |= !result;
    return result ? *result : a;
  };
  const Values a = draw(), b = draw(), c = draw();
  // Cancellation makes some differences of roundings large.
  constexpr int64_t kFew = kLanes / 32;
  Laws laws;
  laws.associative = differing(combine(combine(a, b), c), combine(a, combine(b, c)), kLanes) <= kFew;
  laws.commutative = differing(combine(a, b), combine(b, a), kLanes) <= kFew;
  laws.any_order = differing(combine(combine(a, b), c), combine(combine(a, c), b), kLanes) <= kFew;
  if (failed) return std::nullopt;
  return laws;
}

/// The computation that combines, where the instruction has one.
std::optional<ComputationId> combining(const Instruction& it) {
  switch (it.opcode) {
    case Opcode::Reduce:
    case Opcode::ReduceWindow:
    case Opcode::Scatter:
      return it.called[0];
    case Opcode::SelectAndScatter:
      return it.called[1];
    default:
      return std::nullopt;
  }
}

bool replaces(const Instruction& it, const Computation& computation) {
  const Instruction& root = computation.root_instruction();
  const size_t count = computation.parameters.size() / 2;
  const std::vector<InstructionId> last(computation.parameters.begin() + static_cast<std::ptrdiff_t>(count),
                                        computation.parameters.end());
  return it.opcode == Opcode::Scatter &&
         (root.opcode == Opcode::Tuple ? root.operands : std::vector<InstructionId>{computation.root}) == last;
}

}  // namespace

std::vector<Error> order_warnings(const Module& module) {
  std::vector<Error> warnings;
  if (!check_calls(module)) return warnings;
  std::set<ComputationId> seen;
  for (const Computation& computation : module.computations) {
    for (const Instruction& it : computation.instructions) {
      const std::optional<ComputationId> called = combining(it);
      if (!called || !seen.insert(*called).second) continue;
      const Computation& combiner = module[*called];
      if (replaces(it, combiner)) {
        seen.erase(*called);
        continue;
      }
      std::optional<Laws> laws = laws_by_structure(combiner);
      if (!laws) laws = laws_by_trial(module, combiner);
      const bool updates = it.opcode == Opcode::Scatter || it.opcode == Opcode::SelectAndScatter;
      if (!laws || (laws->associative && laws->commutative) || (updates && laws->any_order)) {
        if (updates) seen.erase(*called);  // a reduction asks more of it
        continue;
      }
      warnings.push_back(
          {ErrorCode::Unsupported,
           fmt::format(
               "{} {} combines elements by '{}', which is not {}: generated code combines them in another order "
               "than the interpreter, and may return something else",
               name(it.opcode), it.name, combiner.name,
               updates             ? "the same in any order"
               : laws->associative ? "commutative"
                                   : "associative"),
           "combine by an associative, commutative computation, or write a while loop or a scan", it.location});
    }
  }
  return warnings;
}

}  // namespace strata::hlo
