#include "emitters/kinds/window/window_tiling.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "emitters/elemental/scalar_operators.h"
#include "indexing/expr.h"

namespace strata::emitters {
namespace {

using hlo::Computation;
using hlo::Instruction;
using hlo::Shape;
using hlo::WindowDimension;
using indexing::ceil_div;

constexpr int64_t kMostAlong = 32;      ///< outputs of a strip, and taps of a chunk
constexpr int64_t kMostProducts = 288;  ///< of a strip and a chunk: they are written out
constexpr int64_t kMostRegisters = 80;  ///< for sums and taps
constexpr int64_t kMostThreads = 512;   ///< of a block
constexpr int64_t kMostParts = 128;
constexpr int64_t kWarp = 32;

/// The dimension of more than one element that is innermost in memory.
int64_t innermost(const Shape& shape) {
  for (const int64_t d : shape.minor_to_major) {
    if (shape.dim(d) > 1) return d;
  }
  return -1;
}

std::optional<size_t> spatial_number(const std::vector<int64_t>& spatial, int64_t dimension) {
  const auto found = std::find(spatial.begin(), spatial.end(), dimension);
  if (found == spatial.end()) return std::nullopt;
  return static_cast<size_t>(found - spatial.begin());
}

/// What the model knows of a convolution, whatever its tiling.
class Model {
 public:
  Model(const Computation& computation, const Instruction& it, const Target& target)
      : it_(it),
        a_(it.as<hlo::ConvolutionAttributes>()),
        lhs_(computation.operand_shape(it, 0)),
        rhs_(computation.operand_shape(it, 1)),
        target_(target) {
    const int64_t inner = innermost(lhs_);
    lane_ = spatial_number(a_.input_spatial, inner);
    // Neighbouring lanes shall read neighbouring elements: along a spatial dimension by results or by terms, of
    // whichever there are more; else by the channels or images of results.
    const int64_t of_results = innermost(it.shape);
    if (lane_) {
      on_terms_ = result_size(*lane_) < a_.window[*lane_].size;
      apart_ = !on_terms_ && of_results != a_.output_spatial[*lane_];
    } else {
      const bool features = inner == a_.input_feature && of_results == a_.output_feature &&
                            (a_.feature_group_count > 1 || lhs_.dim(inner) == 1);
      const bool images = inner == a_.input_batch && (of_results == a_.output_batch ||
                                                      (a_.batch_group_count > 1 && of_results == a_.output_feature));
      apart_ = !features && !images;
    }
  }

  Result<WindowTiling> best() const {
    std::optional<WindowTiling> best;
    for (size_t d = 0; d < a_.window.size(); ++d) {
      if (d == lane_) continue;
      for (const int64_t outputs : outputs_of(d)) {
        for (const int64_t taps : taps_of(d)) consider(d, outputs, taps, best);
      }
    }
    if (!best) return unsupported("{}: results beside each other share nothing that a thread could keep", it_.name);
    return *best;
  }

 private:
  int64_t result_size(size_t d) const { return it_.shape.dim(a_.output_spatial[d]); }

  /// Even parts of a size, of kMostAlong at most, that are multiples of `step` where there are several.
  static std::vector<int64_t> parts(int64_t size, int64_t step) {
    std::set<int64_t> found;
    for (int64_t most = kMostAlong; most >= 2; most = most * 3 / 4) {
      const int64_t one = ceil_div(size, ceil_div(size, most));
      found.insert(one < size ? ceil_div(one, step) * step : one);
    }
    return {found.begin(), found.end()};
  }

  /// Strips and chunks begin at elements of the image, not between them.
  std::vector<int64_t> outputs_of(size_t d) const {
    const WindowDimension& window = a_.window[d];
    return parts(result_size(d), window.lhs_dilate / std::gcd(window.lhs_dilate, window.stride));
  }
  std::vector<int64_t> taps_of(size_t d) const {
    const WindowDimension& window = a_.window[d];
    return parts(window.size, window.lhs_dilate / std::gcd(window.lhs_dilate, window.rhs_dilate));
  }

