// The kernel that writes each row of a scatter once: a thread has `unroll` vectors of elements, each of one row.
#include <mlir/Dialect/Tensor/IR/Tensor.h>
#include <mlir/Dialect/Vector/IR/VectorOps.h>

#include <numeric>

#include "emitters/dialect/dialect.h"
#include "emitters/kinds/in_place.h"
#include "emitters/kinds/scatter/elements.h"
#include "indexing/simplify.h"

namespace strata::emitters {
namespace {

namespace arith = mlir::arith;
using arith::CmpIPredicate;
using Builder = mlir::ImplicitLocOpBuilder;
using indexing::Expr;
using indexing::IndexingMap;
using indexing::Interval;
using mlir::Value;
using mlir::ValueRange;

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
    const std::vector<indexing::Constraint> guards =
        indexing::guards(visits_, place_ranges_, {indexing::below(plan_.unroll), indexing::below(plan_.vector)});
    if (guards.empty()) {
      outputs = write(builder_, outputs);
    } else {
      assert(plan_.unroll == 1 && "the plan has seen to that");
      IndexingMap tests = visits_;
      tests.dims = place_ranges_;
      const Value zero = index_constant(builder_, 0);
      const Value inside = constraints_hold(builder_, tests, guards, {kernel_.place(), {zero, zero}, {}});
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
    int64_t number = 0;
    Value row;
    Value count;               ///< Counted: entries of the row
    Value end;                 ///< Sorted: where they end
    Value first_window;        ///< that of the first one; Counted: of the only one
    std::vector<Value> there;  ///< whether there are so many
    std::vector<Elements> updates;
    Elements state;  ///< wide while updates are added
  };

  Value temporary(RowTemporary which) const { return kernel_.temporaries()[static_cast<size_t>(which)]; }

  /// The index of the output at element `v` of a vector.
  Values output_index(Builder& builder, const Part& part, Value v) {
    return apply_map(builder, visits_, {kernel_.place(), {index_constant(builder, part.number), v}, {}});
  }
  /// The elements that a window has for a vector.
  Elements update(Builder& builder, const Part& part, Value window) {
    return code_.read(builder, plan_.shape.updates, [&](Builder& inside, Value v) {
      Values index = output_index(inside, part, v);
      index.push_back(window);
      return apply_map(inside, plan_.shape.update_of_output, {index, {}, {}});
    });
  }

  /// Stage by stage for all vectors, so that what they read is on its way at the same time.
  Values write(Builder& builder, Values outputs) {
    std::vector<Part> parts(static_cast<size_t>(plan_.unroll));
    for (size_t i = 0; i < parts.size(); ++i) parts[i].number = static_cast<int64_t>(i);
    for (Part& part : parts) find_entries(builder, part);
    for (Part& part : parts) {
      part.state = code_.read(builder, plan_.shape.operands,
                              [&](Builder& inside, Value v) { return output_index(inside, part, v); });
    }
    // One branch for all, which stays one: the assembler would let predicated loads of updates, which wait for their
    // windows, go before those of the operand.
    Value any;
    for (const Part& part : parts) any = any_of(builder, any, has_entries(builder, part));
    set_states(parts, if_holds(builder, any, states(parts), [&](Builder& inside) {
                 add_updates(inside, parts);
                 return states(parts);
               }));
    for (const Part& part : parts) outputs = stored(builder, part, outputs);
    return outputs;
  }

  static Values states(const std::vector<Part>& parts) {
    Values all;
    for (const Part& part : parts) llvm::append_range(all, part.state);
    return all;
  }
  static void set_states(std::vector<Part>& parts, const Values& all) {
    auto next = all.begin();
    for (Part& part : parts) {
      for (Value& one : part.state) one = *next++;
    }
  }
  Value any_of(Builder& builder, Value a, Value b) { return a ? builder.create<arith::OrIOp>(a, b).getResult() : b; }

  Value has_entries(Builder& builder, const Part& part) {
    if (!part.there.empty()) return part.there[0];
    return compare(builder, CmpIPredicate::ne, part.count, index_constant(builder, 0));
  }

