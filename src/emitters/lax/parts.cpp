#include "emitters/lax/parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "emitters/lax/known.h"
#include "hlo/entry_rewriter.h"
#include "hlo/inline_calls.h"
#include "hlo/users.h"
#include "ir/views.h"
#include "superopt/partition/hoist.h"
#include "superopt/partition/partition.h"

namespace strata::emitters {
namespace {

using hlo::Computation;
using hlo::ElementType;
using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;
using Members = std::set<InstructionId>;

/// Instructions that share values of more bits than the part's type; and results that a part has while it grows.
constexpr size_t kMostTogether = 64, kMostResults = 3;

bool is_narrow(ElementType type) { return type == ElementType::F16 || type == ElementType::BF16; }

/// What lax_program may take, by operator alone.
bool is_known(Opcode opcode) {
  switch (opcode) {
    case Opcode::Add:
    case Opcode::Bitcast:
    case Opcode::Broadcast:
    case Opcode::Convert:
    case Opcode::Copy:
    case Opcode::Divide:
    case Opcode::Dot:
    case Opcode::Exp:
    case Opcode::Logistic:
    case Opcode::Maximum:
    case Opcode::Multiply:
    case Opcode::Negate:
    case Opcode::Power:
    case Opcode::Reduce:
    case Opcode::Reshape:
    case Opcode::Rsqrt:
    case Opcode::Select:
    case Opcode::Sqrt:
    case Opcode::Subtract:
    case Opcode::Transpose:
      return true;
    default:
      return false;
  }
}

Instruction transposed(const std::string& name, InstructionId operand, const hlo::Shape& of,
                       const std::vector<int64_t>& permutation) {
  std::vector<int64_t> dims;
  for (const int64_t d : permutation) dims.push_back(of.dim(d));
  return {
      name, Opcode::Transpose, hlo::array_shape(of.type, dims), {operand}, {}, hlo::DimensionsAttributes{permutation},
      {}};
}

/// Operators of the one part that is searched; 0 where transposes of inputs are all; nothing where there are several
/// parts, or one that is not searched.
std::optional<size_t> operators_of_one_part(const GraphPtr& graph) {
  const Result<GraphPtr> hoisted = hoist_transposes(graph);
  const Result<Partition> found = partition(hoisted ? *hoisted : graph);
  if (!found) return std::nullopt;
  size_t operators = 0;
  for (const strata::Part& one : found->parts) {
    const auto& operations = one.graph->operations();
    const bool view = operations.size() == 1 && is_transposed_input(*one.graph, operations.front());
    if (view && !one.searchable()) continue;
    if (operators > 0 || !one.searchable()) return std::nullopt;
    operators = one.operations.size();
  }
  return operators;
}

/// Transposes of what the program computes; those of inputs are only another way to read them.
size_t transposes_of_values(const Graph& graph) {
  return static_cast<size_t>(std::count_if(
      graph.operations().begin(), graph.operations().end(),
      [&](const Operation& op) { return op.kind == OpKind::Transpose && graph.tensor(op.operands[0]).producer >= 0; }));
}

bool moves_elements(Opcode opcode) {
  return opcode == Opcode::Reshape || opcode == Opcode::Transpose || opcode == Opcode::Bitcast ||
         opcode == Opcode::Copy;
}

class Finder {
 public:
  explicit Finder(const hlo::Module& module)
      : module_(module), from_(module.entry_computation()), users_(hlo::users_of(from_)) {
    for (const Known known : known_instructions(from_)) known_.push_back(known != Known::No);
    for (const Instruction& it : from_.instructions)
      transposed_.push_back(it.opcode == Opcode::Transpose && is_parameter(it.operands[0]));
    taken_.assign(from_.instructions.size(), false);
  }

  std::vector<LaxPart> run() {
    std::vector<LaxPart> parts;
    for (size_t i = 0; i < from_.instructions.size(); ++i) {
      if (from_.instructions[i].opcode != Opcode::Dot || taken_[i]) continue;
      const auto dot = static_cast<InstructionId>(i);
      std::optional<LaxPart> part = grow(dot);
      if (!part) {
        copies_transposes_ = false;
        part = grow(dot);
        copies_transposes_ = true;
      }
      if (!part) continue;
      for (const InstructionId id : part->members) taken_[static_cast<size_t>(id)] = true;
      parts.push_back(*std::move(part));
    }
    std::sort(parts.begin(), parts.end(), [](const LaxPart& a, const LaxPart& b) { return a.result < b.result; });
    return parts;
  }

 private:
  /// Whether it is a parameter, or only another shape of one.
  bool is_parameter(InstructionId id) const {
    const Instruction* it = &from_[id];
    while (it->opcode == Opcode::Reshape || it->opcode == Opcode::Bitcast || it->opcode == Opcode::Copy)
      it = &from_[it->operands[0]];
    return it->opcode == Opcode::Parameter;
  }

