#include "hlo/indexing/element_loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_set>

#include "hlo/combiner_operator.h"
#include "hlo/indexing/evaluations.h"
#include "hlo/indexing/operator_maps.h"
#include "hlo/source_of.h"
#include "hlo/structure_key.h"
#include "hlo/zero_constant.h"
#include "indexing/simplify.h"
#include "support/hash.h"

namespace strata::indexing {
namespace {

using hlo::Computation;
using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;
using Role = ElementLoop::Role;
using Group = ElementLoop::Group;

/// What a body may do beside operators on elements: few terms, and all that moves.
bool is_taken(const Computation& computation, const Instruction& it) {
  if (hlo::is_elementwise(it.opcode)) return true;
  switch (it.opcode) {
    case Opcode::Bitcast:
    case Opcode::Broadcast:
    case Opcode::Concatenate:
    case Opcode::Constant:
    case Opcode::Copy:
    case Opcode::DynamicSlice:
    case Opcode::Gather:
    case Opcode::GetDimensionSize:
    case Opcode::Iota:
    case Opcode::Map:
    case Opcode::OptimizationBarrier:
    case Opcode::Pad:
    case Opcode::Reshape:
    case Opcode::Reverse:
    case Opcode::Slice:
    case Opcode::Transpose:
      return it.shape.is_array();
    case Opcode::Reduce:
      return it.shape.is_array() && !is_long_reduction(computation, it);
    default:
      return false;
  }
}

/// What is copied by what it names, not as an instruction.
bool only_names(const Instruction& it) {
  return it.opcode == Opcode::Parameter || it.opcode == Opcode::Tuple || it.opcode == Opcode::GetTupleElement;
}

class Finder {
 public:
  Finder(const hlo::Module& module, hlo::ComputationId id, InstructionId loop)
      : module_(module),
        around_(module[id]),
        loop_(module[id][loop]),
        condition_(module[loop_.called[0]]),
        body_(module[loop_.called[1]]),
        rows_(hlo::LoopRows::of(module, around_, loop)) {
    found_.counted = hlo::counted_loop(module, around_, loop);
  }

  Result<ElementLoop> run() {
    STRATA_CHECK(choose_roles());
    STRATA_CHECK(add_around());
    STRATA_CHECK(add_states());
    STRATA_TRY(body_values_, copy(body_));
    for (size_t i = 0; i < found_.leaves.size(); ++i) STRATA_CHECK(add_results_of(i));
    if (!found_.counted) STRATA_CHECK(add_condition());
    STRATA_CHECK(add_last());
    add_root();
    STRATA_CHECK(check_reads());
    add_rows();
    return std::move(found_);
  }

 private:
  const hlo::Shape& leaf_shape(size_t leaf) const { return hlo::leaf_of(loop_.shape, static_cast<int64_t>(leaf)); }

  bool stays(size_t leaf) const {
    const auto [id, from] = hlo::source_of(body_, body_.root, static_cast<int64_t>(leaf));
    return body_[id].opcode == Opcode::Parameter && from == static_cast<int64_t>(leaf);
  }

  Result<void> choose_roles() {
    const auto count = static_cast<size_t>(hlo::leaf_count(loop_.shape));
    found_.leaves.resize(count);
    std::optional<std::vector<int64_t>> dims, row_dims;
    for (size_t i = 0; i < count; ++i) {
      const hlo::Shape& shape = leaf_shape(i);
      if (!shape.is_array()) return unsupported("{} of the state is no array", hlo::to_string(shape));
      ElementLoop::Leaf& leaf = found_.leaves[i];
      const auto number = static_cast<int64_t>(i);
      if (found_.counted && found_.counted->counter(number) != nullptr) {
        leaf.role = Role::Counter;
      } else if (stays(i)) {
        leaf.role = Role::Same;
      } else if (const auto part = rows_ ? rows_->part(number) : std::nullopt; part && shape.rank() > 0) {
        leaf.role = Role::Rows;
        leaf.dimension = part->dimension;
        leaf.at = part->at;
        row_dims = body_[part->value].shape.dims;
      } else if (shape.rank() == 0) {
        leaf.role = Role::Scalar;
      } else {
        leaf.role = Role::Element;
        if (dims && *dims != shape.dims)
          return unsupported("the state has arrays of different sizes, {} and others", hlo::to_string(shape));
        dims = shape.dims;
      }
    }
    // Without arrays the scalars are the elements.
    found_.dims = dims ? *dims : row_dims ? *row_dims : std::vector<int64_t>{};
    if (hlo::array_shape(hlo::ElementType::Pred, found_.dims).element_count() == 0)
      return unsupported("there are no elements");
    if (found_.dims.empty()) {
      for (ElementLoop::Leaf& leaf : found_.leaves) {
        if (leaf.role == Role::Scalar) leaf.role = Role::Element;
      }
    }
    return {};
  }