  /// The states with all their updates.
  void add_updates(Builder& builder, std::vector<Part>& parts) {
    const Elements none = code_.nothing(builder, code_.narrow_types(builder));
    std::vector<std::vector<Value>> windows;
    for (const Part& part : parts) {
      windows.push_back(part.there.empty() ? std::vector<Value>() : first_windows(builder, part));
    }
    for (size_t k = 0; k < parts[0].there.size(); ++k) {
      for (Part& part : parts) {
        const Value window = windows[static_cast<size_t>(part.number)][k];
        part.updates.push_back(
            if_holds(builder, part.there[k], none, [&](Builder& inside) { return update(inside, part, window); }));
      }
    }
    for (Part& part : parts) {
      part.state = code_.widen_all(builder, part.state);
      for (size_t k = 0; k < part.updates.size(); ++k) {
        part.state = code_.combined(builder, part.state, part.updates[k], false, part.there[k]);
      }
    }
    if (plan_.index == RowIndex::Counted && plan_.first == 0) {
      for (Part& part : parts) part.state = with_slots(builder, part);
    }
    add_rare(builder, parts);
    for (Part& part : parts) part.state = code_.narrow_all(builder, part.state);
  }

  Value or_zero(Builder& builder, Value condition, Value index) {
    if (!condition) return index;
    return builder.create<arith::SelectOp>(condition, index, index_constant(builder, 0));
  }

  /// Nothing here waits for anything that is read here.
  void find_entries(Builder& builder, Part& part) {
    const Values index = output_index(builder, part, index_constant(builder, 0));
    part.row = apply_map(builder, plan_.shape.row_of_output, {index, {}, {}})[0];
    Value covered;  // whether windows reach here; none where they do everywhere
    if (!plan_.shape.covered.constraints.empty()) {
      covered = constraints_hold(builder, plan_.shape.covered, plan_.shape.covered.constraints, {index, {}, {}});
    }
    const Value records = temporary(RowTemporary::Rows);
    switch (plan_.index) {
      case RowIndex::Inverse: {
        const Value next = or_zero(builder, covered, load_index(builder, records, record_of(builder, plan_, part.row)));
        part.there.push_back(compare(builder, CmpIPredicate::ne, next, index_constant(builder, 0)));
        part.first_window = builder.create<arith::SubIOp>(next, index_constant(builder, 1));
        return;
      }
      case RowIndex::Sorted: {
        const std::pair<Value, Value> run = load_run(builder, part.row);
        part.end = or_zero(builder, covered, run.first);
        part.first_window = run.second;
        for (int64_t k = 0; k < plan_.first; ++k) {
          const Value window = builder.create<arith::AddIOp>(part.first_window, index_constant(builder, k));
          part.there.push_back(compare(builder, CmpIPredicate::slt, window, part.end));
        }
        return;
      }
      case RowIndex::Counted: {
        const Value record = builder.create<mlir::tensor::ExtractOp>(records, record_of(builder, plan_, part.row));
        const auto [count, windows] = record_fields(builder, record);
        part.count = or_zero(builder, covered, count);
        part.first_window = windows;
        for (int64_t k = 0; k < plan_.first; ++k) {
          part.there.push_back(compare(builder, CmpIPredicate::sgt, part.count, index_constant(builder, k)));
        }
        return;
      }
    }
  }

  /// Both elements of a row's run, by one load.
  std::pair<Value, Value> load_run(Builder& builder, Value row) {
    const auto type = mlir::VectorType::get({2}, builder.getI32Type());
    const Value none = builder.create<arith::ConstantOp>(llvm::cast<mlir::TypedAttr>(builder.getZeroAttr(type)));
    IndexingMap map;
    map.ranges = {indexing::below(2)};
    auto loop =
        create_loop(builder, map, {}, none, 0, [&](Builder& inside, ValueRange ranges, ValueRange, ValueRange carried) {
          const Value place = at(inside, Expr::dim(0) * plan_.record + Expr::dim(1),
                                 {indexing::below(plan_.shape.rows), indexing::below(2)}, {row, ranges[0]});
          const Value one = inside.create<mlir::tensor::ExtractOp>(temporary(RowTemporary::Rows), place);
          return Values{inside.create<mlir::vector::InsertOp>(one, carried[0], ranges[0])};
        });
    const auto element = [&](int64_t k) -> Value {
      const Value one = builder.create<mlir::vector::ExtractOp>(loop.getResult(0), k);
      return builder.create<arith::IndexCastUIOp>(builder.getIndexType(), one);
    };
    return {element(0), element(1)};
  }

