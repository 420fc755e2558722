// The kernel that writes each row of a scatter once, and the one before it that combines parts of long lists.
#include <mlir/Dialect/SCF/IR/SCF.h>
#include <mlir/Dialect/Tensor/IR/Tensor.h>
#include <mlir/Dialect/Vector/IR/VectorOps.h>

#include <numeric>

#include "emitters/dialect/dialect.h"
#include "emitters/elemental/scalar_operators.h"
#include "emitters/elemental/types.h"
#include "emitters/kinds/in_place.h"
#include "emitters/kinds/scatter_rows.h"
#include "indexing/simplify.h"

namespace strata::emitters {
namespace {

namespace arith = mlir::arith;
using arith::CmpIPredicate;
using Builder = mlir::ImplicitLocOpBuilder;
using indexing::Expr;
using indexing::ExprKind;
using indexing::IndexingMap;
using indexing::Interval;
using mlir::Value;
using mlir::ValueRange;

/// Elements that lie together, of each array: a vector, or a scalar where it is one element.
using Elements = Values;

/// Where elements are read and written while a kernel is made: `place` has the index of the output, or the element of
/// the window, for element `v` of a vector.
using Place = std::function<Values(Builder&, Value v)>;

/// What both kernels do with vectors of elements.
class ElementCode {
 public:
  ElementCode(const RowsEmission& emission, const Kernel& kernel, int64_t width)
      : emission_(emission), plan_(emission.plan), kernel_(kernel), width_(width) {
    const hlo::Shape& shape = emission.functions.computation()[plan_.shape.scatter].shape;
    for (const hlo::Shape& one : shape.is_tuple() ? shape.elements : std::vector<hlo::Shape>{shape}) {
      types_.push_back(one.type);
    }
  }

  size_t arrays() const { return types_.size(); }

