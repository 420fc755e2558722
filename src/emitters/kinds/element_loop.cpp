// A while loop in which each element of the state goes its own way (hlo/indexing/element_loop.h): a thread takes an
// element through all iterations in registers. There is no barrier, and memory has only the first state, the last one
// and the rows that iterations write.
#include "hlo/indexing/element_loop.h"

#include <fmt/format.h>
#include <mlir/Dialect/Arith/IR/Arith.h>
#include <mlir/Dialect/SCF/IR/SCF.h>
#include <mlir/Dialect/Tensor/IR/Tensor.h>

#include <cstring>
#include <map>
#include <memory>

#include "emitters/dialect/dialect.h"
#include "emitters/elemental/known_functions.h"
#include "emitters/elemental/scalar_operators.h"
#include "emitters/kinds/code.h"
#include "emitters/kinds/kernel.h"
#include "emitters/kinds/plan.h"
#include "hlo/indexing/operator_maps.h"
#include "hlo/source_of.h"
#include "indexing/simplify.h"
#include "indexing/thread_maps.h"

namespace strata::emitters {
namespace {

using indexing::ElementLoop;
using indexing::Expr;
using indexing::IndexingMap;
using mlir::Value;
using mlir::ValueRange;
using Role = ElementLoop::Role;
using Group = ElementLoop::Group;
using Builder = mlir::ImplicitLocOpBuilder;

/// An array of the fusion's root: a leaf of the last state, or what is computed of it.
struct Output {
  size_t leaf = 0;
  int last = -1;  ///< or this result of the last state
  hlo::Shape shape;
};

struct ElementKernel {
  ElementLoop loop;
  std::vector<Output> outputs;
  int64_t ahead = 0;  ///< iterations before it needs them, a thread reads rows
  indexing::PartitionOptions options;
};

class Writer {
 public:
  Writer(const ElementKernel& made, const FusionFunctions& functions, Kernel& kernel, int threads)
      : made_(made), loop_(made.loop), functions_(functions), kernel_(kernel), threads_(threads) {}

  Values run() {
    Builder& builder = kernel_.builder();
    const int64_t elements = shape_of_elements().element_count();
    IndexingMap map = indexing::thread_map(indexing::linear_tiling({elements}, threads_, 1, 1));
    map = indexing::simplify(indexing::compose(map, index_at_position(shape_of_elements())),
                             indexing::UnusedVariables::Keep);
    auto all = create_loop(builder, map, kernel_.place(), kernel_.outputs(), std::nullopt,
                           [&](Builder& inside, ValueRange, ValueRange indices, ValueRange outputs) {
                             return element(inside, indices, Values(outputs));
                           });
    return Values(all.getResults());
  }

 private:
  hlo::Shape shape_of_elements() const { return hlo::array_shape(hlo::ElementType::Pred, loop_.dims); }
  const hlo::Computation& step() const { return functions_.computation(); }

  /// Leaves whose values the loop carries.
  std::vector<size_t> carried() const {
    std::vector<size_t> leaves;
    for (size_t i = 0; i < loop_.leaves.size(); ++i) {
      if (loop_.leaves[i].next >= 0) leaves.push_back(i);
    }
    return leaves;
  }

  /// Results of a group at an index of the elements.
  std::vector<Value> results(Builder& builder, Group group, ValueRange indices, const HeroValues& state) {
    const indexing::FunctionPartition& partition = functions_.partition();
    std::map<int, Values> called;
    std::vector<Value> values(loop_.results.size());
    for (size_t i = 0; i < values.size(); ++i) {
      if (loop_.results[i] != group) continue;
      const auto& root = partition.roots[i];
      auto [known, is_new] = called.try_emplace(root.function);
      if (is_new) {
        const indexing::Function& function = partition.functions[static_cast<size_t>(root.function)];
        const hlo::Shape& first = step()[function.results[0].instruction].shape;
        Values at;
        if (first.rank() > 0) at = apply_map(builder, to_dims(first.dims), {Values(indices), {}, {}});
        known->second =
            functions_.call(builder, root.function, kernel_.inputs(), at, functions_.injected(root.function, state));
      }
      values[i] = known->second[static_cast<size_t>(root.result)];
    }
    return values;
  }

  /// From an element's index to the index in an array of as many.
  IndexingMap to_dims(const std::vector<int64_t>& dims) const {
    return indexing::simplify(
        indexing::bitcast_map(shape_of_elements(), hlo::array_shape(hlo::ElementType::Pred, dims)),
        indexing::UnusedVariables::Keep);
  }