  /// The windows of the first entries, of which those count that are there.
  std::vector<Value> first_windows(Builder& builder, const Part& part) {
    std::vector<Value> windows{part.first_window};
    for (int64_t k = 1; k < plan_.first; ++k) {
      windows.push_back(builder.create<arith::AddIOp>(part.first_window, index_constant(builder, k)));
    }
    if (plan_.index != RowIndex::Counted || plan_.first < 2) return windows;
    // One is alone, or all are in slots.
    const Values slots = if_holds(builder, part.there[1], windows, [&](Builder& inside) {
      Values all;
      for (int64_t k = 0; k < plan_.first; ++k) all.push_back(slot(inside, part, index_constant(inside, k)));
      return all;
    });
    return {slots.begin(), slots.end()};
  }

  Value slot(Builder& builder, const Part& part, Value number) {
    return load_index(builder, temporary(RowTemporary::Slots), slot_of(builder, plan_, part.row, number));
  }

  /// Entries from `begin` to `end`, whose windows `find` gives.
  ElementCode::Entries entries(const Part& part, Value begin, Value end,
                               std::function<Value(Builder&, Value number)> find) {
    return {begin,           end,
            /*wide=*/false,  plan_.batch,
            std::move(find), [this, &part](Builder& inside, Value window) { return update(inside, part, window); }};
  }

  /// The parts of chunks.
  ElementCode::Entries chunks(const Part& part, Value begin, Value end, int64_t batch) {
    const auto read = [this, &part](Builder& inside, Value chunk) {
      return code_.for_each(inside, code_.wide_types(inside), [&](Builder& innermost, Value v) {
        const Value element =
            apply_map(innermost, plan_.shape.element_of_output, {output_index(innermost, part, v), {}, {}})[0];
        const Value place =
            at(innermost, Expr::dim(0) * plan_.shape.window + Expr::dim(1),
               {indexing::below(plan_.chunks()), indexing::below(plan_.shape.window)}, {chunk, element});
        return Values{innermost.create<mlir::tensor::ExtractOp>(kernel_.temporaries().back(), place)};
      });
    };
    return {begin, end, /*wide=*/true, batch, [](Builder&, Value chunk) { return chunk; }, read};
  }

  /// With entries in slots after the first ones.
  Elements with_slots(Builder& builder, const Part& part) {
    if (plan_.slots == plan_.first) return part.state;
    const Value filled = builder.create<arith::MinSIOp>(part.count, index_constant(builder, plan_.slots));
    if (!plan_.slots_are_cut()) {
      const auto find = [&](Builder& inside, Value number) { return slot(inside, part, number); };
      return code_.fold(builder, entries(part, index_constant(builder, plan_.first), filled, find), part.state);
    }
    const int64_t of_row = plan_.slot_chunks_of_row();
    const Value begin = at(builder, Expr::dim(0) * of_row, {indexing::below(plan_.shape.rows)}, part.row);
    const Value number =
        at(builder, indexing::ceil_div(Expr::dim(0), Expr::constant(plan_.chunk)), {{0, plan_.slots}}, filled);
    return code_.fold(builder, chunks(part, begin, builder.create<arith::AddIOp>(begin, number), 8), part.state);
  }

  /// What few rows have, behind one branch: so it keeps nothing from being read before.
  void add_rare(Builder& builder, std::vector<Part>& parts) {
    if (plan_.index == RowIndex::Inverse) return;
    Value any;
    for (const Part& part : parts) {
      const Value one = plan_.index == RowIndex::Sorted
                            ? compare(builder, CmpIPredicate::slt, rest_of_run(builder, part), part.end)
                            : compare(builder, CmpIPredicate::sgt, part.count,
                                      index_constant(builder, plan_.first > 0 ? plan_.first : plan_.slots));
      any = any_of(builder, any, one);
    }
    set_states(parts, if_holds(builder, any, states(parts), [&](Builder& inside) {
                 Values all;
                 for (const Part& part : parts) {
                   llvm::append_range(
                       all, plan_.index == RowIndex::Sorted ? with_rest_of_run(inside, part) : with_list(inside, part));
                 }
                 return all;
               }));
  }

