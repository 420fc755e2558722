#include "emitters/kinds/reduction_shape.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "hlo/indexing/evaluations.h"
#include "hlo/indexing/operand_maps.h"

namespace strata::emitters {

using hlo::InstructionId;
using indexing::Expr;
using indexing::IndexingMap;

std::vector<DimensionGroup> dimension_groups(const hlo::Shape& shape, const std::vector<int64_t>& reduced) {
  std::vector<DimensionGroup> groups;
  for (size_t i = shape.minor_to_major.size(); i-- > 0;) {
    const int64_t d = shape.minor_to_major[i];
    if (shape.dim(d) == 1) continue;
    const bool is_reduced = std::find(reduced.begin(), reduced.end(), d) != reduced.end();
    if (groups.empty() || groups.back().reduced != is_reduced) groups.push_back({1, is_reduced, {}});
    groups.back().size *= shape.dim(d);
    groups.back().dims.push_back(d);
  }
  return groups;
}

IndexingMap operand_index(const std::vector<DimensionGroup>& groups, const hlo::Shape& shape) {
  IndexingMap map;
  map.results.resize(shape.dims.size());
  for (size_t g = 0; g < groups.size(); ++g) {
    map.dims.push_back(indexing::below(groups[g].size));
    std::vector<int64_t> sizes;
    for (const int64_t d : groups[g].dims) sizes.push_back(shape.dim(d));
    const std::vector<Expr> digits = indexing::delinearize(Expr::dim(static_cast<int>(g)), sizes);
    for (size_t i = 0; i < digits.size(); ++i) map.results[static_cast<size_t>(groups[g].dims[i])] = digits[i];
  }
  return map;
}

IndexingMap result_index(const std::vector<DimensionGroup>& groups, const hlo::Shape& shape,
                         const std::vector<int64_t>& reduced) {
  IndexingMap map = operand_index(groups, shape);
  std::vector<Expr> kept;
  for (size_t d = 0; d < shape.dims.size(); ++d) {
    if (std::find(reduced.begin(), reduced.end(), static_cast<int64_t>(d)) == reduced.end())
      kept.push_back(map.results[d]);
  }
  map.results = std::move(kept);
  return map;
}

int64_t ReductionHeroes::rows() const {
  return std::accumulate(groups.begin(), groups.end(), int64_t{1}, [](int64_t product, const auto& group) {
    return group.reduced ? product : product * group.size;
  });
}

int64_t ReductionHeroes::length() const {
  return std::accumulate(groups.begin(), groups.end(), int64_t{1}, [](int64_t product, const auto& group) {
    return group.reduced ? product * group.size : product;
  });
}

std::vector<InstructionId> ReductionHeroes::ids() const {
  std::vector<InstructionId> ids;
  for (const ReductionHero& hero : heroes) ids.push_back(hero.id);
  for (const StagedInput& input : staged) ids.push_back(input.id);
  return ids;
}

const ReductionHero* ReductionHeroes::find(InstructionId id) const {
  const auto place = std::find_if(heroes.begin(), heroes.end(), [&](const auto& hero) { return hero.id == id; });
  return place == heroes.end() ? nullptr : &*place;
}

const StagedInput* ReductionHeroes::find_staged(InstructionId id) const {
  const auto place = std::find_if(staged.begin(), staged.end(), [&](const auto& input) { return input.id == id; });
  return place == staged.end() ? nullptr : &*place;
}

namespace {

/// What the root is computed from.
std::vector<bool> used_instructions(const hlo::Computation& computation) {
  std::vector<bool> used(computation.instructions.size());
  used[static_cast<size_t>(computation.root)] = true;
  for (size_t i = used.size(); i-- > 0;) {
    if (!used[i]) continue;
    for (const InstructionId operand : computation.instructions[i].operands) used[static_cast<size_t>(operand)] = true;
  }
  return used;
}

bool same_groups(const std::vector<DimensionGroup>& a, const std::vector<DimensionGroup>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const DimensionGroup& x, const DimensionGroup& y) {
    return x.size == y.size && x.reduced == y.reduced;
  });
}

/// How many of the dimensions of the innermost run, which is reduced, lie in pieces that are better gone through one by
/// one, or nothing. An array that is broadcast to the pieces lies otherwise than the run: where a vector of the run may
/// belong to two of them, each of its elements would be read by itself, a sector of memory each, at an index by
/// division.
std::optional<size_t> dimensions_of_pieces(const hlo::Computation& computation, const std::vector<bool>& used,
                                           const hlo::Shape& operand, const DimensionGroup& run) {
  constexpr int64_t kMostVector = 8;
  constexpr int64_t kLeastPiece = 32 * kMostVector;  // more elements than a warp has in one vector each
  for (size_t i = 0; i < used.size(); ++i) {
    const hlo::Instruction& it = computation.instructions[i];
    if (!used[i] || it.opcode != hlo::Opcode::Broadcast || it.shape.dims != operand.dims) continue;
    const hlo::Shape& from = computation.operand_shape(it, 0);
    const auto keeps = [&](int64_t d) {
      const auto place = std::find(it.dimensions().begin(), it.dimensions().end(), d);
      return place != it.dimensions().end() && from.dim(place - it.dimensions().begin()) > 1;
    };
    int64_t piece = 1;
    size_t count = 0;
    while (count < run.dims.size() && keeps(run.dims[run.dims.size() - 1 - count])) {
      piece *= operand.dim(run.dims[run.dims.size() - 1 - count]);
      ++count;
    }
    if (count > 0 && count < run.dims.size() && piece > kLeastPiece && piece % kMostVector != 0) return count;
  }
  return std::nullopt;
}

