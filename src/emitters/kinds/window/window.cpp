// The window emitter: convolutions of few channels each, whose results beside each other read the same elements. A
// thread keeps a strip of results, a chunk of the window and what lies below them in registers (window_tiling.h).
#include <fmt/format.h>
#include <mlir/Dialect/Math/IR/Math.h>
#include <mlir/Dialect/Tensor/IR/Tensor.h>

#include <map>

#include "emitters/dialect/dialect.h"
#include "emitters/elemental/scalar_operators.h"
#include "emitters/elemental/types.h"
#include "emitters/kinds/code.h"
#include "emitters/kinds/epilogue.h"
#include "emitters/kinds/kernel.h"
#include "emitters/kinds/plan.h"
#include "emitters/kinds/window/window_tiling.h"
#include "indexing/expr_range.h"
#include "indexing/simplify.h"

namespace strata::emitters {
namespace {

namespace arith = mlir::arith;
using arith::CmpIPredicate;
using Builder = mlir::ImplicitLocOpBuilder;
using hlo::InstructionId;
using indexing::below;
using indexing::Expr;
using indexing::IndexingMap;
using indexing::Interval;
using mlir::Value;
using mlir::ValueRange;

constexpr int kThreadsOfSums = 128;

struct WindowPlan {
  HeroSplit split;
  WindowTiling tiling;

  const hlo::Computation& computation() const { return (*split.module)[split.computation]; }
  InstructionId hero() const { return split.heroes[0]; }
};

/// Writes all outputs at a place in memory, a map's result at the variables, where the convolution's element is `sum`.
Values write_results(Builder& builder, const FusionFunctions& functions, const WindowPlan& plan, Kernel& kernel,
                     const IndexingMap& place, const Values& variables, Value sum, Values outputs) {
  const hlo::ElementType type = functions.computation()[plan.hero()].shape.type;
  const HeroValues value{{plan.hero(), {emit_convert(builder, sum, wide_type(type), type)}}};
  for (const bool with_hero : {true, false}) {
    for (const int function : root_functions(plan.split, with_hero)) {
      const IndexingMap map = indexing::simplify(indexing::compose(place, index_at_place(plan.split, function)),
                                                 indexing::UnusedVariables::Keep);
      outputs =
          write_outputs(builder, functions, function, kernel.inputs(), apply_map(builder, map, {variables, {}, {}}),
                        functions.injected(function, value), std::move(outputs));
    }
  }
  return outputs;
}

/// Where a part's sum of an element lies: parts one after the other.
Value place_in_parts(Builder& builder, const WindowTiling& tiling, int64_t elements, Value part, Value place) {
  return at(builder, Expr::dim(0) * elements + Expr::dim(1), {below(tiling.parts), below(elements)}, {part, place});
}

/// The kernel that adds up the parts' sums, an element a thread.
void add_parts(const FusionFunctions& functions, const WindowPlan& plan, Kernel& kernel, const Launch& launch) {
  Builder& builder = kernel.builder();
  const hlo::Shape& shape = functions.computation()[plan.hero()].shape;
  const int64_t elements = shape.element_count();
  IndexingMap map;
  map.dims = {below(launch.blocks), below(launch.threads)};
  map.results = {Expr::dim(0) * launch.threads + Expr::dim(1)};
  map.constraints = {{map.results[0], below(elements)}};
  const Values outputs(kernel.outputs());
  const Value holds = constraints_hold(builder, map, map.constraints, {kernel.place(), {}, {}});
  kernel.finish(if_holds(builder, holds, outputs, [&](Builder& inside) {
    const Value place = apply_map(inside, map, {kernel.place(), {}, {}})[0];
    IndexingMap parts;
    parts.ranges = {below(plan.tiling.parts)};
    auto loop =
        create_loop(inside, parts, {}, Values{emit_zero(inside, wide_type(shape.type))}, std::nullopt,
                    [&](Builder& innermost, ValueRange part, ValueRange, ValueRange sum) -> Values {
                      const Value in_all = place_in_parts(innermost, plan.tiling, elements, part[0], place);
                      return {emit_add(innermost, sum[0],
                                       innermost.create<mlir::tensor::ExtractOp>(kernel.temporaries()[0], in_all))};
                    });
    return write_results(inside, functions, plan, kernel, indexing::identity_map({elements}), {place},
                         loop.getResult(0), outputs);
  }));
}

class Writer {
 public:
  Writer(const FusionFunctions& functions, const WindowPlan& plan, Kernel& kernel)
      : functions_(functions),
        plan_(plan),
        tiling_(plan.tiling),
        it_(functions.computation()[plan.hero()]),
        a_(it_.as<hlo::ConvolutionAttributes>()),
        lhs_(functions.computation().operand_shape(it_, 0)),
        rhs_(functions.computation().operand_shape(it_, 1)),
        places_(shape_of_places(it_, tiling_)),
        terms_(shape_of_terms(functions.computation(), it_, tiling_)),
        type_(wide_type(it_.shape.type)),
        kernel_(kernel) {}