  /// Whether parts have a copy of it: what is known, and transposes of parameters, which are another way to read them.
  /// A part without these would have arrays transposed that libraries and kernels read as they lie.
  bool is_copied(InstructionId id) const {
    const auto at = static_cast<size_t>(id);
    return known_[at] || (copies_transposes_ && transposed_[at]);
  }

  /// The type that a product's part has: of what its operands are before they are made wider.
  ElementType type_of(const Instruction& dot) const {
    const auto before = [&](InstructionId id) {
      const Instruction* it = &from_[id];
      while (it->operands.size() == 1 && is_known(it->opcode) && it->shape.type == ElementType::F32 &&
             it->opcode != Opcode::Exp) {
        it = &from_[it->operands[0]];
      }
      return it->shape.type;
    };
    const ElementType left = before(dot.operands[0]), right = before(dot.operands[1]);
    return left == right && is_narrow(left) ? left : from_.operand_shape(dot, 0).type;
  }

  /// What has to come with an instruction into a part of this type: all that shares values of f32 with it. Nothing if
  /// any of it cannot be in such a part.
  std::optional<Members> together(InstructionId first, ElementType type) const {
    Members all{first};
    std::vector<InstructionId> left{first};
    const auto add = [&](InstructionId id) {
      if (all.insert(id).second) left.push_back(id);
    };
    while (!left.empty()) {
      const InstructionId id = left.back();
      left.pop_back();
      const Instruction& it = from_[id];
      const bool fits = it.shape.is_array() && is_known(it.opcode) && !taken_[static_cast<size_t>(id)] &&
                        (it.shape.type == type || (is_narrow(type) && it.shape.type == ElementType::F32));
      if (!fits || all.size() > kMostTogether) return std::nullopt;
      for (const InstructionId operand : it.operands)
        if (!is_copied(operand) && from_[operand].shape.type != type) add(operand);
      if (it.shape.type == type) continue;
      if (id == from_.root) return std::nullopt;
      for (const InstructionId user : users_[static_cast<size_t>(id)]) add(user);
    }
    return all;
  }

  std::vector<InstructionId> results_of(const Members& members) const {
    std::vector<InstructionId> results;
    for (const InstructionId id : members) {
      const auto& users = users_[static_cast<size_t>(id)];
      if (std::any_of(users.begin(), users.end(), [&](auto user) { return !members.contains(user); }))
        results.push_back(id);
    }
    return results;
  }

  /// Whether no path leaves the members and comes back.
  bool is_convex(const Members& members) const {
    std::set<InstructionId> behind;
    for (InstructionId id = *members.begin(); id <= *members.rbegin(); ++id) {
      const auto& operands = from_[id].operands;
      if (members.contains(id)) {
        if (std::any_of(operands.begin(), operands.end(), [&](auto o) { return behind.contains(o); })) return false;
      } else if (std::any_of(operands.begin(), operands.end(),
                             [&](auto o) { return members.contains(o) || behind.contains(o); })) {
        behind.insert(id);
      }
    }
    return true;
  }

  /// The members as a module, of these results.
  LaxPart outline(const Members& members, const std::vector<InstructionId>& results) const {
    LaxPart part;
    part.result = results.back();
    part.members.assign(members.begin(), members.end());
    Computation target;
    target.name = "lax_" + from_[part.result].name;
    std::map<InstructionId, InstructionId> moved;
    const auto append = [&](InstructionId id, Instruction it) {
      moved[id] = static_cast<InstructionId>(target.instructions.size());
      target.instructions.push_back(std::move(it));
    };
    // Operands stand before their users in the entry, and so they do here.
    std::set<InstructionId> needed(members.begin(), members.end());
    for (InstructionId id = *members.rbegin(); id >= 0; --id) {
      if (!needed.contains(id) || (!members.contains(id) && !is_copied(id))) continue;
      needed.insert(from_[id].operands.begin(), from_[id].operands.end());
    }
    for (const InstructionId id : needed) {
      Instruction it = from_[id];
      if (members.contains(id) || is_copied(id)) {
        for (InstructionId& operand : it.operands) operand = moved.at(operand);
        append(id, std::move(it));
        continue;
      }
      const hlo::ParameterAttributes number{std::ssize(part.inputs)};
      part.inputs.push_back(id);
      append(id, {it.name, Opcode::Parameter, it.shape, {}, {}, number, {}});
      target.parameters.push_back(moved[id]);
    }
    target.root = moved.at(results.back());
    if (results.size() > 1) {
      Instruction all{"results", Opcode::Tuple, {}, {}, {}, hlo::NoAttributes{}, {}};
      std::vector<hlo::Shape> shapes;
      for (const InstructionId id : results) {
        all.operands.push_back(moved.at(id));
        shapes.push_back(from_[id].shape);
      }
      all.shape = hlo::tuple_shape(shapes);
      target.root = static_cast<InstructionId>(target.instructions.size());
      target.instructions.push_back(std::move(all));
    }
    part.module = hlo::extract_module(module_, target);
    part.module.name = target.name;
    part.module.fusion = false;
    return part;
  }

