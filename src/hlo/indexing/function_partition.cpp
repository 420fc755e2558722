#include "hlo/indexing/function_partition.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

#include "hlo/indexing/operator_maps.h"
#include "indexing/simplify.h"

namespace strata::indexing {
namespace {

using hlo::InstructionId;
using hlo::Opcode;

/// How an instruction is used: in which function, in which part of its code, and at which index.
struct Use {
  int function = 0;
  int region = 0;
  bool separate = false;  ///< the user reads more than one element, or at an index that is too costly
  IndexingMap index;      ///< from the function's indices
};

/// Whether the operand is read only where a condition on the index holds, so that code for it stands within a branch.
bool read_conditionally(const hlo::Instruction& user, int operand) {
  switch (user.opcode) {
    case Opcode::Pad:
    case Opcode::Concatenate:
    case Opcode::DynamicUpdateSlice:
      return true;
    case Opcode::Scatter:
      return operand > 0;
    case Opcode::ReduceWindow:
    case Opcode::Convolution:
      return true;
    default:
      return false;
  }
}

class Partition {
 public:
  Partition(const hlo::Module& module, hlo::ComputationId id, const PartitionOptions& options)
      : module_(module), id_(id), computation_(module[id]), options_(options) {
    result_.function_of.assign(computation_.instructions.size(), -1);
    result_.index_of.resize(computation_.instructions.size());
    regions_.resize(computation_.instructions.size());
    uses_.resize(computation_.instructions.size());
  }

  Result<FunctionPartition> run() {
    STRATA_CHECK(add_roots());
    for (InstructionId id = computation_.root; id >= 0; --id) {
      const Opcode opcode = computation_[id].opcode;
      if (uses_[static_cast<size_t>(id)].empty() || opcode == Opcode::Parameter || opcode == Opcode::Constant) continue;
      STRATA_CHECK(place(id));
      STRATA_CHECK(use_operands(id));
      uses_[static_cast<size_t>(id)] = {};  // maps are many
    }
    for (Function& function : result_.functions)
      std::reverse(function.instructions.begin(), function.instructions.end());
    inject_for_callees();
    return std::move(result_);
  }

 private:
  /// The instruction that computes an element of the value of another: tuples only hold them.
  std::pair<InstructionId, int> holder(InstructionId id, int element) const {
    while (computation_[id].opcode == Opcode::Tuple) {
      id = computation_[id].operands[static_cast<size_t>(element)];
      element = 0;
    }
    return {id, element};
  }

  Result<void> add_roots() {
    const hlo::Instruction& root = computation_.root_instruction();
    std::vector<InstructionId> values;
    if (root.opcode == Opcode::Tuple) {
      for (size_t i = 0; i < root.operands.size(); ++i) {
        values.push_back(holder(computation_.root, static_cast<int>(i)).first);
      }
    } else {
      values.push_back(computation_.root);
    }
    // The first of its functions for which there is a map that visits each element once.
    std::vector<int> groups;  // of the functions
    for (size_t i = 0; i < values.size(); ++i) {
      const InstructionId value = values[i];
      const int group = options_.root_groups.empty() ? 0 : options_.root_groups[i];
      STRATA_TRY(const hlo::Shape shape, shape_of(value));
      int function = 0;
      for (; function < static_cast<int>(result_.functions.size()); ++function) {
        const Function& candidate = result_.functions[static_cast<size_t>(function)];
        STRATA_TRY(const hlo::Shape first, shape_of(candidate.results[0].instruction));
        if (first.element_count() != shape.element_count() || groups[static_cast<size_t>(function)] != group) continue;
        add_result(
            function, value,
            simplify(bitcast_map(hlo::array_shape(first.type, first.dims), hlo::array_shape(shape.type, shape.dims))));
        break;
      }
      if (function == static_cast<int>(result_.functions.size())) {
        add_result(new_function(value, shape), value, simplify(identity_map(shape.dims)));
        groups.push_back(group);
      }
    }
    return {};
  }

  void add_result(int function, InstructionId value, IndexingMap index) {
    std::vector<FunctionResult>& results = result_.functions[static_cast<size_t>(function)].results;
    uses_[static_cast<size_t>(value)].push_back(
        {function, function_regions_[static_cast<size_t>(function)], false, index});
    result_.roots.push_back({function, static_cast<int>(results.size())});
    results.push_back({value, std::move(index)});
  }

