#include "superopt/codegen/emit.h"

#include <algorithm>
#include <array>

#include "indexing/code_text.h"
#include "ops/one_dimension.h"

namespace strata {
namespace {

/// Words that a tensor may be called and a C++ variable of the generated source may not.
const std::set<std::string>& reserved_words() {
  static const std::set<std::string> words = {
      "alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break", "case", "catch", "char",
      "char8_t", "char16_t", "char32_t", "class", "compl", "concept", "const", "consteval", "constexpr", "constinit",
      "const_cast", "continue", "co_await", "co_return", "co_yield", "decltype", "default", "delete", "do", "double",
      "dynamic_cast", "else", "enum", "explicit", "export", "extern", "false", "float", "for", "friend", "goto", "if",
      "inline", "int", "long", "mutable", "namespace", "new", "noexcept", "not", "not_eq", "nullptr", "operator", "or",
      "or_eq", "private", "protected", "public", "register", "reinterpret_cast", "requires", "return", "short",
      "signed", "sizeof", "static", "static_assert", "static_cast", "struct", "switch", "template", "this",
      "thread_local", "throw", "true", "try", "typedef", "typeid", "typename", "union", "unsigned", "using", "virtual",
      "void", "volatile", "wchar_t", "while", "xor", "xor_eq",
      // names and macros that the generated source or its headers use
      "strata_device", "STRATA_DEVICE", "STRATA_KERNEL", "NULL", "HUGE_VAL", "HUGE_VALF", "INFINITY", "NAN", "EOF",
      "errno", "assert", "linux", "unix", "stdin", "stdout", "stderr", "block_x", "block_y", "block_z", "shared",
      "iteration", "i", "threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize", "main"};
  return words;
}

/// CHAR_BIT, M_PI: what a header may have defined as a macro.
bool looks_like_macro(const std::string& name) {
  const bool capitals =
      std::all_of(name.begin(), name.end(), [](char c) { return c == '_' || !(c >= 'a' && c <= 'z'); });
  return capitals && (name.size() > 3 || name.find('_') != std::string::npos) && name.back() != '_';
}

/// Of an iota that broadcasts to a result: the index of the result's element i along the dimension that counts.
std::string index_along_result(const ElementOperand& operand, const Shape& result) {
  const auto dim = static_cast<size_t>(operand.iota->dim);
  return operand.shape[dim] == 1 ? "0" : index_along(result, result.size() - operand.shape.size() + dim, "i");
}

std::vector<int64_t> batch_strides(const Shape& shape, size_t batch_rank) {
  auto strides = broadcast_strides(Shape(shape.begin(), shape.end() - 2), batch_rank);
  for (int64_t& stride : strides) stride *= shape[shape.size() - 2] * shape.back();
  return strides;
}

}  // namespace

std::string NameScope::add(const std::string& wanted) {
  std::string name = wanted;
  while (reserved_words().count(name) != 0 || looks_like_macro(name) || name.find("__") != std::string::npos ||
         !taken_.insert(name).second) {
    // Names with two underscores are the compiler's own.
    for (size_t at; (at = name.find("__")) != std::string::npos;) name.replace(at, 2, "_u");
    name += name.empty() || name.back() == '_' ? "t" : "_";
  }
  return name;
}

std::string storage_type(DType type) {
  switch (type) {
    case DType::F16:
      return "strata_device::f16";
    case DType::BF16:
      return "strata_device::bf16";
    case DType::F32:
      return "float";
    case DType::F64:
      return "double";
  }
  return "float";
}

std::string compute_type(DType type) { return type == DType::F64 ? "double" : "float"; }

std::string dims(const std::vector<int64_t>& sizes) {
  return fmt::format("strata_device::Dims<{}>", fmt::join(sizes, ", "));
}

std::string team_text(int64_t threads, int barrier) {
  return barrier == 0 ? fmt::format("strata_device::BlockTeam<{}>", threads)
                      : fmt::format("strata_device::BlockTeam<{}, 0, {}>", threads, barrier);
}

std::string elementwise_expression(const Operation& op, const std::vector<std::string>& operands, DType type) {
  const std::string_view text = op_def(op.kind).cuda.text;
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '{') {
      result += text[i];
      continue;
    }
    const size_t end = text.find('}', i);
    const std::string field(text.substr(i + 1, end - i - 1));
    if (field == "0" || field == "1" || field == "2") {
      result += operands[static_cast<size_t>(field[0] - '0')];
    } else {
      const Rational& value = op.attributes.rational(field);
      const char* suffix = type == DType::F64 ? "" : "f";
      result += fmt::format("({}.0{} / {}.0{})", value.num, suffix, value.den, suffix);
    }
    i = end;
  }
  return result;
}