  /// The members as a part that has one result or more, if they are one but for that; and whether they may be taken.
  struct Checked {
    LaxPart part;
    bool complete = false;
  };
  std::optional<Checked> check(const Members& members) const {
    const std::vector<InstructionId> results = results_of(members);
    if (results.empty() || results.size() > kMostResults || !is_convex(members)) return std::nullopt;
    Checked checked{outline(members, results)};
    const Computation& entry = checked.part.module.entry_computation();
    const Result<LaxProgram> program = lax_program(checked.part.module, entry, LaxResults::Unfinished);
    if (!program) return std::nullopt;
    const std::optional<size_t> operators = operators_of_one_part(program->graph);
    if (!operators) return std::nullopt;
    if (*operators < 2 || results.size() > 1) return checked;
    if (Result<LaxProgram> finished = lax_program(checked.part.module, entry)) {
      checked.part.program = *std::move(finished);
      checked.complete = true;
    }
    return checked;
  }

  /// Instructions that read what the members compute, then those that compute what they read, the last first.
  std::vector<InstructionId> neighbours(const Members& members) const {
    Members behind, before;
    for (const InstructionId id : members) {
      for (const InstructionId user : users_[static_cast<size_t>(id)])
        if (user != hlo::kCaller && !members.contains(user)) behind.insert(user);
      for (const InstructionId operand : from_[id].operands)
        if (!members.contains(operand) && !is_copied(operand)) before.insert(operand);
    }
    std::vector<InstructionId> all(behind.begin(), behind.end());
    all.insert(all.end(), before.rbegin(), before.rend());
    return all;
  }

  std::optional<LaxPart> grow(InstructionId dot) const {
    const ElementType type = type_of(from_[dot]);
    const std::optional<Members> first = together(dot, type);
    if (!first) return std::nullopt;
    Members members = *first;
    std::optional<Checked> current = check(members);
    if (!current) return std::nullopt;
    std::vector<LaxPart> complete;
    Members refused;
    for (bool grown = true; grown;) {
      if (current->complete) complete.push_back(current->part);
      grown = false;
      for (const InstructionId id : neighbours(members)) {
        if (refused.contains(id)) continue;
        std::optional<Members> more = together(id, type);
        if (more) more->insert(members.begin(), members.end());
        std::optional<Checked> checked = more ? check(*more) : std::nullopt;
        if (!checked) {
          refused.insert(id);
          continue;
        }
        members = *std::move(more);
        current = std::move(checked);
        refused.clear();
        grown = true;
        break;
      }
    }
    if (complete.empty()) return std::nullopt;
    LaxPart largest = without_last_transposes(std::move(complete.back()));
    const auto operators = [](const LaxPart& part) { return part.program.graph->operations().size(); };
    for (complete.pop_back(); !complete.empty(); complete.pop_back()) {
      if (3 * operators(complete.back()) > 2 * operators(largest)) continue;
      finish(complete.back());
      largest.smaller.push_back(std::move(complete.back()));
      break;
    }
    finish(largest);
    return largest;
  }

  /// Without the transposes and reshapes that come last, where the program has a transpose for them: blocks whose tiles
  /// are transposed take the schedules of products no more, and a kernel that only transposes costs little.
  LaxPart without_last_transposes(LaxPart part) const {
    Members members(part.members.begin(), part.members.end());
    for (InstructionId last = part.result; moves_elements(from_[last].opcode);) {
      const InstructionId before = from_[last].operands[0];
      if (!members.contains(before) || users_[static_cast<size_t>(before)].size() != 1) break;
      members.erase(last);
      last = before;
      std::optional<Checked> shorter = check(members);
      if (shorter && shorter->complete && shorter->part.result == last &&
          transposes_of_values(*shorter->part.program.graph) < transposes_of_values(*part.program.graph))
        part = std::move(shorter->part);
    }
    return part;
  }

  /// With the result as the program has it.
  static void finish(LaxPart& part) {
    part.permutation = part.program.permutations[0];
    part.permuted = permuted(part.module, part.permutation);
  }

