#include "emitters/kinds/reduction_outputs.h"

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "hlo/indexing/operator_maps.h"
#include "indexing/inverse.h"
#include "indexing/simplify.h"
#include "support/hash.h"

namespace strata::emitters {
namespace {

using hlo::InstructionId;
using hlo::Opcode;
using indexing::compose;
using indexing::IndexingMap;
using indexing::simplify;

constexpr int64_t kMaxWritesPerRow = 16;  ///< by the one thread that has the row's results

/// What the reshapes are of that an instruction is the last of, where their elements lie in memory as its own do.
InstructionId reshaped(const hlo::Computation& computation, InstructionId id) {
  while (computation[id].opcode == Opcode::Reshape && computation[id].shape.has_default_layout() &&
         computation.operand_shape(computation[id], 0).has_default_layout())
    id = computation[id].operands[0];
  return id;
}

/// A map that belongs to something with a number.
struct NumberedMap {
  int number;
  IndexingMap map;
  bool operator==(const NumberedMap&) const = default;
};
struct NumberedMapHash {
  size_t operator()(const NumberedMap& it) const { return mix(it.map.hash() + static_cast<uint64_t>(it.number)); }
};
using NumberedMaps = std::unordered_set<NumberedMap, NumberedMapHash>;

/// Where code that starts at some index reads heroes and staged inputs. A function is gone through for each index at
/// which it is called, so what its instructions read is found once, and only what leads to heroes is composed.
class HeroReads {
 public:
  HeroReads(const hlo::Module& module, hlo::ComputationId id, const indexing::FunctionPartition& partition,
            const ReductionHeroes& heroes)
      : module_(module), id_(id), computation_(module[id]), partition_(partition), heroes_(heroes) {}

  struct One {
    const ReductionHero* hero = nullptr;  ///< none: a staged input
    IndexingMap index;
  };

  /// All reads of heroes by a function and those it calls, at the results of `map`.
  Result<std::vector<One>> of_function(int function, const IndexingMap& map) {
    start(false);
    STRATA_CHECK(visit(function, map));
    return std::move(found_);
  }

  /// Whether a function at the map's indices reads heroes of the row at hand only: the map is from the groups.
  Result<bool> of_this_row(int function, const IndexingMap& map) {
    start(true);
    STRATA_CHECK(visit(function, map));
    return !of_other_row_;
  }

  /// The function that computes an instruction, -1 if none has to.
  int function_of(InstructionId id) const { return partition_.function_of[static_cast<size_t>(id)]; }

 private:
  /// What an instruction reads that may lead to heroes.
  struct Lead {
    InstructionId operand = 0;
    bool unknown = false;
    std::vector<IndexingMap> places;
  };

  /// Of a row alone the first read of another ends it.
  void start(bool of_one_row) {
    found_.clear();
    visited_.clear();
    of_one_row_ = of_one_row;
    of_other_row_ = false;
  }

  Result<void> visit(int number, const IndexingMap& map) {
    if (of_other_row_ || !visited_.insert({number, map}).second) return {};
    if (visited_.size() > 500) return unsupported("the functions of the fusion call each other at too many indices");
    const indexing::Function& function = partition_.functions[static_cast<size_t>(number)];
    if (function.injected.empty()) return {};
    for (const indexing::FunctionResult& result : function.results) {
      if (!leads(number, result.instruction)) continue;
      STRATA_CHECK(read(result.instruction, compose(map, result.index)));
    }
    for (const InstructionId id : function.instructions) {
      if (of_other_row_) break;
      STRATA_TRY(const std::vector<Lead>* found, leads_of(number, id));
      if (found->empty()) continue;
      const IndexingMap index = compose(map, partition_.index_of[static_cast<size_t>(id)]);
      for (const Lead& lead : *found) {
        if (lead.unknown) return unsupported("{} reads anything", computation_[id].name);
        for (const IndexingMap& place : lead.places) STRATA_CHECK(read(lead.operand, compose(index, place)));
      }
    }
    return {};
  }

  /// Whether what a function reads is a hero or staged, or computed by another function.
  bool leads(int reader, InstructionId id) const {
    if (heroes_.find(id) != nullptr || heroes_.find_staged(id) != nullptr) return true;
    return function_of(id) >= 0 && function_of(id) != reader;
  }

