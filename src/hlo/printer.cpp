#include <cmath>
#include <complex>

#include "hlo/compute.h"
#include "hlo/text.h"

namespace strata::hlo {
namespace {

std::string braces(const std::vector<int64_t>& numbers) { return fmt::format("{{{}}}", fmt::join(numbers, ",")); }

/// The shortest digits that are read back as the same number of `type`.
std::string real_text(double value, ElementType type) {
  if (std::isnan(value)) return std::signbit(value) ? "-nan" : "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  return type == ElementType::F64 ? fmt::format("{}", value) : fmt::format("{}", static_cast<float>(value));
}

std::string element_text(const Literal& literal, int64_t index) {
  const ElementType type = literal.type();
  switch (kind(type)) {
    case TypeKind::Pred:
      return literal.get<uint64_t>(index) != 0 ? "true" : "false";
    case TypeKind::Signed:
      return fmt::format("{}", literal.get<int64_t>(index));
    case TypeKind::Unsigned:
      return fmt::format("{}", literal.get<uint64_t>(index));
    case TypeKind::Float:
      return real_text(literal.get<double>(index), type);
    default:
      break;
  }
  const auto value = literal.get<std::complex<double>>(index);
  return fmt::format("({}, {})", real_text(value.real(), part_type(type)), real_text(value.imag(), part_type(type)));
}

void append_dimension(const Literal& literal, size_t d, int64_t& next, std::string& text) {
  const std::vector<int64_t>& dims = literal.shape().dims;
  if (d == dims.size()) {
    text += element_text(literal, next++);
    return;
  }
  const bool inner = d + 1 == dims.size();
  text += inner ? "{" : "{ ";
  for (int64_t i = 0; i < dims[d]; ++i) {
    if (i > 0) text += ", ";
    append_dimension(literal, d + 1, next, text);
  }
  text += inner ? "}" : " }";
}

std::string window_text(const std::vector<WindowDimension>& window) {
  if (window.empty()) return "";
  const auto property = [&](std::string_view name, bool always, auto usual, auto entry) {
    bool differs = always;
    std::string text;
    for (const WindowDimension& dimension : window) {
      differs |= !usual(dimension);
      text += (text.empty() ? "" : "x") + entry(dimension);
    }
    return differs ? fmt::format(" {}={}", name, text) : std::string();
  };
  using D = const WindowDimension&;
  const auto number = [](int64_t value) { return std::to_string(value); };
  std::string text = property(
      "size", true, [](D) { return true; }, [&](D d) { return number(d.size); });
  text += property(
      "stride", false, [](D d) { return d.stride == 1; }, [&](D d) { return number(d.stride); });
  text += property(
      "pad", false, [](D d) { return d.pad_low == 0 && d.pad_high == 0; },
      [&](D d) { return number(d.pad_low) + "_" + number(d.pad_high); });
  text += property(
      "lhs_dilate", false, [](D d) { return d.lhs_dilate == 1; }, [&](D d) { return number(d.lhs_dilate); });
  text += property(
      "rhs_dilate", false, [](D d) { return d.rhs_dilate == 1; }, [&](D d) { return number(d.rhs_dilate); });
  text += property(
      "rhs_reversal", false, [](D d) { return !d.reversed; }, [&](D d) { return number(d.reversed ? 1 : 0); });
  return ", window={" + text.substr(1) + "}";
}

std::string labels(size_t rank, std::vector<std::pair<char, int64_t>> letters, const std::vector<int64_t>& spatial) {
  std::string text(rank, '?');
  for (size_t d = 0; d < spatial.size(); ++d) letters.emplace_back(static_cast<char>('0' + d), spatial[d]);
  for (const auto& [letter, place] : letters) text[static_cast<size_t>(place)] = letter;
  return text;
}

std::string precision_text(OperandPrecision precision) {
  if (precision == OperandPrecision::Exact) return ", operand_precision={highest,highest}";
  const std::string_view algorithm = algorithm_of(precision);
  return algorithm.empty() ? "" : fmt::format(", algorithm={}", algorithm);
}

struct AttributePrinter {
  const Module& module;
  const Instruction& instruction;