  /// For each element: `body` has its number and gives a scalar an array, of the types given.
  using Body = llvm::function_ref<Values(Builder&, Value v)>;
  Elements for_each(Builder& builder, llvm::ArrayRef<mlir::Type> types, Body body) {
    Values inits;
    for (const mlir::Type type : types) inits.push_back(nothing(builder, type));
    IndexingMap map;
    map.ranges = {indexing::below(width_)};
    auto loop = create_loop(builder, map, {}, inits, 0,
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

  /// Element `v` of each.
  Values element(Builder& builder, ValueRange elements, Value v) const {
    if (width_ == 1) return Values(elements);
    Values values;
    for (const Value all : elements) values.push_back(builder.create<mlir::vector::ExtractOp>(all, v));
    return values;
  }

  llvm::SmallVector<mlir::Type> narrow_types(Builder& builder) const {
    llvm::SmallVector<mlir::Type> types;
    for (const hlo::ElementType type : types_) types.push_back(element_type(builder.getContext(), type));
    return types;
  }
  llvm::SmallVector<mlir::Type> wide_types(Builder& builder) const {
    llvm::SmallVector<mlir::Type> types;
    for (const hlo::ElementType type : types_) types.push_back(element_type(builder.getContext(), wide_type(type)));
    return types;
  }
  Elements nothing(Builder& builder, llvm::ArrayRef<mlir::Type> types) {
    Elements values;
    for (const mlir::Type type : types) values.push_back(nothing(builder, type));
    return values;
  }

  /// The elements of instructions, one an array, at the index that `index` gives.
  Elements read(Builder& builder, const std::vector<hlo::InstructionId>& from, const Place& index) {
    return for_each(builder, narrow_types(builder), [&](Builder& inside, Value v) {
      Values values;
      const Values where = index(inside, v);
      for (const hlo::InstructionId id : from) {
        Result<llvm::SmallVector<Value>> one = emission_.functions.read(inside, id, kernel_.inputs(), where);
        if (one) {
          values.push_back((*one)[0]);
        } else {
          error_ = std::move(one).error();
          values.push_back(nothing(inside, narrow_types(inside)[values.size()], 1));
        }
      }
      return values;
    });
  }

  Values widen(Builder& builder, Values values) const {
    for (size_t i = 0; i < values.size(); ++i) values[i] = widened(builder, values[i], types_[i]);
    return values;
  }
  Values narrow(Builder& builder, Values values) const {
    for (size_t i = 0; i < values.size(); ++i) values[i] = narrowed(builder, values[i], types_[i]);
    return values;
  }
  Elements widen_all(Builder& builder, const Elements& elements) {
    return for_each(builder, wide_types(builder),
                    [&](Builder& inside, Value v) { return widen(inside, element(inside, elements, v)); });
  }

  /// What wide elements become by more of them, which are wide already or not; `condition`, if any, says whether.
  Elements combined(Builder& builder, const Elements& state, const Elements& more, bool wide, Value condition = {}) {
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

  /// Wide elements combined with those of entries [begin, end), which `read` gives, several of them read together.
  using ReadEntry = llvm::function_ref<Elements(Builder&, Value entry)>;
  using FindEntry = llvm::function_ref<Value(Builder&, Value number)>;
  Elements fold(Builder& builder, Value begin, Value end, const Elements& state, bool wide, int64_t batch,
                FindEntry find, ReadEntry read) {
    const auto loop = [&](Value from, Value to, int64_t step, const Elements& before) {
      auto made = builder.create<mlir::scf::ForOp>(from, to, index_constant(builder, step), before);
      Builder inside(builder.getLoc(), builder.getContext());
      if (!made.getBody()->empty()) made.getBody()->getTerminator()->erase();
      inside.setInsertionPointToStart(made.getBody());
      std::vector<Value> found;
      std::vector<Elements> elements;
      for (int64_t k = 0; k < step; ++k) {
        found.push_back(find(inside, k == 0 ? made.getInductionVar()
                                            : inside.create<arith::AddIOp>(made.getInductionVar(),
                                                                           index_constant(inside, k)).getResult()));
      }
      for (const Value one : found) elements.push_back(read(inside, one));
      Elements after(made.getRegionIterArgs());
      for (const Elements& one : elements) after = combined(inside, after, one, wide);
      inside.create<mlir::scf::YieldOp>(after);
      return Elements(made.getResults());
    };
    if (batch == 1) return loop(begin, end, 1, state);
    const Value step = index_constant(builder, batch);
    const Value length = builder.create<arith::MaxSIOp>(builder.create<arith::SubIOp>(end, begin),
                                                        index_constant(builder, 0));
    const Value whole = builder.create<arith::MulIOp>(builder.create<arith::DivUIOp>(length, step), step);
    const Value middle = builder.create<arith::AddIOp>(begin, whole);
    return loop(middle, end, 1, loop(begin, middle, batch, state));
  }

  std::optional<Error>& error() { return error_; }

 private:
  Value nothing(Builder& builder, mlir::Type type) { return nothing(builder, type, width_); }
  static Value nothing(Builder& builder, mlir::Type type, int64_t width) {
    if (const auto complex = llvm::dyn_cast<mlir::ComplexType>(type)) {
      return emit_zero(builder, complex.getElementType().isF32() ? hlo::ElementType::C64 : hlo::ElementType::C128);
    }
    const mlir::Type all = width == 1 ? type : mlir::Type(mlir::VectorType::get({width}, type));
    return builder.create<arith::ConstantOp>(llvm::cast<mlir::TypedAttr>(builder.getZeroAttr(all)));
  }

  const RowsEmission& emission_;
  const ScatterRowsPlan& plan_;
  const Kernel& kernel_;
  int64_t width_;
  std::vector<hlo::ElementType> types_;
  std::optional<Error> error_;
};

Value temporary(const Kernel& kernel, RowTemporary which) { return kernel.temporaries()[static_cast<size_t>(which)]; }

Interval windows_of(const ScatterRowsPlan& plan) { return indexing::below(plan.shape.count); }

/// The window at a position of the lists.
Value window_at(Builder& builder, const ScatterRowsPlan& plan, const Kernel& kernel, Value position) {
  if (plan.index != RowIndex::Counted) return position;
  return load_index(builder, temporary(kernel, RowTemporary::Order), position);
}

Value count_of(Builder& builder, const ScatterRowsPlan& plan, const Kernel& kernel, Value row) {
  const Value place = at(builder, Expr::dim(0) * plan.counter_stride, {indexing::below(plan.shape.rows)}, row);
  return load_index(builder, temporary(kernel, RowTemporary::Counts), place);
}

/// Parts of long lists: a thread combines some elements of all windows of a chunk.
class ChunksEmitter {
 public:
  ChunksEmitter(const RowsEmission& emission, size_t launch)
      : emission_(emission),
        plan_(emission.plan),
        sorted_(plan_.index == RowIndex::Sorted),
        kernel_(emission.kernel(launch, reads())),
        builder_(kernel_.builder()),
        code_(emission, kernel_, plan_.chunk_vector),
        launch_(emission.decision.launches[launch]) {}

  Result<void> run() {
    const int64_t per_chunk = plan_.shape.window / plan_.chunk_vector;
    const Expr item = Expr::dim(0) * launch_.threads + Expr::dim(1);
    const std::vector<Interval> place{indexing::below(launch_.blocks), indexing::below(launch_.threads)};
    chunk_ = at(builder_, indexing::floor_div(item, per_chunk), place, kernel_.place());
    vector_ = at(builder_, indexing::mod(item, per_chunk), place, kernel_.place());
    const Value there = compare(builder_, CmpIPredicate::slt, chunk_, chunks());
    Value parts = kernel_.temporaries().back();
    parts = if_holds(builder_, there, parts, [&](Builder& inside) {
      return Values{part(inside, parts)};
    })[0];
    if (code_.error()) return tl::unexpected(std::move(*code_.error()));
    Values temporaries(kernel_.temporaries());
    temporaries.back() = parts;
    kernel_.finish(kernel_.outputs(), temporaries);
    return {};
  }

 private:
  std::vector<size_t> reads() const {
    if (sorted_) return {0, 1};
    return {0, 1, 2, 3};
  }

  Value chunks() {
    if (sorted_) return index_constant(builder_, plan_.chunks());
    const Value place = index_constant(builder_, (plan_.shape.rows + 1) * plan_.counter_stride);
    return load_index(builder_, temporary(kernel_, RowTemporary::Counts), place);
  }

  /// The parts with those of the chunk.
  Value part(Builder& builder, Value parts) {
    const Expr first = Expr::dim(0) * plan_.chunk + (sorted_ ? 0 : plan_.first_chunk());
    const Value begin = at(builder, first, {indexing::below(plan_.chunks())}, chunk_);
    const Value next = at(builder, first + plan_.chunk, {indexing::below(plan_.chunks())}, chunk_);
    const Value window = window_at(builder, plan_, kernel_, begin);
    const Result<Value> row = row_of(builder, emission_, kernel_.inputs(), window);
    if (!row) return fail(row.error(), parts);
    if (!sorted_) {
      const Value start = load_index(builder, temporary(kernel_, RowTemporary::Starts), *row);
      const Value end = builder.create<arith::AddIOp>(start, count_of(builder, plan_, kernel_, *row));
      return combined(builder, window, begin, builder.create<arith::MinSIOp>(end, next), parts);
    }
    // A chunk that is part of a longer list begins and ends with the same row.
    const Value last = at(builder, first + (plan_.chunk - 1), {indexing::below(plan_.chunks())}, chunk_);
    const Result<Value> last_row = row_of(builder, emission_, kernel_.inputs(), last);
    if (!last_row) return fail(last_row.error(), parts);
    const Value fits = compare(builder, CmpIPredicate::sge, *row, index_constant(builder, 0));
    const Value same = compare(builder, CmpIPredicate::eq, *row, *last_row);
    return if_holds(builder, builder.create<arith::AndIOp>(fits, same), parts, [&](Builder& inside) {
      return Values{combined(inside, window, begin, next, parts)};
    })[0];
  }

  Value fail(const Error& error, Value parts) {
    code_.error() = error;
    return parts;
  }

  Value combined(Builder& builder, Value window, Value begin, Value end, Value parts) {
    const auto element = [&](Builder& inside, Value v) {
      return at(inside, Expr::dim(0) * plan_.chunk_vector + Expr::dim(1),
                {indexing::below(plan_.shape.window / plan_.chunk_vector), indexing::below(plan_.chunk_vector)},
                {vector_, v});
    };
    const auto read = [&](Builder& inside, Value from) {
      return code_.read(inside, plan_.shape.updates, [&, from](Builder& innermost, Value v) {
        return apply_map(innermost, plan_.shape.update_of_element, {{element(innermost, v), from}, {}, {}});
      });
    };
    const auto find = [&](Builder& inside, Value position) { return window_at(inside, plan_, kernel_, position); };
    Elements state = code_.widen_all(builder, read(builder, window));
    const Value second = builder.create<arith::AddIOp>(begin, index_constant(builder, 1));
    state = code_.fold(builder, second, end, state, /*wide=*/false, plan_.batch, find, read);
    IndexingMap elements;
    elements.ranges = {indexing::below(plan_.chunk_vector)};
    auto written = create_loop(
        builder, elements, {}, parts, 0, [&](Builder& inside, ValueRange ranges, ValueRange, ValueRange before) {
          const Value place = at(inside, Expr::dim(0) * plan_.shape.window + Expr::dim(1),
                                 {indexing::below(plan_.chunks()), indexing::below(plan_.shape.window)},
                                 {chunk_, element(inside, ranges[0])});
          const Value value = code_.element(inside, state, ranges[0])[0];
          return Values{inside.create<mlir::tensor::InsertOp>(value, before[0], place)};
        });
    return written.getResult(0);
  }

  const RowsEmission& emission_;
  const ScatterRowsPlan& plan_;
  bool sorted_;
  Kernel kernel_;
  Builder& builder_;
  ElementCode code_;
  const Launch& launch_;
  Value chunk_, vector_;
};

/// All rows: a thread writes `unroll` vectors of elements, each of one row.
class RowsEmitter {
 public:
  RowsEmitter(const RowsEmission& emission, size_t launch)
      : emission_(emission),
        plan_(emission.plan),
        kernel_(emission.kernel(launch, all_temporaries(emission))),
        builder_(kernel_.builder()),
        code_(emission, kernel_, plan_.vector),
        output_(emission.functions.arguments().outputs[0]) {
    const Launch& facts = emission.decision.launches[launch];
    visits_ = visits_of(output_, {facts.threads, plan_.vector, plan_.unroll});
    place_ranges_ = {indexing::below(facts.blocks), indexing::below(facts.threads)};
  }

  Result<void> run() {
    Values outputs(kernel_.outputs());
    const std::vector<indexing::Constraint> guards = indexing::guards(
        visits_, place_ranges_, {indexing::below(plan_.unroll), indexing::below(plan_.vector)});
    if (guards.empty()) {
      outputs = write(builder_, outputs);
    } else {
      assert(plan_.unroll == 1 && "the plan has seen to that");
      IndexingMap tests = visits_;
      tests.dims = place_ranges_;
      const Value inside = constraints_hold(builder_, tests, guards, {kernel_.place(), first_element(builder_), {}});
      outputs = if_holds(builder_, inside, outputs, [&](Builder& then) { return write(then, outputs); });
    }
    if (code_.error()) return tl::unexpected(std::move(*code_.error()));
    kernel_.finish(outputs);
    return {};
  }

 private:
  static std::vector<size_t> all_temporaries(const RowsEmission& emission) {
    std::vector<size_t> numbers(emission.decision.temporaries.size());
    std::iota(numbers.begin(), numbers.end(), size_t{0});
    return numbers;
  }

  /// One vector of the thread.
  struct Part {
    Value row;
    Value covered;              ///< whether windows reach here; none where they do everywhere
    Value any;                  ///< whether the row has an entry of its own
    Value begin, end;           ///< its entries: positions in the lists
    Value rest_begin, rest_end;  ///< Sorted: entries after the chunks
    Value chunk_begin, chunk_end;
    Value window;  ///< the first
    Elements state;
    Elements first;
  };

  Values first_element(Builder& builder) { return {index_constant(builder, 0), index_constant(builder, 0)}; }

  /// The index of the output at element `v` of vector `number`.
  Values output_index(Builder& builder, int64_t number, Value v) {
    return apply_map(builder, visits_, {kernel_.place(), {index_constant(builder, number), v}, {}});
  }
  Place place_of(int64_t number) {
    return [this, number](Builder& builder, Value v) { return output_index(builder, number, v); };
  }
  /// The updates' index there, of a window.
  Place update_of(int64_t number, Value window) {
    return [this, number, window](Builder& builder, Value v) {
      Values index = output_index(builder, number, v);
      index.push_back(window);
      return apply_map(builder, plan_.shape.update_of_output, {index, {}, {}});
    };
  }

  /// Stage by stage for all vectors, so that what they read is on its way at the same time.
  Values write(Builder& builder, Values outputs) {
    std::vector<Part> parts(static_cast<size_t>(plan_.unroll));
    const auto for_parts = [&](auto&& stage) {
      for (size_t i = 0; i < parts.size(); ++i) stage(static_cast<int64_t>(i), parts[i]);
    };
    for_parts([&](int64_t number, Part& part) { find_list(builder, number, part); });
    for_parts([&](int64_t number, Part& part) {
      part.state = code_.read(builder, plan_.shape.operands, place_of(number));
    });
    for_parts([&](int64_t, Part& part) {
      const Value position = clamped(builder, part.any, part.begin);
      part.window = window_at(builder, plan_, kernel_, position);
    });
    for_parts([&](int64_t number, Part& part) {
      const Elements none = code_.nothing(builder, code_.narrow_types(builder));
      part.first = if_holds(builder, part.any, none, [&](Builder& inside) {
        return code_.read(inside, plan_.shape.updates, update_of(number, part.window));
      });
    });
    for_parts([&](int64_t, Part& part) {
      part.state = code_.combined(builder, code_.widen_all(builder, part.state), part.first, false, part.any);
    });
    if (plan_.index != RowIndex::Inverse) {
      for_parts([&](int64_t number, Part& part) { add_others(builder, number, part); });
    }
    for_parts([&](int64_t number, Part& part) { outputs = stored(builder, number, part, outputs); });
    return outputs;
  }

  Value clamped(Builder& builder, Value condition, Value index) {
    return builder.create<arith::SelectOp>(condition, index, index_constant(builder, 0));
  }

  void find_list(Builder& builder, int64_t number, Part& part) {
    const Values index = output_index(builder, number, index_constant(builder, 0));
    part.row = apply_map(builder, plan_.shape.row_of_output, {index, {}, {}})[0];
    if (!plan_.shape.covered.constraints.empty()) {
      part.covered = constraints_hold(builder, plan_.shape.covered, plan_.shape.covered.constraints, {index, {}, {}});
    }
    if (plan_.index == RowIndex::Counted) {
      find_counted(builder, part);
    } else {
      find_by_first(builder, part);
    }
  }

  void find_counted(Builder& builder, Part& part) {
    const Value zero = index_constant(builder, 0);
    Value count = count_of(builder, plan_, kernel_, part.row);
    if (part.covered) count = clamped(builder, part.covered, count);
    const Value start = load_index(builder, temporary(kernel_, RowTemporary::Starts), part.row);
    Value entries = count;
    if (plan_.chunks() > 0) {
      const Value is_long =
          compare(builder, CmpIPredicate::sgt, count, index_constant(builder, plan_.longest_list()));
      entries = builder.create<arith::SelectOp>(is_long, zero, count);
      const Interval starts{plan_.first_chunk(), plan_.first_chunk() + plan_.chunks() * plan_.chunk};
      const Interval counts{0, plan_.shape.count};
      const Value first = at(builder, indexing::floor_div(Expr::dim(0) - plan_.first_chunk(), plan_.chunk), {starts},
                             builder.create<arith::SelectOp>(is_long, start, index_constant(builder, starts.lo))
                                 .getResult());
      const Value number = at(builder, indexing::ceil_div(Expr::dim(0), Expr::constant(plan_.chunk)), {counts},
                              clamped(builder, is_long, count));
      part.chunk_begin = first;
      part.chunk_end = builder.create<arith::AddIOp>(first, number);
    }
    part.any = compare(builder, CmpIPredicate::sgt, entries, zero);
    part.begin = start;
    part.end = builder.create<arith::AddIOp>(start, entries);
  }

  /// Nobody has cleared what is read here: it counts only if it names a window of the row. If the row has windows,
  /// it does.
  void find_by_first(Builder& builder, Part& part) {
    const int64_t count = plan_.shape.count;
    const Value found = load_index(builder, temporary(kernel_, RowTemporary::First), part.row);
    Value valid = compare(builder, CmpIPredicate::slt, found, index_constant(builder, count));
    if (part.covered) valid = builder.create<arith::AndIOp>(valid, part.covered);
    part.begin = clamped(builder, valid, found);
    Result<Value> row = row_of(builder, emission_, kernel_.inputs(), part.begin);
    if (!row) {
      code_.error() = std::move(row).error();
      row = index_constant(builder, 0);
    }
    part.any = builder.create<arith::AndIOp>(valid, compare(builder, CmpIPredicate::eq, *row, part.row));
    if (plan_.index == RowIndex::Inverse) return;
    const Value last = load_index(builder, temporary(kernel_, RowTemporary::Last), part.row);
    const Value limited = builder.create<arith::MinSIOp>(last, index_constant(builder, count - 1));
    const Value end = clamped(builder, part.any, builder.create<arith::AddIOp>(limited, index_constant(builder, 1)));
    part.end = end;
    if (plan_.chunks() == 0) return;
    // Whole chunks between what is before the first and after the last.
    const std::vector<Interval> positions{{0, count}};
    part.chunk_begin = at(builder, indexing::ceil_div(Expr::dim(0), Expr::constant(plan_.chunk)), positions,
                          clamped(builder, part.any, part.begin));
    const Value last_chunk = at(builder, indexing::floor_div(Expr::dim(0), plan_.chunk), positions, end);
    part.chunk_end = builder.create<arith::MaxSIOp>(part.chunk_begin, last_chunk);
    const auto position = [&](Value chunk) {
      return at(builder, Expr::dim(0) * plan_.chunk, {{0, count / plan_.chunk + 1}}, chunk);
    };
    part.rest_begin = position(part.chunk_end);
    part.rest_end = end;
    part.end = builder.create<arith::MinSIOp>(end, position(part.chunk_begin));
  }

  /// Entries after the first, and chunks.
  void add_others(Builder& builder, int64_t number, Part& part) {
    const auto find = [&](Builder& inside, Value position) { return window_at(inside, plan_, kernel_, position); };
    const auto read = [&](Builder& inside, Value window) {
      return code_.read(inside, plan_.shape.updates, update_of(number, window));
    };
    const Value second = builder.create<arith::AddIOp>(part.begin, index_constant(builder, 1));
    part.state = code_.fold(builder, second, part.end, part.state, false, plan_.batch, find, read);
    if (!part.chunk_begin) return;
    const Value parts = kernel_.temporaries().back();
    part.state = code_.fold(
        builder, part.chunk_begin, part.chunk_end, part.state, true, 4, [](Builder&, Value chunk) { return chunk; },
        [&](Builder& inside, Value chunk) {
          return code_.for_each(inside, code_.wide_types(inside), [&](Builder& innermost, Value v) {
            const Value element =
                apply_map(innermost, plan_.shape.element_of_output, {output_index(innermost, number, v), {}, {}})[0];
            const Value place = at(innermost, Expr::dim(0) * plan_.shape.window + Expr::dim(1),
                                   {indexing::below(plan_.chunks()), indexing::below(plan_.shape.window)},
                                   {chunk, element});
            return Values{innermost.create<mlir::tensor::ExtractOp>(parts, place)};
          });
        });
    if (part.rest_begin) {
      part.state = code_.fold(builder, part.rest_begin, part.rest_end, part.state, false, plan_.batch, find, read);
    }
  }

  Values stored(Builder& builder, int64_t number, const Part& part, const Values& outputs) {
    IndexingMap elements;
    elements.ranges = {indexing::below(plan_.vector)};
    const IndexingMap position = position_map(output_);
    auto loop = create_loop(builder, elements, {}, outputs, 0,
                            [&](Builder& inside, ValueRange ranges, ValueRange, ValueRange before) {
                              const Values values =
                                  code_.narrow(inside, code_.element(inside, part.state, ranges[0]));
                              const Values index = output_index(inside, number, ranges[0]);
                              const Values place = apply_map(inside, position, {index, {}, {}});
                              Values after;
                              for (size_t i = 0; i < values.size(); ++i) {
                                after.push_back(inside.create<mlir::tensor::InsertOp>(values[i], before[i], place));
                              }
                              return after;
                            });
    return Values(loop.getResults());
  }

  const RowsEmission& emission_;
  const ScatterRowsPlan& plan_;
  Kernel kernel_;
  Builder& builder_;
  ElementCode code_;
  const hlo::Shape& output_;
  IndexingMap visits_;  ///< (block, thread)[vector, element] → index of the output
  std::vector<Interval> place_ranges_;
};

}  // namespace

Result<void> emit_chunks(const RowsEmission& emission, size_t launch) { return ChunksEmitter(emission, launch).run(); }

Result<void> emit_rows(const RowsEmission& emission, size_t launch) { return RowsEmitter(emission, launch).run(); }

}  // namespace strata::emitters
