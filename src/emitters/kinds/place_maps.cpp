#include "emitters/kinds/place_maps.h"

#include <cassert>

#include "emitters/elemental/index_code.h"
#include "indexing/simplify.h"

namespace strata::emitters {

using indexing::Expr;
using indexing::IndexingMap;

namespace {

/// For each of `dims` the dimensions of the shape, outermost first in memory, that it is made of; none if it is not.
std::optional<std::vector<std::vector<int64_t>>> factors(const std::vector<int64_t>& dims, const hlo::Shape& shape) {
  std::vector<std::vector<int64_t>> parts(dims.size());
  size_t next = shape.dims.size();
  for (size_t i = 0; i < dims.size(); ++i) {
    int64_t size = 1;
    while (next > 0 && (size < dims[i] || shape.dim(shape.minor_to_major[next - 1]) == 1)) {
      const int64_t dim = shape.minor_to_major[--next];
      parts[i].push_back(dim);
      size *= shape.dim(dim);
    }
    if (size != dims[i]) return std::nullopt;
  }
  if (next != 0) return std::nullopt;
  return parts;
}

}  // namespace

std::vector<Expr> indices_at(const IndexingMap& map, const std::vector<int64_t>& dims, const hlo::Shape& shape) {
  std::vector<Expr> index(shape.dims.size());
  if (const auto parts = factors(dims, shape)) {
    for (size_t i = 0; i < dims.size(); ++i) {
      std::vector<int64_t> sizes;
      for (const int64_t dim : (*parts)[i]) sizes.push_back(shape.dim(dim));
      const std::vector<Expr> digits = indexing::delinearize(map.results[i], sizes);
      for (size_t k = 0; k < sizes.size(); ++k) index[static_cast<size_t>((*parts)[i][k])] = digits[k];
    }
  } else {
    const Expr position = indexing::linearize(map.results, hlo::row_major_strides(dims));
    index = indexing::substitute(index_at_position(shape).results, [&](indexing::ExprKind, int) { return position; });
  }
  for (Expr& one : index) {
    one = indexing::simplify(one, map, indexing::ExprRange::Facts::VariablesAndConstraints);
  }
  return index;
}

Expr position_of(const IndexingMap& map, const std::vector<int64_t>& dims) {
  const Expr position = indexing::linearize(map.results, hlo::row_major_strides(dims));
  return indexing::simplify(position, map, indexing::ExprRange::Facts::VariablesAndConstraints);
}

std::vector<Expr> indices_at_place(const IndexingMap& map, const hlo::Shape& from, const hlo::Shape& to) {
  IndexingMap in_memory = map;
  std::vector<int64_t> dims;
  in_memory.results.clear();
  for (size_t i = from.dims.size(); i-- > 0;) {
    dims.push_back(from.dim(from.minor_to_major[i]));
    in_memory.results.push_back(map.results[static_cast<size_t>(from.minor_to_major[i])]);
  }
  return indices_at(in_memory, dims, to);
}

void MapResults::add(const std::vector<Expr>& index) {
  starts_.push_back(map_.results.size());
  map_.results.insert(map_.results.end(), index.begin(), index.end());
}

mlir::ValueRange MapResults::of(mlir::ValueRange results, size_t n) const {
  const size_t end = n + 1 < starts_.size() ? starts_[n + 1] : map_.results.size();
  return results.slice(starts_[n], end - starts_[n]);
}

}  // namespace strata::emitters
