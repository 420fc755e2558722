// The code of a product of few rows: lanes read weights into registers, multiply them by all rows, and add up what they
// have; warps meet in shared memory, from where results go through the epilogue.
#include "emitters/kinds/kernel.h"

#include <mlir/Dialect/Arith/IR/Arith.h>
#include <mlir/Dialect/Tensor/IR/Tensor.h>
#include <mlir/Dialect/Vector/IR/VectorOps.h>

#include "emitters/dialect/dialect.h"
#include "emitters/elemental/scalar_operators.h"
#include "emitters/elemental/types.h"
#include "emitters/kinds/code.h"
#include "emitters/kinds/place_maps.h"
#include "emitters/kinds/product/product.h"
#include "indexing/simplify.h"

namespace strata::emitters {
namespace {

namespace arith = mlir::arith;
namespace vector = mlir::vector;
using Builder = mlir::ImplicitLocOpBuilder;
using hlo::ElementType;
using hlo::InstructionId;
using indexing::below;
using indexing::Expr;
using indexing::IndexingMap;
using indexing::Interval;
using mlir::Value;
using mlir::ValueRange;

/// Where a lane stands along a dimension: elements `unit` at a time, of which it has some beside each other.
struct Place {
  Value value;  ///< the number of the unit
  int64_t units = 1;
  int64_t unit = 1;
};

class ProductEmitter {
 public:
  ProductEmitter(const ProductPlan& plan, FusionFunctions& functions, const std::string& name, const Decision& decision)
      : plan_(plan),
        shape_(plan.shape),
        tiling_(plan.tiling),
        functions_(functions),
        kernel_(functions, name, decision),
        builder_(kernel_.builder()),
        dot_(functions.computation()[plan.split.heroes[0]]) {
    const InstructionId weights = dot_.operands[static_cast<size_t>(shape_.weights)];
    weights_ = weights;
    rows_ = dot_.operands[static_cast<size_t>(1 - shape_.weights)];
    sum_type_ = wide_type(dot_.shape.type);
    // Matrix instructions take elements as they are.
    term_type_ = tiling_.matrix() ? type_of(weights) : sum_type_;
  }

  Result<void> run() {
    find_place();
    IndexingMap map;
    map.ranges = {below(tiling_.iterations)};
    auto loop = create_loop(builder_, map, {}, zeros(), std::nullopt,
                            [&](Builder& inside, ValueRange ranges, ValueRange, ValueRange sums) {
                              return add_steps(inside, ranges[0], Values(sums));
                            });
    if (error_) return tl::unexpected(std::move(*error_));
    const Value shared = write_parts(held(Values(loop.getResults())));
    kernel_.finish(write_results(shared));
    return {};
  }

 private:
  ElementType type_of(InstructionId id) const { return functions_.computation()[id].shape.type; }
  mlir::Type code_type(ElementType type) { return element_type(builder_.getContext(), type); }
  int64_t row_count() const { return shape_.row_count(); }
  int64_t fragments() const { return (row_count() + kFragmentRows - 1) / kFragmentRows; }
  /// Of a lane before lanes along the terms have met.
  int64_t summed_rows() const { return kLanesOfTerms * tiling_.lane_rows(row_count()); }
  int64_t columns() const { return tiling_.columns; }
  int64_t terms() const { return tiling_.terms; }

  // --- where threads stand ---

  std::vector<Interval> place_ranges() const { return {below(plan_.blocks()), below(tiling_.threads())}; }
  Value at_place(const Expr& expr) { return at(builder_, expr, place_ranges(), kernel_.place()); }

  static Expr lane() { return indexing::mod(Expr::dim(1), 32); }
  static Expr along_columns() { return indexing::floor_div(lane(), kLanesOfTerms); }
  static Expr along_terms() { return indexing::mod(lane(), kLanesOfTerms); }
  Expr term_warp() const { return indexing::mod(indexing::floor_div(Expr::dim(1), 32), tiling_.term_warps); }
  Expr column_warp() const { return indexing::floor_div(Expr::dim(1), 32 * tiling_.term_warps); }
  Expr batch_expr() const { return indexing::floor_div(Expr::dim(0), plan_.column_tiles()); }
  /// The tile of the thread's warp.
  Expr column_tile() const {
    return indexing::mod(Expr::dim(0), plan_.column_tiles()) * tiling_.column_warps + column_warp();
  }