  Result<void> run() {
    Builder& builder = kernel_.builder();
    find_place(builder);
    IndexingMap map;
    map.ranges = {below(tiling_.iterations())};
    const Values zeros(static_cast<size_t>(tiling_.outputs), emit_zero(builder, type_));
    auto loop = create_loop(builder, map, {}, zeros, std::nullopt,
                            [&](Builder& inside, ValueRange ranges, ValueRange, ValueRange sums) {
                              return add_term(inside, ranges[0], Values(sums));
                            });
    const Values sums(loop.getResults());
    const Values written = tiling_.is_shared() ? write_shared(builder, sums) : write_strip(builder, sums);
    if (error_) return tl::unexpected(std::move(*error_));
    tiling_.parts > 1 ? kernel_.finish(kernel_.outputs(), written) : kernel_.finish(written);
    return {};
  }

 private:
  size_t spatial_rank() const { return a_.window.size(); }
  const hlo::WindowDimension& along() const { return a_.window[tiling_.dimension]; }

  void find_place(Builder& builder) {
    const std::vector<Interval> threads{below(tiling_.threads())};
    const Expr thread = Expr::dim(0);
    const int64_t shared = tiling_.threads_of_place, together = tiling_.places_of_block;
    const auto of_thread = [&](const Expr& expr) { return at(builder, expr, threads, kernel_.thread()); };
    share_ = of_thread(tiling_.lanes_on_terms ? indexing::mod(thread, shared) : indexing::floor_div(thread, together));
    column_ = of_thread(tiling_.lanes_on_terms ? indexing::floor_div(thread, shared) : indexing::mod(thread, together));
    const std::vector<Interval> blocks{below(tiling_.blocks()), below(together)};
    const Values variables{kernel_.block(), column_};
    part_ = at(builder, indexing::floor_div(Expr::dim(0), tiling_.blocks_of_part()), blocks, variables);
    const Expr block = indexing::mod(Expr::dim(0), tiling_.blocks_of_part());
    Value place = at(builder, block * together + Expr::dim(1), blocks, variables);
    if (tiling_.places % together != 0) {
      has_place_ = compare(builder, CmpIPredicate::slt, place, index_constant(builder, tiling_.places));
      place = builder.create<arith::MinSIOp>(place, index_constant(builder, tiling_.places - 1));
    }
    place_ = apply_map(builder, index_at_position(places_), {{place}, {}, {}});
  }

  // --- terms ---

  /// Variables of maps below: the index of the place, then of the term.
  std::vector<Interval> ranges() const {
    std::vector<Interval> ranges;
    for (const int64_t size : places_.dims) ranges.push_back(below(size));
    for (const int64_t size : terms_.dims) ranges.push_back(below(size));
    return ranges;
  }
  static Expr of_place(int64_t dimension) { return Expr::dim(static_cast<int>(dimension)); }
  Expr of_term(size_t number) const { return Expr::dim(static_cast<int>(places_.dims.size() + number)); }

  Value apply(Builder& builder, const Expr& expr, const Values& variables) const {
    return at(builder, expr, ranges(), variables);
  }

  /// The group of channels that a result belongs to, of `groups`.
  Expr group(int64_t groups) const {
    return indexing::floor_div(of_place(a_.output_feature), it_.shape.dim(a_.output_feature) / groups);
  }

