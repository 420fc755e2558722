// Maps of operators that combine elements: products and sums, reductions, windows.
#include <algorithm>
#include <cassert>
#include <numeric>
#include <utility>

#include "hlo/indexing/operator_maps.h"
#include "hlo/terms.h"

namespace strata::indexing {
namespace {

using hlo::Opcode;

/// x with a · x ≡ 1 modulo m, where these have no common divisor: by Euclid's algorithm.
int64_t inverse_modulo(int64_t a, int64_t m) {
  std::pair<int64_t, int64_t> rest{m, a % m}, factor{0, 1};
  while (rest.second != 0) {
    const int64_t quotient = rest.first / rest.second;
    rest = {rest.second, rest.first - quotient * rest.second};
    factor = {factor.second, factor.first - quotient * factor.second};
  }
  return (factor.first % m + m) % m;
}

/// An element of a window along a dimension: its number in the window, and where it lies in the array.
struct WindowElement {
  Expr within, index;
};

/// The elements of a window at `position` along a dimension of `extent` elements, over a new range variable, with the
/// constraints that there is one. Of an array with holes (lhs_dilate) only each n-th element of a window, from a first
/// one that depends on the position, is not a hole: the variable numbers those.
WindowElement add_window(IndexingMap& map, const hlo::WindowDimension& window, int64_t extent, const Expr& position) {
  const int64_t holes = window.lhs_dilate, apart = window.rhs_dilate;
  const int64_t divisor = std::gcd(holes, apart), step = holes / divisor;
  const Expr begin = position * window.stride - window.pad_low;  // counting holes
  const Expr number = add_range(map, hlo::elements_beside_holes(window));
  Expr first;
  if (step > 1) {
    first = mod(floor_div(begin, divisor) * (step - inverse_modulo(apart / divisor, step)), step);
    if (window.size % step != 0) map.constraints.push_back({first + number * step, below(window.size)});
  }
  if (divisor > 1) map.constraints.push_back({mod(begin, divisor), {0, 0}});
  const Expr before = apart == 1 ? begin + (holes - 1) : begin + first * apart;
  const Expr index = floor_div(before, holes) + number * (apart / divisor);
  map.constraints.push_back({index, below(extent)});
  return {first + number * step, index};
}

std::vector<Read> dot(const Site& site) {
  const auto& a = site.instruction.as<hlo::DotAttributes>();
  IndexingMap lhs = site.map();
  for (const int64_t d : a.lhs_contracting) add_range(lhs, site.operand(0).dim(d));
  IndexingMap rhs = lhs;
  // The result's dimensions: batch, free ones of the left side, free ones of the right.
  int next = static_cast<int>(a.lhs_batch.size());
  const auto fill = [&](IndexingMap& map, const std::vector<int64_t>& batch, const std::vector<int64_t>& contracting,
                        int64_t rank) {
    for (int64_t d = 0; d < rank; ++d) {
      const auto b = std::find(batch.begin(), batch.end(), d);
      const auto c = std::find(contracting.begin(), contracting.end(), d);
      if (b != batch.end()) {
        map.results.push_back(Expr::dim(static_cast<int>(b - batch.begin())));
      } else if (c != contracting.end()) {
        map.results.push_back(Expr::range(static_cast<int>(c - contracting.begin())));
      } else {
        map.results.push_back(Expr::dim(next++));
      }
    }
  };
  fill(lhs, a.lhs_batch, a.lhs_contracting, site.operand(0).rank());
  fill(rhs, a.rhs_batch, a.rhs_contracting, site.operand(1).rank());
  return {{0, 0, false, {std::move(lhs)}}, {1, 0, false, {std::move(rhs)}}};
}

std::vector<Read> convolution(const Site& site) {
  const auto& a = site.instruction.as<hlo::ConvolutionAttributes>();
  const hlo::Shape& input_shape = site.operand(0);
  const hlo::Shape& kernel_shape = site.operand(1);
  IndexingMap map = site.map();
  std::vector<Expr> input(input_shape.dims.size());
  std::vector<Expr> kernel(kernel_shape.dims.size());
  const auto output = [](int64_t d) { return Expr::dim(static_cast<int>(d)); };
  const auto at = [](std::vector<Expr>& index, int64_t d) -> Expr& { return index[static_cast<size_t>(d)]; };
  const Expr feature = output(a.output_feature);
  const int64_t features = site.shape.dim(a.output_feature);
  // The output features of a group come from the same input features, or from the same part of the batch.
  const int64_t inner = kernel_shape.dim(a.kernel_input_feature);
  const Expr inner_feature = add_range(map, inner);
  const Expr group = floor_div(feature, std::max<int64_t>(features / a.feature_group_count, 1));
  at(input, a.input_feature) = inner_feature + (a.feature_group_count > 1 ? group * inner : Expr());
  const Expr batch_group = floor_div(feature, std::max<int64_t>(features / a.batch_group_count, 1));
  at(input, a.input_batch) =
      output(a.output_batch) + (a.batch_group_count > 1 ? batch_group * site.shape.dim(a.output_batch) : Expr());
  at(kernel, a.kernel_input_feature) = inner_feature;
  at(kernel, a.kernel_output_feature) = feature;
  for (size_t i = 0; i < a.window.size(); ++i) {
    const auto [within, index] =
        add_window(map, a.window[i], input_shape.dim(a.input_spatial[i]), output(a.output_spatial[i]));
    at(input, a.input_spatial[i]) = index;
    at(kernel, a.kernel_spatial[i]) = a.window[i].reversed ? Expr::constant(a.window[i].size - 1) - within : within;
  }
  IndexingMap of_kernel = map;
  map.results = std::move(input);
  of_kernel.results = std::move(kernel);
  return {{0, 0, false, {std::move(map)}}, {1, 0, false, {std::move(of_kernel)}}};
}

std::vector<Read> reduce(const Site& site) {
  const std::vector<int64_t>& reduced = site.instruction.dimensions();
  const size_t count = site.instruction.operands.size() / 2;
  const hlo::Shape& operand = site.operand(0);
  IndexingMap map = site.map();
  int kept = 0;
  for (int64_t d = 0; d < operand.rank(); ++d) {
    const bool combined = std::find(reduced.begin(), reduced.end(), d) != reduced.end();
    map.results.push_back(combined ? add_range(map, operand.dim(d)) : Expr::dim(kept++));
  }
  std::vector<Read> reads;
  for (size_t i = 0; i < count; ++i) {
    reads.push_back({static_cast<int>(i), 0, false, {map}});
    reads.push_back({static_cast<int>(count + i), 0, false, {site.map()}});
  }
  return reads;
}

std::vector<Read> reduce_window(const Site& site) {
  const auto& window = site.instruction.as<hlo::WindowAttributes>().window;
  const size_t count = site.instruction.operands.size() / 2;
  const hlo::Shape& operand = site.operand(0);
  IndexingMap map = site.map();
  for (size_t i = 0; i < window.size(); ++i) {
    map.results.push_back(add_window(map, window[i], operand.dims[i], Expr::dim(static_cast<int>(i))).index);
  }
  std::vector<Read> reads;
  for (size_t i = 0; i < count; ++i) {
    reads.push_back({static_cast<int>(i), 0, false, {map}});
    reads.push_back({static_cast<int>(count + i), 0, false, {site.map()}});
  }
  return reads;
}

/// Every operand at the same index but along `dimension`, where all its elements are read. A scalar has no dimension.
std::vector<Read> along(const Site& site, int64_t dimension) {
  std::vector<Read> reads;
  for (size_t i = 0; i < site.instruction.operands.size(); ++i) {
    IndexingMap map = site.map();
    map.results = dim_variables(map.dims.size());
    if (!map.results.empty()) {
      map.results[static_cast<size_t>(dimension)] = add_range(map, site.operand(i).dim(dimension));
    }
    reads.push_back({static_cast<int>(i), 0, false, {std::move(map)}});
  }
  return reads;
}

}  // namespace

std::vector<Read> contraction_reads(const Site& site) {
  return site.instruction.opcode == Opcode::Dot ? dot(site) : convolution(site);
}

std::vector<Read> combining_reads(const Site& site) {
  switch (site.instruction.opcode) {
    case Opcode::Reduce:
      return reduce(site);
    case Opcode::ReduceWindow:
      return reduce_window(site);
    case Opcode::Sort:
      return along(site, site.instruction.as<hlo::SortAttributes>().dimension);
    case Opcode::TopK:
      return along(site, site.shape.rank() - 1);
    case Opcode::Map: {
      std::vector<Read> reads;
      for (size_t i = 0; i < site.instruction.operands.size(); ++i) {
        reads.push_back({static_cast<int>(i), 0, false, {identity_map(site.shape.dims)}});
      }
      return reads;
    }
    default:
      break;
  }
  assert(false);
  return {};
}

}  // namespace strata::indexing