  /// The shape of the instruction's indices: that of the first element of a tuple, which the others must equal.
  Result<hlo::Shape> shape_of(InstructionId id) const {
    const hlo::Instruction& it = computation_[id];
    const hlo::Shape& shape = it.shape;
    if (shape.is_array()) return shape;
    bool uniform = shape.is_tuple() && !shape.elements.empty();
    for (const hlo::Shape& element : shape.elements) uniform = uniform && hlo::same_dims(shape.elements[0], element);
    if (uniform) return shape.elements[0];
    return tl::unexpected(
        unsupported("{} has no array for a value, nor arrays of the same sizes", it.name).value().at(it.location));
  }

  int new_function(InstructionId first, const hlo::Shape& shape) {
    Function function;
    function.name = computation_.name + "_" + computation_[first].name;
    function.indices = positions(shape.dims);
    result_.functions.push_back(std::move(function));
    function_regions_.push_back(next_region_++);
    return static_cast<int>(result_.functions.size()) - 1;
  }

  bool is_hero(InstructionId id) const {
    return std::find(options_.heroes.begin(), options_.heroes.end(), id) != options_.heroes.end();
  }

  bool joins(InstructionId id) const {
    const std::vector<Use>& uses = uses_[static_cast<size_t>(id)];
    const Use& first = uses.front();
    const Function& function = result_.functions[static_cast<size_t>(first.function)];
    if (static_cast<int>(function.instructions.size()) >= options_.max_instructions) return false;
    // A hero and its operands are computed by the emitter's loops.
    if (is_hero(id) || (!function.instructions.empty() && is_hero(function.instructions[0]))) return false;
    return std::all_of(uses.begin(), uses.end(), [&](const Use& use) {
      return !use.separate && use.function == first.function && use.region == first.region && use.index == first.index;
    });
  }

  Result<void> place(InstructionId id) {
    const auto i = static_cast<size_t>(id);
    const std::vector<Use>& uses = uses_[i];
    if (joins(id)) {
      result_.function_of[i] = uses.front().function;
      result_.index_of[i] = uses.front().index;
      regions_[i] = uses.front().region;
    } else {
      STRATA_TRY(const hlo::Shape shape, shape_of(id));
      const int function = new_function(id, shape);
      result_.function_of[i] = function;
      result_.index_of[i] = simplify(identity_map(shape.dims));
      regions_[i] = function_regions_.back();
      result_.functions.back().results.push_back({id, result_.index_of[i]});
      for (const Use& use : uses) {
        Function& user = result_.functions[static_cast<size_t>(use.function)];
        if (is_hero(id)) {
          if (std::find(user.injected.begin(), user.injected.end(), id) == user.injected.end())
            user.injected.push_back(id);
        } else if (std::find(user.callees.begin(), user.callees.end(), function) == user.callees.end()) {
          user.callees.push_back(function);
        }
      }
    }
    result_.functions[static_cast<size_t>(result_.function_of[i])].instructions.push_back(id);
    return {};
  }

  Result<void> use_operands(InstructionId id) {
    const hlo::Instruction& it = computation_[id];
    const auto i = static_cast<size_t>(id);
    STRATA_TRY(const hlo::Shape shape, shape_of(id));
    STRATA_TRY(const SharedReads reads, shared_operand_reads(module_, id_, id));
    for (const Read& read : *reads) {
      const auto [operand, element] = holder(it.operands[static_cast<size_t>(read.operand)], read.tuple_element);
      if (operand_at_hand(operand)) continue;
      Use use{result_.function_of[i], regions_[i], read.unknown || read.maps.size() > 1, {}};
      if (read_conditionally(it, read.operand)) use.region = next_region_++;
      if (read.maps.size() == 1) {
        use.separate |= !read.maps[0].ranges.empty();
        if (!use.separate) use.index = index_of_read(id, operand, read.maps[0]);
        use.separate |= use.index.cost() > options_.max_index_cost;
      }
      uses_[static_cast<size_t>(operand)].push_back(std::move(use));
    }
    return {};
  }

  /// From the indices of an instruction's function to those at which it reads an operand. Most operators are
  /// elementwise, whose operands have the simplified index that they have themselves.
  IndexingMap index_of_read(InstructionId id, InstructionId operand, const IndexingMap& map) const {
    const IndexingMap& own = result_.index_of[static_cast<size_t>(id)];
    const hlo::Shape &shape = computation_[id].shape, &read = computation_[operand].shape;
    const bool same = hlo::is_elementwise(computation_[id].opcode) && read.is_array() && hlo::same_dims(shape, read);
    return same ? own : simplify(compose(own, map));
  }

