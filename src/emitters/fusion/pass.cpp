#include "emitters/fusion/pass.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "emitters/fusion/known_functions.h"
#include "hlo/compute.h"
#include "hlo/inline_calls.h"

namespace strata::emitters {
namespace {

using hlo::Computation;
using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;

using Group = std::set<InstructionId>;

/// Instructions that have no kernel: they run alone, by the interpreter.
bool is_interpreted(const Instruction& it) {
  switch (it.opcode) {
    case Opcode::While:
    case Opcode::Conditional:
    case Opcode::Sort:
    case Opcode::TopK:
    case Opcode::SelectAndScatter:
      return true;
    default:
      return hlo::family(it.opcode) == hlo::Family::LinearAlgebra || hlo::family(it.opcode) == hlo::Family::Unsupported;
  }
}

/// Instructions that run alone: by the interpreter, by a library (calls: library/calls.h), or products and convolutions
/// that stay kernels.
bool is_alone(const Instruction& it) {
  return is_interpreted(it) || it.opcode == Opcode::Call || it.opcode == Opcode::Dot ||
         it.opcode == Opcode::Convolution;
}

/// What is known beforehand and costs nothing to have again.
bool is_known(const Computation& computation, InstructionId id) {
  const Instruction& it = computation[id];
  switch (it.opcode) {
    case Opcode::Constant:
    case Opcode::Iota:
    case Opcode::GetDimensionSize:
    case Opcode::PartitionId:
    case Opcode::ReplicaId:
      return true;
    case Opcode::Broadcast:
    case Opcode::Convert:
    case Opcode::Reshape:
      return computation.operand_shape(it, 0).element_count() == 1 && is_known(computation, it.operands[0]);
    default:
      return false;
  }
}

/// What every group that uses it has for itself: that, and what only names values.
bool is_everywhere(const Computation& computation, InstructionId id) {
  const Opcode opcode = computation[id].opcode;
  return is_known(computation, id) || opcode == Opcode::Tuple || opcode == Opcode::GetTupleElement ||
         opcode == Opcode::AfterAll;
}

/// Builds the part of a group.
class PartBuilder {
 public:
  PartBuilder(const hlo::Module& module, const Group& group)
      : module_(module), from_(module.entry_computation()), group_(group) {}

  ProgramPart build(const std::vector<ArrayValue>& outputs) {
    ProgramPart part;
    target_.name = outputs.empty() ? "fusion" : "fused_" + from_[outputs[0].instruction].name;
    std::vector<InstructionId> roots;
    for (const ArrayValue& output : outputs) {
      const InstructionId whole = clone(output.instruction);
      roots.push_back(from_[output.instruction].shape.is_tuple() ? element_of(whole, output.element) : whole);
    }
    if (roots.size() == 1) {
      target_.root = roots[0];
    } else if (const auto whole = scatter_of(outputs)) {
      target_.root = clone(*whole);
    } else {
      std::vector<hlo::Shape> shapes;
      for (const InstructionId root : roots) shapes.push_back(target_[root].shape);
      target_.root = add({"outputs", Opcode::Tuple, hlo::tuple_shape(shapes), roots, {}, hlo::NoAttributes{}, {}});
    }
    // Called computations come along, and unused instructions go.
    part.module = hlo::extract_module(module_, target_);
    part.module.name = target_.name;
    part.module.fusion = false;
    part.inputs = std::move(inputs_);
    part.outputs = outputs;
    return part;
  }

 private:
  /// The scatter whose arrays, all of them and in order, are the outputs: emitters look for it at the root.
  std::optional<InstructionId> scatter_of(const std::vector<ArrayValue>& outputs) const {
    if (outputs.empty()) return {};
    const InstructionId id = outputs[0].instruction;
    const Instruction& it = from_[id];
    if (it.opcode != Opcode::Scatter || !it.shape.is_tuple() || it.shape.elements.size() != outputs.size()) return {};
    for (size_t n = 0; n < outputs.size(); ++n) {
      if (outputs[n].instruction != id || outputs[n].element != static_cast<int>(n)) return {};
    }
    return id;
  }

  InstructionId add(Instruction it) {
    for (int n = 1; !names_.insert(it.name).second; ++n) it.name += "." + std::to_string(n);
    target_.instructions.push_back(std::move(it));
    return static_cast<InstructionId>(target_.instructions.size()) - 1;
  }