  void find_place() {
    batch_ = at_place(batch_expr());
    lane_ = at_place(lane());
    along_columns_ = at_place(along_columns());
    along_terms_ = at_place(along_terms());
    const int64_t count = shape_.column_count();
    if (!shape_.terms_inside) {
      column_place_ = clamped(column_tile() * kLanesOfColumns + along_columns(), columns(), count);
    } else {
      column_place_ = {at_place(column_tile() * tiling_.warp_columns() + along_columns()), count, 1};
    }
  }

  /// Places behind the end are the last one: what is read there is not used.
  Place clamped(const Expr& place, int64_t together, int64_t count) {
    if (count % together != 0) return {at_place(place), count, 1};
    Place made{at_place(place), count / together, together};
    if (count % (together * kLanesOfColumns * tiling_.column_warps) != 0)
      made.value = builder_.create<arith::MinSIOp>(made.value, index_constant(builder_, made.units - 1));
    return made;
  }

  /// Element `number` of a lane, of `together` that it has: at a place in whole units, or anywhere.
  Value element(Builder& builder, const Place& place, Value number, int64_t together) const {
    if (place.unit == together) {
      return at(builder, Expr::dim(0) * together + Expr::dim(1), {below(place.units), below(together)},
                {place.value, number});
    }
    // The place counts lanes.
    const Interval far{0, place.units + together * kLanesOfColumns * tiling_.column_warps};
    const Value index =
        at(builder, Expr::dim(0) * together + Expr::dim(1), {far, below(together)}, {place.value, number});
    return builder.create<arith::MinSIOp>(index, index_constant(builder, place.units - 1));
  }

  Value column(Builder& builder, Value number) const {
    if (!shape_.terms_inside) return element(builder, column_place_, number, columns());
    const int64_t count = shape_.column_count();
    const Interval far = below(plan_.column_tiles() * tiling_.block_columns());
    const Value index = at(builder, Expr::dim(0) + Expr::dim(1) * kLanesOfColumns, {far, below(columns())},
                           {column_place_.value, number});
    if (count % tiling_.block_columns() == 0) return index;
    return builder.create<arith::MinSIOp>(index, index_constant(builder, count - 1));
  }

  // --- reading ---

  bool all_terms() const { return tiling_.covered_terms() == shape_.term_count(); }

  /// A step of a lane along the terms.
  struct Step {
    Place place;
    Value valid;        ///< whether the lane's terms are there; null if they are, or each has to be asked
    bool each = false;  ///< terms may end within the lane's own
  };

  Step step_at(Builder& builder, Value iteration, Value number) {
    const int64_t count = shape_.term_count(), lanes = kLanesOfTerms;
    const int64_t warps = tiling_.term_warps;
    const Expr step = (Expr::dim(2) * tiling_.steps + Expr::dim(3)) * warps + term_warp();
    std::vector<Interval> ranges = place_ranges();
    ranges.push_back(below(tiling_.iterations));
    ranges.push_back(below(tiling_.steps));
    Values values = kernel_.place();
    values.push_back(iteration);
    values.push_back(number);
    Step made;
    made.place.value = at(builder, step * lanes + along_terms(), ranges, values);
    made.each = count % terms() != 0;
    made.place.unit = made.each ? 1 : terms();
    made.place.units = made.each ? count : count / terms();
    if (all_terms() || made.each) return made;
    const Value units = index_constant(builder, made.place.units);
    made.valid = compare(builder, arith::CmpIPredicate::slt, made.place.value, units);
    made.place.value = builder.create<arith::MinSIOp>(made.place.value, index_constant(builder, made.place.units - 1));
    return made;
  }

  /// Term `number` of the lane's, and whether it is there (null: it is).
  std::pair<Value, Value> term(Builder& builder, const Step& step, Value number) const {
    if (!step.each) return {element(builder, step.place, number, terms()), masks_words() ? Value() : step.valid};
    const Interval far = below(tiling_.covered_terms() / terms());
    const Value index =
        at(builder, Expr::dim(0) * terms() + Expr::dim(1), {far, below(terms())}, {step.place.value, number});
    const Value valid =
        compare(builder, arith::CmpIPredicate::slt, index, index_constant(builder, shape_.term_count()));
    return {builder.create<arith::MinSIOp>(index, index_constant(builder, shape_.term_count() - 1)), valid};
  }

  /// Whether terms that are not there are zeros in the rows' words, not element by element: of integers whatever
  /// multiplies a zero is nothing.
  bool masks_words() const { return tiling_.unit == ProductUnit::Bytes; }