  /// An instruction, or the one that computes the same.
  InstructionId append(Instruction it) {
    const auto [known, is_new] = known_.try_emplace(hlo::structure_key(module_, it, it.operands),
                                                    static_cast<InstructionId>(step_.instructions.size()));
    return is_new ? append_new(std::move(it)) : known->second;
  }

  InstructionId append_new(Instruction it) {
    const std::string base = it.name;
    for (int i = 1; !names_.insert(it.name).second; ++i) it.name = fmt::format("{}.{}", base, i);
    step_.instructions.push_back(std::move(it));
    return static_cast<InstructionId>(step_.instructions.size()) - 1;
  }

  /// The computation around the loop, but what only names values: its parameters, and what the state is at first.
  Result<void> add_around() {
    step_.name = around_.name + "_step";
    std::vector<InstructionId> moved(around_.instructions.size(), -1);
    for (const InstructionId id : around_.parameters) {
      moved[static_cast<size_t>(id)] = append_new(around_[id]);
      step_.parameters.push_back(moved[static_cast<size_t>(id)]);
    }
    for (size_t i = 0; i < around_.instructions.size(); ++i) {
      const Instruction& it = around_.instructions[i];
      if (only_names(it) || &it >= &loop_) continue;
      STRATA_TRY(moved[i],
                 copy_one(around_, it, [&](InstructionId id, int64_t) { return moved[static_cast<size_t>(id)]; }));
    }
    around_values_ = moved;
    for (size_t i = 0; i < found_.leaves.size(); ++i) {
      const auto [id, leaf] = hlo::source_of(around_, loop_.operands[0], static_cast<int64_t>(i));
      if (moved[static_cast<size_t>(id)] < 0 || !around_[id].shape.is_array())
        return unsupported("{} of the first state is no array", around_[id].name);
      first_.push_back(moved[static_cast<size_t>(id)]);
    }
    return {};
  }

  /// With operands of `step_`; `of` has what became of an array of the computation.
  template <class Of>
  Result<InstructionId> copy_one(const Computation& from, const Instruction& it, const Of& of) {
    if (!is_taken(from, it)) return unsupported("it has {}, a {}", it.name, hlo::name(it.opcode));
    Instruction copy = it;
    for (InstructionId& operand : copy.operands) {
      const auto [id, leaf] = hlo::source_of(from, operand, 0);
      operand = of(id, leaf);
      if (operand < 0) return unsupported("{} reads a tuple", it.name);
    }
    return append(std::move(copy));
  }

  /// What stands for the state: copies of a zero, of which no code is made.
  Result<void> add_states() {
    for (size_t i = 0; i < found_.leaves.size(); ++i) {
      ElementLoop::Leaf& leaf = found_.leaves[i];
      if (leaf.role == Role::Rows) continue;  // which nothing reads
      if (leaf.role == Role::Same) {
        leaf.state = first_[i];
        continue;
      }
      const hlo::Shape& shape = leaf_shape(i);
      Instruction zero;
      zero.name = fmt::format("zero_{}", i);
      zero.opcode = Opcode::Constant;
      zero.shape = hlo::array_shape(shape.type, {});
      zero.attributes = hlo::ConstantAttributes{hlo::Literal(zero.shape), false};
      InstructionId value = append_new(std::move(zero));
      if (shape.rank() > 0) {
        Instruction zeros;
        zeros.name = fmt::format("zeros_{}", i);
        zeros.opcode = Opcode::Broadcast;
        zeros.shape = shape;
        zeros.operands = {value};
        zeros.attributes = hlo::DimensionsAttributes{};
        value = append_new(std::move(zeros));
      }
      Instruction state;
      state.name = fmt::format("state_{}", i);
      state.opcode = Opcode::Copy;
      state.shape = shape;
      state.operands = {value};
      leaf.state = append_new(std::move(state));
    }
    return {};
  }

