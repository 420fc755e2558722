#include "hlo/batch_loop_products.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "hlo/entry_rewriter.h"
#include "hlo/inline_calls.h"
#include "hlo/literal.h"
#include "hlo/loop_rows.h"

namespace strata::hlo {
namespace {

constexpr int64_t kMostOperations = int64_t{1} << 30;
constexpr int64_t kMostBytes = int64_t{1} << 28;

using Affine = LoopRows::Affine;

Shape with_rows(const Shape& row, int64_t rows) {
  std::vector<int64_t> dims{rows};
  dims.insert(dims.end(), row.dims.begin(), row.dims.end());
  return array_shape(row.type, dims);
}

Shape with_type(const Shape& shape, ElementType type) { return array_shape(type, shape.dims); }

std::vector<int64_t> behind_rows(std::vector<int64_t> dimensions, bool rows_too) {
  for (int64_t& dimension : dimensions) ++dimension;
  if (rows_too) dimensions.insert(dimensions.begin(), 0);
  return dimensions;
}

/// What becomes of a loop.
struct Changes {
  /// By product of the body: the row that it multiplies.
  std::map<InstructionId, LoopRows::Row> before;
  /// By leaf: what is written as rows, a product; what is added up.
  std::map<int64_t, LoopRows::Written> written;
  std::map<int64_t, LoopRows::Sum> sums;

  bool empty() const { return before.empty() && written.empty() && sums.empty(); }
};

/// What can be batched of a loop.
class Finder {
 public:
  explicit Finder(const LoopRows& loop) : loop_(loop), body_(loop.body()) {}

  Changes find() {
    Changes found;
    for (InstructionId id = 0; id < std::ssize(body_.instructions); ++id) {
      if (!is_small_product(id) || !fits(body_[id].shape) || !loop_.stays(body_[id].operands[1])) continue;
      if (std::optional<LoopRows::Row> row = loop_.row(body_[id].operands[0]))
        found.before.emplace(id, *std::move(row));
    }
    for (int64_t leaf = 0; leaf < loop_.leaves(); ++leaf) {
      if (std::optional<LoopRows::Written> written = loop_.written(leaf)) {
        const InstructionId product = written->value;
        if (loop_.uses(product) == 1 && is_small_product(product) && !found.before.contains(product) &&
            fits(body_.operand_shape(body_[product], 0)) && loop_.stays(body_[product].operands[1]) &&
            !loop_.stays(body_[product].operands[0]))
          found.written.emplace(leaf, *std::move(written));
      }
      if (std::optional<LoopRows::Sum> sum = loop_.sum(leaf); sum && is_batched(*sum))
        found.sums.emplace(leaf, *std::move(sum));
    }
    return found;
  }

 private:
  /// Of one iteration; the first operand has the rows.
  bool is_small_product(InstructionId id) const {
    const Instruction& it = body_[id];
    if (it.opcode != Opcode::Dot || !it.as<DotAttributes>().lhs_batch.empty()) return false;
    int64_t operations = 2 * it.shape.element_count();
    for (const int64_t dimension : it.as<DotAttributes>().lhs_contracting)
      operations *= body_.operand_shape(it, 0).dims[static_cast<size_t>(dimension)];
    return operations <= kMostOperations;
  }

  /// Whether all rows of such a shape are little enough.
  bool fits(const Shape& row) const { return row.element_count() * byte_width(row.type) <= kMostBytes / loop_.count(); }

  /// Whether what is added up is a function of rows that are all there after the loop, at the same places.
  bool is_batched(const LoopRows::Sum& sum) const {
    const Instruction& core = body_[sum.core];
    if (core.opcode == Opcode::Dot && !is_small_product(sum.core)) return false;
    const size_t rows = core.opcode == Opcode::Dot ? 2 : 1;
    std::optional<Affine> at;
    for (size_t i = 0; i < rows; ++i) {
      const std::optional<LoopRows::Row> row = loop_.row(core.operands[i]);
      if (row ? at && *at != row->at : loop_.stays(core.operands[i]) || !fits(body_.operand_shape(core, i)))
        return false;
      if (row) at = row->at;
    }
    return at || loop_.counter();
  }

  const LoopRows& loop_;
  const Computation& body_;
};

class Batcher : EntryRewriter {
 public:
  explicit Batcher(const Module& module) : EntryRewriter(module), module_(module) {}