  /// An element of one of the operands, as it is multiplied.
  Value read(Builder& builder, InstructionId id, bool weights, Value free, const std::pair<Value, Value>& term) {
    const auto& outer = weights ? shape_.columns : shape_.rows;
    const auto in = [&](const ProductDimension& one) { return weights ? one.in_weights : one.in_rows; };
    IndexingMap map;
    map.dims = {below(shape_.batches()), below(weights ? shape_.column_count() : row_count()),
                below(shape_.term_count())};
    map.results.resize(functions_.computation()[id].shape.dims.size());
    int number = 0;
    for (const auto* group : {&shape_.batch, &outer, &shape_.terms}) {
      std::vector<int64_t> sizes;
      for (const ProductDimension& one : *group) sizes.push_back(one.size);
      const std::vector<Expr> index = indexing::delinearize(Expr::dim(number++), sizes);
      for (size_t i = 0; i < group->size(); ++i) map.results[static_cast<size_t>(in((*group)[i]))] = index[i];
    }
    const Values at = apply_map(builder, indexing::simplify(map, indexing::UnusedVariables::Keep),
                                {{batch_, free, term.first}, {}, {}});
    auto value = functions_.read(builder, id, kernel_.inputs(), at);
    if (!value) {
      error_ = value.error();
      return builder.create<arith::ConstantOp>(builder.getZeroAttr(code_type(term_type_)));
    }
    Value element = emit_convert(builder, (*value)[0], type_of(id), term_type_);
    if (!term.second) return element;
    const Value zero = builder.create<arith::ConstantOp>(builder.getZeroAttr(element.getType()));
    return builder.create<arith::SelectOp>(term.second, element, zero);
  }

  /// Loops that disappear, over the steps of an iteration and two numbers within, whose elements become those of a
  /// vector: in the order of the steps, and then at outer · inner_count + inner, or the other way round. The innermost
  /// loop reads elements that lie together. What an element is computed of has one place in the code, so that it goes
  /// there as a whole.
  using Element = llvm::function_ref<Value(Builder&, const Step&, Value outer, Value inner)>;
  Value gather(Builder& builder, Value iteration, int64_t outer_count, int64_t inner_count, bool inner_first,
               Element element) {
    const int64_t steps = tiling_.steps, count = outer_count * inner_count;
    const auto type = mlir::VectorType::get({steps * count}, code_type(term_type_));
    const Value empty = builder.create<arith::ConstantOp>(builder.getZeroAttr(type));
    const auto count_to = [](Builder& outside, int64_t size, ValueRange before,
                             llvm::function_ref<Value(Builder&, Value, Value)> body) {
      IndexingMap map;
      map.ranges = {below(size)};
      auto loop = create_loop(outside, map, {}, before, 0,
                              [&](Builder& inside, ValueRange ranges, ValueRange, ValueRange vectors) -> Values {
                                return {body(inside, ranges[0], vectors[0])};
                              });
      return Value(loop.getResult(0));
    };
    const Expr s = Expr::dim(0) * count, outer = Expr::dim(1), inner = Expr::dim(2);
    const Expr place = inner_first ? s + inner * outer_count + outer : s + outer * inner_count + inner;
    return count_to(builder, steps, empty, [&](Builder& in_step, Value number, Value of_steps) {
      const Step step = step_at(in_step, iteration, number);
      return count_to(in_step, outer_count, of_steps, [&](Builder& outside, Value row, Value of_rows) {
        return count_to(outside, inner_count, of_rows, [&](Builder& inside, Value one, Value vectors) -> Value {
          const Value at_place =
              at(inside, place, {below(steps), below(outer_count), below(inner_count)}, {number, row, one});
          const Value value = element(inside, step, row, one);
          return inside.create<vector::InsertOp>(value, vectors, at_place);
        });
      });
    });
  }

  /// The lane's weights in an iteration: term i of column j is number i · columns + j of its step's.
  Value read_weights(Builder& builder, Value iteration) {
    const auto weight = [&](Builder& inside, const Step& step, Value of_column, Value of_term) {
      return read(inside, weights_, true, column(inside, of_column), term(inside, step, of_term));
    };
    const bool inside_out = shape_.terms_inside;
    return gather(builder, iteration, inside_out ? columns() : terms(), inside_out ? terms() : columns(), inside_out,
                  [&](Builder& inside, const Step& step, Value outer, Value inner) {
                    return inside_out ? weight(inside, step, outer, inner) : weight(inside, step, inner, outer);
                  });
  }