  /// All instructions of the body or the condition, over the state, but for one; by instruction what became of it.
  Result<std::vector<InstructionId>> copy(const Computation& from, const Instruction* left_out = nullptr) {
    std::vector<InstructionId> values(from.instructions.size(), -1);
    for (size_t i = 0; i < values.size(); ++i) {
      const Instruction& it = from.instructions[i];
      if (only_names(it) || &it == left_out || is_row_update(from, static_cast<InstructionId>(i))) continue;
      STRATA_TRY(values[i],
                 copy_one(from, it, [&](InstructionId id, int64_t leaf) { return value_of(from, values, id, leaf); }));
    }
    return values;
  }

  InstructionId value_of(const Computation& from, const std::vector<InstructionId>& values, InstructionId id,
                         int64_t leaf) const {
    return from[id].opcode == Opcode::Parameter ? found_.leaves[static_cast<size_t>(leaf)].state
                                                : values[static_cast<size_t>(id)];
  }

  /// Of a leaf of the state, or whatever else the root of a computation names.
  InstructionId root_value(const Computation& from, const std::vector<InstructionId>& values, int64_t leaf) const {
    const auto [id, element] = hlo::source_of(from, from.root, leaf);
    return value_of(from, values, id, element);
  }

  bool is_row_update(const Computation& from, InstructionId id) const {
    if (&from != &body_ || body_[id].opcode != Opcode::DynamicUpdateSlice) return false;
    for (size_t i = 0; i < found_.leaves.size(); ++i) {
      if (found_.leaves[i].role == Role::Rows && hlo::source_of(body_, body_.root, static_cast<int64_t>(i)).first == id)
        return true;
    }
    return false;
  }

  int add_result(InstructionId value, Group group) {
    root_.push_back(value);
    found_.results.push_back(group);
    return static_cast<int>(root_.size()) - 1;
  }

  Result<void> add_results_of(size_t i) {
    ElementLoop::Leaf& leaf = found_.leaves[i];
    if (leaf.role == Role::Element || leaf.role == Role::Scalar) {
      const InstructionId next = root_value(body_, body_values_, static_cast<int64_t>(i));
      if (next < 0) return unsupported("the next state has a tuple");
      leaf.first = add_result(first_[i], Group::First);
      leaf.next = add_result(next, Group::Next);
    } else if (leaf.role == Role::Rows) {
      const auto [id, element] = hlo::source_of(body_, rows_->part(static_cast<int64_t>(i))->value, 0);
      const InstructionId part = value_of(body_, body_values_, id, element);
      if (part < 0) return unsupported("what is written into {} is no array", hlo::to_string(leaf_shape(i)));
      const hlo::Shape elements = hlo::array_shape(hlo::ElementType::Pred, found_.dims);
      if (step_[part].shape.element_count() != elements.element_count())
        return unsupported("parts of {} have another size than elements", hlo::to_string(leaf_shape(i)));
      leaf.part = add_result(part, Group::Next);
    }
    return {};
  }

  /// Whether the loop goes on: the same for all, or by elements, where it goes on as long as any does and others stay
  /// as they are.
  Result<void> add_condition() {
    const Instruction& root = condition_[hlo::source_of(condition_, condition_.root, 0).first];
    const Instruction* any = nullptr;
    if (root.opcode == Opcode::Reduce && root.operands.size() == 2 && root.shape.rank() == 0 &&
        hlo::only_operator(module_[root.called[0]]) == Opcode::Or &&
        hlo::is_zero_constant(condition_, hlo::source_of(condition_, root.operands[1], 0).first) &&
        condition_.operand_shape(root, 0).dims == found_.dims)
      any = &root;
    STRATA_TRY(const std::vector<InstructionId> values, copy(condition_, any));
    if (any == nullptr) {
      const InstructionId goes_on = root_value(condition_, values, 0);
      if (goes_on < 0) return unsupported("its condition is no array");
      found_.condition = add_result(goes_on, Group::Condition);
      return {};
    }
    const auto [id, leaf] = hlo::source_of(condition_, any->operands[0], 0);
    const InstructionId goes_on = value_of(condition_, values, id, leaf);
    found_.each = true;
    found_.condition = add_result(goes_on, Group::Condition);
    for (const ElementLoop::Leaf& one : found_.leaves) {
      if (one.next < 0) continue;
      const Instruction& next = step_[root_[static_cast<size_t>(one.next)]];
      if (one.role != Role::Element || next.opcode != Opcode::Select || next.operands[0] != goes_on ||
          next.operands[2] != one.state)
        return unsupported("it goes on while any element does, and others do not stay as they are");
      root_[static_cast<size_t>(one.next)] = next.operands[1];
    }
    return {};
  }