  Module run() {
    bool changed = false;
    Module made = rewrite([&](const Instruction& it, const Instruction& copy) -> std::optional<InstructionId> {
      if (it.opcode != Opcode::While) return std::nullopt;
      const std::optional<LoopRows> loop = LoopRows::of(module_, from_, static_cast<InstructionId>(moved_.size()));
      if (!loop) return std::nullopt;
      const Changes changes = Finder(*loop).find();
      if (changes.empty()) return std::nullopt;
      changed = true;
      return batched(*loop, changes, copy);
    });
    // What is read of the tuples before and after the loops is their elements.
    return changed ? inline_calls(made) : made;
  }

 private:
  /// Rows that the new body writes.
  struct Stack {
    InstructionId value = 0;  ///< of the old body
    InstructionId index = 0;
    Affine at;
    int64_t leaf = 0;  ///< of the new state
  };

  InstructionId zeros(const Shape& shape) {
    const InstructionId zero = add("zero", Opcode::Constant, array_shape(shape.type, {}), {},
                                   ConstantAttributes{Literal(array_shape(shape.type, {})), false});
    return add("zeros", Opcode::Broadcast, shape, {zero}, DimensionsAttributes{{}});
  }

  InstructionId converted(InstructionId id, const std::vector<ElementType>& types) {
    for (const ElementType type : types) id = add("rows", Opcode::Convert, with_type(shape(id), type), {id});
    return id;
  }

  /// What stays as it is in the body, outside of it.
  InstructionId outside(const LoopRows& loop, InstructionId id) {
    if (const std::optional<int64_t> leaf = loop.leaf_of(id)) return first_[static_cast<size_t>(*leaf)];
    Instruction it = loop.body()[id];
    for (InstructionId& operand : it.operands) operand = outside(loop, operand);
    return add(it.name, it.opcode, it.shape, it.operands, it.attributes);
  }

  /// A product of the body, of all rows of its first operand.
  InstructionId product_of_rows(const LoopRows& loop, InstructionId product, InstructionId rows) {
    const Instruction& it = loop.body()[product];
    DotAttributes dot = it.as<DotAttributes>();
    dot.lhs_contracting = behind_rows(dot.lhs_contracting, false);
    return add(it.name, Opcode::Dot, with_rows(it.shape, loop.count()), {rows, outside(loop, it.operands[1])}, dot);
  }

  InstructionId batched(const LoopRows& loop, const Changes& changes, const Instruction& it) {
    first_.clear();
    stacks_.clear();
    std::vector<Shape> shapes;
    for (int64_t leaf = 0; leaf < loop.leaves(); ++leaf) {
      shapes.push_back(loop.leaf_shape(leaf));
      first_.push_back(add(it.name + ".first", Opcode::GetTupleElement, shapes.back(), {it.operands[0]},
                           TupleIndexAttributes{leaf}));
    }
    std::vector<InstructionId> state = first_;
    std::map<InstructionId, int64_t> leaf_of_product;
    for (const auto& [product, row] : changes.before) {
      const InstructionId rows = converted(first_[static_cast<size_t>(row.leaf)], row.converted);
      leaf_of_product[product] = std::ssize(state);
      state.push_back(product_of_rows(loop, product, rows));
    }
    for (const auto& [leaf, written] : changes.written)
      stack(loop, loop.body()[written.value].operands[0], written.index, written.at, state);
    // Sums of what is written anyway, at any places, come last.
    for (const bool free : {false, true}) {
      for (const auto& [leaf, sum] : changes.sums) {
        if (has_places(loop, sum) != free) stack_of_sum(loop, sum, state);
      }
    }
    shapes.clear();
    for (const InstructionId id : state) shapes.push_back(shape(id));
    const Shape whole = tuple_shape(shapes);

    const InstructionId begin = add(it.name + ".state", Opcode::Tuple, whole, state);
    const ComputationId condition = add_computation(condition_of(it.called[0], whole));
    const ComputationId body = add_computation(body_of(loop, changes, leaf_of_product, whole));
    const InstructionId made =
        add(it.name + ".batched", Opcode::While, whole, {begin}, NoAttributes{}, {condition, body});
    last_.clear();
    for (size_t leaf = 0; leaf < shapes.size(); ++leaf) {
      last_.push_back(add(it.name + ".last", Opcode::GetTupleElement, shapes[leaf], {made},
                          TupleIndexAttributes{static_cast<int64_t>(leaf)}));
    }
    std::vector<InstructionId> results(last_.begin(), last_.begin() + loop.leaves());
    for (const auto& [leaf, written] : changes.written) {
      const InstructionId rows = rows_of(loop, loop.body()[written.value].operands[0], written.at);
      results[static_cast<size_t>(leaf)] = converted(product_of_rows(loop, written.value, rows), written.converted);
    }
    for (const auto& [leaf, sum] : changes.sums)
      results[static_cast<size_t>(leaf)] = total(loop, sum, first_[static_cast<size_t>(leaf)]);
    return add(it.name + ".results", Opcode::Tuple, it.shape, results);
  }

