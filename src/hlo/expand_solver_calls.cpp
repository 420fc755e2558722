#include "hlo/expand_solver_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "hlo/matrix_loops.h"
#include "hlo/replace_instructions.h"

namespace strata::hlo {
namespace {

using Value = TextBuilder::Value;
using Dims = TextBuilder::Dims;

constexpr int64_t kNoColumn = 2147483647;

std::string_view attribute(const Instruction& it, std::string_view name) {
  for (const auto& [key, value] : it.as<RawAttributes>().entries) {
    if (key == name) return value;
  }
  return {};
}

/// What `lower` says in "{lower = true}".
std::optional<bool> is_lower(const Instruction& it) {
  const std::string_view config = attribute(it, "backend_config");
  const size_t at = config.find("lower = ");
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view value = config.substr(at + 8);
  if (value.starts_with("true")) return true;
  return value.starts_with("false") ? std::optional(false) : std::nullopt;
}

bool is_number(const Shape& shape) { return is_complex(shape.type) || is_float(shape.type); }

/// All but the last dimensions.
Dims batch_of(const Shape& shape, size_t last) { return {shape.dims.begin(), shape.dims.end() - last}; }

using Shapes = std::vector<Shape>;
using Expansion = std::string (*)(const Instruction& it, const Shapes& operands);

std::string potrf(const Instruction& it, const Shapes& operands) {
  const Shape& operand = operands[0];
  TextBuilder text;
  const bool lower = *is_lower(it);
  const Value given = text.parameter(0, operand);
  const Value factor =
      text.add(array_shape(operand.type, operand.dims), fmt::format("cholesky({}), lower={}", given.name, lower));
  const int64_t rank = operand.rank();
  const Value rows = text.iota(ElementType::S32, operand.dims, rank - 2);
  const Value columns = text.iota(ElementType::S32, operand.dims, rank - 1);
  const Value both = text.select(text.compare(rows, columns, lower ? "GE" : "LE"), factor, given);
  const Value corner =
      text.real(text.reshape(text.slice(text.slice(factor, rank - 2, 0, 1), rank - 1, 0, 1), batch_of(operand, 2)));
  const Value info = text.select(text.compare(corner, corner, "NE"), text.constant(ElementType::S32, 1),
                                 text.constant(ElementType::S32, 0));
  return text.module(text.tuple({both, text.spread(info, batch_of(operand, 2))}));
}

std::string getrf(const Instruction&, const Shapes& operands) {
  const Shape& operand = operands[0];
  TextBuilder text;
  const Value given = matrices(text, text.parameter(0, operand));
  const LuFactors made = factor_with_pivots(text, given);
  const Dims& dims = given.dims();
  const Value rows = text.iota(ElementType::S32, dims, 1), columns = text.iota(ElementType::S32, dims, 2);
  const Value vanishes = text.binary("and", text.compare(rows, columns, "EQ"),
                                     text.compare(made.both, text.constant(given.type(), 0), "EQ"));
  const Value none = text.constant(ElementType::S32, kNoColumn);
  const Value one = text.constant(ElementType::S32, 1);
  const Value first = text.least(text.select(vanishes, text.binary("add", columns, one), none), {1, 2}, none);
  const Value info = text.select(text.compare(first, none, "EQ"), text.constant(ElementType::S32, 0), first);
  Dims pivots = batch_of(operand, 2);
  pivots.push_back(made.pivots.dims()[1]);
  return text.module(text.tuple({text.reshape(text.convert(made.both, operand.type), operand.dims),
                                 text.reshape(text.binary("add", made.pivots, one), pivots),
                                 text.reshape(info, batch_of(operand, 2))}));
}

std::string geqrf(const Instruction& it, const Shapes& operands) {
  TextBuilder text;
  const Reflectors made = factor_by_reflectors(text, matrices(text, text.parameter(0, operands[0])));
  const auto as = [&](const Value& value, const Shape& shape) {
    return text.reshape(text.convert(value, shape.type), shape.dims);
  };
  return text.module(text.tuple({as(made.both, it.shape.elements[0]), as(made.factors, it.shape.elements[1])}));
}

std::string orgqr(const Instruction& it, const Shapes& operands) {
  TextBuilder text;
  const Value both = matrices(text, text.parameter(0, operands[0]));
  const Value given = text.parameter(1, operands[1]);
  const Value factors = text.reshape(text.convert(given, both.type()), {both.dims()[0], operands[1].dims.back()});
  const Value made = product_of_reflectors(text, {both, factors});
  return text.module(text.reshape(text.convert(made, it.shape.type), it.shape.dims));
}

std::string permutation(const Instruction& it, const Shapes& operands) {
  const Shape& operand = operands[0];
  TextBuilder text;
  const int64_t batch = operand.element_count() / operand.dims.back();
  const Value pivots = text.reshape(text.parameter(0, operand), {batch, operand.dims.back()});
  return text.module(text.reshape(permutation_of(text, pivots, it.shape.dims.back()), it.shape.dims));
}

bool is_info(const Shape& shape, const Dims& batch) { return same_shape(shape, array_shape(ElementType::S32, batch)); }

bool fits_orgqr(const Instruction& it, const Shapes& operands) {
  const Shape &matrix = operands[0], &factors = operands[1];
  return matrix.rank() >= 2 && is_number(matrix) && same_shape(it.shape, matrix) && factors.is_array() &&
         factors.type == matrix.type && factors.rank() + 1 == matrix.rank() &&
         batch_of(factors, 1) == batch_of(matrix, 2) && factors.dims.back() > 0 &&
         factors.dims.back() <= std::min(matrix.dims.back(), matrix.dims[matrix.dims.size() - 2]);
}

/// How a call of this target is written out; nothing where its operands and result are not those of the target.
Expansion expansion_of(const Instruction& it, const Shapes& operands) {
  const std::string_view target = attribute(it, "custom_call_target");
  if (operands.empty() || operands.size() > 2) return nullptr;
  const Shape& operand = operands[0];
  if (!operand.is_array() || operand.element_count() == 0) return nullptr;
  if (operands.size() == 2) return target == "\"cusolver_orgqr_ffi\"" && fits_orgqr(it, operands) ? &orgqr : nullptr;
  const Shape& result = it.shape;
  if (target == "\"cu_lu_pivots_to_permutation\"") {
    const bool fits = operand.type == ElementType::S32 && operand.rank() > 0 && result.is_array() &&
                      result.type == ElementType::S32 && result.rank() == operand.rank() &&
                      batch_of(result, 1) == batch_of(operand, 1) && result.dims.back() >= operand.dims.back();
    return fits ? &permutation : nullptr;
  }
  const size_t elements = result.is_tuple() ? result.elements.size() : 0;
  if (elements < 2 || operand.rank() < 2 || !is_number(operand)) return nullptr;
  const Dims batch = batch_of(operand, 2);
  const int64_t rows = operand.dims[batch.size()], columns = operand.dims.back();
  if (target == "\"cusolver_geqrf_ffi\"") {
    Dims factors = batch;
    factors.push_back(std::min(rows, columns));
    return elements == 2 && same_shape(result.elements[0], operand) &&
                   same_shape(result.elements[1], array_shape(operand.type, factors))
               ? &geqrf
               : nullptr;
  }
  if (!same_shape(result.elements[0], operand) || !is_info(result.elements[elements - 1], batch)) return nullptr;
  if (target == "\"cusolver_potrf_ffi\"") return elements == 2 && rows == columns && is_lower(it) ? &potrf : nullptr;
  if (target == "\"cusolver_getrf_ffi\"") {
    Dims pivots = batch;
    pivots.push_back(std::min(rows, columns));
    return elements == 3 && is_info(result.elements[1], pivots) ? &getrf : nullptr;
  }
  return nullptr;
}

Shapes shapes_of(const Computation& computation, const Instruction& it) {
  Shapes shapes;
  for (size_t i = 0; i < it.operands.size(); ++i) shapes.push_back(computation.operand_shape(it, i));
  return shapes;
}

}  // namespace

bool is_solver_call(const Computation& computation, const Instruction& it) {
  return it.opcode == Opcode::CustomCall && expansion_of(it, shapes_of(computation, it)) != nullptr;
}

bool has_solver_calls(const Module& module) {
  return std::ranges::any_of(module.computations, [](const Computation& computation) {
    return std::ranges::any_of(computation.instructions,
                               [&](const Instruction& it) { return is_solver_call(computation, it); });
  });
}

std::string solver_call_loops(const Computation& computation, const Instruction& it) {
  const Shapes operands = shapes_of(computation, it);
  return expansion_of(it, operands)(it, operands);
}

std::optional<SolverFactor> solver_factor(const Computation& computation, const Instruction& it) {
  if (!is_solver_call(computation, it)) return std::nullopt;
  const Expansion expansion = expansion_of(it, shapes_of(computation, it));
  using Kind = SolverFactor::Kind;
  if (expansion == &potrf) return SolverFactor{Kind::Cholesky, *is_lower(it)};
  if (expansion == &getrf) return SolverFactor{Kind::Lu};
  if (expansion == &geqrf) return SolverFactor{Kind::Qr};
  return expansion == &orgqr ? std::optional(SolverFactor{Kind::Orthogonal}) : std::nullopt;
}

Result<Module> expand_solver_calls(const Module& module, const IsOfLibrary& is_of_library) {
  return replace_instructions(
      module, [&](const Computation& computation, const Instruction& it) -> std::optional<Replacement> {
        if (!is_solver_call(computation, it) || (is_of_library && is_of_library(computation, it))) return std::nullopt;
        return Replacement{solver_call_loops(computation, it), it.operands};
      });
}

}  // namespace strata::hlo
