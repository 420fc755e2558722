#include "hlo/indexing/operand_maps.h"

#include <algorithm>
#include <cassert>
#include <optional>
#include <unordered_map>

#include "hlo/indexing/operator_maps.h"
#include "indexing/inverse.h"
#include "indexing/simplify.h"
#include "support/hash.h"

namespace strata::indexing {

using hlo::Opcode;

namespace {

/// Of a map along a path; costlier ones are unknown, for each further step may double them.
constexpr int64_t kMaxCost = 2000;

/// Every element of every operand, one entry an element of a tuple.
std::vector<Read> everything(const Site& site) {
  std::vector<Read> reads;
  for (size_t i = 0; i < site.instruction.operands.size(); ++i) {
    const hlo::Shape& shape = site.operand(i);
    const size_t elements = shape.is_tuple() ? shape.elements.size() : 1;
    for (size_t e = 0; e < elements; ++e) reads.push_back({static_cast<int>(i), static_cast<int>(e), true, {}});
  }
  return reads;
}

std::vector<Read> elementwise(const Site& site) {
  std::vector<Read> reads;
  for (size_t i = 0; i < site.instruction.operands.size(); ++i) {
    // Operands of select and clamp may be scalars for the whole result.
    const bool scalar = site.operand(i).rank() == 0;
    reads.push_back({static_cast<int>(i), 0, false, {scalar ? site.map() : identity_map(site.shape.dims)}});
  }
  return reads;
}

/// Between types of different widths the wider one has a dimension less: its elements are the narrower one's rows.
IndexingMap bitcast_convert(const Site& site) {
  IndexingMap map = identity_map(site.shape.dims);
  const hlo::Shape& operand = site.operand(0);
  if (operand.rank() < site.shape.rank()) map.results.pop_back();
  if (operand.rank() > site.shape.rank()) map.results.push_back(add_range(map, operand.dims.back()));
  return map;
}

bool has_several_callers(const hlo::Module& module, hlo::ComputationId called) {
  int callers = 0;
  for (const hlo::Computation& computation : module.computations) {
    for (const hlo::Instruction& instruction : computation.instructions) {
      callers += static_cast<int>(std::count(instruction.called.begin(), instruction.called.end(), called));
    }
  }
  return callers > 1;
}

constexpr int kMostMaps = 64;  // of one element of a called computation

Result<std::vector<Read>> reads_of(const hlo::Module& module, hlo::ComputationId computation, int tuple_element,
                                   int max_maps, CalledReads& called);

Result<std::vector<Read>> called_reads(const Site& site, int tuple_element) {
  const hlo::ComputationId called = site.instruction.called[0];
  const auto known = site.called.find({called, tuple_element});
  if (known != site.called.end()) return known->second;
  STRATA_TRY(std::vector<Read> reads, reads_of(site.module, called, tuple_element, kMostMaps, site.called));
  const bool runtime = std::any_of(reads.begin(), reads.end(), [](const Read& read) {
    return std::any_of(read.maps.begin(), read.maps.end(), [](const IndexingMap& map) { return !map.runtime.empty(); });
  });
  if (runtime && has_several_callers(site.module, called)) {
    return unsupported("{} calls {}, which reads at positions known at run time only and has other callers too",
                       site.instruction.name, site.module[called].name);
  }
  site.called[{called, tuple_element}] = reads;
  return reads;
}

/// Of the elements of a tuple that are arrays.
std::vector<Read> passed_on(const Site& site, int operand, int tuple_element) {
  if (site.shape.is_tuple()) return {{operand, tuple_element, true, {}}};
  if (!site.shape.is_array()) return {};
  return {{operand, tuple_element, false, {identity_map(site.shape.dims)}}};
}

Result<std::vector<Read>> raw_reads(const Site& site, int tuple_element) {
  const hlo::Instruction& instruction = site.instruction;
  if (hlo::is_elementwise(instruction.opcode)) return elementwise(site);
  switch (instruction.opcode) {
    case Opcode::BitcastConvert:
      return std::vector<Read>{{0, 0, false, {bitcast_convert(site)}}};
    case Opcode::DynamicSlice:
    case Opcode::DynamicUpdateSlice:
    case Opcode::Gather:
    case Opcode::Scatter:
      return indexed_reads(site);
    case Opcode::Map:
    case Opcode::Reduce:
    case Opcode::ReduceWindow:
    case Opcode::Sort:
    case Opcode::TopK:
      return combining_reads(site);
    case Opcode::Tuple:
      return passed_on(site, tuple_element, 0);
    case Opcode::GetTupleElement:
      return passed_on(site, 0, static_cast<int>(instruction.as<hlo::TupleIndexAttributes>().index));
    case Opcode::OptimizationBarrier:
      return passed_on(site, 0, tuple_element);
    case Opcode::AddDependency:
      return passed_on(site, 0, 0);
    case Opcode::Call:
    case Opcode::Fusion:
      return called_reads(site, tuple_element);
    default:
      break;
  }
  switch (hlo::family(instruction.opcode)) {
    case hlo::Family::Leaf:
      return std::vector<Read>{};
    case hlo::Family::Movement:
      return movement_reads(site);
    case hlo::Family::Contraction:
      return contraction_reads(site);
    default:
      return everything(site);
  }
}

bool same_place(const Read& a, const Read& b) { return a.operand == b.operand && a.tuple_element == b.tuple_element; }

/// Adds maps to those of the same element, each once.
void unite(std::vector<Read>& reads, Read added, size_t max_maps) {
  const auto known =
      std::find_if(reads.begin(), reads.end(), [&](const Read& read) { return same_place(read, added); });
  if (known == reads.end()) {
    reads.push_back(std::move(added));
    return;
  }
  known->unknown |= added.unknown;
  for (IndexingMap& map : added.maps) {
    if (std::find(known->maps.begin(), known->maps.end(), map) == known->maps.end()) {
      known->maps.push_back(std::move(map));
    }
  }
  known->unknown |= known->maps.size() > max_maps;
  if (known->unknown) known->maps.clear();
}

Result<std::vector<Read>> reads_at(const hlo::Module& module, hlo::ComputationId computation,
                                   hlo::InstructionId instruction, int tuple_element, CalledReads& called);

}  // namespace

const hlo::Shape& element_shape(const hlo::Shape& shape, int tuple_element) {
  return shape.is_tuple() ? shape.elements[static_cast<size_t>(tuple_element)] : shape;
}

int64_t instruction_key(hlo::ComputationId computation, hlo::InstructionId instruction) {
  return (static_cast<int64_t>(computation) << 32) | instruction;
}

IndexingMap Site::map() const {
  IndexingMap result;
  result.dims = positions(shape.dims);
  return result;
}

std::vector<Expr> dim_variables(size_t count) {
  std::vector<Expr> result;
  for (size_t i = 0; i < count; ++i) result.push_back(Expr::dim(static_cast<int>(i)));
  return result;
}

Expr add_range(IndexingMap& map, int64_t extent) {
  map.ranges.push_back(below(extent));
  return Expr::range(static_cast<int>(map.ranges.size()) - 1);
}

Expr add_runtime(IndexingMap& map, const Site& site, int operand, std::vector<Expr> element, int64_t last) {
  map.runtime.push_back({site.key, operand, std::move(element), {0, last}});
  return Expr::runtime(static_cast<int>(map.runtime.size()) - 1);
}

namespace {

/// The reads of operators that depend on nothing but shapes and a few attributes, by these: a fusion pass asks for the
/// same ones for each group that it rates. One for each thread.
class KnownReads {
 public:
  /// What the reads of an instruction depend on; nothing where that is more than it has room for here.
  static std::optional<std::vector<int64_t>> key_of(const hlo::Computation& within, const hlo::Instruction& it,
                                                    int tuple_element) {
    std::vector<int64_t> key{static_cast<int64_t>(it.opcode), tuple_element};
    if (!hlo::is_elementwise(it.opcode)) {
      switch (it.opcode) {
        case Opcode::Broadcast:
        case Opcode::Concatenate:
        case Opcode::Reduce:
        case Opcode::Reverse:
        case Opcode::Transpose:
          add_all(key, it.dimensions());
          break;
        case Opcode::Slice: {
          const auto& slice = it.as<hlo::SliceAttributes>();
          for (const auto* numbers : {&slice.starts, &slice.limits, &slice.strides}) add_all(key, *numbers);
          break;
        }
        case Opcode::Pad: {
          const auto& pad = it.as<hlo::PadAttributes>();
          for (const auto* numbers : {&pad.low, &pad.high, &pad.interior}) add_all(key, *numbers);
          break;
        }
        case Opcode::Bitcast:
        case Opcode::Copy:
        case Opcode::Reshape:
          break;
        default:
          return std::nullopt;
      }
    }
    add(key, it.shape);
    key.push_back(std::ssize(it.operands));
    for (size_t i = 0; i < it.operands.size(); ++i) add(key, within.operand_shape(it, i));
    return key;
  }