  void consider(size_t d, int64_t outputs, int64_t taps, std::optional<WindowTiling>& best) const {
    WindowTiling tiling;
    tiling.dimension = d;
    tiling.outputs = outputs;
    tiling.taps = taps;
    tiling.strips = ceil_div(result_size(d), outputs);
    tiling.chunks = ceil_div(a_.window[d].size, taps);
    tiling.lanes_on_terms = on_terms_;
    tiling.places = it_.shape.element_count() / result_size(d) * tiling.strips;
    tiling.terms = rhs_.dim(a_.kernel_input_feature) * tiling.chunks;
    for (size_t other = 0; other < a_.window.size(); ++other) {
      if (other != d) tiling.terms *= a_.window[other].size;
    }
    const int64_t sum_bytes = hlo::byte_width(wide_type(it_.shape.type));
    const Code code = code_of(tiling);
    if (code.products <= std::max(code.elements, taps) || code.products > kMostProducts) return;
    if ((outputs + std::min(outputs, taps)) * sum_bytes > kMostRegisters * 4) return;
    for (const int64_t threads : {1, 2, 4, 8, 16, 32, 64, 128, 256}) {
      if (threads > tiling.terms || (on_terms_ && threads < kWarp)) continue;
      for (const int64_t places : {1, 2, 4, 8, 16, 32, 64, 128}) {
        if (threads * places > kMostThreads || threads * places % kWarp != 0) continue;
        if (threads == 1 && places < 128) continue;
        tiling.threads_of_place = threads;
        tiling.places_of_block = places;
        if (tiling.shared_bytes(sum_bytes) > target_.shared_memory / 4) continue;
        for (tiling.parts = 1; tiling.parts <= kMostParts && tiling.parts * threads <= tiling.terms;
             tiling.parts *= 2) {
          tiling.microseconds = microseconds(tiling, code);
          if (!best || tiling.microseconds < best->microseconds) best = tiling;
          if (tiling.blocks() > 16 * target_.multiprocessors) break;
        }
      }
    }
  }

  /// What a thread does for a strip and a chunk.
  struct Code {
    int64_t elements = 0, guarded = 0, products = 0;
  };
  Code code_of(const WindowTiling& tiling) const {
    const size_t d = tiling.dimension;
    Code code;
    for (const ElementBelow& one : elements_below(a_.window[d], lhs_.dim(a_.input_spatial[d]), tiling)) {
      ++code.elements;
      code.guarded += one.may_be_before || one.may_be_after ? 1 : 0;
      code.products += std::ssize(one.products);
    }
    return code;
  }

  double microseconds(const WindowTiling& tiling, const Code& code) const {
    const Rates& rates = target_.rates;
    const auto blocks = static_cast<double>(tiling.blocks());
    const auto iterations = static_cast<double>(tiling.iterations());
    const double threads = blocks * static_cast<double>(tiling.threads());
    // Narrow elements are widened. Those that may lie beyond an image have addresses of their own, and sums that are
    // selected.
    const double of_load = hlo::byte_width(lhs_.type) < 4 ? 2.5 : 1.5;
    constexpr double kOfGuard = 6, kOfIteration = 40, kOfSum = 12;
    const auto loads = static_cast<double>(code.elements + tiling.taps);
    const double of_product = wide_type(it_.shape.type) == hlo::ElementType::F64 ? 2 : 1;
    const double instructions = of_load * loads + kOfGuard * static_cast<double>(code.guarded) +
                                of_product * static_cast<double>(code.products) + kOfIteration;
    const double sums = tiling.is_shared() ? kOfSum * static_cast<double>(tiling.outputs) : 0;
    // Loads of a warp take a step for each line that they touch.
    const double line = 128, bytes = std::max<double>(hlo::byte_width(lhs_.type), 4);
    double lines = 1;
    if (!on_terms_) lines = std::max(1.0, static_cast<double>(kWarp) / static_cast<double>(tiling.places_of_block));
    if (apart_) lines = 8;
    const double multiprocessors = std::min<double>(target_.multiprocessors, blocks);
    const double rounds = std::ceil(blocks / multiprocessors) * multiprocessors / blocks;
    const double idle = target_.multiprocessors / multiprocessors * (blocks > 8 * multiprocessors ? 1 : rounds);
    const double issue = threads * (iterations * instructions + sums) / (rates.scalar_rate / 2) * idle;
    const double cached =
        threads / kWarp * iterations * loads * lines * line / rates.cached_loads * idle * std::max(bytes / 4, 1.0);
    // A multiprocessor's few warps wait for their loads.
    const double resident = std::min(threads / multiprocessors, 1024.0);
    const double alone = iterations * (rates.load_latency + instructions * rates.element_latency) +
                         (tiling.is_shared() ? 2 * rates.load_latency : 0);
    const double waiting = alone * threads / (multiprocessors * resident);
    const auto size = [](const Shape& shape) {
      return static_cast<double>(shape.element_count()) * hlo::byte_width(shape.type);
    };
    double memory = size(lhs_) + size(rhs_) + size(it_.shape), kernels = target_.kernel_seconds();
    double adding = 0;
    if (tiling.parts > 1) {
      kernels += target_.kernel_seconds();
      adding = static_cast<double>(tiling.parts) * (rates.load_latency / 4);
      memory += 2 * 4 * static_cast<double>(tiling.parts * it_.shape.element_count());
    }
    return 1e6 * (kernels + adding + rates.busy_load_latency +
                  std::max({issue, cached, waiting, memory / rates.memory_bandwidth}));
  }