  Value rest_of_run(Builder& builder, const Part& part) {
    return builder.create<arith::AddIOp>(part.first_window, index_constant(builder, plan_.first));
  }

  /// Whole chunks between entries before and after them.
  Elements with_rest_of_run(Builder& builder, const Part& part) {
    const auto find = [](Builder&, Value position) { return position; };
    const Value begin = builder.create<arith::MinSIOp>(rest_of_run(builder, part), part.end);
    if (plan_.list_chunks() == 0) return code_.fold(builder, entries(part, begin, part.end, find), part.state);
    const std::vector<Interval> positions{{0, plan_.shape.count}};
    const Value first_chunk =
        at(builder, indexing::ceil_div(Expr::dim(0), Expr::constant(plan_.chunk)), positions, begin);
    const Value last_chunk = builder.create<arith::MaxSIOp>(
        first_chunk, at(builder, indexing::floor_div(Expr::dim(0), plan_.chunk), positions, part.end));
    const auto position = [&](Value chunk) {
      return at(builder, Expr::dim(0) * plan_.chunk, {{0, plan_.shape.count / plan_.chunk + 1}}, chunk);
    };
    const Value head_end = builder.create<arith::MinSIOp>(part.end, position(first_chunk));
    Elements state = code_.fold(builder, entries(part, begin, head_end, find), part.state);
    state = code_.fold(builder, chunks(part, first_chunk, last_chunk, 4), state);
    return code_.fold(builder, entries(part, position(last_chunk), part.end, find), state);
  }

  /// The entries in slots after the first ones, and those that had no slot.
  Elements with_list(Builder& builder, Part part) {
    if (plan_.first > 0) part.state = with_slots(builder, part);
    const Value zero = index_constant(builder, 0);
    const Value start = load_index(builder, temporary(RowTemporary::Starts), part.row);
    const Value over = builder.create<arith::MaxSIOp>(
        zero, builder.create<arith::SubIOp>(part.count, index_constant(builder, plan_.slots)));
    const auto find = [&](Builder& inside, Value place) {
      return load_index(inside, temporary(RowTemporary::Order), place);
    };
    Value in_list = over, is_long;
    if (plan_.list_chunks() > 0) {
      is_long = compare(builder, CmpIPredicate::sgt, over, index_constant(builder, plan_.longest_list()));
      in_list = builder.create<arith::SelectOp>(is_long, zero, over);
    }
    const Value end = builder.create<arith::AddIOp>(start, in_list);
    Elements state = code_.fold(builder, entries(part, start, end, find), part.state);
    if (!is_long) return state;
    const Interval starts{plan_.first_chunk(), plan_.positions()};
    const Value first =
        at(builder, indexing::floor_div(Expr::dim(0) - plan_.first_chunk(), plan_.chunk) + plan_.slot_chunks(),
           {starts}, builder.create<arith::SelectOp>(is_long, start, index_constant(builder, starts.lo)).getResult());
    const Value number = at(builder, indexing::ceil_div(Expr::dim(0), Expr::constant(plan_.chunk)),
                            {{0, plan_.shape.count}}, or_zero(builder, is_long, over));
    return code_.fold(builder, chunks(part, first, builder.create<arith::AddIOp>(first, number), 4), state);
  }

  Values stored(Builder& builder, const Part& part, const Values& outputs) {
    IndexingMap elements;
    elements.ranges = {indexing::below(plan_.vector)};
    const IndexingMap position = position_map(output_);
    auto loop = create_loop(
        builder, elements, {}, outputs, 0, [&](Builder& inside, ValueRange ranges, ValueRange, ValueRange before) {
          const Values values = code_.element(inside, part.state, ranges[0]);
          const Values place = apply_map(inside, position, {output_index(inside, part, ranges[0]), {}, {}});
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

Result<void> emit_rows(const RowsEmission& emission, size_t launch) { return RowsEmitter(emission, launch).run(); }

}  // namespace strata::emitters
