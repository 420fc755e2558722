#include "hlo/expand_conditionals.h"

#include <fmt/format.h>

#include <algorithm>

#include "hlo/conditional_cost.h"
#include "hlo/replace_instructions.h"
#include "hlo/text.h"

namespace strata::hlo {
namespace {

bool holds_arrays(const Shape& shape) {
  if (!shape.is_tuple()) return shape.is_array();
  return std::all_of(shape.elements.begin(), shape.elements.end(), holds_arrays);
}

bool is_replaced(const Computation& computation, const Instruction& it) {
  if (it.opcode != Opcode::Conditional || !holds_arrays(it.shape)) return false;
  return std::all_of(it.operands.begin(), it.operands.end(),
                     [&](InstructionId operand) { return holds_arrays(computation[operand].shape); });
}

/// The computation of one conditional, written as text.
class Expansion {
 public:
  Expansion(const Module& module, const Computation& computation, const Instruction& instruction,
            const InputOutputAliases& given)
      : module_(module),
        computation_(computation),
        it_(instruction),
        result_(to_string(it_.shape)),
        cheap_(cheap_branches(module, computation, instruction, given)) {}

  Replacement replacement() {
    std::map<std::string, ComputationId> stand_ins;
    for (size_t k = 0; k < it_.called.size(); ++k) {
      // Of the branch only its parameter and its result count here.
      text_ += fmt::format(
          "branch.{0} {{\n  p = {1} parameter(0)\n  ROOT r = {2} custom-call(p), custom_call_target=\"branch\"\n}}\n",
          k, operand(k), result_);
      stand_ins.emplace(fmt::format("branch.{}", k), it_.called[k]);
    }
    add("selector", to_string(computation_.operand_shape(it_, 0)), "parameter(0)");
    for (size_t k = 0; k < it_.called.size(); ++k)
      add(fmt::format("x.{}", k), operand(k), fmt::format("parameter({})", k + 1));
    flags();
    if (std::find(cheap_.begin(), cheap_.end(), false) == cheap_.end()) {
      root(selects());
    } else {
      root(loops());
    }
    return {text_ + "ENTRY conditional {\n" + body_ + "}\n", it_.operands, std::move(stand_ins)};
  }

 private:
  size_t count() const { return it_.called.size(); }
  std::string operand(size_t branch) const { return to_string(computation_.operand_shape(it_, branch + 1)); }
  void add(std::string_view name, std::string_view shape, std::string_view call) {
    body_ += fmt::format("  {} = {} {}\n", name, shape, call);
  }

  /// flag.k: whether branch k is taken. Numbers that are no branch take the last one.
  void flags() {
    if (computation_.operand_shape(it_, 0).type == ElementType::Pred) {
      add("flag.0", "pred[]", "copy(selector)");
      add("flag.1", "pred[]", "not(selector)");
      return;
    }
    std::string none;  // of those before
    for (size_t k = 0; k + 1 < count(); ++k) {
      add(fmt::format("number.{}", k), "s32[]", fmt::format("constant({})", k));
      add(fmt::format("flag.{}", k), "pred[]", fmt::format("compare(selector, number.{}), direction=EQ", k));
      add(fmt::format("not.{}", k), "pred[]", fmt::format("not(flag.{})", k));
      if (!none.empty()) add(fmt::format("none.{}", k), "pred[]", fmt::format("and({}, not.{})", none, k));
      none = fmt::format("{}.{}", none.empty() ? "not" : "none", k);
    }
    const std::string last = fmt::format("flag.{}", count() - 1);
    if (none.empty()) {
      add(last, "pred[]", "constant(true)");
    } else {
      add(last, "pred[]", fmt::format("copy({})", none));
    }
  }

  /// Of each leaf that of the cheap branch that is taken; of one of them if none is.
  std::string selects() {
    std::vector<size_t> branches;
    for (size_t k = 0; k < count(); ++k) {
      if (!cheap_[k]) continue;
      branches.push_back(k);
      add(fmt::format("y.{}", k), result_, fmt::format("call(x.{0}), to_apply=branch.{0}", k));
    }
    const int64_t leaves = leaf_count(it_.shape);
    std::vector<std::string> results;
    for (int64_t leaf = 0; leaf < leaves; ++leaf) {
      const Shape& shape = leaf_of(it_.shape, static_cast<int>(leaf));
      const std::string whole = to_string(shape);
      const auto part = [&](size_t k) {
        if (!it_.shape.is_tuple()) return fmt::format("y.{}", k);
        std::string name = fmt::format("y.{}.{}", k, leaf);
        add(name, whole, fmt::format("get-tuple-element(y.{}), index={}", k, leaf));
        return name;
      };
      std::string chosen = part(branches.back());
      for (size_t n = branches.size() - 1; n-- > 0;) {
        const size_t k = branches[n];
        const std::string other = part(k);
        const std::string here = fmt::format("{}.{}", k, leaf);
        // In the result's layout.
        add("flags." + here, to_string(array_shape(ElementType::Pred, shape.dims, shape.minor_to_major)),
            fmt::format("broadcast(flag.{}), dimensions={{}}", k));
        add("chosen." + here, whole, fmt::format("select(flags.{}, {}, {})", here, other, chosen));
        chosen = "chosen." + here;
      }
      results.push_back(std::move(chosen));
    }
    if (it_.shape.is_tuple()) {
      add("selected", result_, fmt::format("tuple({})", fmt::join(results, ", ")));
    } else {
      add("selected", result_, fmt::format("copy({})", results[0]));
    }
    return "selected";
  }