  InstructionId parameter(const ArrayValue& value, const hlo::Shape& shape) {
    const auto known = parameters_.find(value);
    if (known != parameters_.end()) return known->second;
    const auto number = static_cast<int64_t>(inputs_.size());
    inputs_.push_back(value);
    std::string name = from_[value.instruction].name;
    if (from_[value.instruction].shape.is_tuple()) name += "." + std::to_string(value.element);
    const InstructionId id = add({name, Opcode::Parameter, shape, {}, {}, hlo::ParameterAttributes{number}, {}});
    target_.parameters.push_back(id);
    return parameters_[value] = id;
  }

  InstructionId element_of(InstructionId tuple, int element) {
    const Instruction& it = target_[tuple];
    if (it.opcode == Opcode::Tuple) return it.operands[static_cast<size_t>(element)];
    hlo::Shape shape = it.shape.elements[static_cast<size_t>(element)];
    return add({it.name + ".element",
                Opcode::GetTupleElement,
                std::move(shape),
                {tuple},
                {},
                hlo::TupleIndexAttributes{element},
                {}});
  }

  InstructionId clone(InstructionId id) {
    const auto known = cloned_.find(id);
    if (known != cloned_.end()) return known->second;
    return cloned_[id] = make(id);
  }

  InstructionId make(InstructionId id) {
    const Instruction& it = from_[id];
    if (it.opcode == Opcode::GetTupleElement) {
      const std::optional<ArrayValue> value = resolve(from_, id);
      if (value && !group_.contains(value->instruction) && from_[value->instruction].shape.is_tuple()) {
        return parameter(*value, it.shape);
      }
      const auto index = static_cast<int>(it.as<hlo::TupleIndexAttributes>().index);
      return element_of(clone(it.operands[0]), index);
    }
    if (!group_.contains(id) && !is_everywhere(from_, id)) {
      if (it.shape.is_array()) return parameter({id, 0}, it.shape);
      std::vector<InstructionId> elements;
      for (size_t i = 0; i < it.shape.elements.size(); ++i) {
        elements.push_back(parameter({id, static_cast<int>(i)}, it.shape.elements[i]));
      }
      return add({it.name + ".tuple", Opcode::Tuple, it.shape, elements, {}, hlo::NoAttributes{}, {}});
    }
    Instruction copy = it;
    if (it.opcode == Opcode::GetDimensionSize) {
      hlo::Literal size(it.shape);
      size.set<int64_t>(0, from_.operand_shape(it, 0).dim(it.dimensions()[0]));
      copy.opcode = Opcode::Constant;
      copy.operands.clear();
      copy.attributes = hlo::ConstantAttributes{std::move(size), false};
    }
    for (InstructionId& operand : copy.operands) operand = clone(operand);
    return add(std::move(copy));
  }

  const hlo::Module& module_;
  const Computation& from_;
  const Group& group_;
  Computation target_;
  std::set<std::string> names_;
  std::map<InstructionId, InstructionId> cloned_;
  std::map<ArrayValue, InstructionId> parameters_;
  std::vector<ArrayValue> inputs_;
};

/// The arrays of a value of any shape: through tuples.
void collect_arrays(const Computation& computation, InstructionId id, std::vector<ArrayValue>& arrays) {
  const Instruction& it = computation[id];
  if (it.opcode == Opcode::Tuple) {
    for (const InstructionId operand : it.operands) collect_arrays(computation, operand, arrays);
  } else if (it.shape.is_tuple()) {
    for (size_t i = 0; i < it.shape.elements.size(); ++i) arrays.push_back({id, static_cast<int>(i)});
  } else if (const auto value = resolve(computation, id)) {
    arrays.push_back(*value);
  }
}

/// Joins groups.
class Fuser {
 public:
  Fuser(const hlo::Module& module, const Device& device)
      : module_(module), computation_(module.entry_computation()), device_(device) {}

  std::vector<ProgramPart> run() {
    make_groups();
    for (;;) {
      const auto best = best_pair();
      if (!best) break;
      // Others may have been joined since the gain was computed.
      if (has_detour(best->first, best->second) || has_detour(best->second, best->first)) {
        gains_[*best] = 0;
      } else {
        join(best->first, best->second);
      }
    }
    std::vector<ProgramPart> parts;
    for (const int number : order()) parts.push_back(part(groups_[static_cast<size_t>(number)]));
    return parts;
  }

 private:
  ProgramPart part(const Group& group) const {
    ProgramPart result = PartBuilder(module_, group).build(outputs_of(group));
    result.interpreted = group.size() == 1 && is_interpreted(computation_[*group.begin()]);
    result.microseconds = result.interpreted ? 0 : estimated_microseconds(result.module, device_);
    return result;
  }