  /// Where the window lies in a dimension that is not the strips', in elements of the image that is dilated.
  Expr dilated_position(size_t d) const {
    const hlo::WindowDimension& window = a_.window[d];
    return of_place(a_.output_spatial[d]) * window.stride + of_term(d + 1) * window.rhs_dilate - window.pad_low;
  }

  /// Whether the term has elements below it, in the dimensions that are not the strips'. Null if it always has.
  Value has_elements(Builder& builder, const Values& variables) const {
    IndexingMap map;
    map.dims = ranges();
    indexing::ExprRange range_of(map);
    const auto require = [&](const Expr& expr, const Interval& bounds) {
      if (!bounds.contains(range_of(expr))) map.constraints.push_back({expr, bounds});
    };
    for (size_t d = 0; d < spatial_rank(); ++d) {
      if (d == tiling_.dimension) continue;
      const Expr position = dilated_position(d);
      const int64_t dilation = a_.window[d].lhs_dilate;
      if (dilation > 1) require(indexing::mod(position, dilation), {0, 0});
      require(position, {0, (lhs_.dim(a_.input_spatial[d]) - 1) * dilation});
    }
    return map.constraints.empty() ? Value() : constraints_hold(builder, map, map.constraints, {variables, {}, {}});
  }

  Values add_term(Builder& builder, Value iteration, Values sums) {
    const int64_t together = tiling_.threads_of_place;
    const Expr number = (Expr::dim(0) * tiling_.parts + Expr::dim(1)) * together + Expr::dim(2);
    Value term = at(builder, number, {below(tiling_.iterations()), below(tiling_.parts), below(together)},
                    {iteration, part_, share_});
    Value condition;
    if (tiling_.iterations() * tiling_.parts * together > tiling_.terms) {
      condition = compare(builder, CmpIPredicate::slt, term, index_constant(builder, tiling_.terms));
      term = builder.create<arith::MinSIOp>(term, index_constant(builder, tiling_.terms - 1));
    }
    Values variables(place_);
    variables.append(apply_map(builder, index_at_position(terms_), {{term}, {}, {}}));
    if (const Value has = has_elements(builder, variables)) condition = both(builder, condition, has);
    return if_holds(builder, condition, sums, [&](Builder& inside) { return add_products(inside, variables, sums); });
  }

  Values add_products(Builder& builder, const Values& variables, Values sums) {
    struct Tap {
      Value factor, is_there;
    };
    std::map<int64_t, Tap> taps;
    const Values index = index_below(builder, variables);
    for (const ElementBelow& one : elements_below(along(), image(), tiling_)) {
      Value inside;
      const Value element = read_element(builder, variables, index, one, inside);
      for (const auto& [output, number] : one.products) {
        Tap& tap = taps[number];
        if (!tap.factor) tap.factor = read_tap(builder, variables, number, tap.is_there);
        Value& sum = sums[static_cast<size_t>(output)];
        const Value more = builder.create<mlir::math::FmaOp>(element, tap.factor, sum);
        const Value is_there = both(builder, inside, tap.is_there);
        sum = is_there ? builder.create<arith::SelectOp>(is_there, more, sum).getResult() : more;
      }
    }
    return sums;
  }

  int64_t image() const { return lhs_.dim(a_.input_spatial[tiling_.dimension]); }

  /// The index of what lies below the term, but along the strip.
  Values index_below(Builder& builder, const Values& variables) const {
    Values index(lhs_.dims.size());
    index[static_cast<size_t>(a_.input_batch)] = apply(
        builder,
        group(a_.batch_group_count) * (lhs_.dim(a_.input_batch) / a_.batch_group_count) + of_place(a_.output_batch),
        variables);
    index[static_cast<size_t>(a_.input_feature)] =
        apply(builder, group(a_.feature_group_count) * rhs_.dim(a_.kernel_input_feature) + of_term(0), variables);
    for (size_t d = 0; d < spatial_rank(); ++d) {
      if (d == tiling_.dimension) continue;
      // The condition holds here, which the map does not say: the quotient of what it excludes is not used.
      index[static_cast<size_t>(a_.input_spatial[d])] =
          apply(builder, indexing::floor_div(dilated_position(d), a_.window[d].lhs_dilate), variables);
    }
    return index;
  }