  /// How many rows a lane reads: all, or for a matrix instruction those that have the lane's number among the columns
  /// in a fragment.
  int64_t read_row_count() const { return tiling_.matrix() ? fragments() : row_count(); }

  /// Rows at the lane's terms in an iteration, term i of row r at r · terms + i of its step's.
  Value read_rows(Builder& builder, Value iteration) {
    return gather(builder, iteration, read_row_count(), terms(), false,
                  [&](Builder& inside, const Step& step, Value outer, Value inner) {
                    Value row = outer;
                    if (tiling_.matrix()) {
                      row = at(inside, Expr::dim(0) * kFragmentRows + Expr::dim(1),
                               {below(fragments()), below(kLanesOfColumns)}, {outer, along_columns_});
                      if (row_count() % kFragmentRows != 0)
                        row = inside.create<arith::MinSIOp>(row, index_constant(inside, row_count() - 1));
                    }
                    return read(inside, rows_, false, row, term(inside, step, inner));
                  });
  }

  // --- adding up ---

  /// Sums of a lane: for matrix instructions vectors of four for each pair of columns and fragment, else one for each
  /// column and row.
  Values zeros() {
    const mlir::Type type = code_type(sum_type_);
    if (!tiling_.matrix()) {
      const Value zero = builder_.create<arith::ConstantOp>(builder_.getZeroAttr(type));
      return Values(static_cast<size_t>(columns() * row_count()), zero);
    }
    const auto four = mlir::VectorType::get({4}, type);
    const Value zero = builder_.create<arith::ConstantOp>(builder_.getZeroAttr(four));
    return Values(static_cast<size_t>(columns() / 2 * fragments()), zero);
  }

  Values add_steps(Builder& builder, Value iteration, Values sums) {
    const Value weights = read_weights(builder, iteration);
    const Value rows = read_rows(builder, iteration);
    for (int64_t s = 0; s < tiling_.steps; ++s) {
      tiling_.matrix() ? multiply_fragments(builder, weights, rows, iteration, s, sums)
                       : multiply_elements(builder, weights, rows, s, sums);
    }
    return sums;
  }

  int64_t first_weight(int64_t step) const { return step * terms() * columns(); }
  int64_t first_row(int64_t step) const { return step * read_row_count() * terms(); }

  void multiply_elements(Builder& builder, Value weights, Value rows, int64_t step, Values& sums) const {
    for (int64_t i = 0; i < terms(); ++i) {
      Values of_rows;
      for (int64_t r = 0; r < row_count(); ++r)
        of_rows.push_back(builder.create<vector::ExtractOp>(rows, first_row(step) + r * terms() + i));
      for (int64_t j = 0; j < columns(); ++j) {
        const Value weight = builder.create<vector::ExtractOp>(weights, first_weight(step) + i * columns() + j);
        for (int64_t r = 0; r < row_count(); ++r) {
          Value& sum = sums[static_cast<size_t>(j * row_count() + r)];
          sum = emit_add(builder, sum, emit_multiply(builder, weight, of_rows[static_cast<size_t>(r)]));
        }
      }
    }
  }

  /// The order of a product's terms does not matter: a lane's four terms (or eight) stand for those that the
  /// instruction has at its place, and its columns for rows of the instruction's first matrix, 8 apart.
  void multiply_fragments(Builder& builder, Value weights, Value rows, Value iteration, int64_t step, Values& sums) {
    const Value valid = masks_words() ? step_at(builder, iteration, index_constant(builder, step)).valid : Value();
    const int64_t taken = tiling_.fragment_terms(), in_word = taken / 2;
    for (int64_t q = 0; q < terms() / taken; ++q) {
      for (int64_t p = 0; p < columns() / 2; ++p) {
        llvm::SmallVector<int64_t> places;
        for (const int64_t term : {int64_t{0}, in_word}) {
          for (const int64_t of_pair : {0, 1}) {
            for (int64_t part = 0; part < in_word; ++part)
              places.push_back(first_weight(step) + (taken * q + term + part) * columns() + 2 * p + of_pair);
          }
        }
        const Value a = builder.create<vector::ShuffleOp>(weights, weights, places);
        for (int64_t f = 0; f < fragments(); ++f) {
          const int64_t first = first_row(step) + f * terms() + taken * q;
          const auto of_row = llvm::to_vector(llvm::seq(first, first + taken));
          Value b = builder.create<vector::ShuffleOp>(rows, rows, of_row);
          if (valid) b = or_zero(builder, valid, b);
          Value& sum = sums[static_cast<size_t>(p * fragments() + f)];
          sum = builder.create<WarpProductOp>(sum.getType(), a, b, sum, lane_);
        }
      }
    }
  }