  void find_uses() {
    used_.assign(computation_.instructions.size(), false);
    used_[static_cast<size_t>(computation_.root)] = true;
    for (InstructionId id = computation_.root; id >= 0; --id) {
      if (!used_[static_cast<size_t>(id)]) continue;
      for (const InstructionId operand : computation_[id].operands) used_[static_cast<size_t>(operand)] = true;
    }
    users_.resize(computation_.instructions.size());
    for (size_t i = 0; i < computation_.instructions.size(); ++i) {
      const auto user = static_cast<InstructionId>(i);
      if (transparent(user)) continue;
      for (const ArrayValue& value : reads(user))
        users_[static_cast<size_t>(value.instruction)].push_back({value, user});
    }
    collect_arrays(computation_, computation_.root, results_);
  }

  bool transparent(InstructionId id) const {
    return !used_[static_cast<size_t>(id)] || computation_[id].opcode == Opcode::Parameter ||
           is_everywhere(computation_, id);
  }

  /// The arrays that an instruction reads, through what is in every group.
  std::vector<ArrayValue> reads(InstructionId id) const {
    std::vector<ArrayValue> values;
    for (const InstructionId operand : computation_[id].operands) collect_arrays(computation_, operand, values);
    return values;
  }

  void make_groups() {
    find_uses();
    group_of_.assign(computation_.instructions.size(), -1);
    for (size_t i = 0; i < computation_.instructions.size(); ++i) {
      const auto id = static_cast<InstructionId>(i);
      if (transparent(id)) continue;
      group_of_[i] = static_cast<int>(groups_.size());
      groups_.push_back({id});
    }
    // What is in every group has none of its own, but where it is a result.
    for (const ArrayValue& result : results_) {
      const InstructionId id = result.instruction;
      if (is_known(computation_, id)) groups_.push_back({id});
    }
    for (const Group& group : groups_) times_.push_back(part(group).microseconds);
  }

  std::vector<ArrayValue> outputs_of(const Group& group) const {
    std::set<ArrayValue> outputs;
    for (const InstructionId id : group) {
      for (const auto& [value, user] : users_[static_cast<size_t>(id)]) {
        if (!group.contains(user)) outputs.insert(value);
      }
      for (const ArrayValue& result : results_) {
        if (result.instruction == id) outputs.insert(result);
      }
      // What nothing uses still runs where it is the only thing to run.
      if (outputs.empty() && users_[static_cast<size_t>(id)].empty()) outputs.insert({id, 0});
    }
    return {outputs.begin(), outputs.end()};
  }

  std::set<int> producers(int group) const {
    std::set<int> found;
    for (const InstructionId id : groups_[static_cast<size_t>(group)]) {
      for (const ArrayValue& value : reads(id)) {
        const int from = group_of_[static_cast<size_t>(value.instruction)];
        if (from >= 0 && from != group) found.insert(from);
      }
    }
    return found;
  }

  /// Whether `from` is needed, directly or not, by another producer of `to` than itself: then joining makes a cycle.
  bool has_detour(int from, int to) const {
    std::vector<int> stack;
    std::set<int> seen;
    for (const int producer : producers(to)) {
      if (producer != from && seen.insert(producer).second) stack.push_back(producer);
    }
    while (!stack.empty()) {
      const int group = stack.back();
      stack.pop_back();
      for (const int producer : producers(group)) {
        if (producer == from) return true;
        if (seen.insert(producer).second) stack.push_back(producer);
      }
    }
    return false;
  }

  bool may_join(const Group& producer, const Group& consumer) const {
    constexpr size_t kMostInstructions = 400;
    if (producer.size() + consumer.size() > kMostInstructions) return false;
    for (const Group* group : {&producer, &consumer}) {
      if (std::any_of(group->begin(), group->end(), [&](InstructionId id) { return is_alone(computation_[id]); })) {
        return false;
      }
    }
    // The elements that a scatter writes are known only when all of it is done, and it is the only output.
    if (std::any_of(producer.begin(), producer.end(),
                    [&](InstructionId id) { return computation_[id].opcode == Opcode::Scatter; })) {
      return false;
    }
    bool into_scatter = false;
    for (const InstructionId id : consumer) {
      const Instruction& it = computation_[id];
      if (it.opcode != Opcode::Scatter) continue;
      into_scatter = true;
      // What it scatters into has to be complete before: it is copied, and updated in place.
      for (size_t i = 0; i < it.operands.size() / 2; ++i) {
        const std::optional<ArrayValue> operand = resolve(computation_, it.operands[i]);
        if (operand && producer.contains(operand->instruction)) return false;
      }
    }
    if (!into_scatter) return true;
    Group joined = producer;
    joined.insert(consumer.begin(), consumer.end());
    return outputs_of(joined).size() == outputs_of(consumer).size();
  }