  /// Both conditions; null always holds.
  static Value both(Builder& builder, Value a, Value b) {
    return !a ? b : !b ? a : builder.create<arith::AndIOp>(a, b).getResult();
  }

  /// `inside` is null if it lies within the image of all strips. No load waits for a branch: beyond the image an
  /// element at its end is read.
  Value read_element(Builder& builder, const Values& variables, Values index, const ElementBelow& one, Value& inside) {
    const hlo::WindowDimension& window = along();
    const Expr begin = of_place(a_.output_spatial[tiling_.dimension]) * (tiling_.outputs * window.stride) +
                       of_term(tiling_.dimension + 1) * (tiling_.taps * window.rhs_dilate);
    Value position = apply(builder, indexing::floor_div(begin, window.lhs_dilate) + one.offset, variables);
    const auto require = [&](CmpIPredicate predicate, int64_t bound) {
      inside = both(builder, inside, compare(builder, predicate, position, index_constant(builder, bound)));
    };
    if (one.may_be_before) require(CmpIPredicate::sge, 0);
    if (one.may_be_after) require(CmpIPredicate::slt, image());
    if (one.may_be_before) position = builder.create<arith::MaxSIOp>(position, index_constant(builder, 0));
    if (one.may_be_after) position = builder.create<arith::MinSIOp>(position, index_constant(builder, image() - 1));
    index[static_cast<size_t>(a_.input_spatial[tiling_.dimension])] = position;
    return read(builder, 0, lhs_.type, index);
  }

  /// An element of the window; `is_there` is null if all chunks have it.
  Value read_tap(Builder& builder, const Values& variables, int64_t tap, Value& is_there) {
    const int64_t size = along().size;
    Value number = apply(builder, of_term(tiling_.dimension + 1) * tiling_.taps + tap, variables);
    if (tiling_.chunks * tiling_.taps > size && tap > (size - 1) % tiling_.taps) {
      is_there = compare(builder, CmpIPredicate::slt, number, index_constant(builder, size));
      number = builder.create<arith::MinSIOp>(number, index_constant(builder, size - 1));
    }
    Values index(rhs_.dims.size());
    index[static_cast<size_t>(a_.kernel_input_feature)] = apply(builder, of_term(0), variables);
    index[static_cast<size_t>(a_.kernel_output_feature)] = apply(builder, of_place(a_.output_feature), variables);
    for (size_t d = 0; d < spatial_rank(); ++d) {
      const int64_t last = a_.window[d].size - 1;
      Value at_dimension = d == tiling_.dimension ? number : apply(builder, of_term(d + 1), variables);
      if (a_.window[d].reversed)
        at_dimension = at(builder, Expr::constant(last) - Expr::dim(0), {below(last + 1)}, at_dimension);
      index[static_cast<size_t>(a_.kernel_spatial[d])] = at_dimension;
    }
    return read(builder, 1, rhs_.type, index);
  }

  Value read(Builder& builder, size_t operand, hlo::ElementType type, const Values& index) {
    const auto found = functions_.read(builder, it_.operands[operand], kernel_.inputs(), index);
    if (found) return emit_convert(builder, (*found)[0], type, type_);
    error_ = found.error();
    return emit_zero(builder, type_);
  }

  // --- results ---

  /// What the kernel writes: results, or sums of parts.
  ValueRange written_arrays() const { return tiling_.parts > 1 ? kernel_.temporaries() : kernel_.outputs(); }

  /// Those with result `number` of the strip, where it is one.
  Values write(Builder& builder, Value number, Value sum, const Values& outputs) {
    const int64_t dimension = a_.output_spatial[tiling_.dimension], size = it_.shape.dim(dimension);
    Values index(place_);
    Value& along = index[static_cast<size_t>(dimension)];
    along = at(builder, Expr::dim(0) * tiling_.outputs + Expr::dim(1), {below(tiling_.strips), below(tiling_.outputs)},
               {along, number});
    Value condition = has_place_;
    if (tiling_.strips * tiling_.outputs > size) {
      const Value is_there = compare(builder, CmpIPredicate::slt, along, index_constant(builder, size));
      condition = both(builder, condition, is_there);
    }
    return if_holds(builder, condition, outputs, [&](Builder& inside) {
      if (tiling_.parts == 1)
        return write_results(inside, functions_, plan_, kernel_, position_map(it_.shape), index, sum, outputs);
      const Value place = apply_map(inside, position_map(it_.shape), {index, {}, {}})[0];
      const Value in_all = place_in_parts(inside, tiling_, it_.shape.element_count(), part_, place);
      return Values{inside.create<mlir::tensor::InsertOp>(sum, outputs[0], in_all)};
    });
  }

