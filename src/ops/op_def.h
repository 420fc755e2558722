// The operator table: everything Strata knows of an operator, in one value.
//
// An operator is one line in ops.def and one file beside it. The file defines a struct with the columns
// below as static members and ends in STRATA_DEFINE_OP(Name); the concept OperatorDefinition makes a missing
// column a compile error. docs/adding-an-operator.md walks through one.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "indexing/indexing_map.h"
#include "ops/arithmetic.h"
#include "ops/attributes.h"
#include "ops/expr_builder.h"
#include "ops/tensor.h"
#include "ops/types.h"
#include "support/error.h"

namespace strata {

enum class OpKind : uint8_t {
#define STRATA_OP(Name) Name,
#include "ops/ops.def"
#undef STRATA_OP
  GraphDefined,  ///< carries a graph of the level below instead of a row of the table
};

constexpr int kOpCount = static_cast<int>(OpKind::GraphDefined);

/// What of the surrounding graph an operator's shape and meaning depend on.
struct OpScope {
  Level level = Level::Kernel;
  std::vector<int64_t> grid;  ///< sizes of the block graph's grid dimensions; empty above block level
  int64_t loop = 1;           ///< iterations of the block graph's for-loop; 1 where there is none
};

/// Where in the grid and the loop an operator is executed.
struct GridPoint {
  std::array<int64_t, 3> block{};
  int64_t iteration = 0;
};

/// visit(point) for every block of a grid of up to three dimensions, the first one fastest.
template <class Visit>
void for_each_block(const std::vector<int64_t>& grid, Visit&& visit) {
  std::array<int64_t, 3> sizes{1, 1, 1};
  std::copy(grid.begin(), grid.end(), sizes.begin());
  GridPoint point;
  for (point.block[2] = 0; point.block[2] < sizes[2]; ++point.block[2]) {
    for (point.block[1] = 0; point.block[1] < sizes[1]; ++point.block[1]) {
      for (point.block[0] = 0; point.block[0] < sizes[0]; ++point.block[0]) visit(point);
    }
  }
}

/// Arguments of one execution. `result` has its final shape; for accumulators and output savers it keeps
/// its contents between calls, for all others its contents are unspecified.
template <class A>
struct EvalArgs {
  A& arithmetic;
  const OpScope& scope;
  GridPoint point;
  const Attributes& attributes;
  std::span<const Tensor<typename A::Value>* const> operands;
  Tensor<typename A::Value>& result;
  /// Accumulators of several operands: a tensor of the operator's own that keeps its contents as `result` does.
  Tensor<typename A::Value>* state = nullptr;
};

/// Every number type that operators are instantiated for; a new one is a line here.
template <template <class> class Apply>
using ForEachArithmetic = std::tuple<Apply<Float64Arithmetic>, Apply<Float32Arithmetic>, Apply<NoisyArithmetic>,
                                     Apply<FieldArithmetic>, Apply<DegreeArithmetic>, Apply<SymbolicArithmetic>>;

template <class A>
using EvalFunction = void (*)(const EvalArgs<A>&);

/// How an operator stands to the Lax fragment (Mirage, section 5: multilinear operators, division, and at
/// most one exponentiation on every path).
struct LaxProperty {
  static constexpr int kAllOperands = -1;
  bool inside = true;                   ///< the operator belongs to the fragment
  int exponentiations = 0;              ///< how many it adds to a path
  int exponent_operand = kAllOperands;  ///< through which operand those paths go
  bool maximum = false;                 ///< selects one of several elements; docs/verification.md
  bool divides = false;
  bool root = false;  ///< uses sqrt: multiplicative but not multilinear; docs/verification.md
};

/// Equations and inequalities over the reals that hold of an operator, as data: the solver (superopt/solver) reasons
/// with them, and operators_test.cpp checks each on random numbers.
struct Algebra {
  unsigned linear = 0;          ///< bit i: linear in operand i, the others fixed
  bool associative = false;     ///< f(f(x, y), z) = f(x, f(y, z))
  bool idempotent = false;      ///< f(f(x)) = f(x), or f(x, x) = x
  bool increasing = false;      ///< never falls where an operand grows
  bool homogeneous = false;     ///< f(c·x, c·y) = c·f(x, y) for c > 0
  bool translates = false;      ///< f(x + c, y + c) = f(x, y) + c
  bool nonnegative = false;     ///< f ≥ 0
  bool positive = false;        ///< f > 0
  bool exponential = false;     ///< f(x + y) = f(x)·f(y)
  bool multiplicative = false;  ///< f(x·y) = f(x)·f(y) for x, y > 0
};

constexpr unsigned kFirstOperand = 1;  ///< of Algebra::linear
constexpr unsigned kSecondOperand = 2;

/// What index means what: one label a dimension. Dimensions with one label are walked together (the m of
/// A[m, k] and of the result); a label that no result dimension has is reduced; kFree is tied to nothing.
struct IndexLabels {
  static constexpr int kFree = -1;
  std::vector<std::vector<int>> operands;
  std::vector<int> result;
};

/// For each operand a map from the index of an element of the result to those of the elements that it is computed from;
/// range variables run over what is combined (ops/reads.h). None where block and iteration decide as well, as of
/// in_iter, accumulators and out_saver: block/regions.h has these.
using OperandReads = std::vector<indexing::IndexingMap>;

/// Block-level CUDA. Elementwise: a C++ expression over float values {0}, {1} and attributes {name}.
/// Library: the name of a function template of the device library. Structural: emitted by the code generator.
struct CudaLowering {
  enum class Form { Elementwise, Library, Structural };
  Form form;
  std::string_view text;
};

struct OpTraits {
  std::string_view name;     ///< as written in programs
  std::string_view summary;  ///< one line for `strata ops`
  int arity;                 ///< number of operands; kVariadic for two or more
  LevelSet levels;
  bool commutative = false;
  bool elementwise = false;  ///< result element i depends on (broadcast) operand elements i alone
  bool moves = false;        ///< each element of the result is an operand's, maybe rounded: nothing is computed
  bool reduces = false;      ///< combines elements along `dim`, all or groups of `every` (ops/reduction.h)
  bool accumulates = false;  ///< combines the iterations of a block graph's loop: its result is there after the loop
  int products = 0;          ///< the result is a sum of products: of operands i and i + products, for each i below
  bool matrices = false;     ///< these are matrix products: of the innermost two dimensions, leading ones broadcast
  LaxProperty lax{};
  Algebra algebra{};
  std::string_view abstract_expression;  ///< for `strata ops`; `expression` below is the definition