  /// Whether a sum is of rows that are there before the loop, in their order.
  static bool has_places(const LoopRows& loop, const LoopRows::Sum& sum) {
    return std::ranges::any_of(loop.body()[sum.core].operands,
                               [&](InstructionId operand) { return loop.row(operand).has_value(); });
  }

  /// Where the rows of a sum stand, and the index at which the body writes those that it makes.
  std::pair<Affine, InstructionId> places(const LoopRows& loop, const LoopRows::Sum& sum) const {
    const std::vector<InstructionId>& operands = loop.body()[sum.core].operands;
    for (const InstructionId operand : operands) {
      if (const std::optional<LoopRows::Row> row = loop.row(operand)) return {row->at, row->index};
    }
    const auto known = std::ranges::find_if(stacks_, [&](const Stack& one) { return one.value == operands[0]; });
    if (known != stacks_.end()) return {known->at, known->index};
    return {{0, 1}, *loop.counter()};
  }

  void stack_of_sum(const LoopRows& loop, const LoopRows::Sum& sum, std::vector<InstructionId>& state) {
    const Instruction& core = loop.body()[sum.core];
    const auto [at, index] = places(loop, sum);
    for (size_t i = 0; i < (core.opcode == Opcode::Dot ? 2U : 1U); ++i) {
      if (!loop.row(core.operands[i])) stack(loop, core.operands[i], index, at, state);
    }
  }

  void stack(const LoopRows& loop, InstructionId value, InstructionId index, Affine at,
             std::vector<InstructionId>& state) {
    if (find_stack(value, at) != nullptr) return;
    stacks_.push_back({value, index, at, std::ssize(state)});
    state.push_back(zeros(with_rows(loop.body()[value].shape, loop.count())));
  }

  const Stack* find_stack(InstructionId value, const Affine& at) const {
    const auto found =
        std::ranges::find_if(stacks_, [&](const Stack& one) { return one.value == value && one.at == at; });
    return found == stacks_.end() ? nullptr : &*found;
  }

  /// All rows of a value of the body, after the loop.
  InstructionId rows_of(const LoopRows& loop, InstructionId value, const Affine& at) {
    if (const Stack* found = find_stack(value, at)) return last_[static_cast<size_t>(found->leaf)];
    const std::optional<LoopRows::Row> row = loop.row(value);
    return converted(first_[static_cast<size_t>(row->leaf)], row->converted);
  }

  /// What is added up, of all rows, and what it is added to.
  InstructionId total(const LoopRows& loop, const LoopRows::Sum& sum, InstructionId first) {
    const Instruction& core = loop.body()[sum.core];
    const Affine at = places(loop, sum).first;
    const InstructionId rows = rows_of(loop, core.operands[0], at);
    InstructionId result = 0;
    if (core.opcode == Opcode::Dot) {
      DotAttributes dot = core.as<DotAttributes>();
      dot.lhs_contracting = behind_rows(dot.lhs_contracting, true);
      dot.rhs_contracting = behind_rows(dot.rhs_contracting, true);
      result = add(core.name, Opcode::Dot, core.shape, {rows, rows_of(loop, core.operands[1], at)}, dot);
    } else {
      result = add(core.name, Opcode::Reduce, core.shape, {rows, outside(loop, core.operands[1])},
                   DimensionsAttributes{behind_rows(core.dimensions(), true)}, core.called);
    }
    for (const InstructionId id : sum.after) {
      const Instruction& it = loop.body()[id];
      std::vector<InstructionId> operands{result};
      if (it.opcode == Opcode::Reduce) operands.push_back(outside(loop, it.operands[1]));
      result = add(it.name, it.opcode, it.shape, operands, it.attributes, it.called);
    }
    return add("sum", Opcode::Add, shape(first), {first, result});
  }

  ComputationId add_computation(Computation computation) {
    result_.computations.push_back(std::move(computation));
    return static_cast<ComputationId>(result_.computations.size()) - 1;
  }

  Computation condition_of(ComputationId of, const Shape& state) const {
    Computation condition = module_[of];
    condition.name += ".batched";
    condition.instructions[static_cast<size_t>(condition.parameters[0])].shape = state;
    return condition;
  }