  /// Of an instruction of a function.
  Result<const std::vector<Lead>*> leads_of(int reader, InstructionId id) {
    const auto known = leads_.find(id);
    if (known != leads_.end()) return &known->second;
    STRATA_TRY(const indexing::SharedReads reads, indexing::shared_operand_reads(module_, id_, id));
    std::vector<Lead> found;
    for (const indexing::Read& one : *reads) {
      InstructionId operand = computation_[id].operands[static_cast<size_t>(one.operand)];
      int element = one.tuple_element;
      while (computation_[operand].opcode == Opcode::Tuple) {
        operand = computation_[operand].operands[static_cast<size_t>(element)];
        element = 0;
      }
      if (one.unknown || leads(reader, operand)) found.push_back({operand, one.unknown, one.maps});
    }
    return &leads_.emplace(id, std::move(found)).first->second;
  }

  Result<void> read(InstructionId id, const IndexingMap& map) {
    const ReductionHero* hero = heroes_.find(id);
    const StagedInput* staged = heroes_.find_staged(id);
    IndexingMap index = simplify(map);
    if (hero == nullptr && staged == nullptr) return visit(function_of(id), index);
    const auto [expected, is_new] = expected_.try_emplace(id);
    if (is_new) expected->second = simplify(hero != nullptr ? hero->result : staged->index);
    if (of_one_row_) {
      of_other_row_ = of_other_row_ || (!index.known_empty && index.results != expected->second.results);
    } else {
      found_.push_back({hero, std::move(index)});
    }
    return {};
  }

  const hlo::Module& module_;
  const hlo::ComputationId id_;
  const hlo::Computation& computation_;
  const indexing::FunctionPartition& partition_;
  const ReductionHeroes& heroes_;
  std::vector<One> found_;
  bool of_one_row_ = false, of_other_row_ = false;
  NumberedMaps visited_;                                        ///< by function
  std::unordered_map<InstructionId, std::vector<Lead>> leads_;  ///< of instructions that were looked at
  std::unordered_map<InstructionId, IndexingMap> expected_;     ///< of heroes and staged inputs that were read
};

class OutputPlanner {
 public:
  OutputPlanner(const hlo::Module& module, hlo::ComputationId id, const ReductionHeroes& heroes)
      : module_(module), id_(id), computation_(module[id]), heroes_(heroes) {}

  Result<ReductionOutputs> run() {
    indexing::PartitionOptions options;
    options.heroes = heroes_.ids();
    STRATA_TRY(outputs_.partition, indexing::partition_functions(module_, id_, options));
    reads_.emplace(module_, id_, outputs_.partition, heroes_);
    for (const ReductionHero& hero : heroes_.heroes) STRATA_CHECK(check_operands(hero));
    std::set<int> functions;
    for (const auto& root : outputs_.partition.roots) functions.insert(root.function);
    for (const int function : functions) STRATA_CHECK(add_write(function));
    outputs_.bare =
        heroes_.stages == 1 && std::all_of(outputs_.writes.begin(), outputs_.writes.end(), [&](const auto& one) {
          return one.elementwise ? of(one.function).injected.empty() : is_bare(of(one.function));
        });
    return std::move(outputs_);
  }

 private:
  const indexing::Function& of(int function) const {
    return outputs_.partition.functions[static_cast<size_t>(function)];
  }

  bool is_bare(const indexing::Function& function) const {
    return std::all_of(function.results.begin(), function.results.end(), [&](const auto& result) {
      return heroes_.find(reshaped(computation_, result.instruction)) != nullptr;
    });
  }

  Result<void> check_operands(const ReductionHero& hero) {
    const hlo::Instruction& it = computation_[hero.id];
    for (size_t i = 0; i < it.operands.size(); ++i) {
      const InstructionId operand = it.operands[i];
      IndexingMap index = hero.operand;
      if (2 * i >= it.operands.size()) index.results.clear();
      if (heroes_.find(operand) != nullptr) return unsupported("{} reduces {}", it.name, computation_[operand].name);
      if (reads_->function_of(operand) < 0) continue;
      STRATA_TRY(const bool this_row, reads_->of_this_row(reads_->function_of(operand), index));
      if (!this_row) return unsupported("{} needs reductions of other rows", it.name);
    }
    return {};
  }

  /// How many stages must be done before the function can run.
  int stages_before(const indexing::Function& function) const {
    int stages = 0;
    for (const InstructionId id : function.injected) {
      if (const ReductionHero* hero = heroes_.find(id)) stages = std::max(stages, hero->stage + 1);
    }
    return stages;
  }