std::string library_call(const Graph& graph, const Operation& op, const std::string& team,
                         const std::vector<std::string>& operands, const std::string& result) {
  const std::vector<TensorType> types = graph.types(op.operands);
  const Shape& shape = graph.type(op.results[0]).shape;
  const Shape& first = types[0].shape;
  const auto call = [&](std::string_view name, const std::string& arguments) {
    return fmt::format("strata_device::{}<{}, {}>({}, {});\n", name, team, arguments, result,
                       fmt::join(operands, ", "));
  };
  const std::string_view name = op_def(op.kind).cuda.text;
  if (name == "matmul" || name == "concat_matmul") {
    const Shape batch(shape.begin(), shape.end() - 2);
    const size_t pairs = types.size() / 2;
    std::string arguments = dims(batch);
    for (size_t p = 0; p < pairs; ++p) {
      arguments += ", " + dims(batch_strides(types[p].shape, batch.size()));
      arguments += ", " + dims(batch_strides(types[p + pairs].shape, batch.size()));
    }
    arguments += fmt::format(", {}, {}", shape[shape.size() - 2], shape.back());
    for (size_t p = 0; p < pairs; ++p) arguments += fmt::format(", {}", types[p].shape.back());
    return call(name, arguments);
  }
  if (name == "sum" || name == "reduce_max") {
    const auto dim = static_cast<size_t>(op.attributes.integer("dim"));
    return call(name,
                fmt::format("{}, {}, {}", element_count(shape), first[dim] / shape[dim], inner_elements(first, dim)));
  }
  if (name == "conv2d") {
    const Shape& filter = types[1].shape;
    return call(name, fmt::format("{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}", shape[0], first[1], first[2], first[3],
                                  shape[1], shape[2], shape[3], filter[2], filter[3],
                                  op.attributes.integer_or("stride", 1), op.attributes.integer_or("padding", 0)));
  }
  if (name == "reshape") return call("gather", dims({element_count(shape)}) + ", " + dims({1}));
  if (name == "transpose") {
    const auto strides = row_major_strides(first);
    std::vector<int64_t> permuted;
    for (int64_t d : op.attributes.list("perm")) permuted.push_back(strides[static_cast<size_t>(d)]);
    return call("gather", dims(shape) + ", " + dims(permuted));
  }
  const auto dim = static_cast<size_t>(op.attributes.integer("dim"));
  const auto row_of = [&](const Shape& of) { return of[dim] * inner_elements(of, dim); };
  if (name == "slice") {
    return fmt::format("strata_device::gather<{}, {}, {}>({}, {} + {});\n", team, dims(shape),
                       dims(row_major_strides(first)), result, operands[0],
                       op.attributes.integer("start") * inner_elements(shape, dim));
  }
  if (name == "repeat") {
    return call(name, fmt::format("{}, {}, {}", element_count(shape), row_of(first), op.attributes.integer("times")));
  }
  // concat: one call an operand
  std::string text;
  int64_t start = 0;
  for (size_t n = 0; n < operands.size(); ++n) {
    const int64_t part = row_of(types[n].shape);
    text += fmt::format("strata_device::place<{}, {}, {}, {}>({}, {}, {});\n", team, types[n].elements(), part,
                        row_of(shape), result, start, operands[n]);
    start += part;
  }
  return text;
}

std::string element_loop(const std::string& team, const Shape& shape, DType type,
                         const std::vector<ElementOperand>& operands, const std::vector<ElementStep>& steps,
                         const std::string& value, const std::string& result, const std::string& indent) {
  const std::string compute = compute_type(type);
  std::string text = fmt::format("{}for (long long i = {}::rank(); i < {}; i += {}::size()) {{\n", indent, team,
                                 element_count(shape), team);
  for (const ElementOperand& operand : operands) {
    const std::string index = operand.shape == shape
                                  ? "i"
                                  : fmt::format("strata_device::offset_of<{}, {}>(i)", dims(shape),
                                                dims(broadcast_strides(operand.shape, shape.size())));
    const std::string element = operand.iota ? counted_text(*operand.iota, index_along_result(operand, shape), type)
                                             : fmt::format("strata_device::to_compute({}[{}])", operand.pointer, index);
    text += fmt::format("{}  const {} {} = {};\n", indent, compute, operand.variable, element);
  }
  for (const ElementStep& step : steps) {
    text += fmt::format("{}  const {} {} = {};\n", indent, compute, step.variable,
                        elementwise_expression(*step.op, step.operands, type));
  }
  return text + fmt::format("{}  strata_device::store({}[i], {});\n{}}}\n", indent, result, value, indent);
}

