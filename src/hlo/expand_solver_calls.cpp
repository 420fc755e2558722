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

/// What stands after "NAME = " in the call's "{NAME = …, …}".
std::string_view config_value(const Instruction& it, std::string_view name) {
  const std::string_view config = attribute(it, "backend_config");
  for (size_t at = config.find(name); at != std::string_view::npos; at = config.find(name, at + 1)) {
    const bool begins = at > 0 && (config[at - 1] == '{' || config[at - 1] == ' ');
    const std::string_view rest = config.substr(at + name.size());
    if (begins && rest.starts_with(" = ")) return rest.substr(3);
  }
  return {};
}

std::optional<bool> flag(const Instruction& it, std::string_view name) {
  const std::string_view value = config_value(it, name);
  if (value.starts_with("true")) return true;
  return value.starts_with("false") ? std::optional(false) : std::nullopt;
}

/// LAPACK's letters, which JAX gives as numbers: "uplo = 76 : ui8". 0 where there is none.
char letter(const Instruction& it, std::string_view name) {
  int value = 0;
  for (const char digit : config_value(it, name)) {
    if (digit < '0' || digit > '9' || value > 255) break;
    value = 10 * value + (digit - '0');
  }
  return value < 128 ? static_cast<char>(value) : '\0';
}

/// The triangle of a factor or of a symmetric matrix, as CUDA's calls or LAPACK's say it.
std::optional<bool> is_lower(const Instruction& it) {
  if (const auto lower = flag(it, "lower")) return lower;
  const char triangle = letter(it, "uplo");
  if (triangle == 'L') return true;
  return triangle == 'U' ? std::optional(false) : std::nullopt;
}

