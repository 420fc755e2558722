#include "emitters/kinds/epilogue.h"

#include <set>

#include "emitters/elemental/index_code.h"
#include "hlo/indexing/operand_maps.h"
#include "indexing/simplify.h"

namespace strata::emitters {

using hlo::InstructionId;
using hlo::Opcode;
using indexing::IndexingMap;

namespace {

/// The map followed by the place in memory of what it reads.
IndexingMap place_of(const IndexingMap& map, const hlo::Shape& shape) {
  IndexingMap place = map;
  const std::vector<int64_t> strides = hlo::memory_strides(shape);
  place.results = {indexing::linearize(map.results, strides)};
  return indexing::simplify(place, indexing::UnusedVariables::Keep);
}

bool same_place(const IndexingMap& map, const hlo::Shape& read, const hlo::Shape& user) {
  if (!map.ranges.empty() || !map.runtime.empty() || !map.constraints.empty()) return false;
  return place_of(map, read).results == place_of(indexing::identity_map(user.dims), user).results;
}

bool may_keep_places(Opcode opcode) {
  switch (opcode) {
    case Opcode::Bitcast:
    case Opcode::Broadcast:
    case Opcode::Copy:
    case Opcode::Map:
    case Opcode::Reshape:
    case Opcode::Reverse:
    case Opcode::Slice:
    case Opcode::Transpose:
      return true;
    default:
      return hlo::is_elementwise(opcode);
  }
}

/// For each operand of each instruction, whether keeps_places.
using Kept = std::vector<std::vector<bool>>;

std::vector<bool> kept_places(const hlo::Module& module, hlo::ComputationId computation, InstructionId user) {
  const hlo::Instruction& it = module[computation][user];
  std::vector<bool> kept(it.operands.size());
  if (it.opcode == Opcode::GetTupleElement) {
    const hlo::Instruction& from = module[computation][it.operands[0]];
    const auto alike = [&](const hlo::Shape& one) {
      return hlo::same_dims(one, it.shape) && one.minor_to_major == it.shape.minor_to_major;
    };
    return {from.opcode == Opcode::ReduceWindow && llvm::all_of(from.shape.elements, alike)};
  }
  if (!may_keep_places(it.opcode)) return kept;
  const Result<std::vector<indexing::Read>> reads = indexing::operand_reads(module, computation, user);
  if (!reads) return kept;
  for (const indexing::Read& read : *reads) {
    const hlo::Shape& shape = module[computation].operand_shape(it, static_cast<size_t>(read.operand));
    if (!shape.is_array() || read.unknown || read.maps.size() != 1) continue;
    const bool all = shape.element_count() == it.shape.element_count();
    kept[static_cast<size_t>(read.operand)] = all && same_place(read.maps[0], shape, it.shape);
  }
  return kept;
}

/// Rewrites a computation so that what is used at heroes' places, and what is used otherwise, are two instructions.
class Doubling {
 public:
  Doubling(const hlo::Computation& from, const Kept& kept, const std::vector<bool>& reaches,
           const std::set<InstructionId>& heroes)
      : from_(from), kept_(kept), reaches_(reaches), heroes_(heroes) {
    at_places_.assign(from.instructions.size(), false);
    elsewhere_.assign(from.instructions.size(), false);
    if (from.root_instruction().opcode == Opcode::Tuple) {
      elsewhere_[static_cast<size_t>(from.root)] = true;
    } else {
      mark(from.root, true);
    }
    for (const InstructionId id : from.parameters) mark(id, false);
    for (InstructionId id = from.root; id >= 0; --id) {
      for (const bool placed : {true, false}) {
        if (!(placed ? at_places_ : elsewhere_)[static_cast<size_t>(id)]) continue;
        for (size_t k = 0; k < from[id].operands.size(); ++k) mark(from[id].operands[k], passes(id, k, placed));
      }
    }
  }