  std::string operator()(const NoAttributes&) const { return ""; }
  std::string operator()(const ParameterAttributes&) const { return ""; }
  std::string operator()(const ConstantAttributes&) const { return ""; }
  std::string operator()(const DimensionsAttributes& a) const {
    if (instruction.opcode == Opcode::Iota) return fmt::format(", iota_dimension={}", a.dimensions.front());
    return ", dimensions=" + braces(a.dimensions);
  }
  std::string operator()(const CompareAttributes& a) const {
    constexpr std::string_view kDirections[] = {"EQ", "NE", "LT", "LE", "GT", "GE"};
    constexpr std::string_view kOrders[] = {"", ", order=WEAK", ", type=TOTALORDER"};
    return fmt::format(", direction={}{}", kDirections[static_cast<size_t>(a.direction)],
                       kOrders[static_cast<size_t>(a.order)]);
  }
  std::string operator()(const ReducePrecisionAttributes& a) const {
    return fmt::format(", exponent_bits={}, mantissa_bits={}", a.exponent_bits, a.mantissa_bits);
  }
  std::string operator()(const SliceAttributes& a) const {
    std::string text;
    for (size_t d = 0; d < a.starts.size(); ++d) {
      text += fmt::format("{}[{}:{}", d == 0 ? "" : ", ", a.starts[d], a.limits[d]);
      text += a.strides[d] == 1 ? "]" : fmt::format(":{}]", a.strides[d]);
    }
    return ", slice={" + text + "}";
  }
  std::string operator()(const DynamicSliceAttributes& a) const { return ", dynamic_slice_sizes=" + braces(a.sizes); }
  std::string operator()(const PadAttributes& a) const {
    std::string text;
    for (size_t d = 0; d < a.low.size(); ++d) {
      text += fmt::format("{}{}_{}", d == 0 ? "" : "x", a.low[d], a.high[d]);
      if (a.interior[d] != 0) text += fmt::format("_{}", a.interior[d]);
    }
    return text.empty() ? "" : ", padding=" + text;
  }
  std::string operator()(const GatherAttributes& a) const {
    std::string text = fmt::format(", offset_dims={}, collapsed_slice_dims={}, start_index_map={}",
                                   braces(a.offset_dims), braces(a.collapsed_slice_dims), braces(a.start_index_map));
    if (!a.operand_batching_dims.empty()) {
      text += fmt::format(", operand_batching_dims={}, start_indices_batching_dims={}", braces(a.operand_batching_dims),
                          braces(a.start_indices_batching_dims));
    }
    text += fmt::format(", index_vector_dim={}, slice_sizes={}", a.index_vector_dim, braces(a.slice_sizes));
    return text + (a.indices_are_sorted ? ", indices_are_sorted=true" : "");
  }
  std::string operator()(const ScatterAttributes& a) const {
    std::string text = fmt::format(", update_window_dims={}, inserted_window_dims={}, scatter_dims_to_operand_dims={}",
                                   braces(a.update_window_dims), braces(a.inserted_window_dims),
                                   braces(a.scatter_dims_to_operand_dims));
    if (!a.input_batching_dims.empty()) {
      text += fmt::format(", input_batching_dims={}, scatter_indices_batching_dims={}", braces(a.input_batching_dims),
                          braces(a.scatter_indices_batching_dims));
    }
    text += fmt::format(", index_vector_dim={}", a.index_vector_dim);
    if (a.indices_are_sorted) text += ", indices_are_sorted=true";
    return text + (a.unique_indices ? ", unique_indices=true" : "");
  }
  std::string operator()(const WindowAttributes& a) const { return window_text(a.window); }
  std::string operator()(const DotAttributes& a) const {
    std::string text;
    const auto add = [&](std::string_view name, const std::vector<int64_t>& dims) {
      if (!dims.empty()) text += fmt::format(", {}={}", name, braces(dims));
    };
    add("lhs_batch_dims", a.lhs_batch);
    add("lhs_contracting_dims", a.lhs_contracting);
    add("rhs_batch_dims", a.rhs_batch);
    add("rhs_contracting_dims", a.rhs_contracting);
    return text + precision_text(a.precision);
  }
  std::string operator()(const ConvolutionAttributes& a) const {
    const size_t rank = a.input_spatial.size() + 2;
    std::string text = window_text(a.window);
    text += fmt::format(", dim_labels={}_{}->{}",
                        labels(rank, {{'b', a.input_batch}, {'f', a.input_feature}}, a.input_spatial),
                        labels(rank, {{'i', a.kernel_input_feature}, {'o', a.kernel_output_feature}}, a.kernel_spatial),
                        labels(rank, {{'b', a.output_batch}, {'f', a.output_feature}}, a.output_spatial));
    if (a.feature_group_count != 1) text += fmt::format(", feature_group_count={}", a.feature_group_count);
    if (a.batch_group_count != 1) text += fmt::format(", batch_group_count={}", a.batch_group_count);
    return text + precision_text(a.precision);
  }
  std::string operator()(const SortAttributes& a) const {
    return fmt::format(", dimensions={{{}}}{}", a.dimension, a.is_stable ? ", is_stable=true" : "");
  }
  std::string operator()(const TopKAttributes& a) const {
    return fmt::format(", k={}, largest={}{}", a.k, a.largest, a.is_stable ? "" : ", is_stable=false");
  }
  std::string operator()(const ScanAttributes& a) const {
    std::string text = fmt::format(", dimensions={{{}}}, num_carries={}", a.dimension, a.carries);
    if (a.is_reverse) text += ", is_reverse=true";
    return text + (a.is_associative ? fmt::format(", is_associative={}", *a.is_associative) : "");
  }
  std::string operator()(const RandomAttributes& a) const {
    constexpr std::string_view kAlgorithms[] = {"rng_default", "rng_three_fry", "rng_philox"};
    return fmt::format(", algorithm={}", kAlgorithms[static_cast<size_t>(a.algorithm)]);
  }
  std::string operator()(const CholeskyAttributes& a) const { return a.lower ? ", lower=true" : ""; }
  std::string operator()(const FftAttributes& a) const {
    constexpr std::string_view kTypes[] = {"FFT", "IFFT", "RFFT", "IRFFT"};
    return fmt::format(", fft_type={}, fft_length={}", kTypes[static_cast<size_t>(a.type)], braces(a.lengths));
  }
  std::string operator()(const TriangularSolveAttributes& a) const {
    constexpr std::string_view kTransposes[] = {"NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"};
    return fmt::format("{}{}{}, transpose_a={}", a.left_side ? ", left_side=true" : "", a.lower ? ", lower=true" : "",
                       a.unit_diagonal ? ", unit_diagonal=true" : "", kTransposes[static_cast<size_t>(a.transpose_a)]);
  }
  std::string operator()(const BatchNormAttributes& a) const {
    return fmt::format(", epsilon={}, feature_index={}", real_text(a.epsilon, ElementType::F32), a.feature_index);
  }
  std::string operator()(const TupleIndexAttributes& a) const { return fmt::format(", index={}", a.index); }
  std::string operator()(const FusionAttributes& a) const { return ", kind=" + a.kind; }
  std::string operator()(const RawAttributes& a) const {
    std::string text;
    for (const auto& [name, value] : a.entries) {
      text += fmt::format(", {}=", name);
      // "@0" stands for a computation only where the attribute names some.
      const bool calling = value.starts_with("@") || value.starts_with("{@");
      for (size_t i = 0; i < value.size(); ++i) {
        if (!calling || value[i] != '@') {
          text += value[i];
          continue;
        }
        size_t number = 0;
        while (i + 1 < value.size() && value[i + 1] >= '0' && value[i + 1] <= '9') {
          number = number * 10 + static_cast<size_t>(value[++i] - '0');
        }
        if (number < instruction.called.size()) text += "%" + module[instruction.called[number]].name;
      }
    }
    return text;
  }
};

std::string calls_text(const Module& module, const Computation& computation, const Instruction& instruction) {
  const auto callee = [&](size_t i) { return "%" + module[instruction.called[i]].name; };
  if (instruction.called.empty() || family(instruction.opcode) == Family::Unsupported) return "";
  switch (instruction.opcode) {
    case Opcode::While:
      return fmt::format(", condition={}, body={}", callee(0), callee(1));
    case Opcode::SelectAndScatter:
      return fmt::format(", select={}, scatter={}", callee(0), callee(1));
    case Opcode::Fusion:
      return ", calls=" + callee(0);
    case Opcode::Conditional: {
      // XLA takes the one form for numbers and the other for pred.
      if (computation.operand_shape(instruction, 0).type == ElementType::Pred) {
        return fmt::format(", true_computation={}, false_computation={}", callee(0), callee(1));
      }
      std::string text = callee(0);
      for (size_t i = 1; i < instruction.called.size(); ++i) text += ", " + callee(i);
      return ", branch_computations={" + text + "}";
    }
    default:
      return ", to_apply=" + callee(0);
  }
}

}  // namespace

std::string print(const Literal& literal) {
  std::string text;
  if (literal.shape().is_tuple()) {
    for (const Literal& element : literal.elements()) text += (text.empty() ? "" : ", ") + print(element);
    return "(" + text + ")";
  }
  if (literal.size() == 0) return "{}";
  int64_t next = 0;
  append_dimension(literal, 0, next, text);
  return text;
}

std::string print_attributes(const Module& module, const Instruction& instruction) {
  return std::visit(AttributePrinter{module, instruction}, instruction.attributes);
}

std::string print(const Module& module, const Computation& computation, const Instruction& instruction) {
  std::string inside;
  if (instruction.opcode == Opcode::Parameter) {
    inside = std::to_string(instruction.as<ParameterAttributes>().number);
  } else if (instruction.opcode == Opcode::Constant) {
    const auto& constant = instruction.as<ConstantAttributes>();
    inside = constant.elided ? "{...}" : print(constant.value);
  } else {
    for (InstructionId operand : instruction.operands)
      inside += (inside.empty() ? "%" : ", %") + computation[operand].name;
  }
  return fmt::format("%{} = {} {}({}){}{}", instruction.name, to_string(instruction.shape), name(instruction.opcode),
                     inside, print_attributes(module, instruction), calls_text(module, computation, instruction));
}

std::string print(const Module& module) {
  std::string text = fmt::format("HloModule {}\n", module.name);
  const auto is_marked = [&](ComputationId id) {
    const bool last = id + 1 == static_cast<ComputationId>(module.computations.size());
    return id == module.entry && !(module.fusion && last);
  };
  for (size_t i = 0; i < module.computations.size(); ++i) {
    const Computation& computation = module.computations[i];
    std::string parameters;
    for (InstructionId id : computation.parameters) {
      const Instruction& parameter = computation[id];
      parameters += fmt::format("{}{}: {}", parameters.empty() ? "" : ", ", parameter.name,
                                to_string_without_layout(parameter.shape));
    }
    text += fmt::format("\n{}%{} ({}) -> {} {{\n", is_marked(static_cast<ComputationId>(i)) ? "ENTRY " : "",
                        computation.name, parameters, to_string_without_layout(computation.root_instruction().shape));
    for (size_t j = 0; j < computation.instructions.size(); ++j) {
      text += static_cast<InstructionId>(j) == computation.root ? "  ROOT " : "  ";
      text += print(module, computation, computation.instructions[j]) + "\n";
    }
    text += "}\n";
  }
  return text;
}

}  // namespace strata::hlo