  /// What comes after the loop.
  Result<void> add_last() {
    const auto loop = static_cast<InstructionId>(&loop_ - around_.instructions.data());
    std::vector<InstructionId> values = around_values_;
    for (auto id = loop + 1; id <= around_.root; ++id) {
      const Instruction& it = around_[id];
      if (only_names(it)) continue;
      STRATA_TRY(values[static_cast<size_t>(id)], copy_one(around_, it, [&](InstructionId operand, int64_t leaf) {
                   return operand == loop ? last_value(leaf) : values[static_cast<size_t>(operand)];
                 }));
    }
    for (int64_t i = 0; i < hlo::leaf_count(around_.root_instruction().shape); ++i) {
      const auto [id, leaf] = hlo::source_of(around_, around_.root, i);
      if (id == loop) {
        found_.last.push_back(-1);
        continue;
      }
      const InstructionId value = values[static_cast<size_t>(id)];
      const hlo::Shape elements = hlo::array_shape(hlo::ElementType::Pred, found_.dims);
      if (value < 0 || step_[value].shape.element_count() != elements.element_count())
        return unsupported("{} has other elements than the loop", around_[id].name);
      found_.last.push_back(add_result(value, Group::Last));
    }
    return {};
  }

  /// After the loop, of what the code has then.
  InstructionId last_value(int64_t leaf) const {
    const ElementLoop::Leaf& it = found_.leaves[static_cast<size_t>(leaf)];
    const bool is_there = it.role == Role::Element || it.role == Role::Scalar || it.role == Role::Same;
    return is_there ? it.state : -1;
  }

  void add_root() {
    Instruction root;
    root.name = "results";
    root.opcode = Opcode::Tuple;
    std::vector<hlo::Shape> shapes;
    for (const InstructionId id : root_) shapes.push_back(step_[id].shape);
    root.shape = hlo::tuple_shape(shapes);
    root.operands = root_;
    step_.root = append_new(std::move(root));
    found_.step = module_;
    found_.step.computations.push_back(step_);
    found_.computation = found_.step.entry = static_cast<hlo::ComputationId>(found_.step.computations.size()) - 1;
  }

  /// By instruction whether it is a row that the number of the iteration tells: of what is there before the loop.
  std::vector<bool> rows_by_counters() const {
    std::vector<bool> is_known(step_.instructions.size(), true), is_counted(is_known.size(), false),
        is_row(is_known.size());
    for (const ElementLoop::Leaf& leaf : found_.leaves) {
      if (leaf.role == Role::Element || leaf.role == Role::Scalar) is_known[static_cast<size_t>(leaf.state)] = false;
      if (leaf.role == Role::Counter) is_counted[static_cast<size_t>(leaf.state)] = true;
    }
    for (size_t i = 0; i < is_row.size(); ++i) {
      const Instruction& it = step_.instructions[i];
      for (const InstructionId operand : it.operands) {
        if (!is_known[static_cast<size_t>(operand)]) is_known[i] = false;
        if (is_counted[static_cast<size_t>(operand)]) is_counted[i] = true;
      }
      is_row[i] = found_.counted && it.opcode == Opcode::DynamicSlice && is_known[i] && is_counted[i] &&
                  step_[it.operands[0]].opcode == Opcode::Parameter;
    }
    return is_row;
  }

  /// Each row that is read at its own index once more, as a result.
  void add_rows() {
    if (own_rows_.empty()) return;
    step_.instructions.pop_back();
    names_.erase("results");
    for (const InstructionId id : own_rows_) {
      Instruction again = step_[id];
      found_.rows.push_back({id, add_result(append_new(std::move(again)), Group::Ahead)});
    }
    add_root();
  }

  struct Place {
    InstructionId id;
    IndexingMap index;
    bool operator==(const Place&) const = default;
  };
  struct PlaceHash {
    size_t operator()(const Place& it) const { return mix(it.index.hash() + static_cast<uint64_t>(it.id)); }
  };