std::string elementwise_loop(const Graph& graph, const Operation& op, const std::string& team,
                             const std::vector<std::string>& pointers, const std::string& result, NameScope scope,
                             const std::string& indent) {
  std::vector<ElementOperand> operands;
  std::vector<std::string> variables;
  for (size_t n = 0; n < pointers.size(); ++n) {
    const TensorType& from = graph.type(op.operands[n]);
    variables.push_back(scope.add(fmt::format("x{}", n)));
    operands.push_back({pointers[n], variables.back(), from.shape, from.iota});
  }
  const std::string value = scope.add("value");
  const TensorType& type = graph.type(op.results[0]);
  return element_loop(team, type.shape, type.dtype, operands, {{&op, variables, value}}, value, result, indent);
}

namespace {

/// An index over the coordinates of a block and the iteration.
std::string index_text(const AccessRegion& region, const indexing::Expr& index) {
  constexpr std::array kCoordinates{"block_x", "block_y", "block_z"};
  const auto name = [&](indexing::ExprKind, int number) {
    return std::string(number < region.coordinates ? kCoordinates[static_cast<size_t>(number)] : "iteration");
  };
  return indexing::code_text(index, region.map, name).value();  // sums and multiples within a tensor
}

}  // namespace

std::string tile_start(const AccessRegion& region, size_t d) {
  return index_text(region, first_element(region.map)[d]);
}

std::string tile_piece(const AccessRegion& region, const Fold& fold) {
  return index_text(region, floor_div(first_element(region.map)[fold.dim], fold.size));
}

std::string tile_in_piece(const AccessRegion& region, const Fold& fold) {
  return index_text(region, mod(first_element(region.map)[fold.dim], fold.size));
}

std::string tile_base(const AccessRegion& region, const OperandPlace& place, bool in_front) {
  std::vector<indexing::Expr> first = first_element(region.map);
  if (in_front) return index_text(region, indexing::linearize(first, place.front->strides));
  if (place.front) {
    const int64_t before = place.front->size * place.strides[place.front->dim];
    return fmt::format("({}) - {}", index_text(region, indexing::linearize(first, place.strides)), before);
  }
  indexing::Expr pieces;
  for (const Fold& fold : place.folds) {
    pieces = pieces + floor_div(first[fold.dim], fold.size) * fold.stride;
    first[fold.dim] = mod(first[fold.dim], fold.size);
  }
  return index_text(region, pieces + indexing::linearize(first, place.strides));
}

std::string before_seam(const AccessRegion& region, const Front& front) {
  return fmt::format("{} < {}", tile_start(region, front.dim), front.size);
}

bool is_counted(const Graph& body, const Operation& op) {
  return op.kind == OpKind::InIter && body.type(op.operands[0]).iota.has_value();
}

std::vector<TensorId> arguments_of(const Graph& graph, const std::vector<TensorId>& ids) {
  std::vector<TensorId> result;
  std::copy_if(ids.begin(), ids.end(), std::back_inserter(result), [&](TensorId id) { return !graph.type(id).iota; });
  return result;
}

std::string counted_text(const Iota& iota, const std::string& index, DType type) {
  const std::string compute = compute_type(type), suffix = type == DType::F64 ? "" : "f";
  if (iota.step == 0) return fmt::format("({}.0{} / {}.0{})", iota.start.num, suffix, iota.start.den, suffix);
  std::string text = iota.step == 1 ? fmt::format("({})", index) : fmt::format("{} * ({})", iota.step, index);
  if (iota.start.num != 0) text = fmt::format("{} + {}", iota.start.num, text);
  return fmt::format("static_cast<{}>({})", compute, text);
}

std::string index_along(const Shape& shape, size_t dim, const std::string& element) {
  if (shape[dim] == 1) return "0";
  const int64_t inner = inner_elements(shape, dim);
  std::string text = inner == 1 ? element : fmt::format("{} / {}", element, inner);
  if (inner * shape[dim] != element_count(shape)) text += fmt::format(" % {}", shape[dim]);
  return text;
}

std::vector<bool> from_half_precision(const Graph& graph) {
  std::vector<bool> half(graph.tensors().size(), true);
  for (TensorId id : graph.inputs())
    half[static_cast<size_t>(id)] =
        graph.type(id).dtype == DType::F16 || graph.type(id).dtype == DType::BF16 || graph.type(id).iota;
  for (const Operation& op : graph.operations()) {
    for (TensorId result : op.results) {
      for (TensorId id : op.operands)
        if (!half[static_cast<size_t>(id)]) half[static_cast<size_t>(result)] = false;
    }
  }
  return half;
}

std::string statement_text(const Graph& graph, const Operation& op) {
  std::string text;
  for (TensorId id : op.results) text += (text.empty() ? "" : ", ") + graph.tensor(id).name;
  text += fmt::format(" = {}(", op.name());
  bool first = true;
  for (TensorId id : op.operands) {
    text += (first ? "" : ", ") + graph.tensor(id).name;
    first = false;
  }
  for (const auto& [name, value] : op.attributes.entries()) text += ", " + name + "=" + to_string(value);
  return text + ") : " + to_string(graph.type(op.results[0]));
}

}  // namespace strata