  hlo::Computation run(std::vector<InstructionId>& heroes) {
    hlo::Computation to{from_.name, {}, {}, 0};
    to.parameters.resize(from_.parameters.size());
    std::vector<InstructionId> new_places(from_.instructions.size(), -1), new_elsewhere = new_places;
    std::set<std::string> names;
    for (const hlo::Instruction& it : from_.instructions) names.insert(it.name);
    for (size_t i = 0; i < from_.instructions.size(); ++i) {
      const auto id = static_cast<InstructionId>(i);
      for (const bool placed : {false, true}) {
        if (!(placed ? at_places_ : elsewhere_)[i]) continue;
        hlo::Instruction copy = from_[id];
        if (placed && elsewhere_[i]) {
          while (names.contains(copy.name)) copy.name += "_again";
          names.insert(copy.name);
        }
        for (size_t k = 0; k < copy.operands.size(); ++k) {
          const auto operand = static_cast<size_t>(copy.operands[k]);
          copy.operands[k] = (passes(id, k, placed) && reaches_[operand] ? new_places : new_elsewhere)[operand];
        }
        const auto number = static_cast<InstructionId>(to.instructions.size());
        (placed ? new_places : new_elsewhere)[i] = number;
        if (placed && heroes_.contains(id)) heroes.push_back(number);
        to.instructions.push_back(std::move(copy));
      }
    }
    for (size_t i = 0; i < from_.parameters.size(); ++i) {
      to.parameters[i] = new_elsewhere[static_cast<size_t>(from_.parameters[i])];
    }
    const auto root = static_cast<size_t>(from_.root);
    to.root = at_places_[root] ? new_places[root] : new_elsewhere[root];
    return to;
  }

 private:
  /// Whether operand k is used at the same places.
  bool passes(InstructionId id, size_t k, bool placed) const {
    if (id == from_.root && from_[id].opcode == Opcode::Tuple) return true;
    return placed && !heroes_.contains(id) && kept_[static_cast<size_t>(id)][k];
  }
  void mark(InstructionId id, bool placed) {
    const auto i = static_cast<size_t>(id);
    (placed && reaches_[i] ? at_places_ : elsewhere_)[i] = true;
  }