  Values element(Builder& builder, ValueRange indices, Values outputs) {
    const std::vector<size_t> leaves = carried();
    const std::vector<Value> first = results(builder, Group::First, indices, {});
    Values state;
    for (const size_t leaf : leaves) state.push_back(first[static_cast<size_t>(loop_.leaves[leaf].first)]);
    state = loop_.counted ? counted(builder, indices, std::move(state), outputs)
                          : until_false(builder, indices, std::move(state));
    return write_last(builder, indices, state, std::move(outputs));
  }

  HeroValues heroes(ValueRange state) const {
    HeroValues values;
    const std::vector<size_t> leaves = carried();
    for (size_t i = 0; i < leaves.size(); ++i) values[loop_.leaves[leaves[i]].state] = {state[i]};
    return values;
  }

  Values next_state(const std::vector<Value>& results) const {
    Values next;
    for (const size_t leaf : carried()) next.push_back(results[static_cast<size_t>(loop_.leaves[leaf].next)]);
    return next;
  }

  /// Counters in an iteration, which may be one after the last.
  HeroValues counters(Builder& builder, Value iteration) const {
    HeroValues values;
    for (size_t i = 0; i < loop_.leaves.size(); ++i) {
      const ElementLoop::Leaf& leaf = loop_.leaves[i];
      if (leaf.role != Role::Counter) continue;
      const auto* counter = loop_.counted->counter(static_cast<int64_t>(i));
      const Value number =
          affine(builder, iteration, counter->first, counter->step, loop_.counted->count + made_.ahead);
      const Value integer = builder.create<mlir::arith::IndexCastOp>(builder.getI64Type(), number);
      values[leaf.state] = {emit_convert(builder, integer, hlo::ElementType::S64, step()[leaf.state].shape.type)};
    }
    return values;
  }

  /// The rows of an iteration. Of one after the last it is some row: starts are clamped.
  Values rows_of(Builder& builder, ValueRange indices, Value iteration) {
    const std::vector<Value> found = results(builder, Group::Ahead, indices, counters(builder, iteration));
    Values rows;
    for (const ElementLoop::Row& row : loop_.rows) rows.push_back(found[static_cast<size_t>(row.result)]);
    return rows;
  }

  /// A number that changes by as much in each iteration.
  static Value affine(Builder& builder, Value iteration, int64_t first, int64_t slope, int64_t count) {
    const IndexingMap map{{Expr::dim(0) * slope + first}, {indexing::below(count)}, {}, {}, {}, false};
    return apply_map(builder, map, {{iteration}, {}, {}})[0];
  }

  /// The state after all iterations, which also write rows into the outputs.
  Values counted(Builder& builder, ValueRange indices, Values state, Values& outputs) {
    const int64_t count = loop_.counted->count;
    if (count == 0) return state;
    const IndexingMap map{{}, {}, {indexing::below(count)}, {}, {}, false};
    const size_t size = state.size();
    Values inits = std::move(state);
    // Rows of the next iterations, those of the first one first.
    const size_t rows = made_.ahead > 0 ? loop_.rows.size() : 0;
    for (int64_t k = 0; rows > 0 && k < made_.ahead; ++k)
      inits.append(rows_of(builder, indices, index_constant(builder, k)));
    const size_t before_outputs = inits.size();
    inits.append(outputs);
    auto made = create_loop(
        builder, map, {}, inits, std::nullopt,
        [&](Builder& inside, ValueRange iteration, ValueRange, ValueRange arguments) -> Values {
          HeroValues values = heroes(arguments.take_front(size));
          values.merge(counters(inside, iteration[0]));
          Values later;
          if (rows > 0) {
            for (size_t i = 0; i < rows; ++i) values[loop_.rows[i].value] = {arguments[size + i]};
            later.append(Values(arguments.slice(size + rows, before_outputs - size - rows)));
            const Value next = affine(inside, iteration[0], made_.ahead, 1, count);
            later.append(rows_of(inside, indices, next));
          }
          const std::vector<Value> found = results(inside, Group::Next, indices, values);
          Values next = next_state(found);
          next.append(later);
          for (size_t o = 0; o < made_.outputs.size(); ++o) {
            const ElementLoop::Leaf& leaf = loop_.leaves[made_.outputs[o].leaf];
            Value array = arguments[before_outputs + o];
            if (made_.outputs[o].last < 0 && leaf.role == Role::Rows) {
              const auto part = static_cast<size_t>(leaf.part);
              const hlo::InstructionId id = step().root_instruction().operands[part];
              Values at = apply_map(inside, to_dims(step()[id].shape.dims), {Values(indices), {}, {}});
              array = write_part(inside, found[part], array, made_.outputs[o].shape, at, iteration[0], leaf);
            }
            next.push_back(array);
          }
          return next;
        });
    const Values all(made.getResults());
    outputs.assign(all.begin() + static_cast<std::ptrdiff_t>(before_outputs), all.end());
    return Values(llvm::ArrayRef(all).take_front(size));
  }