  Result<void> add_write(int number) {
    const indexing::Function& function = of(number);
    const hlo::Shape& shape = indexing::element_shape(computation_[function.results[0].instruction].shape, 0);
    const int stages = stages_before(function);
    if (shape.element_count() == heroes_.rows() * heroes_.length()) {
      for (const IndexingMap& index : elementwise_indices(shape)) {
        STRATA_TRY(const bool this_row, reads_->of_this_row(number, index));
        if (!this_row) continue;
        outputs_.writes.push_back({number, true, stages, index});
        return {};
      }
    }
    STRATA_TRY(const IndexingMap index, row_index(number, function, shape));
    outputs_.writes.push_back({number, false, std::max(stages - 1, 0), index});
    return {};
  }

  /// Ways to go through an array of as many elements as are reduced.
  std::vector<IndexingMap> elementwise_indices(const hlo::Shape& shape) const {
    const ReductionHero& hero = heroes_.heroes[0];
    const hlo::Shape& read = computation_.operand_shape(computation_[hero.id], 0);
    std::vector<IndexingMap> ways;
    if (shape.dims == read.dims) {
      ways.push_back(hero.operand);
    } else {
      const auto plain = [](const hlo::Shape& of) { return hlo::array_shape(of.type, of.dims); };
      ways.push_back(compose(hero.operand, indexing::bitcast_map(plain(read), plain(shape))));
      ways.push_back(compose(hero.operand, indexing::bitcast_map(read, shape)));
    }
    for (IndexingMap& way : ways) way = simplify(way, indexing::UnusedVariables::Keep);
    return ways;
  }

  /// From the groups to the indices of a function that are written once a row: those at which it reads a hero's result
  /// of that row. As the function reads it at every index, none is left out or written twice.
  Result<IndexingMap> row_index(int number, const indexing::Function& function, const hlo::Shape& shape) {
    const ReductionHero& first = heroes_.heroes[0];
    const std::string name = computation_[function.results[0].instruction].name;
    if (stages_before(function) == 0) {
      const hlo::Shape& result = indexing::element_shape(computation_[first.id].shape, 0);
      if (result.element_count() != shape.element_count())
        return unsupported("{} has neither an element for each that is reduced nor one a row", name);
      const IndexingMap index =
          simplify(compose(first.result, indexing::bitcast_map(result, shape)), indexing::UnusedVariables::Keep);
      STRATA_TRY(const bool this_row, reads_->of_this_row(number, index));
      if (!this_row) return unsupported("{} reads elements of rows that are kept", name);
      return index;
    }
    STRATA_TRY(const std::vector<HeroReads::One> found,
               reads_->of_function(number, indexing::identity_map(shape.dims)));
    NumberedMaps tried;
    for (const HeroReads::One& read : found) {
      const IndexingMap& map = read.index;
      // It must be read at every index of the function: a condition may have become a narrower range.
      const bool always = map.constraints.empty() && map.dims == indexing::positions(shape.dims);
      if (read.hero == nullptr || !always || !map.ranges.empty() || !map.runtime.empty() || map.known_empty) continue;
      if (!tried.insert({read.hero->id, map}).second) continue;
      const hlo::Shape& result = indexing::element_shape(computation_[read.hero->id].shape, 0);
      const IndexingMap index =
          simplify(compose(read.hero->result, indexing::inverse(map, indexing::positions(result.dims))),
                   indexing::UnusedVariables::Keep);
      if (!index.runtime.empty()) continue;
      int64_t writes = 1;
      for (const indexing::Interval& range : index.ranges) writes = indexing::saturating_mul(writes, range.size());
      if (writes > kMaxWritesPerRow) return unsupported("{} has {} elements for each reduced row", name, writes);
      STRATA_TRY(const bool this_row, reads_->of_this_row(number, index));
      if (this_row) return index;
    }
    return unsupported("{} needs reductions of several rows at a time", name);
  }

  const hlo::Module& module_;
  const hlo::ComputationId id_;
  const hlo::Computation& computation_;
  const ReductionHeroes& heroes_;
  ReductionOutputs outputs_;
  std::optional<HeroReads> reads_;  ///< of the partition in outputs_
};

}  // namespace

InstructionId source_of(const hlo::Computation& computation, const indexing::FunctionPartition& partition,
                        size_t root) {
  const auto& [function, result] = partition.roots[root];
  return reshaped(computation,
                  partition.functions[static_cast<size_t>(function)].results[static_cast<size_t>(result)].instruction);
}

Result<ReductionOutputs> plan_reduction_outputs(const hlo::Module& module, hlo::ComputationId computation,
                                                const ReductionHeroes& heroes) {
  return OutputPlanner(module, computation, heroes).run();
}

}  // namespace strata::emitters