  Values write_strip(Builder& builder, const Values& sums) {
    Values outputs(written_arrays());
    for (size_t i = 0; i < sums.size(); ++i)
      outputs = write(builder, index_constant(builder, static_cast<int64_t>(i)), sums[i], outputs);
    return outputs;
  }

  /// The sums of the threads that share a place meet in shared memory; each thread adds up those of some outputs.
  Values write_shared(Builder& builder, Values sums) {
    Value row = share_, writes;
    if (tiling_.lanes_on_terms) {
      const std::vector<Interval> shares{below(tiling_.threads_of_place)};
      const Value lane = at(builder, indexing::mod(Expr::dim(0), 32), shares, share_);
      row = at(builder, indexing::floor_div(Expr::dim(0), 32), shares, share_);
      writes = compare(builder, CmpIPredicate::eq, lane, index_constant(builder, 0));
      for (int64_t distance = 16; distance > 0; distance /= 2) add_lanes(builder, sums, lane, distance);
    }
    const int64_t rows = tiling_.sums_of_place();
    const auto tile_type =
        mlir::RankedTensorType::get({rows, tiling_.outputs, tiling_.places_of_block}, sums[0].getType(),
                                    SharedTileAttr::get(builder.getContext(), 0, 0));
    Value tile = builder.create<AllocateSharedOp>(tile_type);
    for (size_t i = 0; i < sums.size(); ++i) {
      const Values place{row, index_constant(builder, static_cast<int64_t>(i)), column_};
      tile = writes ? builder.create<PredicatedInsertOp>(tile_type, writes, sums[i], tile, place).getResult()
                    : builder.create<mlir::tensor::InsertOp>(sums[i], tile, place).getResult();
    }
    tile = builder.create<SyncThreadsOp>(mlir::TypeRange(tile_type), ValueRange(tile)).getResult(0);
    const int64_t shared = tiling_.threads_of_place;
    IndexingMap map;
    map.dims = {below(shared)};
    map.ranges = {below(indexing::ceil_div(tiling_.outputs, shared))};
    map.results = {Expr::range(0) * shared + Expr::dim(0)};
    map.constraints = {{map.results[0], below(tiling_.outputs)}};
    auto loop =
        create_loop(builder, map, {share_}, written_arrays(), std::nullopt,
                    [&](Builder& inside, ValueRange, ValueRange numbers, ValueRange outputs) {
                      return write(inside, numbers[0], sum_of_rows(inside, tile, rows, numbers[0]), Values(outputs));
                    });
    return Values(loop.getResults());
  }

  /// Adds what the lane so far away has, around the warp.
  static void add_lanes(Builder& builder, Values& sums, Value lane, int64_t distance) {
    const Value other = at(builder, indexing::mod(Expr::dim(0) + distance, 32), {below(32)}, lane);
    auto shuffled = builder.create<ShuffleIndexOp>(mlir::TypeRange(ValueRange(sums).getTypes()), sums, other);
    for (size_t i = 0; i < sums.size(); ++i)
      sums[i] = emit_add(builder, sums[i], shuffled.getResult(static_cast<unsigned>(i)));
  }

  Value sum_of_rows(Builder& builder, Value tile, int64_t rows, Value number) {
    IndexingMap map;
    map.ranges = {below(rows)};
    const Values zero{emit_zero(builder, type_)};
    auto loop = create_loop(
        builder, map, {}, zero, std::nullopt,
        [&](Builder& inside, ValueRange row, ValueRange, ValueRange sum) -> Values {
          const Value one = inside.create<mlir::tensor::ExtractOp>(tile, ValueRange{row[0], number, column_});
          return {emit_add(inside, sum[0], one)};
        });
    return loop.getResult(0);
  }