/// Groups whose innermost one is two: the pieces, and what lies in each.
std::vector<DimensionGroup> in_pieces(std::vector<DimensionGroup> groups, const hlo::Shape& shape, size_t dimensions) {
  DimensionGroup& pieces = groups.back();
  DimensionGroup piece{
      1, pieces.reduced, {pieces.dims.end() - static_cast<std::ptrdiff_t>(dimensions), pieces.dims.end()}};
  for (const int64_t d : piece.dims) piece.size *= shape.dim(d);
  pieces.dims.resize(pieces.dims.size() - dimensions);
  pieces.size /= piece.size;
  groups.push_back(std::move(piece));
  return groups;
}

/// Whether a reduction has few terms, which neighbouring threads read without gaps: beside each other's, or each its
/// own from one sector of memory.
bool is_part_of_element(const hlo::Computation& computation, const hlo::Instruction& it) {
  constexpr int64_t kSectorBytes = 32;
  if (indexing::is_long_reduction(computation, it)) return false;
  const hlo::Shape& operand = computation.operand_shape(it, 0);
  const std::vector<DimensionGroup> groups = dimension_groups(operand, it.dimensions());
  return groups.empty() || !groups.back().reduced || groups.back().size * hlo::byte_width(operand.type) <= kSectorBytes;
}

/// Whether a fusion writes arrays as large as what is reduced: its kernel goes through that again.
bool writes_elements(const hlo::Computation& computation, int64_t elements) {
  const hlo::Shape& root = computation.root_instruction().shape;
  if (root.is_array()) return root.element_count() == elements;
  return std::any_of(root.elements.begin(), root.elements.end(),
                     [&](const hlo::Shape& one) { return one.is_array() && one.element_count() == elements; });
}

}  // namespace

Result<ReductionHeroes> find_reductions(const hlo::Computation& computation) {
  const std::vector<bool> used = used_instructions(computation);
  std::vector<InstructionId> reductions;
  const auto elements = [&](InstructionId id) { return computation.operand_shape(computation[id], 0).element_count(); };
  for (size_t i = 0; i < used.size(); ++i) {
    if (used[i] && computation.instructions[i].opcode == hlo::Opcode::Reduce)
      reductions.push_back(static_cast<InstructionId>(i));
  }
  if (reductions.empty()) return unsupported("there is no reduction");
  // Such as threads compute as parts of elements are no heroes beside long ones, however much they read in all.
  const auto is_part = [&](InstructionId id) { return is_part_of_element(computation, computation[id]); };
  const bool beside_long = std::any_of(reductions.begin(), reductions.end(), [&](InstructionId id) {
    return indexing::is_long_reduction(computation, computation[id]);
  });
  if (beside_long) std::erase_if(reductions, is_part);
  const InstructionId largest =
      *std::max_element(reductions.begin(), reductions.end(),
                        [&](InstructionId a, InstructionId b) { return elements(a) < elements(b); });
  const auto groups_of = [&](InstructionId id) {
    return dimension_groups(computation.operand_shape(computation[id], 0), computation[id].dimensions());
  };
  ReductionHeroes result;
  result.groups = groups_of(largest);
  if (elements(largest) == 0) return unsupported("{} has nothing to reduce", computation[largest].name);
  if (result.length() == 1) return unsupported("{} reduces one element to one", computation[largest].name);

  std::vector<int> stages(computation.instructions.size());
  for (size_t i = 0; i < used.size(); ++i) {
    const hlo::Instruction& it = computation.instructions[i];
    for (const InstructionId operand : it.operands)
      stages[i] = std::max(stages[i], stages[static_cast<size_t>(operand)]);
    if (!used[i] || it.opcode != hlo::Opcode::Reduce) continue;
    const auto id = static_cast<InstructionId>(i);
    if (same_groups(groups_of(id), result.groups)) {
      const hlo::Shape& shape = computation.operand_shape(it, 0);
      result.heroes.push_back(
          {id, stages[i], operand_index(groups_of(id), shape), result_index(groups_of(id), shape, it.dimensions())});
      result.stages = std::max(result.stages, ++stages[i]);
    } else if (elements(id) > 1024 && elements(id) * 32 > elements(largest) && !(beside_long && is_part(id))) {
      return unsupported("{} and {} reduce arrays of different shapes", computation[largest].name, it.name);
    }
  }
  std::stable_sort(result.heroes.begin(), result.heroes.end(),
                   [](const ReductionHero& a, const ReductionHero& b) { return a.stage < b.stage; });
  const hlo::Shape& shape = computation.operand_shape(computation[largest], 0);
  const bool alike = std::all_of(result.heroes.begin(), result.heroes.end(), [&](const ReductionHero& hero) {
    const hlo::Shape& other = computation.operand_shape(computation[hero.id], 0);
    return other.dims == shape.dims && other.minor_to_major == shape.minor_to_major;
  });
  // Rows that are gone through again stay as they are: in one piece they stay in registers.
  if (!alike || result.stages > 1 || !result.groups.back().reduced || writes_elements(computation, elements(largest)))
    return result;
  if (const auto count = dimensions_of_pieces(computation, used, shape, result.groups.back())) {
    result.groups = in_pieces(std::move(result.groups), shape, *count);
    for (ReductionHero& hero : result.heroes) {
      const std::vector<int64_t>& reduced = computation[hero.id].dimensions();
      hero.operand = operand_index(result.groups, shape);
      hero.result = result_index(result.groups, shape, reduced);
    }
  }
  return result;
}

}  // namespace strata::emitters