  const hlo::Computation& from_;
  const Kept& kept_;
  const std::vector<bool>& reaches_;  ///< a hero, keeping places
  const std::set<InstructionId>& heroes_;
  std::vector<bool> at_places_, elsewhere_;  ///< which of the two are needed
};

/// Whether heroes are used by root functions only, and what these return lies at the places of their first results.
Result<void> check_places(const HeroSplit& split) {
  const hlo::Computation& computation = (*split.module)[split.computation];
  for (size_t f = 0; f < split.partition.functions.size(); ++f) {
    const indexing::Function& function = split.partition.functions[f];
    const bool root =
        llvm::any_of(split.partition.roots, [&](const auto& value) { return value.function == static_cast<int>(f); });
    if (!root && !function.injected.empty() && !llvm::is_contained(split.heroes, function.instructions[0])) {
      return unsupported("{} is read at several indices after it", computation[function.injected[0]].name);
    }
    if (!root) continue;
    const hlo::Shape& first = indexing::element_shape(computation[function.results[0].instruction].shape, 0);
    for (const indexing::FunctionResult& result : function.results) {
      const hlo::Instruction& it = computation[result.instruction];
      if (!it.shape.is_array()) return unsupported("{} is no array", it.name);
      if (!same_place(result.index, it.shape, first)) {
        return unsupported("{} and {} lie differently in memory", computation[function.results[0].instruction].name,
                           it.name);
      }
    }
    for (const InstructionId hero : function.injected) {
      for (const InstructionId user : function.instructions) {
        const std::vector<InstructionId>& operands = computation[user].operands;
        if (!llvm::is_contained(operands, hero)) continue;
        // What keeps places reads a hero where it lies itself.
        const IndexingMap& at = split.partition.index_of[static_cast<size_t>(user)];
        if (!same_place(at, computation[user].shape, first)) {
          return unsupported("{} is read at another index by {}", computation[hero].name, computation[user].name);
        }
      }
    }
  }
  return {};
}

}  // namespace

bool keeps_places(const hlo::Module& module, hlo::ComputationId computation, InstructionId user, int operand) {
  return kept_places(module, computation, user)[static_cast<size_t>(operand)];
}

std::vector<InstructionId> root_values(const hlo::Computation& computation) {
  const hlo::Instruction& root = computation.root_instruction();
  return root.opcode == Opcode::Tuple ? root.operands : std::vector<InstructionId>{computation.root};
}

size_t HeroSplit::hero_number(InstructionId hero) const {
  return static_cast<size_t>(std::find(heroes.begin(), heroes.end(), hero) - heroes.begin());
}

Result<HeroSplit> split_at_heroes(const Fusion& fusion, const std::function<bool(InstructionId)>& is_hero,
                                  SharedRoots shared) {
  const hlo::Computation& computation = fusion.computation();
  const size_t count = computation.instructions.size();
  Kept kept(count);
  std::vector<bool> visited(count), reaches(count);
  std::set<InstructionId> heroes;
  std::vector<InstructionId> pending = root_values(computation);
  std::vector<InstructionId> order;
  for (const InstructionId id : pending) {
    if (!computation[id].shape.is_array()) return unsupported("{} is no array", computation[id].name);
  }
  while (!pending.empty()) {
    const InstructionId id = pending.back();
    pending.pop_back();
    const auto i = static_cast<size_t>(id);
    if (visited[i]) continue;
    visited[i] = true;
    order.push_back(id);
    if (is_hero(id)) {
      heroes.insert(id);
      reaches[i] = true;
      continue;
    }
    kept[i] = kept_places(fusion.module, fusion.id, id);
    for (size_t k = 0; k < kept[i].size(); ++k) {
      if (kept[i][k]) pending.push_back(computation[id].operands[k]);
    }
  }
  for (auto& one : kept) {
    const auto i = static_cast<size_t>(&one - kept.data());
    one.resize(computation.instructions[i].operands.size());
    for (size_t k = 0; k < one.size(); ++k) {
      if (one[k] && reaches[static_cast<size_t>(computation.instructions[i].operands[k])]) reaches[i] = true;
    }
  }
  HeroSplit split;
  split.computation = fusion.id;
  if (heroes.empty()) return split;
  hlo::Module module = fusion.module;
  module.computations[static_cast<size_t>(fusion.id)] = Doubling(computation, kept, reaches, heroes).run(split.heroes);
  split.module = std::make_shared<hlo::Module>(std::move(module));
  for (const InstructionId id : root_values(computation)) {
    split.has_hero.push_back(reaches[static_cast<size_t>(id)]);
    const int own = static_cast<int>(split.has_hero.size());
    split.options.root_groups.push_back(shared == SharedRoots::None ? own : split.has_hero.back() ? 0 : 1);
  }
  split.options.heroes = split.heroes;
  STRATA_TRY(split.partition, indexing::partition_functions(*split.module, split.computation, split.options));
  STRATA_CHECK(check_places(split));
  return split;
}

IndexingMap index_at_place(const HeroSplit& split, int function) {
  const hlo::Computation& computation = (*split.module)[split.computation];
  const indexing::Function& of = split.partition.functions[static_cast<size_t>(function)];
  return index_at_position(computation[of.results[0].instruction].shape);
}

std::vector<int> root_functions(const HeroSplit& split, bool with_heroes) {
  std::set<int> functions;
  for (size_t i = 0; i < split.partition.roots.size(); ++i) {
    if (split.has_hero[i] == with_heroes) functions.insert(split.partition.roots[i].function);
  }
  return {functions.begin(), functions.end()};
}

}  // namespace strata::emitters