  const Instruction& it_;
  const hlo::ConvolutionAttributes& a_;
  const Shape& lhs_;
  const Shape& rhs_;
  const Target& target_;
  std::optional<size_t> lane_;  ///< the spatial dimension that is innermost in memory
  bool on_terms_ = false;
  bool apart_ = false;  ///< lanes read elements that lie apart
};

bool is_real_float(hlo::ElementType type) { return hlo::kind(type) == hlo::TypeKind::Float; }

}  // namespace

std::vector<ElementBelow> elements_below(const WindowDimension& window, int64_t image, const WindowTiling& tiling) {
  std::map<int64_t, ElementBelow> found;
  const int64_t last_begin =
      ((tiling.strips - 1) * tiling.outputs * window.stride + (tiling.chunks - 1) * tiling.taps * window.rhs_dilate) /
      window.lhs_dilate;
  for (int64_t output = 0; output < tiling.outputs; ++output) {
    for (int64_t tap = 0; tap < tiling.taps; ++tap) {
      const int64_t at = output * window.stride + tap * window.rhs_dilate - window.pad_low;
      if (at % window.lhs_dilate != 0) continue;
      const int64_t offset = at / window.lhs_dilate;
      if (offset + last_begin < 0 || offset >= image) continue;
      ElementBelow& one = found[offset];
      one.offset = offset;
      one.products.emplace_back(output, tap);
      one.may_be_before = offset < 0;
      one.may_be_after = offset + last_begin >= image;
    }
  }
  std::vector<ElementBelow> elements;
  for (auto& [offset, one] : found) elements.push_back(std::move(one));
  return elements;
}

Result<WindowTiling> choose_window_tiling(const Computation& computation, const Instruction& it, const Target& target) {
  const Shape &lhs = computation.operand_shape(it, 0), &rhs = computation.operand_shape(it, 1);
  if (it.shape.element_count() == 0 || lhs.element_count() == 0 || rhs.element_count() == 0)
    return unsupported("{} has no terms", it.name);
  for (const hlo::ElementType type : {lhs.type, rhs.type, it.shape.type}) {
    if (!is_real_float(type)) return unsupported("{} is no convolution of real floats", it.name);
  }
  return Model(computation, it, target).best();
}

Shape shape_of_places(const Instruction& it, const WindowTiling& tiling) {
  Shape shape = it.shape;
  const int64_t d = it.as<hlo::ConvolutionAttributes>().output_spatial[tiling.dimension];
  shape.dims[static_cast<size_t>(d)] = tiling.strips;
  return shape;
}

Shape shape_of_terms(const Computation& computation, const Instruction& it, const WindowTiling& tiling) {
  const auto& a = it.as<hlo::ConvolutionAttributes>();
  const Shape& lhs = computation.operand_shape(it, 0);
  std::vector<int64_t> dims{computation.operand_shape(it, 1).dim(a.kernel_input_feature)};
  for (size_t d = 0; d < a.window.size(); ++d) dims.push_back(d == tiling.dimension ? tiling.chunks : a.window[d].size);
  Shape shape = hlo::array_shape(hlo::ElementType::Pred, dims);
  // As what is read lies in memory, but chunks, whose elements lie beside each other in a thread, after lanes.
  shape.minor_to_major.clear();
  for (const int64_t d : lhs.minor_to_major) {
    if (d == a.input_batch) continue;
    const auto number = spatial_number(a.input_spatial, d);
    shape.minor_to_major.push_back(number ? static_cast<int64_t>(*number) + 1 : 0);
  }
  return shape;
}

}  // namespace strata::emitters
