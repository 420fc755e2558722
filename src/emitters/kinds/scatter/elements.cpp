#include "emitters/kinds/scatter/elements.h"

#include <mlir/Dialect/SCF/IR/SCF.h>
#include <mlir/Dialect/Vector/IR/VectorOps.h>

#include "emitters/dialect/dialect.h"
#include "emitters/elemental/scalar_operators.h"
#include "emitters/elemental/types.h"

namespace strata::emitters {

namespace arith = mlir::arith;
using Builder = mlir::ImplicitLocOpBuilder;
using arith::CmpIPredicate;
using mlir::Value;
using mlir::ValueRange;

ElementCode::ElementCode(const RowsEmission& emission, const Kernel& kernel, int64_t width)
    : emission_(emission), plan_(emission.plan), kernel_(kernel), width_(width) {
  const hlo::Shape& shape = emission.functions.computation()[plan_.shape.scatter].shape;
  for (const hlo::Shape& one : shape.is_tuple() ? shape.elements.list() : std::vector<hlo::Shape>{shape}) {
    types_.push_back(one.type);
  }
}

Elements ElementCode::for_each(Builder& builder, llvm::ArrayRef<mlir::Type> types, Body body) {
  indexing::IndexingMap map;
  map.ranges = {indexing::below(width_)};
  auto loop = create_loop(builder, map, {}, nothing(builder, types), 0,
                          [&](Builder& inside, ValueRange ranges, ValueRange, ValueRange carried) {
                            Values next = body(inside, ranges[0]);
                            if (width_ == 1) return next;
                            for (size_t i = 0; i < next.size(); ++i) {
                              next[i] = inside.create<mlir::vector::InsertOp>(next[i], carried[i], ranges[0]);
                            }
                            return next;
                          });
  return Elements(loop.getResults());
}

Values ElementCode::element(Builder& builder, ValueRange elements, Value v) const {
  if (width_ == 1) return Values(elements);
  Values values;
  for (const Value all : elements) values.push_back(builder.create<mlir::vector::ExtractOp>(all, v));
  return values;
}

llvm::SmallVector<mlir::Type> ElementCode::narrow_types(Builder& builder) const {
  llvm::SmallVector<mlir::Type> types;
  for (const hlo::ElementType type : types_) types.push_back(element_type(builder.getContext(), type));
  return types;
}

llvm::SmallVector<mlir::Type> ElementCode::wide_types(Builder& builder) const {
  llvm::SmallVector<mlir::Type> types;
  for (const hlo::ElementType type : types_) types.push_back(element_type(builder.getContext(), wide_type(type)));
  return types;
}

Elements ElementCode::nothing(Builder& builder, llvm::ArrayRef<mlir::Type> types) {
  Elements values;
  for (const mlir::Type type : types) values.push_back(nothing(builder, type));
  return values;
}

Value ElementCode::nothing(Builder& builder, mlir::Type type) {
  if (const auto complex = llvm::dyn_cast<mlir::ComplexType>(type)) {
    return emit_zero(builder, complex.getElementType().isF32() ? hlo::ElementType::C64 : hlo::ElementType::C128);
  }
  const mlir::Type all = width_ == 1 ? type : mlir::Type(mlir::VectorType::get({width_}, type));
  return builder.create<arith::ConstantOp>(llvm::cast<mlir::TypedAttr>(builder.getZeroAttr(all)));
}

Elements ElementCode::read(Builder& builder, const std::vector<hlo::InstructionId>& from, const Place& index) {
  return for_each(builder, narrow_types(builder), [&](Builder& inside, Value v) {
    Values values;
    const Values where = index(inside, v);
    for (const hlo::InstructionId id : from) {
      Result<llvm::SmallVector<Value>> one = emission_.functions.read(inside, id, kernel_.inputs(), where);
      if (one) {
        values.push_back((*one)[0]);
      } else {
        error_ = std::move(one).error();
        values.push_back(inside.create<arith::ConstantOp>(
            llvm::cast<mlir::TypedAttr>(inside.getZeroAttr(narrow_types(inside)[values.size()]))));
      }
    }
    return values;
  });
}

Values ElementCode::widen(Builder& builder, Values values) const {
  for (size_t i = 0; i < values.size(); ++i) values[i] = widened(builder, values[i], types_[i]);
  return values;
}

Values ElementCode::narrow(Builder& builder, Values values) const {
  for (size_t i = 0; i < values.size(); ++i) values[i] = narrowed(builder, values[i], types_[i]);
  return values;
}

Elements ElementCode::widen_all(Builder& builder, const Elements& elements) {
  return for_each(builder, wide_types(builder),
                  [&](Builder& inside, Value v) { return widen(inside, element(inside, elements, v)); });
}

Elements ElementCode::narrow_all(Builder& builder, const Elements& elements) {
  return for_each(builder, narrow_types(builder),
                  [&](Builder& inside, Value v) { return narrow(inside, element(inside, elements, v)); });
}

Elements ElementCode::combined(Builder& builder, const Elements& state, const Elements& more, bool wide,
                               Value condition) {
  return for_each(builder, wide_types(builder), [&](Builder& inside, Value v) {
    const Values before = element(inside, state, v);
    Values with = element(inside, more, v);
    if (!wide) with = widen(inside, with);
    Values after = with;
    if (!plan_.replaces) {
      Values both = before;
      llvm::append_range(both, with);
      mlir::func::FuncOp function = emission_.combine;
      auto call = inside.create<PureCallOp>(function.getResultTypes(), function.getName(), both);
      after = Values(call.getResults());
    }
    if (!condition) return after;
    for (size_t i = 0; i < after.size(); ++i) {
      after[i] = inside.create<arith::SelectOp>(condition, after[i], before[i]);
    }
    return after;
  });
}

/// Where there are no more, the first one is read again: it is in the cache, and no load waits for a branch.
ElementCode::Batch ElementCode::read_batch(Builder& builder, const Entries& entries, Value from) {
  Batch batch;
  std::vector<Value> found;
  for (int64_t k = 0; k < entries.batch; ++k) {
    Value number = from;
    if (k > 0) {
      const Value next = builder.create<arith::AddIOp>(from, index_constant(builder, k * entries.stride));
      batch.there.push_back(compare(builder, CmpIPredicate::slt, next, entries.end));
      number = builder.create<arith::SelectOp>(batch.there.back(), next, from);
    }
    found.push_back(entries.find(builder, number));
  }
  for (const Value one : found) batch.elements.push_back(entries.read(builder, one));
  return batch;
}

Elements ElementCode::fold(Builder& builder, const Entries& entries, const Elements& state) {
  const Value step = index_constant(builder, entries.batch * entries.stride);
  auto loop = builder.create<mlir::scf::ForOp>(entries.begin, entries.end, step, state);
  Builder inside(builder.getLoc(), builder.getContext());
  if (!loop.getBody()->empty()) loop.getBody()->getTerminator()->erase();
  inside.setInsertionPointToStart(loop.getBody());
  const Batch batch = read_batch(inside, entries, loop.getInductionVar());
  Elements after(loop.getRegionIterArgs());
  for (size_t k = 0; k < batch.elements.size(); ++k) {
    after = combined(inside, after, batch.elements[k], entries.wide, k == 0 ? Value() : batch.there[k - 1]);
  }
  inside.create<mlir::scf::YieldOp>(after);
  return Elements(loop.getResults());
}

Elements ElementCode::fold(Builder& builder, Entries entries) {
  const Batch batch = read_batch(builder, entries, entries.begin);
  Elements state = entries.wide ? batch.elements[0] : widen_all(builder, batch.elements[0]);
  for (size_t k = 1; k < batch.elements.size(); ++k) {
    state = combined(builder, state, batch.elements[k], entries.wide, batch.there[k - 1]);
  }
  const Value step = index_constant(builder, entries.batch * entries.stride);
  entries.begin = builder.create<arith::AddIOp>(entries.begin, step);
  return fold(builder, entries, state);
}

}  // namespace strata::emitters