  static constexpr int kVariadic = -1;
};

using OperandTypes = std::span<const TensorType>;

struct OpDef {
  OpKind kind;
  OpTraits traits;
  std::span<const AttributeSpec> attributes;
  /// The result's type. Error (without place) where operands or attributes do not fit.
  Result<TensorType> (*infer)(const OpScope&, OperandTypes, const Attributes&);
  IndexLabels (*labels)(OperandTypes, const Attributes&);
  OperandReads (*reads)(OperandTypes, const Attributes&);
  ExprId (*expression)(ExprBuilder&, const OpScope&, std::span<const ExprId>, OperandTypes, const Attributes&);
  CudaLowering cuda;
  ForEachArithmetic<EvalFunction> eval;

  template <class A>
  void run(const EvalArgs<A>& args) const {
    std::get<EvalFunction<A>>(eval)(args);
  }
};

template <class T>
concept OperatorDefinition = requires(ExprBuilder& builder, const OpScope& scope, std::span<const ExprId> expressions,
                                      OperandTypes types, const Attributes& attributes,
                                      const EvalArgs<Float64Arithmetic>& args) {
  { T::traits } -> std::convertible_to<OpTraits>;
  {std::span<const AttributeSpec>(T::attributes)};
  { T::infer(scope, types, attributes) } -> std::same_as<Result<TensorType>>;
  { T::labels(types, attributes) } -> std::same_as<IndexLabels>;
  { T::reads(types, attributes) } -> std::same_as<OperandReads>;
  { T::expression(builder, scope, expressions, types, attributes) } -> std::same_as<ExprId>;
  { T::cuda } -> std::convertible_to<CudaLowering>;
  {T::template eval<Float64Arithmetic>(args)};
};

template <OperatorDefinition T>
OpDef make_op_def(OpKind kind) {
  return OpDef{
      kind,
      T::traits,
      T::attributes,
      &T::infer,
      &T::labels,
      &T::reads,
      &T::expression,
      T::cuda,
      {&T::template eval<Float64Arithmetic>, &T::template eval<Float32Arithmetic>, &T::template eval<NoisyArithmetic>,
       &T::template eval<FieldArithmetic>, &T::template eval<DegreeArithmetic>, &T::template eval<SymbolicArithmetic>}};
}

/// The table's row for `kind`, which is not GraphDefined.
const OpDef& op_def(OpKind kind);
/// Whether it combines the iterations of a loop; not for graph-defined operators.
inline bool is_accumulator(OpKind kind) { return kind != OpKind::GraphDefined && op_def(kind).traits.accumulates; }
/// Whether it combines elements along a dimension; not for graph-defined operators.
inline bool is_reduction(OpKind kind) { return kind != OpKind::GraphDefined && op_def(kind).traits.reduces; }
/// Whether elements of its result are elements of its operands; not for graph-defined operators.
inline bool moves_elements(OpKind kind) { return kind != OpKind::GraphDefined && op_def(kind).traits.moves; }
/// Whether the result is a sum of matrix products; not for graph-defined operators.
inline bool multiplies_matrices(OpKind kind) { return kind != OpKind::GraphDefined && op_def(kind).traits.matrices; }
/// Whether it is one matrix product.
inline bool is_matrix_product(OpKind kind) { return multiplies_matrices(kind) && op_def(kind).traits.products == 1; }
/// How many products of elements an element of the result is the sum of, as far as product `number` goes: the
/// elements of the second operand for one of each dimension that the result has too.
int64_t product_terms(const OpDef& op, OperandTypes operands, const Attributes& attributes, int number);
/// Of all its products; 0 where it has none.
int64_t product_terms(const OpDef& op, OperandTypes operands, const Attributes& attributes);
/// By the name written in programs; null where there is none.
const OpDef* find_op(std::string_view name);
/// All rows, in the order of ops.def.
std::span<const OpDef* const> all_ops();

}  // namespace strata

#define STRATA_DEFINE_OP(Name)                                       \
  namespace strata {                                                 \
  const OpDef& define_##Name() {                                     \
    static const OpDef definition = make_op_def<Name>(OpKind::Name); \
    return definition;                                               \
  }                                                                  \
  }