/// What a call computes, of whichever library: "potrf" of cusolver_potrf_ffi and of lapack_spotrf_ffi; the type's
/// letter has to be the operand's.
std::string_view routine_of(const Instruction& it, ElementType type) {
  std::string_view name = attribute(it, "custom_call_target");
  if (name.size() < 2) return {};
  name = name.substr(1, name.size() - 2);
  if (!name.ends_with("_ffi")) return name;
  if (name.starts_with("cusolver_")) return name.substr(9, name.size() - 13);
  if (!name.starts_with("lapack_")) return name;
  name = name.substr(7, name.size() - 11);
  const char expected = type == ElementType::F32   ? 's'
                        : type == ElementType::F64 ? 'd'
                        : type == ElementType::C64 ? 'c'
                                                   : 'z';
  if (name.empty() || name[0] != expected) return {};
  name = name.substr(1);
  return name == "ungqr" ? "orgqr" : name;
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

/// As JAX lowers it for the CPU, where the operand's other triangle may hold anything.
std::string trsm(const Instruction& it, const Shapes& operands) {
  TextBuilder text;
  const Value a = text.parameter(0, operands[0]), b = text.parameter(1, operands[1]);
  const char operation = letter(it, "trans_x");
  return text.module(
      text.add(array_shape(it.shape.type, it.shape.dims),
               fmt::format("triangular-solve({}, {}), left_side={}, lower={}, unit_diagonal={}, transpose_a={}", a.name,
                           b.name, letter(it, "side") == 'L', letter(it, "uplo") == 'L', letter(it, "diag") == 'U',
                           operation == 'N'   ? "NO_TRANSPOSE"
                           : operation == 'T' ? "TRANSPOSE"
                                              : "ADJOINT")));
}

std::string syevd(const Instruction& it, const Shapes& operands) {
  TextBuilder text;
  const Eigenpairs made = eigenpairs(text, matrices(text, text.parameter(0, operands[0])), *is_lower(it));
  const auto as = [&](const Value& value, size_t element) {
    const Shape& shape = it.shape.elements[element];
    return text.reshape(text.convert(value, shape.type), shape.dims);
  };
  return text.module(text.tuple({as(made.vectors, 0), as(made.values, 1), as(made.info, 2)}));
}

std::optional<SingularForm> singular_form(const Instruction& it, const Shape& matrix) {
  const std::string_view routine = routine_of(it, matrix.type);
  SingularForm form;
  bool wanted = false;
  if (const char mode = letter(it, "mode"); routine == "gesdd" || (routine == "gesvd" && mode != 0)) {
    if (mode != 'A' && mode != 'S' && mode != 'N') return std::nullopt;
    wanted = mode != 'N';
  } else if (routine == "gesvd" || routine == "gesvdj" || routine == "gesvdp") {
    const auto asked = flag(it, "compute_uv");
    if (!asked) return std::nullopt;
    wanted = *asked;
    form.right_transposed = routine != "gesvd";
    if (routine == "gesvd" && flag(it, "transposed").value_or(false)) std::swap(form.left, form.right);
  } else {
    return std::nullopt;
  }
  const auto& results = it.shape.elements;
  const Dims batch = batch_of(matrix, 2);
  const int64_t m = matrix.dims[batch.size()], n = matrix.dims.back(), k = std::min(m, n);
  const auto is = [&](const Shape& shape, int64_t rows, int64_t columns) {
    Dims dims = batch;
    dims.insert(dims.end(), {rows, columns});
    return same_shape(shape, array_shape(matrix.type, dims));
  };
  const auto fits = [&](int64_t left_columns, int64_t right_rows) {
    return is(results[form.left], m, left_columns) &&
           (form.right_transposed ? is(results[form.right], n, right_rows) : is(results[form.right], right_rows, n));
  };
  if (!wanted) return results[2].is_array() && results[3].is_array() ? std::optional(form) : std::nullopt;
  if (!fits(m, n) && !fits(k, k)) return std::nullopt;
  form.vectors = fits(k, k) ? SingularVectors::Thin : SingularVectors::Full;
  return form;
}

/// The first result is the library's workspace: nobody reads it. Where vectors are not asked for, neither are theirs.
std::string svd(const Instruction& it, const Shapes& operands) {
  const SingularForm form = *singular_form(it, operands[0]);
  TextBuilder text;
  const Value given = text.parameter(0, operands[0]);
  const SingularValues made = singular_values(text, matrices(text, given), form.vectors);
  const auto as = [&](const Value& value, size_t element) {
    const Shape& shape = it.shape.elements[element];
    return text.reshape(text.convert(value, shape.type), shape.dims);
  };
  std::vector<Value> results{as(given, 0), as(made.values, 1), given, given, as(made.info, 4)};
  if (form.vectors == SingularVectors::None) {
    for (const size_t i : {size_t{2}, size_t{3}}) {
      const Shape& shape = it.shape.elements[i];
      results[i] = text.spread(text.constant(shape.type, 0), shape.dims);
    }
  } else {
    results[form.left] = as(made.left, form.left);
    results[form.right] = as(form.right_transposed ? text.transpose(made.right) : made.right, form.right);
  }
  return text.module(text.tuple(results));
}

bool is_info(const Shape& shape, const Dims& batch) { return same_shape(shape, array_shape(ElementType::S32, batch)); }

bool fits_orgqr(const Instruction& it, const Shapes& operands) {
  const Shape &matrix = operands[0], &factors = operands[1];
  return matrix.rank() >= 2 && is_number(matrix) && same_shape(it.shape, matrix) && factors.is_array() &&
         factors.type == matrix.type && factors.rank() + 1 == matrix.rank() &&
         batch_of(factors, 1) == batch_of(matrix, 2) && factors.dims.back() > 0 &&
         factors.dims.back() <= std::min(matrix.dims.back(), matrix.dims[matrix.dims.size() - 2]);
}

bool fits_trsm(const Instruction& it, const Shapes& operands) {
  const Shape &matrix = operands[0], &sides = operands[1];
  const auto one_of = [&](std::string_view name, std::string_view letters) {
    const char found = letter(it, name);
    return found != 0 && letters.find(found) != std::string_view::npos;
  };
  if (!one_of("side", "LR") || !one_of("uplo", "LU") || !one_of("diag", "NU") || !one_of("trans_x", "NTC"))
    return false;
  if (!sides.is_array() || sides.type != matrix.type || !is_number(matrix) || !same_shape(it.shape, sides))
    return false;
  if (matrix.rank() < 2 || sides.rank() != matrix.rank() || batch_of(sides, 2) != batch_of(matrix, 2)) return false;
  const int64_t order = matrix.dims.back();
  return matrix.dims[matrix.dims.size() - 2] == order &&
         sides.dims[sides.dims.size() - (letter(it, "side") == 'L' ? 2 : 1)] == order;
}

/// How a call of this target is written out; nothing where its operands and result are not those of the target.
Expansion expansion_of(const Instruction& it, const Shapes& operands) {
  if (operands.empty() || operands.size() > 2) return nullptr;
  const Shape& operand = operands[0];
  if (!operand.is_array() || operand.element_count() == 0) return nullptr;
  const std::string_view routine = routine_of(it, operand.type);
  if (operands.size() == 2) {
    if (routine == "trsm") return fits_trsm(it, operands) ? &trsm : nullptr;
    return routine == "orgqr" && fits_orgqr(it, operands) ? &orgqr : nullptr;
  }
  const Shape& result = it.shape;
  if (routine == "cu_lu_pivots_to_permutation") {
    const bool fits = operand.type == ElementType::S32 && operand.rank() > 0 && result.is_array() &&
                      result.type == ElementType::S32 && result.rank() == operand.rank() &&
                      batch_of(result, 1) == batch_of(operand, 1) && result.dims.back() >= operand.dims.back();
    return fits ? &permutation : nullptr;
  }
  const size_t elements = result.is_tuple() ? result.elements.size() : 0;
  if (elements < 2 || operand.rank() < 2 || !is_number(operand)) return nullptr;
  const Dims batch = batch_of(operand, 2);
  const int64_t rows = operand.dims[batch.size()], columns = operand.dims.back();
  if (routine == "geqrf") {
    Dims factors = batch;
    factors.push_back(std::min(rows, columns));
    return elements == 2 && same_shape(result.elements[0], operand) &&
                   same_shape(result.elements[1], array_shape(operand.type, factors))
               ? &geqrf
               : nullptr;
  }
  if (!same_shape(result.elements[0], operand) || !is_info(result.elements[elements - 1], batch)) return nullptr;
  if (routine == "potrf") return elements == 2 && rows == columns && is_lower(it) ? &potrf : nullptr;
  if (routine == "getrf") {
    Dims pivots = batch;
    pivots.push_back(std::min(rows, columns));
    return elements == 3 && is_info(result.elements[1], pivots) ? &getrf : nullptr;
  }
  // Rotations of complex numbers are none of these.
  if (!is_float(operand.type)) return nullptr;
  Dims values = batch;
  values.push_back(std::min(rows, columns));
  if (!same_shape(result.elements[1], array_shape(operand.type, values))) return nullptr;
  if (routine == "syevd") return elements == 3 && rows == columns && is_lower(it) ? &syevd : nullptr;
  return elements == 5 && singular_form(it, operand) ? &svd : nullptr;
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
  if (expansion == &orgqr) return SolverFactor{Kind::Orthogonal};
  if (expansion == &syevd) return SolverFactor{Kind::Eigen, *is_lower(it)};
  if (expansion != &svd) return std::nullopt;
  return SolverFactor{Kind::Singular, false, *singular_form(it, computation.operand_shape(it, 0))};
}

Result<Module> expand_solver_calls(const Module& module, const IsOfLibrary& is_of_library) {
  return replace_instructions(
      module, [&](const Computation& computation, const Instruction& it) -> std::optional<Replacement> {
        if (!is_solver_call(computation, it) || (is_of_library && is_of_library(computation, it))) return std::nullopt;
        return Replacement{solver_call_loops(computation, it), it.operands};
      });
}

}  // namespace strata::hlo