  SharedReads find(const std::vector<int64_t>& key) const {
    const auto known = reads_.find(key);
    return known == reads_.end() ? nullptr : known->second;
  }

  void add(std::vector<int64_t> key, SharedReads reads) {
    constexpr size_t kMost = 4096;
    if (reads_.size() >= kMost) reads_.clear();
    reads_.emplace(std::move(key), std::move(reads));
  }

 private:
  static void add_all(std::vector<int64_t>& key, const std::vector<int64_t>& numbers) {
    key.push_back(std::ssize(numbers));
    key.insert(key.end(), numbers.begin(), numbers.end());
  }
  static void add(std::vector<int64_t>& key, const hlo::Shape& shape) {
    key.push_back(static_cast<int64_t>(shape.type));
    add_all(key, shape.dims);
    key.insert(key.end(), shape.minor_to_major.begin(), shape.minor_to_major.end());
    key.push_back(std::ssize(shape.elements));
    for (const hlo::Shape& element : shape.elements) add(key, element);
  }

  struct KeyHash {
    size_t operator()(const std::vector<int64_t>& key) const { return Hasher().add_all(key).value(); }
  };
  std::unordered_map<std::vector<int64_t>, SharedReads, KeyHash> reads_;
};

}  // namespace

Result<SharedReads> shared_operand_reads(const hlo::Module& module, hlo::ComputationId computation,
                                         hlo::InstructionId instruction, int tuple_element) {
  thread_local KnownReads known_reads;
  auto key = KnownReads::key_of(module[computation], module[computation][instruction], tuple_element);
  if (key) {
    if (SharedReads known = known_reads.find(*key)) return known;
  }
  CalledReads called;
  STRATA_TRY(std::vector<Read> reads, reads_at(module, computation, instruction, tuple_element, called));
  auto shared = std::make_shared<const std::vector<Read>>(std::move(reads));
  if (key) known_reads.add(*std::move(key), shared);
  return shared;
}

Result<std::vector<Read>> operand_reads(const hlo::Module& module, hlo::ComputationId computation,
                                        hlo::InstructionId instruction, int tuple_element) {
  STRATA_TRY(const SharedReads reads, shared_operand_reads(module, computation, instruction, tuple_element));
  return *reads;
}

namespace {

Result<std::vector<Read>> reads_at(const hlo::Module& module, hlo::ComputationId computation,
                                   hlo::InstructionId instruction, int tuple_element, CalledReads& called) {
  const hlo::Computation& within = module[computation];
  const hlo::Instruction& it = within[instruction];
  if (it.shape.is_tuple() && it.shape.elements.empty()) return std::vector<Read>{};
  const Site site{module, within, it, instruction_key(computation, instruction), element_shape(it.shape, tuple_element),
                  called};
  STRATA_TRY(const std::vector<Read> raw, raw_reads(site, tuple_element));
  std::vector<Read> reads;
  for (const Read& read : raw) {
    Read simplified{read.operand, read.tuple_element, read.unknown, {}};
    for (const IndexingMap& map : read.maps) {
      IndexingMap simple = simplify(map);
      if (simple.is_undefined()) {
        return tl::unexpected(unsupported("{}: an index of operand {} does not fit into 64 bits", it.name, read.operand)
                                  .value()
                                  .at(it.location));
      }
      simplified.maps.push_back(std::move(simple));
    }
    reads.push_back(std::move(simplified));
  }
  return reads;
}

}  // namespace

Result<std::vector<Read>> result_uses(const hlo::Module& module, hlo::ComputationId computation,
                                      hlo::InstructionId instruction, int operand, int tuple_element) {
  STRATA_TRY(std::vector<Read> reads, operand_reads(module, computation, instruction, tuple_element));
  const hlo::Computation& within = module[computation];
  const hlo::Instruction& it = within[instruction];
  const hlo::Shape& shape = within.operand_shape(it, static_cast<size_t>(operand));
  std::erase_if(reads, [&](const Read& read) { return read.operand != operand; });
  for (Read& read : reads) {
    if (read.unknown) continue;
    const hlo::Shape& of_operand = element_shape(shape, read.tuple_element);
    for (IndexingMap& map : read.maps) {
      // Quotients and remainders cannot be solved for, but here the way back is known.
      if (it.opcode == Opcode::Reshape) {
        map = simplify(bitcast_map(hlo::array_shape(of_operand.type, of_operand.dims),
                                   hlo::array_shape(it.shape.type, it.shape.dims)));
      } else if (it.opcode == Opcode::Bitcast) {
        map = simplify(bitcast_map(of_operand, it.shape));
      } else {
        map = inverse(map, positions(of_operand.dims));
      }
    }
  }
  return reads;
}

Result<std::vector<Read>> computation_reads(const hlo::Module& module, hlo::ComputationId computation,
                                            int tuple_element, int max_maps) {
  CalledReads called;
  return reads_of(module, computation, tuple_element, max_maps, called);
}

namespace {

Result<std::vector<Read>> reads_of(const hlo::Module& module, hlo::ComputationId computation, int tuple_element,
                                   int max_maps, CalledReads& called) {
  const hlo::Computation& within = module[computation];
  const auto limit = static_cast<size_t>(max_maps);
  // What the root reads of each instruction: Read::operand is the instruction's id.
  std::vector<std::vector<Read>> of_instruction(within.instructions.size());
  const hlo::Shape& root_shape = element_shape(within.root_instruction().shape, tuple_element);
  Read root{within.root, tuple_element, root_shape.is_tuple(), {}};
  if (!root.unknown) root.maps.push_back(simplify(identity_map(root_shape.dims)));
  of_instruction[static_cast<size_t>(within.root)].push_back(std::move(root));
  std::vector<Read> result;
  for (hlo::InstructionId id = within.root; id >= 0; --id) {
    const hlo::Instruction& it = within[id];
    for (const Read& from_root : of_instruction[static_cast<size_t>(id)]) {
      if (it.opcode == Opcode::Parameter) {
        const auto number = static_cast<int>(it.as<hlo::ParameterAttributes>().number);
        unite(result, {number, from_root.tuple_element, from_root.unknown, from_root.maps}, limit);
        continue;
      }
      STRATA_TRY(const std::vector<Read> reads, reads_at(module, computation, id, from_root.tuple_element, called));
      for (const Read& read : reads) {
        const hlo::InstructionId operand = it.operands[static_cast<size_t>(read.operand)];
        Read composed{operand, read.tuple_element, from_root.unknown || read.unknown, {}};
        if (!composed.unknown) {
          for (const IndexingMap& outer : from_root.maps) {
            for (const IndexingMap& inner : read.maps) {
              IndexingMap map = simplify(compose(outer, inner));
              composed.unknown |= map.cost() > kMaxCost;
              if (!map.known_empty) composed.maps.push_back(std::move(map));
            }
          }
          if (composed.maps.empty()) continue;
          if (composed.unknown) composed.maps.clear();
        }
        unite(of_instruction[static_cast<size_t>(operand)], std::move(composed), limit);
      }
    }
  }
  return result;
}

}  // namespace

}  // namespace strata::indexing
