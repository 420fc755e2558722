#include "hlo/expand_linear_algebra.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "hlo/matrix_loops.h"
#include "hlo/replace_instructions.h"

namespace strata::hlo {
namespace {

using Value = TextBuilder::Value;

bool is_expanded(const Instruction& it) {
  return (it.opcode == Opcode::Cholesky || it.opcode == Opcode::TriangularSolve) && it.shape.element_count() > 0;
}

Value nan_of(TextBuilder& text, ElementType type) {
  if (!is_complex(type)) return text.constant(type, "nan");
  return text.add(array_shape(type, {}), "constant((nan, nan))");
}

/// Zeros where the column is greater than the row.
Value lower_triangle(TextBuilder& text, const Value& of) {
  const Value rows = text.iota(ElementType::S32, of.dims(), 1), columns = text.iota(ElementType::S32, of.dims(), 2);
  return text.select(text.compare(rows, columns, "GE"), of, text.constant(of.type(), 0));
}

std::string cholesky(const Instruction& it, const Shape& operand) {
  TextBuilder text;
  const bool lower = it.as<CholeskyAttributes>().lower;
  const Value given = matrices(text, text.parameter(0, operand));
  const auto adjoint = [&](const Value& of) { return text.conjugate(text.transpose(of)); };
  const Value a = lower ? given : adjoint(given);
  const int64_t n = a.dims()[1];
  const Value factor = factor_positive(text, a);
  const Value corner = text.real(text.reshape(text.slice(text.slice(factor, 1, n - 1, n), 2, n - 1, n), {a.dims()[0]}));
  const Value fails = text.broadcast(text.compare(corner, corner, "NE"), a.dims(), {0});
  const Value triangle = lower_triangle(text, factor);
  const Value made = text.select(fails, nan_of(text, a.type()), lower ? triangle : adjoint(triangle));
  return text.module(text.reshape(text.convert(made, operand.type), operand.dims));
}

/// By the library's call, which tells where there is no factor and leaves the other triangle as it was.
std::string library_cholesky(const Instruction& it, const Shape& operand) {
  TextBuilder text;
  const bool lower = it.as<CholeskyAttributes>().lower;
  const Value given = text.parameter(0, operand);
  const Shape matrix = array_shape(operand.type, operand.dims);
  TextBuilder::Dims batch(operand.dims.begin(), operand.dims.end() - 2), at(batch.size());
  std::iota(at.begin(), at.end(), 0);
  const Value made = text.add(tuple_shape({matrix, array_shape(ElementType::S32, batch)}),
                              fmt::format("custom-call({}), custom_call_target=\"cusolver_potrf_ffi\", "
                                          "backend_config={{lower = {}}}",
                                          given.name, lower));
  const Value info = text.element(made, 1);
  const Value fails = text.broadcast(text.compare(info, text.constant(ElementType::S32, 0), "NE"), matrix.dims, at);
  const int64_t rank = operand.rank();
  const Value rows = text.iota(ElementType::S32, matrix.dims, rank - 2);
  const Value columns = text.iota(ElementType::S32, matrix.dims, rank - 1);
  const Value triangle = text.select(text.compare(rows, columns, lower ? "GE" : "LE"), text.element(made, 0),
                                     text.constant(operand.type, 0));
  return text.module(text.select(fails, nan_of(text, operand.type), triangle));
}

std::string triangular_solve(const Instruction& it, const Shape& matrix, const Shape& sides) {
  using Transpose = TriangularSolveAttributes::Transpose;
  const auto& how = it.as<TriangularSolveAttributes>();
  TextBuilder text;
  Value a = matrices(text, text.parameter(0, matrix)), b = matrices(text, text.parameter(1, sides));
  if (how.transpose_a == Transpose::Adjoint) a = text.conjugate(a);
  // x · op(a) = b is op(a)ᵀ · xᵀ = bᵀ.
  const bool transposed = (how.transpose_a != Transpose::NoTranspose) == how.left_side;
  if (transposed) a = text.transpose(a);
  if (!how.left_side) b = text.transpose(b);
  // An upper triangle is a lower one from the other end.
  const bool upper = how.lower == transposed;
  if (upper) {
    a = text.reverse(a, {1, 2});
    b = text.reverse(b, {1});
  }
  Value x = solve_lower(text, lower_triangle(text, a), b, how.unit_diagonal);
  if (upper) x = text.reverse(x, {1});
  if (!how.left_side) x = text.transpose(x);
  return text.module(text.reshape(text.convert(x, sides.type), sides.dims));
}

}  // namespace

bool has_linear_algebra(const Module& module) {
  return std::ranges::any_of(module.computations, [](const Computation& computation) {
    return std::ranges::any_of(computation.instructions, is_expanded);
  });
}

std::string linear_algebra_loops(const Computation& computation, const Instruction& it) {
  const Shape& first = computation.operand_shape(it, 0);
  if (it.opcode == Opcode::Cholesky) return cholesky(it, first);
  return triangular_solve(it, first, computation.operand_shape(it, 1));
}

Result<Module> expand_linear_algebra(const Module& module, const IsOfLibrary& is_of_library) {
  return replace_instructions(module,
                              [&](const Computation& computation, const Instruction& it) -> std::optional<Replacement> {
                                if (!is_expanded(it)) return std::nullopt;
                                if (!is_of_library || !is_of_library(computation, it))
                                  return Replacement{linear_algebra_loops(computation, it), it.operands};
                                if (it.opcode == Opcode::TriangularSolve) return std::nullopt;
                                return Replacement{library_cholesky(it, computation.operand_shape(it, 0)), it.operands};
                              });
}

}  // namespace strata::hlo
