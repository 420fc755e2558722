#include "hlo/expand_scans.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "hlo/replace_instructions.h"
#include "hlo/text.h"

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
  InstructionId initial = 0;
};

std::optional<PlainScan> plain_scan(const Module& module, const Computation& computation, const Instruction& it) {
  if (it.opcode != Opcode::Scan || it.operands.size() != 2 || it.as<ScanAttributes>().carries != 1) return std::nullopt;
  const Shape& operand = computation.operand_shape(it, 0);
  if (!it.shape.is_tuple() || it.shape.elements.size() != 2 || operand.element_count() == 0) return std::nullopt;
  const std::optional<Opcode> combiner = operator_of(module[it.called[0]]);
  const std::optional<InstructionId> initial = single_value(computation, it.operands[1]);
  if (!combiner || !initial || it.shape.elements[0].type != operand.type) return std::nullopt;
  if (computation[*initial].shape.type != operand.type || it.shape.elements[1].type != operand.type)
    return std::nullopt;
  const bool rounds = *combiner == Opcode::Add || *combiner == Opcode::Multiply;
  if (rounds && is_float(operand.type) && bit_width(operand.type) < 32) return std::nullopt;
  return PlainScan{*combiner, *initial};
}

/// A module whose entry takes the array and the initial value, and gives what the scan does.
std::string expansion(const Computation& computation, const Instruction& it, Opcode combiner) {
  const auto& how = it.as<ScanAttributes>();
  const Shape& operand = computation.operand_shape(it, 0);
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
  const std::string type(name(operand.type)), whole = to_string(it.shape.elements[0]);
  return fmt::format(
      "HloModule m\nf {{\n  a = {0}[] parameter(0)\n  b = {0}[] parameter(1)\n  ROOT c = {0}[] {1}(a, b)\n}}\n"
      "ENTRY scan {{\n  x = {2} parameter(0)\n  z = {0}[] parameter(1)\n  r = {3} reduce-window(x, z), "
      "window={{size={4} pad={5}}}, to_apply=f\n  l = {0}[{6}] slice(r), slice={{{7}}}\n  c = {8} reshape(l)\n  ROOT t "
      "= {9} tuple(r, c)\n}}\n",
      type, name(combiner), to_string(operand), whole, fmt::join(sizes, "x"), fmt::join(pads, "x"),
      fmt::join(last, ","), fmt::join(slices, ", "), to_string(it.shape.elements[1]), to_string(it.shape));
}

}  // namespace

bool has_plain_scans(const Module& module) {
  return std::any_of(module.computations.begin(), module.computations.end(), [&](const Computation& computation) {
    return std::any_of(computation.instructions.begin(), computation.instructions.end(),
                       [&](const Instruction& it) { return plain_scan(module, computation, it).has_value(); });
  });
}

Result<Module> expand_scans(const Module& module) {
  return replace_instructions(
      module, [&](const Computation& computation, const Instruction& it) -> std::optional<Replacement> {
        const std::optional<PlainScan> plain = plain_scan(module, computation, it);
        if (!plain) return std::nullopt;
        return Replacement{expansion(computation, it, plain->combiner), {it.operands[0], plain->initial}};
      });
}

}  // namespace strata::hlo
