#include "ops/reads.h"

#include "indexing/simplify.h"
#include "ops/reduction.h"

namespace strata {

using indexing::Expr;
using indexing::IndexingMap;

IndexingMap map_from(const Shape& result) {
  IndexingMap map;
  map.dims = indexing::positions(result);
  return map;
}

Expr add_range(IndexingMap& map, int64_t extent) {
  map.ranges.push_back(indexing::below(extent));
  return Expr::range(static_cast<int>(map.ranges.size()) - 1);
}

namespace {

/// The indices of the last dimensions of a result in a tensor that is broadcast to it; those of one element are 0.
std::vector<Expr> broadcast_index(const Shape& operand, size_t rank) {
  std::vector<Expr> index;
  for (size_t d = 0; d < operand.size(); ++d) {
    index.push_back(operand[d] == 1 ? Expr() : Expr::dim(static_cast<int>(rank - operand.size() + d)));
  }
  return index;
}

}  // namespace

OperandReads no_reads() { return {}; }

OperandReads elementwise_reads(OperandTypes operands) {
  const Shape result = infer_elementwise(operands).value().shape;
  OperandReads reads;
  for (const TensorType& operand : operands) {
    IndexingMap& map = reads.emplace_back(map_from(result));
    map.results = broadcast_index(operand.shape, result.size());
  }
  return reads;
}

OperandReads matmul_reads(const Shape& a, const Shape& b) {
  const auto batch_of = [](const Shape& shape) { return Shape(shape.begin(), shape.end() - 2); };
  Shape result = broadcast(batch_of(a), batch_of(b)).value();
  const size_t batch = result.size();
  result.push_back(a[a.size() - 2]);
  result.push_back(b.back());
  OperandReads reads;
  for (const Shape* operand : {&a, &b}) {
    IndexingMap& map = reads.emplace_back(map_from(result));
    map.results = broadcast_index(batch_of(*operand), batch);
    const Expr contracted = add_range(map, a.back());
    map.results.push_back(operand == &a ? Expr::dim(static_cast<int>(batch)) : contracted);
    map.results.push_back(operand == &a ? contracted : Expr::dim(static_cast<int>(batch) + 1));
  }
  return reads;
}

OperandReads reduction_reads(const Shape& operand, const Attributes& attributes) {
  const auto dim = static_cast<size_t>(attributes.integer("dim"));
  const int64_t every = reduction_extent(operand, attributes);
  Shape result = operand;
  result[dim] /= every;
  IndexingMap map = indexing::identity_map(result);
  const Expr group = map.results[dim] * every;
  map.results[dim] = group + add_range(map, every);
  return {simplify(map)};
}

IndexingMap moved_along(const Shape& result, size_t dim, const Expr& at) {
  IndexingMap map = indexing::identity_map(result);
  map.results[dim] = at;
  return map;
}

IndexingMap reshape_read(const Shape& from, const Shape& to) {
  IndexingMap map = map_from(to);
  const std::vector<Expr> index = indexing::identity_map(to).results;
  map.results = indexing::delinearize(indexing::linearize(index, row_major_strides(to)), from);
  return simplify(map);
}

}  // namespace strata