  const hlo::Module& module_;
  const Computation& from_;
  const hlo::Users users_;
  std::vector<bool> known_, transposed_, taken_;
  bool copies_transposes_ = true;
};

}  // namespace

size_t searched_operators(const LaxProgram& program) { return operators_of_one_part(program.graph).value_or(0); }

hlo::Module permuted(const hlo::Module& module, const std::vector<int64_t>& permutation) {
  hlo::Module made = module;
  if (std::is_sorted(permutation.begin(), permutation.end())) return made;
  Computation& entry = made.computations[static_cast<size_t>(made.entry)];
  const hlo::Shape shape = entry.root_instruction().shape;
  entry.instructions.push_back(transposed("permuted", entry.root, shape, permutation));
  entry.root = static_cast<InstructionId>(entry.instructions.size()) - 1;
  return made;
}

namespace {

/// The array with zeros after each dimension up to this shape.
InstructionId add_filling(Computation& entry, const std::string& name, InstructionId of, const hlo::Shape& to) {
  const auto append = [&](Instruction it) {
    entry.instructions.push_back(std::move(it));
    return static_cast<InstructionId>(entry.instructions.size()) - 1;
  };
  const hlo::Shape scalar = hlo::array_shape(to.type, {});
  const hlo::ConstantAttributes nothing{hlo::Literal(scalar), false};
  const InstructionId zero = append({name + ".zero", Opcode::Constant, scalar, {}, {}, nothing, {}});
  return append(
      {name + ".filled", Opcode::Pad, to, {of, zero}, {}, hlo::padding_to(entry[of].shape.dims, to.dims), {}});
}

}  // namespace

std::vector<LaxPart> find_lax_parts(const hlo::Module& module) { return Finder(module).run(); }

hlo::Module with_lax_calls(const hlo::Module& module, const std::vector<LaxPart>& parts) {
  hlo::Module result = module;
  const Computation& from = module.entry_computation();
  std::map<InstructionId, const LaxPart*> at;
  std::set<InstructionId> gone;
  for (const LaxPart& part : parts) {
    at[part.result] = &part;
    gone.insert(part.members.begin(), part.members.end());
  }
  Computation entry;
  entry.name = from.name;
  std::vector<InstructionId> moved(from.instructions.size(), -1);
  const auto append = [&](InstructionId id, Instruction it) {
    moved[static_cast<size_t>(id)] = static_cast<InstructionId>(entry.instructions.size());
    entry.instructions.push_back(std::move(it));
  };
  for (size_t i = 0; i < from.instructions.size(); ++i) {
    const auto id = static_cast<InstructionId>(i);
    const auto part = at.find(id);
    if (part == at.end()) {
      if (gone.contains(id)) continue;
      Instruction copy = from[id];
      for (InstructionId& operand : copy.operands) operand = moved[static_cast<size_t>(operand)];
      append(id, std::move(copy));
      continue;
    }
    const LaxPart& one = *part->second;
    // Its computations become this module's.
    const auto base = static_cast<hlo::ComputationId>(result.computations.size());
    for (Computation computation : one.permuted.computations) {
      for (Instruction& it : computation.instructions)
        for (hlo::ComputationId& called : it.called) called += base;
      result.computations.push_back(std::move(computation));
    }
    std::vector<InstructionId> operands;
    const Computation& called = one.permuted.entry_computation();
    for (size_t k = 0; k < one.inputs.size(); ++k) {
      const hlo::Shape& wanted = called[called.parameters[k]].shape;
      const InstructionId input = moved[static_cast<size_t>(one.inputs[k])];
      const bool fits = hlo::same_dims(entry[input].shape, wanted);
      operands.push_back(fits ? input : add_filling(entry, fmt::format("{}.{}", from[id].name, k), input, wanted));
    }
    const hlo::Shape& shape = called.root_instruction().shape;
    const bool in_order = std::is_sorted(one.permutation.begin(), one.permutation.end());
    append(id, {from[id].name,
                Opcode::Call,
                shape,
                operands,
                {base + one.permuted.entry},
                hlo::NoAttributes{},
                from[id].location});
    hlo::Shape own = shape;
    for (size_t d = 0; d < own.dims.size(); ++d) own.dims[d] = from[id].shape.dim(one.permutation[d]);
    if (!hlo::same_dims(own, shape)) {
      const hlo::SliceAttributes within{std::vector<int64_t>(own.dims.size(), 0), own.dims,
                                        std::vector<int64_t>(own.dims.size(), 1)};
      append(id, {from[id].name + ".own", Opcode::Slice, own, {moved[i]}, {}, within, {}});
    }
    if (in_order) continue;
    std::vector<int64_t> back(one.permutation.size());
    for (size_t d = 0; d < back.size(); ++d) back[static_cast<size_t>(one.permutation[d])] = static_cast<int64_t>(d);
    append(id, transposed(from[id].name + ".permuted", moved[i], own, back));
  }
  for (const InstructionId id : from.parameters) entry.parameters.push_back(moved[static_cast<size_t>(id)]);
  entry.root = moved[static_cast<size_t>(from.root)];
  return hlo::extract_module(result, entry);
}

}  // namespace strata::emitters
