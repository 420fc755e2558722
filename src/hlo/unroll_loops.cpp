#include "hlo/unroll_loops.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "hlo/counted_loop.h"
#include "hlo/inline_calls.h"
#include "hlo/replace_instructions.h"
#include "hlo/text.h"

namespace strata::hlo {
namespace {

constexpr int64_t kMostOperators = 512;
constexpr int64_t kMostOfModule = int64_t{1} << 14;
constexpr int64_t kMostMovedElements = 64;

std::optional<int64_t> operators_of_loop(const Module& module, const Computation& computation, InstructionId loop);

/// How many operators an instruction is, with the loops that it is; nothing where loops around it stay loops.
std::optional<int64_t> operators_of(const Module& module, const Computation& computation, InstructionId id) {
  const Instruction& it = computation[id];
  switch (it.opcode) {
    case Opcode::Parameter:
    case Opcode::Constant:
    case Opcode::Tuple:
    case Opcode::GetTupleElement:
    case Opcode::Iota:
    case Opcode::Broadcast:
      return 0;
    case Opcode::While:
      return operators_of_loop(module, computation, id);
    case Opcode::Concatenate:
    case Opcode::Copy:
    case Opcode::DynamicSlice:
    case Opcode::Reshape:
    case Opcode::Reverse:
    case Opcode::Slice:
    case Opcode::Transpose: {
      const bool small = computation.operand_shape(it, 0).is_array() &&
                         computation.operand_shape(it, 0).element_count() <= kMostMovedElements;
      return small ? std::optional<int64_t>(1) : std::nullopt;
    }
    default:
      return is_elementwise(it.opcode) ? std::optional<int64_t>(1) : std::nullopt;
  }
}

/// Of all iterations of a loop that is written out; nothing where it stays.
std::optional<int64_t> operators_of_loop(const Module& module, const Computation& computation, InstructionId loop) {
  const Computation& body = module[computation[loop].called[1]];
  int64_t sum = 0;
  for (InstructionId id = 0; id < std::ssize(body.instructions); ++id) {
    const std::optional<int64_t> operators = operators_of(module, body, id);
    if (!operators) return std::nullopt;
    sum += *operators;
    if (sum > kMostOperators) return std::nullopt;
  }
  const std::optional<CountedLoop> counted = counted_loop(module, computation, loop);
  if (!counted || counted->count == 0 || counted->count > kMostOperators) return std::nullopt;
  sum = std::max<int64_t>(sum, 1) * counted->count;
  return sum <= kMostOperators ? std::optional(sum) : std::nullopt;
}

/// The loop as the calls that it comes to.
Replacement iterations(const Instruction& loop, int64_t count) {
  const std::string state = to_string(loop.shape);
  // Of the body only its parameter and its result count here.
  std::string text = fmt::format(
      "body {{\n  p = {0} parameter(0)\n  ROOT r = {0} custom-call(p), custom_call_target=\"body\"\n}}\n"
      "ENTRY unrolled {{\n  s.0 = {0} parameter(0)\n",
      state);
  for (int64_t k = 1; k <= count; ++k)
    text += fmt::format("  {}s.{} = {} call(s.{}), to_apply=body\n", k == count ? "ROOT " : "", k, state, k - 1);
  return {text + "}\n", loop.operands, {{"body", loop.called[1]}}};
}

}  // namespace

bool has_short_loops(const Module& module) {
  const auto has_loop = [](const Computation& computation) {
    return std::ranges::any_of(computation.instructions,
                               [](const Instruction& it) { return it.opcode == Opcode::While; });
  };
  if (!std::ranges::any_of(module.computations, has_loop)) return false;
  const Module flat = inline_calls(module);
  return std::ranges::any_of(flat.computations, [&](const Computation& computation) {
    for (InstructionId id = 0; id < std::ssize(computation.instructions); ++id) {
      if (computation[id].opcode == Opcode::While && operators_of_loop(flat, computation, id)) return true;
    }
    return false;
  });
}

Result<Module> unroll_loops(const Module& module) {
  const Module flat = inline_calls(module);
  int64_t sum = 0;
  return replace_instructions(flat,
                              [&](const Computation& computation, const Instruction& it) -> std::optional<Replacement> {
                                if (it.opcode != Opcode::While) return std::nullopt;
                                const auto id = static_cast<InstructionId>(&it - computation.instructions.data());
                                const std::optional<int64_t> operators = operators_of_loop(flat, computation, id);
                                if (!operators || sum + *operators > kMostOfModule) return std::nullopt;
                                sum += *operators;
                                return iterations(it, counted_loop(flat, computation, id)->count);
                              });
}

}  // namespace strata::hlo
