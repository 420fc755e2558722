#include "hlo/evaluate.h"

#include <algorithm>
#include <map>

#include "hlo/evaluate_parts.h"
#include "hlo/expand_batch_norms.h"
#include "hlo/expand_ragged_dots.h"
#include "hlo/expand_solver_calls.h"
#include "hlo/inline_calls.h"
#include "hlo/strided.h"
#include "hlo/text.h"

namespace strata::hlo {
namespace {

constexpr int64_t kMaxBytes = int64_t{1} << 36;

/// For each instruction the first one, before it, that calls the same computation on the same values; itself if none.
/// No computation has effects, and calls of calls would be as many as 2^n.
std::vector<InstructionId> first_calls(const Computation& computation) {
  std::vector<InstructionId> first(computation.instructions.size());
  std::map<std::pair<ComputationId, std::vector<InstructionId>>, InstructionId> calls;
  for (size_t i = 0; i < first.size(); ++i) {
    first[i] = static_cast<InstructionId>(i);
    const Instruction& it = computation.instructions[i];
    if (it.opcode != Opcode::Call && it.opcode != Opcode::Fusion) continue;
    first[i] = calls.try_emplace({it.called[0], it.operands}, first[i]).first->second;
  }
  return first;
}

/// For each instruction the last that uses it, itself if none: values are given up there.
std::vector<InstructionId> last_uses(const Computation& computation, const std::vector<InstructionId>& first) {
  std::vector<InstructionId> last(computation.instructions.size());
  for (size_t i = 0; i < last.size(); ++i) {
    last[i] = static_cast<InstructionId>(i);
    for (InstructionId operand : computation.instructions[i].operands) {
      last[static_cast<size_t>(operand)] = static_cast<InstructionId>(i);
    }
    last[static_cast<size_t>(first[i])] = static_cast<InstructionId>(i);
  }
  last[static_cast<size_t>(computation.root)] = static_cast<InstructionId>(last.size());
  return last;
}

/// Takes the operands' values, giving up those that nobody needs later.
std::vector<Literal> take_operands(const Instruction& instruction, InstructionId id,
                                   const std::vector<InstructionId>& last, std::vector<Literal>& values) {
  std::vector<Literal> operands;
  const std::vector<InstructionId>& ids = instruction.operands;
  for (size_t i = 0; i < ids.size(); ++i) {
    const size_t operand = static_cast<size_t>(ids[i]);
    const bool again = std::find(ids.begin() + static_cast<std::ptrdiff_t>(i) + 1, ids.end(), ids[i]) != ids.end();
    operands.push_back(last[operand] == id && !again ? std::move(values[operand]) : values[operand]);
  }
  return operands;
}

bool is_scalar(const Shape& shape) {
  if (shape.is_tuple()) return std::all_of(shape.elements.begin(), shape.elements.end(), is_scalar);
  return shape.is_array() && shape.rank() == 0;
}

/// Each element `count` times where there is only one.
Literal widen(const Literal& literal, int64_t count) {
  if (literal.shape().is_tuple()) {
    std::vector<Literal> elements;
    for (const Literal& element : literal.elements()) elements.push_back(widen(element, count));
    return Literal::tuple(std::move(elements));
  }
  const Shape shape = array_shape(literal.type(), {count});
  if (literal.size() == count) return literal.with_shape(shape);
  return pick(literal, std::vector<int64_t>(static_cast<size_t>(count), 0));
}

/// With its quotes; empty for other operators.
std::string_view custom_call_target(const Instruction& instruction) {
  if (instruction.opcode != Opcode::CustomCall) return {};
  for (const auto& [key, value] : instruction.as<RawAttributes>().entries) {
    if (key == "custom_call_target") return value;
  }
  return {};
}

tl::unexpected<Error> not_supported(const Instruction& instruction) {
  std::string what = fmt::format("the interpreter does not support {}", name(instruction.opcode));
  if (instruction.opcode == Opcode::CustomCall) what += fmt::format(" to {}", custom_call_target(instruction));
  return tl::unexpected(
      Error{ErrorCode::Unsupported, what, "docs/hlo.md lists what is supported", instruction.location});
}

bool is_top_k_call(const Instruction& instruction, const std::vector<Shape>& operands) {
  if (custom_call_target(instruction) != "\"TopK\"" || operands.size() != 1) return false;
  const Shape& operand = operands[0];
  const Shape& shape = instruction.shape;
  if (!operand.is_array() || operand.rank() == 0 || is_complex(operand.type) || shape.elements.size() != 2)
    return false;
  const Shape& values = shape.elements[0];
  std::vector<int64_t> dims = operand.dims;
  dims.back() = values.dims.empty() ? -1 : std::min(values.dims.back(), dims.back());
  return same_shape(values, array_shape(operand.type, dims)) &&
         same_shape(shape.elements[1], array_shape(ElementType::S32, dims));
}

/// Calls that only say where their operand should lie.
bool is_annotation(const Instruction& instruction, const std::vector<Shape>& operands) {
  const std::string_view target = custom_call_target(instruction);
  const bool known = target == "\"Sharding\"" || target == "\"LayoutConstraint\"" || target == "\"MoveToHost\"" ||
                     target == "\"MoveToDevice\"" || target == "\"annotate_device_placement\"";
  return known && operands.size() == 1 && same_shape(operands[0], instruction.shape);
}

}  // namespace

ScalarFunction::ScalarFunction(Evaluator& evaluator, const Computation& computation)
    : evaluator_(evaluator), computation_(computation), vectorised_(evaluator.can_vectorise(computation)) {
  const Instruction& root = computation.root_instruction();
  if (computation.parameters.size() != 2) return;
  const InstructionId first = computation.parameters[0];
  const InstructionId second = computation.parameters[1];
  returns_second_ = computation.root == second;
  if (root.operands != std::vector{first, second} && root.operands != std::vector{second, first}) return;
  switch (root.opcode) {
    case Opcode::Add:
    case Opcode::Multiply:
    case Opcode::Maximum:
    case Opcode::Minimum:
    case Opcode::And:
    case Opcode::Or:
    case Opcode::Xor:
      combiner_ = root.opcode;
      break;
    default:
      break;
  }
}

Result<std::vector<Literal>> ScalarFunction::operator()(const std::vector<Literal>& arguments, int64_t count) const {
  const auto parts = [](Literal literal) {
    return literal.shape().is_tuple() ? literal.elements() : std::vector<Literal>{std::move(literal)};
  };
  if (vectorised_) {
    STRATA_TRY(Literal result, evaluator_.run_lanes(computation_, arguments, count));
    return parts(std::move(result));
  }
  std::vector<Literal> results;
  for (const Shape& shape : result_shapes(computation_.root_instruction().shape)) {
    results.emplace_back(array_shape(shape.type, {count}));
  }
  for (int64_t lane = 0; lane < count; ++lane) {
    std::vector<Literal> scalars;
    for (const Literal& argument : arguments) {
      scalars.push_back(pick(argument, {argument.size() == 1 ? 0 : lane}).with_shape(array_shape(argument.type(), {})));
    }
    STRATA_TRY(Literal result, evaluator_.run(computation_, std::move(scalars)));
    const std::vector<Literal> values = parts(std::move(result));
    for (size_t i = 0; i < values.size(); ++i) put(results[i], {lane}, values[i]);
  }
  return results;
}

bool Evaluator::can_vectorise(const Computation& computation) const {
  const auto known = vectorised_.find(&computation);
  if (known != vectorised_.end()) return known->second;
  return vectorised_[&computation] = works_on_scalars(computation);
}

bool Evaluator::works_on_scalars(const Computation& computation) const {
  return std::all_of(computation.instructions.begin(), computation.instructions.end(),
                     [&](const Instruction& instruction) {
                       if (!is_scalar(instruction.shape)) return false;
                       for (InstructionId operand : instruction.operands) {
                         if (!is_scalar(computation[operand].shape)) return false;
                       }
                       switch (instruction.opcode) {
                         case Opcode::Parameter:
                         case Opcode::Constant:
                         case Opcode::Bitcast:
                         case Opcode::BitcastConvert:
                         case Opcode::Broadcast:
                         case Opcode::Copy:
                         case Opcode::GetTupleElement:
                         case Opcode::OptimizationBarrier:
                         case Opcode::Reshape:
                         case Opcode::Tuple:
                           return true;
                         case Opcode::Call:
                         case Opcode::Fusion:
                           return can_vectorise(module_[instruction.called[0]]);
                         default:
                           return is_elementwise(instruction.opcode);
                       }
                     });
}

Result<Literal> Evaluator::run_lanes(const Computation& computation, std::vector<Literal> arguments, int64_t count) {
  const std::vector<InstructionId> first = first_calls(computation);
  const std::vector<InstructionId> last = last_uses(computation, first);
  std::vector<Literal> values(computation.instructions.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const Instruction& instruction = computation.instructions[i];
    if (const auto same = static_cast<size_t>(first[i]); same != i) {
      values[i] = values[same];
      continue;
    }
    std::vector<Literal> operands = take_operands(instruction, static_cast<InstructionId>(i), last, values);
    switch (instruction.opcode) {
      case Opcode::Parameter: {
        const Literal& argument = arguments[static_cast<size_t>(instruction.as<ParameterAttributes>().number)];
        values[i] = argument.shape().is_tuple() ? argument
                                                : argument.with_shape(array_shape(argument.type(), {argument.size()}));
        break;
      }
      case Opcode::Constant:
        values[i] = instruction.as<ConstantAttributes>().value;
        break;
      case Opcode::Tuple:
        values[i] = Literal::tuple(std::move(operands));
        break;
      case Opcode::GetTupleElement:
        values[i] = operands[0].elements()[static_cast<size_t>(instruction.as<TupleIndexAttributes>().index)];
        break;
      case Opcode::Call:
      case Opcode::Fusion: {
        STRATA_TRY(values[i], run_lanes(module_[instruction.called[0]], std::move(operands), count));
        break;
      }
      case Opcode::Bitcast:
      case Opcode::BitcastConvert:
        values[i] = reinterpret_bits(operands[0], array_shape(instruction.shape.type, {operands[0].size()}));
        break;
      default:
        if (!is_elementwise(instruction.opcode)) {
          values[i] = std::move(operands[0]);  // copies of scalars
          break;
        }
        values[i] = evaluate_elementwise(instruction, array_shape(instruction.shape.type, {count}), operands);
    }
  }
  return widen(values[static_cast<size_t>(computation.root)], count);
}

Result<Literal> Evaluator::run(const Computation& computation, std::vector<Literal> arguments) {
  const std::vector<InstructionId> first = first_calls(computation);
  const std::vector<InstructionId> last = last_uses(computation, first);
  std::vector<Literal> values(computation.instructions.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const Instruction& instruction = computation.instructions[i];
    const auto id = static_cast<InstructionId>(i);
    if (const auto same = static_cast<size_t>(first[i]); same != i) {
      values[i] = values[same].with_shape(instruction.shape);
      continue;
    }
    if (instruction.opcode == Opcode::Parameter) {
      Literal& argument = arguments[static_cast<size_t>(instruction.as<ParameterAttributes>().number)];
      values[i] = std::move(argument).with_shape(instruction.shape);
      argument = Literal();
      continue;
    }
    std::vector<Literal> operands = take_operands(instruction, id, last, values);
    // Values are in the layout that the instruction states: bitcasts look at it.
    auto value = run_instruction(instruction, operands);
    if (!value) return tl::unexpected(value.error().at(instruction.location));
    values[i] = value->with_shape(instruction.shape);
    if (last[i] == id) values[i] = Literal();
  }
  return std::move(values[static_cast<size_t>(computation.root)]);
}

Result<Literal> Evaluator::run_instruction(const Instruction& instruction, std::vector<Literal>& operands) {
  if (instruction.shape.is_array() &&
      instruction.shape.element_count() > kMaxBytes / byte_width(instruction.shape.type)) {
    return unsupported("{} is too large to be interpreted", to_string_without_layout(instruction.shape));
  }
  switch (family(instruction.opcode)) {
    case Family::Unary:
    case Family::Binary:
    case Family::Ternary:
      return evaluate_elementwise(instruction, instruction.shape, operands);
    case Family::Conversion:
      if (instruction.opcode == Opcode::BitcastConvert) return reinterpret_bits(operands[0], instruction.shape);
      return evaluate_elementwise(instruction, instruction.shape, operands);
    case Family::Leaf:
      if (instruction.opcode == Opcode::Constant) return instruction.as<ConstantAttributes>().value;
      if (instruction.opcode == Opcode::Iota) return evaluate_iota(instruction.shape, instruction.dimensions()[0]);
      return Literal(instruction.shape);  // the only partition and replica is number 0
    case Family::Movement:
      return evaluate_movement(instruction, operands);
    case Family::Contraction:
      return instruction.opcode == Opcode::Dot ? evaluate_dot(instruction, operands[0], operands[1])
                                               : evaluate_convolution(instruction, operands[0], operands[1]);
    case Family::Computing:
      return run_computing(instruction, operands);
    case Family::LinearAlgebra:
      if (instruction.opcode == Opcode::Cholesky) return evaluate_cholesky(instruction, operands[0]);
      if (instruction.opcode == Opcode::Fft) return evaluate_fft(instruction, operands[0]);
      return evaluate_triangular_solve(instruction, operands[0], operands[1]);
    case Family::Control:
      return run_control(instruction, operands);
    case Family::Normalisation:
      assert(false && "expanded before (expand_batch_norms.h)");
      break;
    case Family::Unsupported:
      break;
  }
  std::vector<Shape> shapes;
  for (const Literal& operand : operands) shapes.push_back(operand.shape());
  if (is_top_k_call(instruction, shapes)) return evaluate_top_k(operands[0], instruction.shape, true);
  if (is_annotation(instruction, shapes)) return operands[0];
  return not_supported(instruction);
}

Result<Literal> Evaluator::run_computing(const Instruction& instruction, std::vector<Literal>& operands) {
  if (instruction.opcode == Opcode::TopK) {
    return evaluate_top_k(operands[0], instruction.shape, instruction.as<TopKAttributes>().largest);
  }
  const ScalarFunction function(*this, module_[instruction.called[0]]);
  switch (instruction.opcode) {
    case Opcode::Map:
      return evaluate_map(instruction, operands, function);
    case Opcode::Reduce:
      return evaluate_reduce(instruction, operands, function);
    case Opcode::ReduceWindow:
      return evaluate_reduce_window(instruction, operands, function);
    case Opcode::Scatter:
      return evaluate_scatter(instruction, operands, function);
    case Opcode::Sort:
      return evaluate_sort(instruction, operands, function);
    default:
      break;
  }
  assert(instruction.opcode == Opcode::SelectAndScatter);
  return evaluate_select_and_scatter(instruction, operands, function,
                                     ScalarFunction(*this, module_[instruction.called[1]]));
}

Result<Literal> Evaluator::run_control(const Instruction& instruction, std::vector<Literal>& operands) {
  const auto called = [&](size_t i) -> const Computation& { return module_[instruction.called[i]]; };
  switch (instruction.opcode) {
    case Opcode::AfterAll:
      return Literal();
    case Opcode::Tuple:
      return Literal::tuple(std::move(operands));
    case Opcode::GetTupleElement:
      return operands[0].elements()[static_cast<size_t>(instruction.as<TupleIndexAttributes>().index)];
    case Opcode::Call:
    case Opcode::Fusion:
      return run(called(0), std::move(operands));
    case Opcode::Conditional: {
      const int64_t count = static_cast<int64_t>(instruction.called.size());
      int64_t branch = operands[0].get_integer(0);
      // A pred is true for branch 0; numbers that are no branch mean the last one.
      if (operands[0].type() == ElementType::Pred) branch = branch != 0 ? 0 : 1;
      if (branch < 0 || branch >= count) branch = count - 1;
      std::vector<Literal> argument{std::move(operands[static_cast<size_t>(branch) + 1])};
      return run(called(static_cast<size_t>(branch)), std::move(argument));
    }
    case Opcode::While: {
      Literal state = std::move(operands[0]);
      for (;;) {
        STRATA_TRY(const Literal goes_on, run(called(0), {state}));
        if (goes_on.get_integer(0) == 0) return state;
        std::vector<Literal> argument;
        argument.push_back(std::move(state));
        STRATA_TRY(state, run(called(1), std::move(argument)));
      }
    }
    case Opcode::RngBitGenerator:
      return evaluate_random_bits(instruction, operands[0]);
    case Opcode::Scan:
      return evaluate_scan(*this, called(0), instruction, operands);
    default:
      return operands[0];  // add-dependency, opt-barrier
  }
}

Result<Literal> evaluate(const Module& module, std::span<const Literal> arguments) {
  return evaluate(module, module.entry_computation(), arguments);
}

Result<Literal> evaluate(const Module& module, const Computation& computation, std::span<const Literal> arguments) {
  assert(arguments.size() == computation.parameters.size());
  STRATA_CHECK(check_calls(module));
  if (has_solver_calls(module)) {
    STRATA_TRY(const Module expanded, expand_solver_calls(extract_module(module, computation)));
    return evaluate(expanded, expanded.entry_computation(), arguments);
  }
  if (has_ragged_dots(module)) {
    STRATA_TRY(const Module expanded, expand_ragged_dots(extract_module(module, computation)));
    return evaluate(expanded, expanded.entry_computation(), arguments);
  }
  if (has_batch_norms(module)) {
    STRATA_TRY(const Module expanded, expand_batch_norms(extract_module(module, computation)));
    return Evaluator(expanded).run(expanded.entry_computation(), {arguments.begin(), arguments.end()});
  }
  return Evaluator(module).run(computation, {arguments.begin(), arguments.end()});
}

Result<void> check_evaluable(const Module& module, const Computation& computation) {
  for (const Instruction& instruction : computation.instructions) {
    if (family(instruction.opcode) == Family::Unsupported) {
      std::vector<Shape> operands;
      for (const InstructionId id : instruction.operands) operands.push_back(computation[id].shape);
      if (!is_top_k_call(instruction, operands) && !is_annotation(instruction, operands) &&
          !is_solver_call(computation, instruction))
        return tl::unexpected(not_supported(instruction).value().at(instruction.location));
      continue;
    }
    for (const auto called : instruction.called) STRATA_CHECK(check_evaluable(module, module[called]));
  }
  return {};
}

}  // namespace strata::hlo