  /// The bytes if the condition holds, chosen by words.
  static Value or_zero(Builder& builder, Value condition, Value bytes) {
    const auto type = llvm::cast<mlir::VectorType>(bytes.getType());
    const auto words = mlir::VectorType::get({type.getNumElements() / 4}, builder.getI32Type());
    const Value zero = builder.create<arith::ConstantOp>(builder.getZeroAttr(words));
    const Value whole = builder.create<vector::BitCastOp>(words, bytes);
    return builder.create<vector::BitCastOp>(type, builder.create<arith::SelectOp>(condition, whole, zero));
  }

  /// What a lane has of its columns in the end: for each, lane_rows() sums.
  std::vector<Values> held(const Values& sums) {
    std::vector<Values> all(static_cast<size_t>(columns()));
    if (!tiling_.matrix()) {
      for (size_t j = 0; j < all.size(); ++j) {
        for (int64_t r = 0; r < row_count(); ++r)
          all[j].push_back(sums[j * static_cast<size_t>(row_count()) + static_cast<size_t>(r)]);
        const Value zero = builder_.create<arith::ConstantOp>(builder_.getZeroAttr(code_type(sum_type_)));
        all[j].resize(static_cast<size_t>(summed_rows()), zero);
      }
      for (const int64_t distance : {2, 1}) exchange(all, distance);
      return all;
    }
    for (size_t j = 0; j < all.size(); ++j) {
      for (int64_t s = 0; s < tiling_.lane_rows(row_count()); ++s) {
        const Value four = sums[j / 2 * static_cast<size_t>(fragments()) + static_cast<size_t>(s / 2)];
        const int64_t number = static_cast<int64_t>(j % 2) * 2 + s % 2;
        all[j].push_back(builder_.create<vector::ExtractOp>(four, number));
      }
    }
    return all;
  }

  /// Lanes a distance apart along the terms take half of the rows each, and add what the other one has of them.
  void exchange(std::vector<Values>& all, int64_t distance) {
    const Expr bit = indexing::mod(indexing::floor_div(lane(), distance), 2);
    const Value upper = compare(builder_, arith::CmpIPredicate::eq, at_place(bit), index_constant(builder_, 1));
    const Value other = at_place(lane() + distance - bit * (2 * distance));
    const size_t half = all[0].size() / 2;
    Values given;
    for (Values& column : all) {
      for (size_t r = 0; r < half; ++r) {
        given.push_back(builder_.create<arith::SelectOp>(upper, column[r], column[r + half]));
        column[r] = builder_.create<arith::SelectOp>(upper, column[r + half], column[r]);
      }
      column.resize(half);
    }
    auto shuffle = builder_.create<ShuffleIndexOp>(mlir::TypeRange(ValueRange(given).getTypes()), given, other);
    size_t next = 0;
    for (Values& column : all) {
      for (Value& one : column) one = emit_add(builder_, one, shuffle.getResult(static_cast<unsigned>(next++)));
    }
  }

  // --- results ---

  /// All warps' parts in shared memory: (warp along the terms, row, column).
  Value write_parts(const std::vector<Values>& all) {
    const int64_t rows = summed_rows(), width = tiling_.block_columns();
    const auto type =
        mlir::RankedTensorType::get({tiling_.term_warps, rows, width}, code_type(sum_type_),
                                    SharedTileAttr::get(builder_.getContext(), product_padding(tiling_), 0));
    Value tile = builder_.create<AllocateSharedOp>(type);
    const Value warp = at_place(term_warp());
    for (size_t j = 0; j < all.size(); ++j) {
      const Value column = at_place(column_warp() * tiling_.warp_columns() + along_columns() +
                                    static_cast<int64_t>(j) * kLanesOfColumns);
      for (size_t s = 0; s < all[j].size(); ++s) {
        const Value row = at_place(along_terms() + static_cast<int64_t>(s) * kLanesOfTerms);
        tile = builder_.create<mlir::tensor::InsertOp>(all[j][s], tile, Values{warp, row, column});
      }
    }
    return builder_.create<SyncThreadsOp>(mlir::TypeRange(type), ValueRange(tile)).getResult(0);
  }