  /// What is computed at an index reads elements of the state at that index alone.
  Result<void> check_reads() {
    const Computation& step = found_.step[found_.computation];
    std::vector<bool> leads(step.instructions.size(), false);
    for (const ElementLoop::Leaf& leaf : found_.leaves) {
      if (leaf.role == Role::Element) leads[static_cast<size_t>(leaf.state)] = true;
    }
    const std::vector<bool> is_state = leads;
    const std::vector<bool> is_row = rows_by_counters();
    std::map<InstructionId, bool> at_own_index;  // of rows
    for (size_t i = 0; i < leads.size(); ++i) leads[i] = leads[i] || is_row[i];
    for (size_t i = 0; i < leads.size(); ++i) {
      for (const InstructionId operand : step.instructions[i].operands)
        if (leads[static_cast<size_t>(operand)]) leads[i] = true;
    }
    const auto plain = [](const std::vector<int64_t>& dims) { return hlo::array_shape(hlo::ElementType::Pred, dims); };
    const std::vector<Expr> own = simplify(identity_map(found_.dims)).results;
    std::unordered_set<Place, PlaceHash> visited;
    std::vector<Place> open;
    const auto add = [&](InstructionId id, IndexingMap index) {
      if (!leads[static_cast<size_t>(id)]) return;
      if (Place place{id, std::move(index)}; visited.insert(place).second) open.push_back(std::move(place));
    };
    for (size_t i = 0; i < found_.results.size(); ++i) {
      if (found_.results[i] == Group::First) continue;
      const InstructionId id = step.root_instruction().operands[i];
      const hlo::Shape& shape = step[id].shape;
      if (shape.rank() == 0 && !found_.dims.empty() && !is_element(static_cast<int>(i))) {
        add(id, identity_map({}));
      } else {
        add(id, simplify(bitcast_map(plain(found_.dims), plain(shape.dims))));
      }
    }
    while (!open.empty()) {
      constexpr size_t kMostPlaces = 4096;
      if (visited.size() > kMostPlaces) return unsupported("it reads elements at too many places");
      const Place place = std::move(open.back());
      open.pop_back();
      if (is_state[static_cast<size_t>(place.id)]) {
        if (place.index.known_empty || place.index.results == own) continue;
        return unsupported("it reads {} at other indices than its own", step[place.id].name);
      }
      if (is_row[static_cast<size_t>(place.id)]) {
        const hlo::Shape& shape = step[place.id].shape;
        const bool own_index =
            shape.element_count() == plain(found_.dims).element_count() && !place.index.known_empty &&
            place.index.results == simplify(bitcast_map(plain(found_.dims), plain(shape.dims))).results;
        const auto [known, is_new] = at_own_index.try_emplace(place.id, own_index);
        known->second = known->second && own_index;
        continue;
      }
      STRATA_TRY(const SharedReads reads, shared_operand_reads(found_.step, found_.computation, place.id));
      for (const Read& read : *reads) {
        const InstructionId operand = step[place.id].operands[static_cast<size_t>(read.operand)];
        if (read.unknown && leads[static_cast<size_t>(operand)])
          return unsupported("{} reads any elements", step[place.id].name);
        for (const IndexingMap& map : read.maps) {
          if (leads[static_cast<size_t>(operand)]) add(operand, simplify(compose(place.index, map)));
        }
      }
    }
    for (const auto& [id, own_index] : at_own_index)
      if (own_index) own_rows_.push_back(id);
    return {};
  }

  /// Whether a result is of each element.
  bool is_element(int result) const {
    if (result == found_.condition) return found_.each;
    if (found_.results[static_cast<size_t>(result)] == Group::Last) return true;
    return std::ranges::any_of(found_.leaves, [&](const ElementLoop::Leaf& leaf) {
      return leaf.part == result || (leaf.role == Role::Element && (leaf.next == result || leaf.first == result));
    });
  }

  const hlo::Module& module_;
  const Computation& around_;
  const Instruction& loop_;
  const Computation& condition_;
  const Computation& body_;
  const std::optional<hlo::LoopRows> rows_;
  ElementLoop found_;
  Computation step_;
  std::map<std::string, InstructionId> known_;
  std::set<std::string> names_;
  std::vector<InstructionId> around_values_;  ///< by instruction around the loop, of those before it
  std::vector<InstructionId> first_;          ///< by leaf: what it is before the loop
  std::vector<InstructionId> body_values_;    ///< by instruction of the body
  std::vector<InstructionId> root_;
  std::vector<InstructionId> own_rows_;  ///< rows that are read at their own index alone
};

}  // namespace

std::vector<InstructionId> ElementLoop::states() const {
  std::vector<InstructionId> ids;
  for (const Leaf& leaf : leaves) {
    if (leaf.role != Role::Same && leaf.role != Role::Rows) ids.push_back(leaf.state);
  }
  return ids;
}

Result<ElementLoop> element_loop(const hlo::Module& module, hlo::ComputationId computation, InstructionId loop) {
  return Finder(module, computation, loop).run();
}

}  // namespace strata::indexing
