#include "emitters/kinds/window/window_tiling.h"

#include <algorithm>
#include <array>
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

constexpr int64_t kMostOutputs = 12, kMostTaps = 12;
constexpr int64_t kMostProducts = 112;  ///< of a strip and a chunk: they are written out
constexpr int64_t kMostRegisters = 64;  ///< for sums, taps and elements below
constexpr int64_t kMostThreads = 512;   ///< of a block
constexpr int64_t kSectorBytes = 32;
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

  /// Even parts of a size, of `most` at most.
  static std::vector<int64_t> parts(int64_t size, int64_t most) {
    std::vector<int64_t> found;
    for (int64_t count = ceil_div(size, most); count <= size && found.size() < 4; count *= 2)
      found.push_back(ceil_div(size, count));
    return found;
  }

  std::vector<int64_t> outputs_of(size_t d) const {
    const WindowDimension& window = a_.window[d];
    std::vector<int64_t> found = parts(result_size(d), kMostOutputs);
    for (const int64_t most : {int64_t{8}, int64_t{4}}) {
      for (const int64_t one : parts(result_size(d), most)) found.push_back(one);
    }
    // Strips begin at elements of the image, not between them.
    const int64_t step = window.lhs_dilate / std::gcd(window.lhs_dilate, window.stride);
    for (int64_t& one : found) one = ceil_div(one, step) * step;
    return unique(std::move(found));
  }

  std::vector<int64_t> taps_of(size_t d) const {
    const WindowDimension& window = a_.window[d];
    std::vector<int64_t> found;
    for (int64_t count = ceil_div(window.size, kMostTaps); count <= ceil_div(window.size, 2) && found.size() < 5;
         ++count)
      found.push_back(ceil_div(window.size, count));
    const int64_t step = window.lhs_dilate / std::gcd(window.lhs_dilate, window.rhs_dilate);
    for (int64_t& one : found) {
      if (one < window.size) one = ceil_div(one, step) * step;
    }
    return unique(std::move(found));
  }

  static std::vector<int64_t> unique(std::vector<int64_t> values) {
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
    return values;
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
    const int64_t below = std::ssize(elements_below(a_.window[d], tiling));
    if (below + taps >= products(tiling)) return;  // nothing is shared
    if (outputs * taps > kMostProducts || below + outputs + taps > kMostRegisters) return;
    for (const int64_t threads : {1, 2, 4, 8, 16, 32, 64, 128, 256, 512}) {
      if (on_terms_ ? threads < kWarp || threads >= tiling.terms + kWarp : threads > std::max<int64_t>(tiling.terms, 1))
        continue;
      for (const int64_t places : {1, 2, 4, 8, 16, 32, 64, 128}) {
        if (threads * places > kMostThreads || threads * places % kWarp != 0) continue;
        if (threads == 1 && places < 128) continue;
        tiling.threads_of_place = threads;
        tiling.places_of_block = places;
        if (tiling.shared_bytes(8) > target_.shared_memory / 2) continue;
        tiling.microseconds = microseconds(tiling, below);
        if (!best || tiling.microseconds < best->microseconds) best = tiling;
      }
    }
  }

  /// Multiplications of a strip by a chunk.
  int64_t products(const WindowTiling& tiling) const {
    int64_t count = 0;
    for (int64_t output = 0; output < tiling.outputs; ++output) {
      for (int64_t tap = 0; tap < tiling.taps; ++tap)
        count += element_below(a_.window[tiling.dimension], output, tap) ? 1 : 0;
    }
    return count;
  }

  double microseconds(const WindowTiling& tiling, int64_t below) const {
    const Rates& rates = target_.rates;
    const auto blocks = static_cast<double>(tiling.blocks());
    const auto iterations = static_cast<double>(tiling.iterations());
    const double threads = blocks * static_cast<double>(tiling.threads());
    // Elements at the ends of an image are selected; each load has its address.
    constexpr double kOfElement = 6, kOfTap = 3, kOfIteration = 14, kOfSum = 12;
    const double loads = static_cast<double>(below + tiling.taps);
    const double instructions = kOfElement * static_cast<double>(below) + kOfTap * static_cast<double>(tiling.taps) +
                                static_cast<double>(products(tiling)) + kOfIteration;
    const double sums = tiling.is_shared() ? kOfSum * static_cast<double>(tiling.outputs) : 0;
    // Loads of a warp that lie in one line take one step, and each line more another one.
    const double bytes = std::max<double>(hlo::byte_width(lhs_.type), 4);
    double lines = apart_ ? 4 : 1;
    if (!on_terms_ && !apart_)
      lines = std::max(1.0, static_cast<double>(kSectorBytes) /
                                static_cast<double>(tiling.places_of_block * hlo::byte_width(lhs_.type)));
    const double idle = std::max(target_.multiprocessors / blocks, 1.0);
    const double waves = std::max(std::ceil(blocks / target_.multiprocessors) * target_.multiprocessors / blocks, 1.0);
    const double uneven = blocks > 8 * target_.multiprocessors ? 1 : waves;
    const double issue =
        threads * (iterations * instructions + sums) / (rates.scalar_rate / 2) * std::max(idle, uneven);
    const double cached = threads * iterations * loads * bytes * lines / rates.cached_loads * std::max(idle, uneven);
    const double alone = iterations * (rates.load_latency + instructions * rates.element_latency / 2) +
                         (tiling.is_shared() ? 2 * rates.load_latency : 0);
    // Few threads of a multiprocessor wait for each other's loads.
    const double resident = std::min(threads / std::min<double>(blocks, target_.multiprocessors), 1024.0);
    const double rounds = threads / (std::min<double>(blocks, target_.multiprocessors) * resident);
    const auto size = [](const Shape& shape) {
      return static_cast<double>(shape.element_count()) * hlo::byte_width(shape.type);
    };
    const double memory = (size(lhs_) + size(rhs_) + size(it_.shape)) / rates.memory_bandwidth;
    return 1e6 * (target_.kernel_seconds() + std::max({issue, cached, alone * rounds, memory}));
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

std::optional<int64_t> element_below(const WindowDimension& window, int64_t output, int64_t tap) {
  const int64_t at = output * window.stride + tap * window.rhs_dilate - window.pad_low;
  if (at % window.lhs_dilate != 0) return std::nullopt;
  return at / window.lhs_dilate;
}

std::vector<int64_t> elements_below(const WindowDimension& window, const WindowTiling& tiling) {
  std::set<int64_t> found;
  for (int64_t output = 0; output < tiling.outputs; ++output) {
    for (int64_t tap = 0; tap < tiling.taps; ++tap) {
      if (const auto at = element_below(window, output, tap)) found.insert(*at);
    }
  }
  return {found.begin(), found.end()};
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
