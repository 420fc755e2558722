// What a sort or top-k sorts, in terms of rows and places.
#include "emitters/elemental/types.h"
#include "emitters/kinds/sort/sort.h"
#include "hlo/source_of.h"
#include "indexing/simplify.h"

namespace strata::emitters {
namespace {

using hlo::Computation;
using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;
using indexing::Expr;
using indexing::IndexingMap;

/// The arrays of the root: the sort that they come from, and each one's number there.
Result<std::pair<InstructionId, std::vector<int>>> results_of(const Computation& computation) {
  InstructionId sort = -1;
  std::vector<int> numbers;
  for (int64_t leaf = 0; leaf < hlo::leaf_count(computation.root_instruction().shape); ++leaf) {
    const auto [source, number] = hlo::source_of(computation, computation.root, leaf);
    const Instruction& it = computation[source];
    if (it.opcode != Opcode::Sort && it.opcode != Opcode::TopK)
      return unsupported("{} is no result of a sort", it.name);
    if (sort >= 0 && source != sort) return unsupported("there are two sorts");
    sort = source;
    numbers.push_back(static_cast<int>(number));
  }
  if (sort < 0) return unsupported("there is no result");
  return std::pair{sort, numbers};
}

/// (row, place) → index: rows are numbered in the order in which they lie in an array of this shape.
IndexingMap row_map(const hlo::Shape& shape, int64_t dimension, const std::vector<indexing::Interval>& ranges) {
  IndexingMap map;
  map.dims = ranges;
  map.results.assign(shape.dims.size(), Expr::dim(1));
  Expr rest = Expr::dim(0);
  for (const int64_t d : shape.minor_to_major) {
    if (d == dimension) continue;
    map.results[static_cast<size_t>(d)] = indexing::mod(rest, shape.dim(d));
    rest = indexing::floor_div(rest, shape.dim(d));
  }
  return indexing::simplify(map, indexing::UnusedVariables::Keep);
}

}  // namespace

int64_t SortShape::element_bytes() const {
  int64_t bytes = 0;
  for (const hlo::ElementType type : types) bytes += hlo::byte_width(type);
  return bytes;
}

int64_t SortShape::words() const {
  int64_t sum = 0;
  for (const hlo::ElementType type : types) sum += (hlo::byte_width(type) + 3) / 4;
  return sum;
}

Result<SortShape> sort_shape(const Fusion& fusion) {
  const Computation& computation = fusion.computation();
  STRATA_TRY(const auto results, results_of(computation));
  SortShape shape;
  shape.sort = results.first;
  const Instruction& it = computation[shape.sort];
  const hlo::Shape& operand = computation.operand_shape(it, 0);
  if (!operand.is_array()) return unsupported("{} sorts no arrays", it.name);
  shape.top_k = it.opcode == Opcode::TopK;
  int64_t dimension = operand.rank() - 1;
  if (shape.top_k) {
    shape.types = {operand.type, hlo::ElementType::S32};
  } else {
    dimension = it.as<hlo::SortAttributes>().dimension;
    for (size_t i = 0; i < it.operands.size(); ++i) shape.types.push_back(computation.operand_shape(it, i).type);
  }
  // A scalar is a row of one element.
  shape.length = operand.rank() == 0 ? 1 : operand.dim(dimension);
  shape.rows = 1;
  for (int64_t d = 0; d < operand.rank(); ++d) {
    if (d != dimension) shape.rows *= operand.dim(d);
  }
  shape.keep = shape.top_k ? it.as<hlo::TopKAttributes>().k : shape.length;
  if (shape.length >= int64_t{1} << 30) return unsupported("rows of {} have 2^30 elements and more", it.name);
  if (shape.rows == 0 || shape.length == 0 || shape.keep == 0) return shape;
  shape.place_ranges = {indexing::below(shape.rows), indexing::below(shape.length)};
  shape.rows_inner = operand.rank() > 0 && shape.rows > 1 && operand.minor_to_major[0] != dimension;
  shape.index = row_map(operand, dimension, shape.place_ranges);
  for (const int number : results.second) {
    const hlo::Shape& whole = it.shape;
    const hlo::Shape& output = whole.is_tuple() ? whole.elements[static_cast<size_t>(number)] : whole;
    IndexingMap index = shape.index;
    index.dims[1] = indexing::below(shape.keep);
    shape.outputs.emplace_back(
        number, indexing::simplify(indexing::compose(index, position_map(output)), indexing::UnusedVariables::Keep));
  }
  return shape;
}

}  // namespace strata::emitters
