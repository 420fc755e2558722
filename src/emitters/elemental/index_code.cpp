#include "emitters/elemental/index_code.h"

#include <mlir/Dialect/Arith/IR/Arith.h>

#include "emitters/dialect/dialect.h"
#include "indexing/simplify.h"

namespace strata::emitters {

using indexing::Expr;
using indexing::ExprKind;
using indexing::IndexingMap;
using mlir::Value;

IndexingMap as_dimensions(const IndexingMap& map) {
  if (map.ranges.empty() && map.runtime.empty() && map.constraints.empty()) return map;
  IndexingMap result;
  result.dims = map.dims;
  result.dims.insert(result.dims.end(), map.ranges.begin(), map.ranges.end());
  for (const indexing::RuntimeVariable& variable : map.runtime) result.dims.push_back(variable.range);
  const int ranges = static_cast<int>(map.dims.size());
  const int runtime = ranges + static_cast<int>(map.ranges.size());
  result.results = indexing::substitute(map.results, [&](ExprKind kind, int number) {
    return Expr::dim(kind == ExprKind::Dimension ? number
                     : kind == ExprKind::Range   ? ranges + number
                                                 : runtime + number);
  });
  return result;
}

llvm::SmallVector<Value> apply_map(mlir::ImplicitLocOpBuilder& builder, const IndexingMap& map,
                                   const MapValues& values) {
  llvm::SmallVector<Value> operands = values.dims;
  operands.append(values.ranges);
  operands.append(values.runtime);
  const IndexingMap over_dims = as_dimensions(map);
  assert(operands.size() == over_dims.dims.size());
  // What is a variable or a constant needs no operation.
  llvm::SmallVector<Value> results(map.results.size());
  IndexingMap computed = over_dims;
  computed.results.clear();
  llvm::SmallVector<size_t> places;
  for (size_t i = 0; i < results.size(); ++i) {
    const Expr& result = over_dims.results[i];
    if (result.kind() == ExprKind::Dimension) {
      results[i] = operands[static_cast<size_t>(result.number())];
    } else if (result.is_constant()) {
      results[i] = builder.create<mlir::arith::ConstantIndexOp>(result.value());
    } else {
      computed.results.push_back(result);
      places.push_back(i);
    }
  }
  if (places.empty()) return results;
  // Operands that no result uses would only keep values alive.
  llvm::SmallVector<Value> used;
  std::vector<indexing::Interval> dims;
  std::vector<int> numbers(operands.size(), -1);
  for (size_t i = 0; i < operands.size(); ++i) {
    const bool uses = llvm::any_of(
        computed.results, [&](const Expr& result) { return result.uses(ExprKind::Dimension, static_cast<int>(i)); });
    if (!uses) continue;
    numbers[i] = static_cast<int>(used.size());
    used.push_back(operands[i]);
    dims.push_back(computed.dims[i]);
  }
  computed.dims = std::move(dims);
  computed.results = indexing::substitute(
      computed.results, [&](ExprKind, int number) { return Expr::dim(numbers[static_cast<size_t>(number)]); });
  auto applied = builder.create<ApplyIndexingOp>(computed, used);
  for (size_t i = 0; i < places.size(); ++i) results[places[i]] = applied.getResult(static_cast<unsigned>(i));
  return results;
}

Value constraints_hold(mlir::ImplicitLocOpBuilder& builder, const IndexingMap& map,
                       const std::vector<indexing::Constraint>& constraints, const MapValues& values) {
  using Predicate = mlir::arith::CmpIPredicate;
  Value all;
  const auto require = [&](Value condition) {
    all = all ? builder.create<mlir::arith::AndIOp>(all, condition).getResult() : condition;
  };
  IndexingMap tested = map;
  tested.results.clear();
  for (const indexing::Constraint& constraint : constraints) tested.results.push_back(constraint.expr);
  const llvm::SmallVector<Value> tests = apply_map(builder, tested, values);
  for (size_t i = 0; i < constraints.size(); ++i) {
    const indexing::Interval bounds = constraints[i].bounds;
    const auto compare = [&](Predicate predicate, int64_t bound) {
      require(builder.create<mlir::arith::CmpIOp>(predicate, tests[i],
                                                  builder.create<mlir::arith::ConstantIndexOp>(bound)));
    };
    if (bounds.is_point()) {
      compare(Predicate::eq, bounds.lo);
      continue;
    }
    const indexing::Interval possible = indexing::ExprRange(map)(constraints[i].expr);
    if (possible.lo < bounds.lo) compare(Predicate::sge, bounds.lo);
    if (possible.hi > bounds.hi) compare(Predicate::sle, bounds.hi);
  }
  return all ? all : builder.create<mlir::arith::ConstantIntOp>(1, 1).getResult();
}

Value clamped_index(mlir::ImplicitLocOpBuilder& builder, Value integer, hlo::ElementType type,
                    const indexing::Interval& range) {
  using namespace mlir::arith;
  const auto bound = [&](int64_t value) { return builder.create<ConstantIndexOp>(value); };
  const int bits = hlo::bit_width(type);
  if (hlo::is_unsigned(type)) {
    const Value index = builder.create<IndexCastUIOp>(builder.getIndexType(), integer);
    // One of 64 bits that looks negative is large.
    const bool within = bits < 64 && range.hi >= (int64_t{1} << bits) - 1;
    return within || range.hi == indexing::kGreatest ? index
                                                     : builder.create<MinUIOp>(index, bound(range.hi)).getResult();
  }
  const indexing::Interval possible{bits == 64 ? indexing::kLeast : -(int64_t{1} << (bits - 1)),
                                    bits == 64 ? indexing::kGreatest : (int64_t{1} << (bits - 1)) - 1};
  Value index = builder.create<IndexCastOp>(builder.getIndexType(), integer);
  if (range.lo > possible.lo) index = builder.create<MaxSIOp>(index, bound(range.lo));
  if (range.hi < possible.hi) index = builder.create<MinSIOp>(index, bound(range.hi));
  return index;
}

IndexingMap position_map(const hlo::Shape& shape) {
  IndexingMap map = indexing::identity_map(shape.dims);
  map.results = {indexing::linearize(map.results, hlo::memory_strides(shape))};
  return map;
}

IndexingMap index_at_position(const hlo::Shape& shape) {
  std::vector<int64_t> extents;
  for (size_t i = shape.minor_to_major.size(); i-- > 0;) extents.push_back(shape.dim(shape.minor_to_major[i]));
  IndexingMap map = indexing::identity_map({shape.element_count()});
  const std::vector<Expr> physical = indexing::delinearize(Expr::dim(0), extents);
  map.results.resize(shape.dims.size());
  for (size_t i = 0; i < physical.size(); ++i) {
    map.results[static_cast<size_t>(shape.minor_to_major[physical.size() - 1 - i])] = physical[i];
  }
  return indexing::simplify(map, indexing::UnusedVariables::Keep);
}

}  // namespace strata::emitters
