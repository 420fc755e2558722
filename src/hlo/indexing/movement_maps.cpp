// Maps of operators that move elements to places known beforehand.
#include <cassert>

#include "hlo/indexing/operator_maps.h"

namespace strata::indexing {
namespace {

using hlo::Opcode;

IndexingMap broadcast(const Site& site) {
  IndexingMap map = site.map();
  for (const int64_t d : site.instruction.dimensions()) map.results.push_back(Expr::dim(static_cast<int>(d)));
  return map;
}

IndexingMap transpose(const Site& site) {
  IndexingMap map = site.map();
  map.results.resize(map.dims.size());
  const std::vector<int64_t>& from = site.instruction.dimensions();
  for (size_t i = 0; i < from.size(); ++i) {
    map.results[static_cast<size_t>(from[i])] = Expr::dim(static_cast<int>(i));
  }
  return map;
}

IndexingMap slice(const Site& site) {
  const auto& attributes = site.instruction.as<hlo::SliceAttributes>();
  IndexingMap map = site.map();
  for (size_t i = 0; i < map.dims.size(); ++i) {
    map.results.push_back(Expr::dim(static_cast<int>(i)) * attributes.strides[i] + attributes.starts[i]);
  }
  return map;
}

IndexingMap reverse(const Site& site) {
  IndexingMap map = site.map();
  map.results = dim_variables(map.dims.size());
  for (const int64_t d : site.instruction.dimensions()) {
    Expr& index = map.results[static_cast<size_t>(d)];
    index = Expr::constant(site.shape.dim(d) - 1) - index;
  }
  return map;
}

IndexingMap padded(const Site& site) {
  const auto& attributes = site.instruction.as<hlo::PadAttributes>();
  IndexingMap map = site.map();
  for (size_t i = 0; i < map.dims.size(); ++i) {
    const Expr position = Expr::dim(static_cast<int>(i)) - attributes.low[i];
    const int64_t step = attributes.interior[i] + 1;
    map.results.push_back(floor_div(position, step));
    map.constraints.push_back({mod(position, step), {0, 0}});
    map.constraints.push_back({floor_div(position, step), below(site.operand(0).dims[i])});
  }
  return map;
}

std::vector<Read> concatenate(const Site& site) {
  const auto d = static_cast<size_t>(site.instruction.dimensions()[0]);
  std::vector<Read> reads;
  int64_t start = 0;
  for (size_t i = 0; i < site.instruction.operands.size(); ++i) {
    IndexingMap map = site.map();
    map.results = dim_variables(map.dims.size());
    map.results[d] = map.results[d] - start;
    map.constraints.push_back({map.results[d], below(site.operand(i).dims[d])});
    start += site.operand(i).dims[d];
    reads.push_back({static_cast<int>(i), 0, false, {std::move(map)}});
  }
  return reads;
}

/// The positions of one shape's elements in memory taken apart for another shape.
std::vector<Expr> relaid(const std::vector<Expr>& index, const hlo::Shape& from, const hlo::Shape& to) {
  std::vector<int64_t> extents;
  for (size_t i = to.minor_to_major.size(); i-- > 0;) {
    extents.push_back(to.dims[static_cast<size_t>(to.minor_to_major[i])]);
  }
  const std::vector<Expr> physical = delinearize(linearize(index, hlo::memory_strides(from)), extents);
  std::vector<Expr> result(to.dims.size());
  for (size_t i = 0; i < physical.size(); ++i) {
    result[static_cast<size_t>(to.minor_to_major[physical.size() - 1 - i])] = physical[i];
  }
  return result;
}

}  // namespace

IndexingMap bitcast_map(const hlo::Shape& from, const hlo::Shape& to) {
  IndexingMap map = identity_map(from.dims);
  // Without this the identity would come out only after simplification, and not at all for empty shapes.
  if (from.dims == to.dims && from.minor_to_major == to.minor_to_major) return map;
  map.results = relaid(map.results, from, to);
  return map;
}

std::vector<Read> movement_reads(const Site& site) {
  const auto of_operand = [](IndexingMap map) { return std::vector<Read>{{0, 0, false, {std::move(map)}}}; };
  switch (site.instruction.opcode) {
    case Opcode::Broadcast:
      return of_operand(broadcast(site));
    case Opcode::Transpose:
      return of_operand(transpose(site));
    case Opcode::Slice:
      return of_operand(slice(site));
    case Opcode::Reverse:
      return of_operand(reverse(site));
    case Opcode::Copy:
      return of_operand(identity_map(site.shape.dims));
    case Opcode::Concatenate:
      return concatenate(site);
    case Opcode::GetDimensionSize:
      return {};
    case Opcode::Pad:
      return {{0, 0, false, {padded(site)}}, {1, 0, false, {site.map()}}};
    case Opcode::Reshape:
      // Row-major order of the logical indices, whatever the layouts.
      return of_operand(bitcast_map(hlo::array_shape(site.shape.type, site.shape.dims),
                                    hlo::array_shape(site.shape.type, site.operand(0).dims)));
    case Opcode::Bitcast: {
      const hlo::Shape& operand = site.operand(0);
      const bool same_elements = hlo::bit_width(operand.type) == hlo::bit_width(site.shape.type) &&
                                 operand.element_count() == site.shape.element_count();
      if (!same_elements) return {{0, 0, true, {}}};
      return of_operand(bitcast_map(site.shape, operand));
    }
    default:
      break;
  }
  assert(false);
  return {};
}

}  // namespace strata::indexing