  const FusionFunctions& functions_;
  const WindowPlan& plan_;
  const WindowTiling& tiling_;
  const hlo::Instruction& it_;
  const hlo::ConvolutionAttributes& a_;
  const hlo::Shape &lhs_, &rhs_;
  const hlo::Shape places_, terms_;
  const hlo::ElementType type_;  ///< of sums
  Kernel& kernel_;
  Values place_;          ///< the index of the thread's strip
  Value has_place_;       ///< null if all threads have one
  Value share_, column_;  ///< the thread's number among those of its place, and the place's in the block
  Value part_;            ///< the block's number among those of its places
  std::optional<Error> error_;
};

std::string described(const WindowTiling& tiling) {
  if (!tiling.is_shared()) return fmt::format("{} strips", tiling.places_of_block);
  return fmt::format("{} strip{}, {} threads each{}", tiling.places_of_block, tiling.places_of_block == 1 ? "" : "s",
                     tiling.threads_of_place, tiling.lanes_on_terms ? ", lanes beside each other" : "");
}

}  // namespace

Result<Plan> plan_window(const Fusion& fusion) {
  const hlo::Computation& from = fusion.computation();
  const auto is_convolution = [&](InstructionId id) { return from[id].opcode == hlo::Opcode::Convolution; };
  if (std::ranges::none_of(from.instructions,
                           [](const hlo::Instruction& it) { return it.opcode == hlo::Opcode::Convolution; }))
    return unsupported("there is no convolution");
  auto made = std::make_shared<WindowPlan>();
  std::vector<InstructionId> heroes;
  STRATA_TRY(made->split, split_at_heroes(fusion, [&](InstructionId id) {
               if (!is_convolution(id)) return false;
               heroes.push_back(id);
               return true;
             }));
  if (made->split.heroes.size() != 1) return unsupported("not one convolution stands before the roots");
  const hlo::Computation& computation = made->computation();
  const hlo::Instruction& it = computation[made->hero()];
  if (std::ranges::count(computation.instructions, hlo::Opcode::Convolution, &hlo::Instruction::opcode) != 1)
    return unsupported("{} is not the only convolution", it.name);
  for (const InstructionId id : root_values(computation)) {
    if (computation[id].shape.element_count() != it.shape.element_count())
      return unsupported("{} has not as many elements as {}", computation[id].name, it.name);
  }
  STRATA_TRY(made->tiling, choose_window_tiling(computation, it, fusion.target));
  const WindowTiling& tiling = made->tiling;
  Plan plan;
  Decision& decision = plan.decision;
  decision.emitter = "window";
  decision.reason = "results beside each other read the same elements, which a thread keeps";
  decision.heroes = heroes;
  decision.microseconds = tiling.microseconds;
  decision.launch().threads = static_cast<int>(tiling.threads());
  decision.launch().blocks = tiling.blocks();
  decision.launch().shared_bytes = tiling.shared_bytes(hlo::byte_width(wide_type(it.shape.type)));
  decision.details = {{"strip", fmt::format("{} results along spatial dimension {}", tiling.outputs, tiling.dimension)},
                      {"window", fmt::format("{} of its elements at a time, {} times", tiling.taps, tiling.terms)},
                      {"a block", described(tiling)}};
  if (tiling.parts > 1) {
    const int64_t elements = it.shape.element_count();
    decision.details.emplace_back("parts", std::to_string(tiling.parts));
    decision.launch().name = "parts";
    decision.launches.push_back({"sums", indexing::ceil_div(elements, kThreadsOfSums), kThreadsOfSums});
    decision.temporaries = {hlo::array_shape(wide_type(it.shape.type), {tiling.parts * elements})};
  }
  plan.emit = [made, decision](mlir::ModuleOp target, const std::string& name) -> Result<void> {
    STRATA_TRY(const FusionFunctions functions,
               FusionFunctions::create(target, *made->split.module, made->split.computation, made->split.options));
    Kernel kernel(functions, name, decision);
    STRATA_CHECK(Writer(functions, *made, kernel).run());
    if (made->tiling.parts == 1) return {};
    Kernel adder(functions, name, decision, 1, {0});
    add_parts(functions, *made, adder, decision.launches[1]);
    return {};
  };
  return plan;
}

}  // namespace strata::emitters