  /// The body with its new state: what is done before or after the loop is not done here.
  Computation body_of(const LoopRows& loop, const Changes& changes,
                      const std::map<InstructionId, int64_t>& leaf_of_product, const Shape& state) const {
    const Computation& from = loop.body();
    Computation body;
    body.name = from.name + ".batched";
    std::set<std::string> names;
    for (const Instruction& it : from.instructions) names.insert(it.name);
    const auto put = [&](Instruction it) {
      body.instructions.push_back(std::move(it));
      return static_cast<InstructionId>(body.instructions.size()) - 1;
    };
    const auto make = [&](const std::string& base, Opcode opcode, const Shape& shape,
                          std::vector<InstructionId> operands, Attributes attributes = NoAttributes{}) {
      std::string name = base;
      for (int n = 1; !names.insert(name).second; ++n) name = base + "." + std::to_string(n);
      return put({name, opcode, shape, std::move(operands), {}, std::move(attributes), {}});
    };
    std::vector<InstructionId> moved;
    const auto of = [&](InstructionId id) { return moved[static_cast<size_t>(id)]; };
    InstructionId parameter = 0;
    const auto leaf = [&](int64_t number) {
      return make("leaf", Opcode::GetTupleElement, state.elements[static_cast<size_t>(number)], {parameter},
                  TupleIndexAttributes{number});
    };
    // Starts at an index, and at 0 in all dimensions of a row.
    const auto starts = [&](InstructionId array, InstructionId index, size_t rank) {
      const Shape& scalar = body[index].shape;
      const InstructionId zero = make("zero", Opcode::Constant, scalar, {}, ConstantAttributes{Literal(scalar), false});
      std::vector<InstructionId> operands{array, index};
      operands.insert(operands.end(), rank - 1, zero);
      return operands;
    };
    for (InstructionId id = 0; id < std::ssize(from.instructions); ++id) {
      Instruction it = from[id];
      for (InstructionId& operand : it.operands) operand = of(operand);
      if (const auto before = changes.before.find(id); before != changes.before.end()) {
        const InstructionId rows = leaf(leaf_of_product.at(id));
        const Shape row = with_rows(it.shape, 1);
        const InstructionId slice =
            make("row", Opcode::DynamicSlice, row, starts(rows, of(before->second.index), row.dims.size()),
                 DynamicSliceAttributes{row.dims});
        moved.push_back(put({it.name, Opcode::Reshape, it.shape, {slice}, {}, NoAttributes{}, {}}));
        continue;
      }
      if (id == from.root) {
        finish(loop, changes, it, state, make, leaf, starts, of);
        body.root = put(std::move(it));
        moved.push_back(body.root);
        continue;
      }
      if (id == from.parameters[0]) it.shape = state;
      moved.push_back(put(std::move(it)));
      if (id == from.parameters[0]) parameter = of(id);
    }
    body.parameters = {parameter};
    return body;
  }

  /// The root of a new body: leaves that are made after the loop stay, and new ones are written or stay.
  template <class Make, class Leaf, class Starts, class Of>
  void finish(const LoopRows& loop, const Changes& changes, Instruction& root, const Shape& state, const Make& make,
              const Leaf& leaf, const Starts& starts, const Of& of) const {
    for (const auto& [number, written] : changes.written) root.operands[static_cast<size_t>(number)] = leaf(number);
    for (const auto& [number, sum] : changes.sums) root.operands[static_cast<size_t>(number)] = leaf(number);
    for (int64_t number = loop.leaves(); number < std::ssize(state.elements); ++number) {
      const auto written = std::ranges::find_if(stacks_, [&](const Stack& one) { return one.leaf == number; });
      InstructionId next = leaf(number);
      if (written != stacks_.end()) {
        const Shape row = with_rows(loop.body()[written->value].shape, 1);
        const InstructionId value = make("row", Opcode::Reshape, row, {of(written->value)});
        std::vector<InstructionId> operands = starts(next, of(written->index), row.dims.size());
        operands.insert(operands.begin() + 1, value);
        next = make("rows", Opcode::DynamicUpdateSlice, state.elements[static_cast<size_t>(number)], operands);
      }
      root.operands.push_back(next);
    }
    root.shape = state;
  }

  const Module& module_;
  std::vector<InstructionId> first_, last_;  ///< of the loop at hand: its state's leaves before and after
  std::vector<Stack> stacks_;
};

}  // namespace

Module batch_loop_products(const Module& module) { return Batcher(module).run(); }

}  // namespace strata::hlo