  /// What a function's callees want injected its own caller has to give it: callees come after their callers.
  void inject_for_callees() {
    for (size_t i = result_.functions.size(); i-- > 0;) {
      Function& function = result_.functions[i];
      for (const int callee : function.callees) {
        for (const InstructionId hero : result_.functions[static_cast<size_t>(callee)].injected) {
          if (std::find(function.injected.begin(), function.injected.end(), hero) == function.injected.end())
            function.injected.push_back(hero);
        }
      }
    }
  }

  bool operand_at_hand(InstructionId id) const {
    const Opcode opcode = computation_[id].opcode;
    return opcode == Opcode::Parameter || opcode == Opcode::Constant;
  }

  const hlo::Module& module_;
  const hlo::ComputationId id_;
  const hlo::Computation& computation_;
  const PartitionOptions& options_;
  FunctionPartition result_;
  std::vector<int> regions_;           ///< of each placed instruction
  std::vector<int> function_regions_;  ///< of each function's straight code
  int next_region_ = 0;
  std::vector<std::vector<Use>> uses_;
};

}  // namespace

Result<FunctionPartition> partition_functions(const hlo::Module& module, hlo::ComputationId computation,
                                              const PartitionOptions& options) {
  return Partition(module, computation, options).run();
}

Result<Verdict> reads_in_bounds(const hlo::Module& module, hlo::ComputationId computation,
                                const FunctionPartition& partition) {
  const hlo::Computation& within = module[computation];
  Verdict total{Verdict::Kind::ProvedByStructure, "each index by its map"};
  /// Whether to go on.
  const auto check = [&](const std::string& reader, const IndexingMap& map, const hlo::Shape& shape) {
    const Verdict verdict = reads_in_bounds(map, shape.dims);
    const bool by_structure = verdict.kind == Verdict::Kind::ProvedByStructure;
    if (!by_structure) total = {verdict.kind, reader + ": " + verdict.reason};
    return verdict.proved();
  };
  // By induction from a function's results: an index of an instruction that lies within its shape gives indices of its
  // operands that lie within theirs.
  for (const Function& function : partition.functions) {
    for (const FunctionResult& result : function.results) {
      const hlo::Instruction& it = within[result.instruction];
      if (!check(it.name, result.index, element_shape(it.shape, 0))) return total;
    }
    for (const InstructionId id : function.instructions) {
      const hlo::Instruction& it = within[id];
      STRATA_TRY(const std::vector<Read> reads, operand_reads(module, computation, id));
      for (const Read& read : reads) {
        const std::string reader = fmt::format("operand {} of {}", read.operand, it.name);
        if (read.unknown) return Verdict{Verdict::Kind::Unknown, reader + " may be read anywhere"};
        const hlo::Shape& operand = within.operand_shape(it, static_cast<size_t>(read.operand));
        for (const IndexingMap& map : read.maps) {
          if (!check(reader, map, element_shape(operand, read.tuple_element))) return total;
        }
      }
    }
  }
  return total;
}

std::string signature(const hlo::Computation& computation, const Function& function) {
  std::vector<std::string> arguments;
  for (const InstructionId id : computation.parameters) {
    arguments.push_back(computation[id].name + ": " + hlo::to_string(computation[id].shape));
  }
  for (size_t i = 0; i < function.indices.size(); ++i) {
    arguments.push_back(fmt::format("d{} in {}", i, to_string(function.indices[i])));
  }
  const auto add_types = [](std::vector<std::string>& types, const hlo::Shape& shape) {
    if (!shape.is_tuple()) types.emplace_back(hlo::name(shape.type));
    for (const hlo::Shape& element : shape.elements) types.emplace_back(hlo::name(element.type));
  };
  for (const InstructionId id : function.injected) {
    std::vector<std::string> types;
    add_types(types, computation[id].shape);
    arguments.push_back(fmt::format("{}: {}", computation[id].name, fmt::join(types, ", ")));
  }
  std::vector<std::string> results;
  for (const FunctionResult& result : function.results) add_types(results, computation[result.instruction].shape);
  std::vector<std::string> names;
  for (const InstructionId id : function.instructions) names.push_back(computation[id].name);
  return fmt::format("{}({}) -> ({}): {}", function.name, fmt::join(arguments, ", "), fmt::join(results, ", "),
                     fmt::join(names, ", "));
}

}  // namespace strata::indexing