  /// (block, thread)[repetition] → (row and column in shared memory, index of the result), for those that there are.
  MapResults result_map(const hlo::Shape& whole, const std::vector<int>& epilogues) const {
    const int64_t width = tiling_.block_columns(), count = summed_rows() * width;
    IndexingMap map;
    map.dims = place_ranges();
    map.ranges = {below(indexing::ceil_div(count, tiling_.threads()))};
    const Expr element = Expr::range(0) * tiling_.threads() + Expr::dim(1);
    const Expr in_shared = indexing::floor_div(element, width), slot = indexing::mod(element, width);
    const Expr s = indexing::floor_div(in_shared, kLanesOfTerms), t = indexing::mod(in_shared, kLanesOfTerms);
    Expr row = t * tiling_.lane_rows(row_count()) + s;
    if (tiling_.matrix()) row = indexing::floor_div(s, 2) * kFragmentRows + t * 2 + indexing::mod(s, 2);
    const Expr warp = indexing::floor_div(slot, tiling_.warp_columns());
    const Expr of_warp = indexing::mod(slot, tiling_.warp_columns());
    const Expr j = indexing::floor_div(of_warp, kLanesOfColumns), g = indexing::mod(of_warp, kLanesOfColumns);
    const Expr tile = indexing::mod(Expr::dim(0), plan_.column_tiles()) * tiling_.column_warps + warp;
    const Expr column = tile * tiling_.warp_columns() + (shape_.terms_inside ? of_warp : g * columns() + j);
    map.constraints = {{element, below(count)}, {row, below(row_count())}, {column, below(shape_.column_count())}};
    std::vector<Expr> index(whole.dims.size());
    const auto place = [&](const std::vector<ProductDimension>& group, const Expr& linear) {
      std::vector<int64_t> sizes;
      for (const ProductDimension& one : group) sizes.push_back(one.size);
      const std::vector<Expr> parts = indexing::delinearize(linear, sizes);
      for (size_t i = 0; i < group.size(); ++i) index[static_cast<size_t>(group[i].in_result)] = parts[i];
    };
    place(shape_.batch, batch_expr());
    place(shape_.rows, row);
    place(shape_.columns, column);
    map.results = index;
    MapResults results(map);
    results.add({in_shared, slot});
    const indexing::FunctionPartition& partition = functions_.partition();
    for (const int function : epilogues) {
      const auto& of = partition.functions[static_cast<size_t>(function)];
      results.add(indices_at_place(map, whole, functions_.computation()[of.results[0].instruction].shape));
    }
    return results;
  }

  Values write_results(Value tile) {
    const std::vector<int> epilogues = root_functions(plan_.split, true);
    const MapResults results = result_map(dot_.shape, epilogues);
    auto loop = create_loop(
        builder_, results.map(), kernel_.place(), kernel_.outputs(), std::nullopt,
        [&](Builder& inside, ValueRange, ValueRange indices, ValueRange before) {
          const ValueRange place = results.of(indices, 0);
          IndexingMap warps;
          warps.ranges = {below(tiling_.term_warps)};
          auto sum = create_loop(
              inside, warps, {}, emit_zero(inside, sum_type_), 0,
              [&](Builder& adding, ValueRange warp, ValueRange, ValueRange before_it) -> Values {
                const Value part = adding.create<mlir::tensor::ExtractOp>(tile, Values{warp[0], place[0], place[1]});
                return {emit_add(adding, before_it[0], part)};
              });
          const Value value = emit_convert(inside, sum.getResult(0), sum_type_, dot_.shape.type);
          Values after(before);
          for (size_t i = 0; i < epilogues.size(); ++i) {
            after = write_outputs(inside, functions_, epilogues[i], kernel_.inputs(), results.of(indices, i + 1),
                                  Values{value}, after);
          }
          return after;
        });
    return Values(loop.getResults());
  }

  const ProductPlan& plan_;
  const ProductShape& shape_;
  const ProductTiling& tiling_;
  FusionFunctions& functions_;
  Kernel kernel_;
  Builder& builder_;
  const hlo::Instruction& dot_;
  InstructionId weights_ = 0, rows_ = 0;
  ElementType sum_type_ = ElementType::F32, term_type_ = ElementType::F32;
  Value batch_, lane_, along_columns_, along_terms_;
  Place column_place_;
  std::optional<Error> error_;
};

}  // namespace

Result<void> emit_product(const ProductPlan& plan, FusionFunctions& functions, const std::string& name,
                          const Decision& decision) {
  return ProductEmitter(plan, functions, name, decision).run();
}

}  // namespace strata::emitters
