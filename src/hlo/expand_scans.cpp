#include "hlo/expand_scans.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "hlo/replace_instructions.h"
#include "hlo/text_builder.h"

namespace strata::hlo {
namespace {

bool is_combiner(Opcode opcode) {
  switch (opcode) {
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

/// The operator of a step: (slice, carry) → (slice ∘ carry, the same).
std::optional<Opcode> operator_of(const Computation& step) {
  const Instruction& root = step.root_instruction();
  if (step.parameters.size() != 2 || root.opcode != Opcode::Tuple || root.operands.size() != 2) return std::nullopt;
  if (root.operands[0] != root.operands[1]) return std::nullopt;
  const Instruction& it = step[root.operands[0]];
  if (!is_combiner(it.opcode)) return std::nullopt;
  const InstructionId x = step.parameters[0], carry = step.parameters[1];
  const bool both =
      (it.operands[0] == x && it.operands[1] == carry) || (it.operands[0] == carry && it.operands[1] == x);
  return both ? std::optional(it.opcode) : std::nullopt;
}

/// Whether an operator's steps round, which others' do not, or to what a sum of f32 and f64 may differ by.
bool rounds(Opcode combiner, ElementType type) {
  const bool computes = combiner == Opcode::Add || combiner == Opcode::Multiply;
  return computes && is_float(type) && bit_width(type) < 32;
}

/// Whether all elements of a value are one: the instruction that has it, of one element.
std::optional<InstructionId> single_value(const Computation& computation, InstructionId id) {
  const Instruction& it = computation[id];
  if (it.shape.is_array() && it.shape.rank() == 0) return id;
  if (it.opcode != Opcode::Broadcast) return std::nullopt;
  const InstructionId from = it.operands[0];
  return computation[from].shape.rank() == 0 ? std::optional(from) : std::nullopt;
}

/// A scan that is a reduce-window.
struct PlainScan {
  Opcode combiner = Opcode::Add;
  std::optional<InstructionId> initial;  ///< a scalar; without one, what is carried first is combined afterwards
};

std::optional<PlainScan> plain_scan(const Module& module, const Computation& computation, const Instruction& it) {
  if (it.opcode != Opcode::Scan || it.operands.size() != 2 || it.as<ScanAttributes>().carries != 1) return std::nullopt;
  const Shape& operand = computation.operand_shape(it, 0);
  if (!it.shape.is_tuple() || it.shape.elements.size() != 2 || operand.element_count() == 0) return std::nullopt;
  const std::optional<Opcode> combiner = operator_of(module[it.called[0]]);
  const std::optional<InstructionId> initial = single_value(computation, it.operands[1]);
  const Shape& carried = computation.operand_shape(it, 1);
  if (!combiner || it.shape.elements[0].type != operand.type) return std::nullopt;
  if (carried.type != operand.type || it.shape.elements[1].type != operand.type) return std::nullopt;
  const bool narrow = rounds(*combiner, operand.type);
  if (narrow && !sums_in_any_grouping(module[it.called[0]], it)) return std::nullopt;
  // A loop would round each step, which these do not mean.
  return initial || narrow ? std::optional(PlainScan{*combiner, initial}) : std::nullopt;
}

/// The window of a scan, and where its last elements are.
struct ScanWindow {
  std::string sizes, pads, last_slices, last_sizes;
};

ScanWindow window_of(const Shape& operand, const ScanAttributes& how) {
  std::vector<std::string> sizes, pads, slices;
  std::vector<int64_t> last = operand.dims;
  for (size_t d = 0; d < operand.dims.size(); ++d) {
    const int64_t n = operand.dims[d];
    const bool scanned = static_cast<int64_t>(d) == how.dimension;
    sizes.push_back(std::to_string(scanned ? n : 1));
    const int64_t pad = scanned ? n - 1 : 0;
    pads.push_back(how.is_reverse ? fmt::format("0_{}", pad) : fmt::format("{}_0", pad));
    const int64_t end = scanned && how.is_reverse ? 1 : n;
    slices.push_back(fmt::format("[{}:{}]", scanned ? end - 1 : 0, end));
    if (scanned) last[d] = 1;
  }
  return {fmt::format("{}", fmt::join(sizes, "x")), fmt::format("{}", fmt::join(pads, "x")),
          fmt::format("{}", fmt::join(slices, ", ")), fmt::format("{}", fmt::join(last, ","))};
}

/// A module whose entry takes the array and the initial value, and gives what the scan does.
std::string expansion(const Computation& computation, const Instruction& it, Opcode combiner) {
  const auto& how = it.as<ScanAttributes>();
  const Shape& operand = computation.operand_shape(it, 0);
  const ScanWindow window = window_of(operand, how);
  const std::string type(name(operand.type)), whole = to_string(it.shape.elements[0]);
  return fmt::format(
      "HloModule m\nf {{\n  a = {0}[] parameter(0)\n  b = {0}[] parameter(1)\n  ROOT c = {0}[] {1}(a, b)\n}}\n"
      "ENTRY scan {{\n  x = {2} parameter(0)\n  z = {0}[] parameter(1)\n  r = {3} reduce-window(x, z), "
      "window={{size={4} pad={5}}}, to_apply=f\n  l = {0}[{6}] slice(r), slice={{{7}}}\n  c = {8} reshape(l)\n  ROOT t "
      "= {9} tuple(r, c)\n}}\n",
      type, name(combiner), to_string(operand), whole, window.sizes, window.pads, window.last_sizes, window.last_slices,
      to_string(it.shape.elements[1]), to_string(it.shape));
}

/// The same of narrow floats that begin with an array, [sizes without the dimension]: in f32, rounded at the end.
std::string expansion_after_carry(const Computation& computation, const Instruction& it, Opcode combiner) {
  const auto& how = it.as<ScanAttributes>();
  const Shape& operand = computation.operand_shape(it, 0);
  const ScanWindow window = window_of(operand, how);
  std::vector<int64_t> others;
  for (int64_t d = 0; d < operand.rank(); ++d) {
    if (d != how.dimension) others.push_back(d);
  }
  const Shape& carried = computation.operand_shape(it, 1);
  const auto wide = [](Shape shape) {
    shape.type = ElementType::F32;
    return to_string(shape);
  };
  const std::string whole = to_string(it.shape.elements[0]), wide_whole = wide(it.shape.elements[0]);
  return fmt::format(
      "HloModule m\nf {{\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] {0}(a, b)\n}}\n"
      "ENTRY scan {{\n  x = {1} parameter(0)\n  z = {2} parameter(1)\n  xw = {3} convert(x)\n  zw = {4} convert(z)\n"
      "  i = f32[] constant({5})\n  s = {6} reduce-window(xw, i), window={{size={7} pad={8}}}, to_apply=f\n"
      "  zs = {6} broadcast(zw), dimensions={{{9}}}\n  t = {6} {0}(s, zs)\n  r = {10} convert(t)\n"
      "  l = {11}[{12}] slice(r), slice={{{13}}}\n  c = {14} reshape(l)\n  ROOT o = {15} tuple(r, c)\n}}\n",
      name(combiner), to_string(operand), to_string(carried), wide(operand), wide(carried),
      combiner == Opcode::Add ? 0 : 1, wide_whole, window.sizes, window.pads, fmt::join(others, ","), whole,
      name(operand.type), window.last_sizes, window.last_slices, to_string(it.shape.elements[1]), to_string(it.shape));
}

std::vector<Shape> shapes_of(const Shape& shape) {
  return shape.is_tuple() ? shape.elements.list() : std::vector<Shape>{shape};
}

/// A step as a computation of the same parameters and result, which is all that a call of it needs.
std::string signature(const Computation& step) {
  std::string text = "step {\n", operands;
  for (size_t i = 0; i < step.parameters.size(); ++i) {
    text += fmt::format("  p{0} = {1} parameter({0})\n", i, to_string(step[step.parameters[i]].shape));
    operands += fmt::format("{}p{}", i == 0 ? "" : ", ", i);
  }
  return text + fmt::format("  ROOT r = {} custom-call({}), custom_call_target=\"step\"\n}}\n",
                            to_string(step.root_instruction().shape), operands);
}

/// The scan as a loop over its steps: the state is what is carried, results as far as they are known, and arrays.
Replacement loop(const Module& module, const Computation& computation, const Instruction& it) {
  using Value = TextBuilder::Value;
  using Values = std::vector<Value>;
  const auto& how = it.as<ScanAttributes>();
  const Computation& step = module[it.called[0]];
  const Shape& stepped = step.root_instruction().shape;
  const std::vector<Shape> shapes = shapes_of(it.shape);
  const auto carries = static_cast<size_t>(how.carries);
  const size_t inputs = it.operands.size() - carries, outputs = shapes.size() - carries;
  const int64_t steps = computation.operand_shape(it, 0).dim(how.dimension);
  TextBuilder text;
  Values operands, results;
  for (size_t i = 0; i < it.operands.size(); ++i)
    operands.push_back(text.parameter(static_cast<int64_t>(i), computation.operand_shape(it, i)));
  for (size_t i = 0; i < outputs; ++i) {
    const ElementType type = shapes[i].type;
    results.push_back(
        text.broadcast(text.constant(type, type == ElementType::Pred ? "false" : "0"), shapes[i].dims, {}));
  }
  results.insert(results.end(), operands.begin() + static_cast<std::ptrdiff_t>(inputs), operands.end());
  const auto along = [&](TextBuilder& body, const Value& at, size_t rank) {
    Values starts(rank, body.constant(ElementType::S32, 0));
    starts[static_cast<size_t>(how.dimension)] = at;
    return starts;
  };
  if (steps > 0) {
    Values state = results;
    state.insert(state.end(), operands.begin(), operands.begin() + static_cast<std::ptrdiff_t>(inputs));
    state = text.repeat(steps, state, [&](TextBuilder& body, const Value& number, const Values& before) {
      const Value at =
          how.is_reverse ? body.binary("subtract", body.constant(ElementType::S32, steps - 1), number) : number;
      std::string arguments;
      for (size_t i = 0; i < inputs; ++i) {
        const Value& from = before[outputs + carries + i];
        TextBuilder::Dims sizes = from.dims();
        sizes[static_cast<size_t>(how.dimension)] = 1;
        const Value slice = body.dynamic_slice(from, along(body, at, sizes.size()), sizes);
        arguments += body.reshape(slice, step[step.parameters[i]].shape.dims).name + ", ";
      }
      for (size_t i = 0; i < carries; ++i) arguments += before[outputs + i].name + ", ";
      arguments.resize(arguments.size() - 2);
      const Value made = body.add(stepped, fmt::format("call({}), to_apply=step", arguments));
      Values next;
      for (size_t i = 0; i < outputs + carries; ++i)
        next.push_back(stepped.is_tuple() ? body.element(made, static_cast<int64_t>(i)) : made);
      for (size_t i = 0; i < outputs; ++i) {
        TextBuilder::Dims sizes = before[i].dims();
        sizes[static_cast<size_t>(how.dimension)] = 1;
        next[i] = body.dynamic_update(before[i], body.reshape(next[i], sizes), along(body, at, sizes.size()));
      }
      next.insert(next.end(), before.begin() + static_cast<std::ptrdiff_t>(outputs + carries), before.end());
      return next;
    });
    results.assign(state.begin(), state.begin() + static_cast<std::ptrdiff_t>(outputs + carries));
  }
  const Value root = it.shape.is_tuple() ? text.tuple(results) : results[0];
  const std::string header = "HloModule m\n", written = text.module(root);
  return {header + signature(step) + written.substr(header.size()), it.operands, {{"step", it.called[0]}}};
}

}  // namespace

bool has_scan_operators(const Module& module) {
  return std::ranges::any_of(module.computations, [](const Computation& computation) {
    return std::ranges::any_of(computation.instructions,
                               [](const Instruction& it) { return it.opcode == Opcode::Scan; });
  });
}

Result<Module> expand_scans(const Module& module) {
  return replace_instructions(
      module, [&](const Computation& computation, const Instruction& it) -> std::optional<Replacement> {
        if (it.opcode != Opcode::Scan) return std::nullopt;
        const std::optional<PlainScan> plain = plain_scan(module, computation, it);
        if (!plain) return loop(module, computation, it);
        if (!plain->initial) return Replacement{expansion_after_carry(computation, it, plain->combiner), it.operands};
        return Replacement{expansion(computation, it, plain->combiner), {it.operands[0], *plain->initial}};
      });
}

bool sums_in_any_grouping(const Computation& step, const Instruction& scan) {
  const std::optional<Opcode> combiner = operator_of(step);
  return combiner && rounds(*combiner, step[step.parameters[0]].shape.type) &&
         scan.as<ScanAttributes>().is_associative.value_or(false);
}

}  // namespace strata::hlo