  std::optional<std::pair<int, int>> best_pair() {
    std::optional<std::pair<int, int>> best;
    double most = 0;
    for (size_t c = 0; c < groups_.size(); ++c) {
      if (groups_[c].empty()) continue;
      const auto consumer = static_cast<int>(c);
      const auto consider = [&](int producer) {
        const double gain = gain_of(producer, consumer);
        if (gain > most) {
          most = gain;
          best = {producer, consumer};
        }
      };
      for (const int producer : producers(consumer)) consider(producer);
      for (const int sibling : siblings(consumer)) consider(sibling);
    }
    return best;
  }

  /// Groups of smaller number that read an array which this one reads too.
  std::set<int> siblings(int group) const {
    std::set<int> found;
    for (const InstructionId id : groups_[static_cast<size_t>(group)]) {
      for (const ArrayValue& value : reads(id)) {
        for (const auto& [read, user] : users_[static_cast<size_t>(value.instruction)]) {
          const int other = group_of_[static_cast<size_t>(user)];
          if (read == value && other >= 0 && other < group) found.insert(other);
        }
      }
    }
    return found;
  }

  double gain_of(int producer, int consumer) {
    const std::pair<int, int> key{producer, consumer};
    const auto known = gains_.find(key);
    if (known != gains_.end()) return known->second;
    const Group& from = groups_[static_cast<size_t>(producer)];
    const Group& to = groups_[static_cast<size_t>(consumer)];
    double gain = 0;
    if (may_join(from, to) && !has_detour(producer, consumer) && !has_detour(consumer, producer)) {
      Group joined = from;
      joined.insert(to.begin(), to.end());
      gain = times_[static_cast<size_t>(producer)] + times_[static_cast<size_t>(consumer)] - part(joined).microseconds;
    }
    return gains_[key] = gain;
  }

  void join(int producer, int consumer) {
    Group& from = groups_[static_cast<size_t>(producer)];
    Group& to = groups_[static_cast<size_t>(consumer)];
    to.insert(from.begin(), from.end());
    from.clear();
    for (const InstructionId id : to) group_of_[static_cast<size_t>(id)] = consumer;
    times_[static_cast<size_t>(consumer)] = part(to).microseconds;
    // Gains of other pairs hardly change.
    std::erase_if(gains_, [&](const auto& entry) {
      const auto touched = [&](int group) { return group == producer || group == consumer; };
      return touched(entry.first.first) || touched(entry.first.second);
    });
  }

  /// Groups after those whose results they read.
  std::vector<int> order() const {
    std::vector<int> result;
    std::vector<bool> done(groups_.size(), false);
    const std::function<void(int)> visit = [&](int group) {
      if (done[static_cast<size_t>(group)]) return;
      done[static_cast<size_t>(group)] = true;
      for (const int producer : producers(group)) visit(producer);
      result.push_back(group);
    };
    for (size_t i = 0; i < groups_.size(); ++i) {
      if (!groups_[i].empty()) visit(static_cast<int>(i));
    }
    return result;
  }

  const hlo::Module& module_;
  const Computation& computation_;
  const Device& device_;
  std::vector<std::vector<std::pair<ArrayValue, InstructionId>>> users_;
  std::vector<ArrayValue> results_;
  std::vector<bool> used_;  ///< by the root; not what stood for a function that is known
  std::vector<Group> groups_;
  std::vector<int> group_of_;
  std::vector<double> times_;
  std::map<std::pair<int, int>, double> gains_;
};

}  // namespace

std::optional<ArrayValue> resolve(const Computation& computation, InstructionId id, int element) {
  const Instruction* it = &computation[id];
  while (true) {
    if (it->opcode == Opcode::GetTupleElement) {
      // An element of an element: the value is a tuple within one.
      if (it->shape.is_tuple()) return std::nullopt;
      element = static_cast<int>(it->as<hlo::TupleIndexAttributes>().index);
      id = it->operands[0];
    } else if (it->opcode == Opcode::Tuple) {
      id = it->operands[static_cast<size_t>(element)];
      element = 0;
    } else {
      if (it->shape.is_tuple() && !it->shape.elements[static_cast<size_t>(element)].is_array()) return std::nullopt;
      return ArrayValue{id, it->shape.is_tuple() ? element : 0};
    }
    it = &computation[id];
  }
}

std::vector<ProgramPart> fuse(const hlo::Module& module, const Device& device) {
  const std::optional<hlo::Module> known = with_known_functions(module, module.entry);
  return Fuser(known ? *known : module, device).run();
}

}  // namespace strata::emitters