  Value write_part(Builder& builder, Value value, Value array, const hlo::Shape& shape, Values at, Value iteration,
                   const ElementLoop::Leaf& leaf) const {
    const int64_t count = loop_.counted->count;
    // The place of the part and of the element in it, as one map: its ranges are known.
    IndexingMap place = position_map(shape);
    const int last = static_cast<int>(place.dims.size());
    const auto dimension = static_cast<int>(leaf.dimension);
    const std::vector<int64_t>& size =
        step()[step().root_instruction().operands[static_cast<size_t>(leaf.part)]].shape.dims;
    place.dims[leaf.dimension] = indexing::below(size[leaf.dimension]);
    place.dims.push_back(indexing::below(count));
    for (Expr& one : place.results) {
      one = indexing::substitute(one, [&](indexing::ExprKind kind, int number) {
        const Expr same = Expr::variable(kind, number);
        return kind == indexing::ExprKind::Dimension && number == dimension
                   ? same + Expr::dim(last) * leaf.at.slope + leaf.at.first
                   : same;
      });
    }
    at.push_back(iteration);
    const Values position =
        apply_map(builder, indexing::simplify(place, indexing::UnusedVariables::Keep), {at, {}, {}});
    return builder.create<mlir::tensor::InsertOp>(value, array, position);
  }

  Values until_false(Builder& builder, ValueRange indices, Values state) {
    auto made = builder.create<mlir::scf::WhileOp>(
        ValueRange(state).getTypes(), state,
        [&](mlir::OpBuilder& at, mlir::Location location, ValueRange arguments) {
          Builder inside(location, at);
          const Value goes_on =
              results(inside, Group::Condition, indices, heroes(arguments))[static_cast<size_t>(loop_.condition)];
          inside.create<mlir::scf::ConditionOp>(goes_on, arguments);
        },
        [&](mlir::OpBuilder& at, mlir::Location location, ValueRange arguments) {
          Builder inside(location, at);
          inside.create<mlir::scf::YieldOp>(next_state(results(inside, Group::Next, indices, heroes(arguments))));
        });
    return Values(made.getResults());
  }

  /// The last state of the element; scalars are written by the thread of the first one.
  Values write_last(Builder& builder, ValueRange indices, ValueRange state, Values outputs) {
    const std::vector<size_t> leaves = carried();
    const std::vector<Value> after = results(builder, Group::Last, indices, heroes(state));
    for (size_t o = 0; o < outputs.size(); ++o) {
      const auto& [number, last_result, shape] = made_.outputs[o];
      if (last_result >= 0) {
        const auto at = apply_map(builder, to_dims(shape.dims), {Values(indices), {}, {}});
        const Values position = apply_map(builder, position_map(shape), {at, {}, {}});
        outputs[o] =
            builder.create<mlir::tensor::InsertOp>(after[static_cast<size_t>(last_result)], outputs[o], position);
        continue;
      }
      const ElementLoop::Leaf& leaf = loop_.leaves[number];
      if (leaf.role == Role::Rows) continue;
      Value value;
      if (leaf.role == Role::Counter) {
        const auto* counter = loop_.counted->counter(static_cast<int64_t>(number));
        hlo::Literal last(shape);
        const int64_t number_after = counter->first + counter->step * loop_.counted->count;
        std::memcpy(last.mutable_bytes(), &number_after, last.byte_size());
        value = emit_constant(builder, last, 0);
      } else {
        value = state[static_cast<unsigned>(std::ranges::find(leaves, number) - leaves.begin())];
      }
      if (leaf.role == Role::Element) {
        const Values position = apply_map(builder, position_map(shape), {Values(indices), {}, {}});
        outputs[o] = builder.create<mlir::tensor::InsertOp>(value, outputs[o], position);
        continue;
      }
      const Value zero = index_constant(builder, 0);
      const Value own = apply_map(builder, position_map(shape_of_elements()), {Values(indices), {}, {}})[0];
      const Value is_first = compare(builder, mlir::arith::CmpIPredicate::eq, own, zero);
      outputs[o] = builder.create<PredicatedInsertOp>(is_first, value, outputs[o], ValueRange{zero});
    }
    return outputs;
  }