  /// Makes an instruction the result.
  void root(const std::string& name) {
    const size_t start = body_.rfind("  " + name + " = ");
    body_.insert(start + 2, "ROOT ");
  }

  /// Anything of this shape: no branch reads it.
  std::string nothing(const Shape& shape, const std::string& name) {
    if (shape.is_tuple()) {
      std::vector<std::string> parts;
      for (size_t i = 0; i < shape.elements.size(); ++i)
        parts.push_back(nothing(shape.elements[i], fmt::format("{}.{}", name, i)));
      add(name, to_string(shape), fmt::format("tuple({})", fmt::join(parts, ", ")));
      return name;
    }
    const char* value = shape.type == ElementType::Pred ? "false" : is_complex(shape.type) ? "(1, 0)" : "1";
    add(name + ".one", fmt::format("{}[]", hlo::name(shape.type)), fmt::format("constant({})", value));
    add(name, to_string(shape), fmt::format("broadcast({}.one), dimensions={{}}", name));
    return name;
  }

  /// The result of a branch that returns what it is given.
  void pass(size_t branch, const std::vector<int64_t>& leaves) {
    const Shape& given = computation_.operand_shape(it_, branch + 1);
    std::vector<std::string> parts;
    for (size_t i = 0; i < leaves.size(); ++i) {
      if (!given.is_tuple()) {
        parts.push_back(fmt::format("x.{}", branch));
        continue;
      }
      parts.push_back(fmt::format("passed.{}", i));
      add(parts.back(), to_string(leaf_of(given, static_cast<int>(leaves[i]))),
          fmt::format("get-tuple-element(x.{}), index={}", branch, leaves[i]));
    }
    if (it_.shape.is_tuple()) {
      add("first", result_, fmt::format("tuple({})", fmt::join(parts, ", ")));
    } else {
      add("first", result_, fmt::format("copy({})", parts[0]));
    }
  }

  /// A loop for each branch that is not cheap.
  std::string loops() {
    size_t passing = count();  // none
    bool computes = false;     // what is cheap, beside passing on
    for (size_t k = 0; k < count(); ++k) {
      const bool passes = passed_through(module_[it_.called[k]]).has_value();
      if (passes && passing == count()) passing = k;
      computes |= cheap_[k] && !passes;
    }
    std::string result = "first";
    if (computes) {
      passing = count();
      result = selects();
    } else if (passing < count()) {
      pass(passing, *passed_through(module_[it_.called[passing]]));
      cheap_.assign(count(), false);
    } else {
      nothing(it_.shape, result);
    }
    for (size_t k = 0; k < count(); ++k) {
      if (k == passing || cheap_[k]) continue;
      const std::string state = fmt::format("(pred[], {}, {})", operand(k), result_);
      text_ += fmt::format(
          "condition.{0} {{\n  s = {1} parameter(0)\n  ROOT r = pred[] get-tuple-element(s), index=0\n}}\n"
          "body.{0} {{\n  s = {1} parameter(0)\n  x = {2} get-tuple-element(s), index=1\n"
          "  y = {3} call(x), to_apply=branch.{0}\n  done = pred[] constant(false)\n"
          "  ROOT r = {1} tuple(done, x, y)\n}}\n",
          k, state, operand(k), result_);
      add(fmt::format("state.{}", k), state, fmt::format("tuple(flag.{0}, x.{0}, {1})", k, result));
      add(fmt::format("loop.{}", k), state, fmt::format("while(state.{0}), condition=condition.{0}, body=body.{0}", k));
      result = fmt::format("result.{}", k);
      add(result, result_, fmt::format("get-tuple-element(loop.{}), index=2", k));
    }
    return result;
  }

  const Module& module_;
  const Computation& computation_;
  const Instruction& it_;
  const std::string result_;
  std::vector<bool> cheap_;  ///< of each branch whether it is computed in any case
  std::string text_, body_;
};

}  // namespace

bool has_conditionals(const Module& module) {
  return std::any_of(module.computations.begin(), module.computations.end(), [](const Computation& computation) {
    return std::any_of(computation.instructions.begin(), computation.instructions.end(),
                       [&](const Instruction& it) { return is_replaced(computation, it); });
  });
}

Result<Module> expand_conditionals(const Module& module, const InputOutputAliases& given) {
  return replace_instructions(module,
                              [&](const Computation& computation, const Instruction& it) -> std::optional<Replacement> {
                                if (!is_replaced(computation, it)) return std::nullopt;
                                return Expansion(module, computation, it, given).replacement();
                              });
}

}  // namespace strata::hlo