  const ElementKernel& made_;
  const ElementLoop& loop_;
  const FusionFunctions& functions_;
  Kernel& kernel_;
  const int threads_;
};

/// As many as are on their way while a load takes its time, and as a thread has registers for; none in short loops.
int64_t iterations_ahead(const ElementLoop& loop) {
  constexpr int64_t kMost = 8, kRegisters = 32;
  const auto rows = std::ssize(loop.rows);
  if (rows == 0 || rows > kRegisters / 2 || loop.counted->count < 4 * kMost) return 0;
  return std::min(kMost, kRegisters / rows);
}

/// As many as let all multiprocessors have some: a chain of operations takes as long on each.
int threads_of(int64_t elements, const Target& target) {
  int threads = 128;
  while (threads > 32 && indexing::ceil_div(elements, threads) < target.multiprocessors) threads /= 2;
  return threads;
}

}  // namespace

Result<Plan> plan_element_loop(const Fusion& fusion) {
  const hlo::Computation& computation = fusion.computation();
  const auto loop = std::ranges::find(computation.instructions, hlo::Opcode::While, &hlo::Instruction::opcode);
  if (loop == computation.instructions.end()) return unsupported("there is no loop");
  const auto id = static_cast<hlo::InstructionId>(loop - computation.instructions.begin());
  auto made = std::make_shared<ElementKernel>();
  STRATA_TRY(made->loop, indexing::element_loop(fusion.module, fusion.id, id));
  if (auto known = with_known_functions(made->loop.step, made->loop.computation)) made->loop.step = *std::move(known);
  const hlo::Shape& root = computation.root_instruction().shape;
  for (int64_t i = 0; i < hlo::leaf_count(root); ++i) {
    const auto [source, leaf] = hlo::source_of(computation, computation.root, i);
    const int last = made->loop.last[static_cast<size_t>(i)];
    made->outputs.push_back({last < 0 ? static_cast<size_t>(leaf) : 0, last, hlo::leaf_of(root, i)});
    if (last < 0 && made->loop.leaves[static_cast<size_t>(leaf)].role == Role::Same)
      return unsupported("a result stays as it is in all iterations");
  }
  made->ahead = iterations_ahead(made->loop);
  made->options.heroes = made->loop.states();
  if (made->ahead > 0) {
    for (const ElementLoop::Row& row : made->loop.rows) made->options.heroes.push_back(row.value);
  }
  for (const Group group : made->loop.results) made->options.root_groups.push_back(static_cast<int>(group));
  const int64_t elements = hlo::array_shape(hlo::ElementType::Pred, made->loop.dims).element_count();
  Plan plan;
  plan.decision.emitter = "loop of elements";
  plan.decision.reason = "a thread takes an element through all iterations in registers";
  plan.decision.launch().threads = threads_of(elements, fusion.target);
  plan.decision.launch().blocks = indexing::ceil_div(elements, plan.decision.launch().threads);
  plan.decision.details = {{"elements", std::to_string(elements)},
                           {"iterations", made->loop.counted ? std::to_string(made->loop.counted->count)
                                          : made->loop.each  ? "until an element's own condition is false"
                                                             : "until the condition is false"}};
  if (made->ahead > 0)
    plan.decision.details.emplace_back(
        "rows", fmt::format("{} of an iteration, read {} iterations ahead", made->loop.rows.size(), made->ahead));
  plan.emit = [made, decision = plan.decision](mlir::ModuleOp target, const std::string& name) -> Result<void> {
    STRATA_TRY(const FusionFunctions functions,
               FusionFunctions::create(target, made->loop.step, made->loop.computation, made->options));
    std::vector<hlo::Shape> outputs;
    for (const Output& output : made->outputs) outputs.push_back(output.shape);
    Kernel kernel(functions, name, decision, 0, {}, outputs);
    kernel.finish(Writer(*made, functions, kernel, decision.launch().threads).run());
    return {};
  };
  return plan;
}

}  // namespace strata::emitters
