#include "superopt/codegen/libraries.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "ir/views.h"
#include "ops/tensor.h"
#include "superopt/codegen/solver_seconds.h"

namespace strata {
namespace {

// Shares and sizes of the library's kernels, fitted to 32 products on an H200 (bench/gpu/products.py --prices);
// docs/cost-model.md.
constexpr double kBandwidthShare = 0.9;  // of device memory's
constexpr double kMatrixShare = 1.1;     // of the rate of tensor cores that the target has, measured on larger products
constexpr double kScalarShare = 0.85;    // of float32's rate; tensor cores compute float64 at that rate
constexpr int64_t kTile = 128;           // rows and columns of a block
constexpr int64_t kSmallTile = 64;       // rows and columns that a block computes at least
constexpr int64_t kParts = 8;            // of a tile, or of its sum, where there are few tiles
constexpr int64_t kTermsOfPart = 128;    // where the sums are so long that they are cut in more
constexpr int64_t kAligned = 16;         // bytes that rows should be multiples of
constexpr double kUnaligned = 2.5;       // times as long where they are not
constexpr double kUnalignedRate = 6;     // the same of what tensor cores multiply: single elements are loaded for them
constexpr int64_t kUnalignedParts = 2;   // as kParts, of these: their blocks are large but for few rows or columns
constexpr double kUnalignedAlone = 12;   // as kUnalignedRate, of several products, where a multiprocessor has one block
constexpr double kUnalignedWide = 1;     // the same of several products of 4 bytes an element
constexpr double kGathered = 1.6;        // times as long where a product's rows are gathered from an image

/// The largest share of the time of generated code that a library may take to be worth needing it.
constexpr double kWorthALibrary = 0.8;

bool is_of(OpKind kind, const AvailableLibraries& available) {
  if (kind == OpKind::Conv2d) return available.cudnn;
  return multiplies_matrices(kind) && available.cublas_lt;
}

/// A matrix of these rows and columns with these strides, if one of them is 1.
std::optional<MatrixProduct::Operand> matrix(int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride) {
  if ((column_stride == 1 || columns == 1) && (row_stride >= columns || rows == 1))
    return MatrixProduct::Operand{false, rows == 1 ? columns : row_stride, 0};
  if ((row_stride == 1 || rows == 1) && (column_stride >= rows || columns == 1))
    return MatrixProduct::Operand{true, columns == 1 ? rows : column_stride, 0};
  return std::nullopt;
}

/// Strides of an operand's batch dimensions, 0 where it is repeated.
std::vector<int64_t> batch_strides(const Shape& shape, const std::vector<int64_t>& strides, size_t dimensions) {
  std::vector<int64_t> result(dimensions, 0);
  for (size_t d = 0; d + 2 < shape.size(); ++d) {
    if (shape[d] != 1) result[dimensions - (shape.size() - 2) + d] = strides[d];
  }
  return result;
}

/// One stride for all batch dimensions, if they lie as one dimension would.
std::optional<int64_t> one_stride(const Shape& batch, const std::vector<int64_t>& strides) {
  std::optional<int64_t> inner;
  int64_t expected = 0;
  for (size_t d = batch.size(); d-- > 0;) {
    if (batch[d] == 1) continue;
    if (!inner) {
      inner = strides[d];
    } else if (strides[d] != expected) {
      return std::nullopt;
    }
    expected = strides[d] * batch[d];
  }
  return inner.value_or(0);
}

class Planner {
 public:
  Planner(const Graph& graph, const Schedules& schedules) : graph_(graph), schedules_(schedules) {
    const size_t count = graph.operations().size();
    plan_.strided.assign(count, false);
    plan_.covered.assign(count, false);
    for (size_t i = 0; i < count; ++i) {
      if (i >= schedules.size() || !schedules[i] || schedules[i]->algorithm < 0) continue;
      wanted_.push_back(i);
      plan_.strided[i] = true;
    }
  }

  LibraryPlan run() {
    // Transposes become views where all that reads them can. What cannot read a view reads a matrix that is stored,
    // and then other readers of the same transpose do too.
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t i : wanted_) {
        if (!plan_.strided[i] || call(i)) continue;
        plan_.strided[i] = false;
        lies_.clear();
        changed = true;
      }
    }
    for (size_t i : wanted_) {
      auto made = call(i);
      if (!made) {
        plan_.refused.push_back(i);
        continue;
      }
      for (size_t n : made->operations) plan_.covered[n] = true;
      plan_.calls.push_back(std::move(*made));
    }
    return std::move(plan_);
  }

 private:
  std::optional<LibraryCall> call(size_t i) const {
    const Operation& op = graph_.operations()[i];
    const int64_t algorithm = schedules_[i]->algorithm;
    LibraryCall made;
    made.operations = {i};
    const auto add = [&](std::optional<LibraryStep> step) {
      if (step) made.steps.push_back(std::move(*step));
      return step.has_value();
    };
    if (op.kind == OpKind::Conv2d) {
      return convolution(op, algorithm, made) ? std::optional(std::move(made)) : std::nullopt;
    }
    const TensorType& type = graph_.type(op.results[0]);
    if (!multiplies_matrices(op.kind)) return std::nullopt;
    const size_t products = op.operands.size() / 2;
    for (size_t n = 0; n < products; ++n) {
      if (!add(product(op.operands[n], op.operands[n + products], type, algorithm))) return std::nullopt;
      std::get<MatrixProduct>(made.steps.back().work).accumulates = n > 0;
    }
    const TensorId result = add_epilogue(op.results[0], made);
    for (LibraryStep& step : made.steps) step.arguments.push_back(result);
    return made;
  }

  /// cuDNN wants filters that reach an image everywhere, and counts in 32 bits. Where transposes bring images and
  /// filters with their channels last, and one takes the result back there, it is done without them, and relu with it.
  /// False where cuDNN does not take it.
  bool convolution(const Operation& op, int64_t algorithm, LibraryCall& made) const {
    const TensorType& x = graph_.type(op.operands[0]);
    const TensorType& w = graph_.type(op.operands[1]);
    Convolution c;
    c.type = x.dtype;
    std::tie(c.images, c.channels, c.filters) = std::tie(x.shape[0], x.shape[1], w.shape[0]);
    c.algorithm = algorithm;
    if (c.type == DType::F64) return false;
    for (size_t d = 0; d < c.spatial.size(); ++d) {
      c.spatial[d] = {.size = x.shape[d + 2],
                      .filter = w.shape[d + 2],
                      .stride = op.attributes.integer_or("stride", 1),
                      .padding = op.attributes.integer_or("padding", 0)};
      if (c.spatial[d].padding >= c.spatial[d].filter) return false;
    }
    for (TensorId id : {op.operands[0], op.operands[1], op.results[0]}) {
      if (graph_.type(id).elements() > std::numeric_limits<int32_t>::max()) return false;
    }
    const MemoryView from = lies(op.operands[0]);
    const MemoryView filters = lies(op.operands[1]);
    TensorId result = op.results[0];
    if (has_channels_last(from, x.shape) && has_channels_last(filters, w.shape)) {
      c.channels_last = true;
      if (!take_channels_last_result(c, result, made)) return false;
    } else if (!is_row_major(x.shape, from.strides) || !is_row_major(w.shape, filters.strides)) {
      return false;
    }
    made.steps = {{c, {from.memory, filters.memory, result}}};
    return true;
  }

  static bool has_channels_last(const MemoryView& view, const Shape& shape) {
    return view.strides == std::vector<int64_t>{shape[1] * shape[2] * shape[3], 1, shape[3] * shape[1], shape[1]};
  }

  /// Goes on from a convolution's result to the output that is it with its channels last, over relu.
  bool take_channels_last_result(Convolution& c, TensorId& result, LibraryCall& made) const {
    bool transposed = false;
    while (const auto reader = only_reader(result)) {
      const Operation& op = graph_.operations()[*reader];
      const bool is_relu = op.kind == OpKind::Relu && !c.relu;
      const bool is_transpose =
          op.kind == OpKind::Transpose && !transposed && op.attributes.list("perm") == std::vector<int64_t>{0, 2, 3, 1};
      if (op.body || plan_.covered[*reader] || (!is_relu && !is_transpose)) break;
      (is_relu ? c.relu : transposed) = true;
      made.operations.push_back(*reader);
      result = op.results[0];
    }
    // What is no output may become a view of what this is to do without.
    const auto& outputs = graph_.outputs();
    return transposed && std::find(outputs.begin(), outputs.end(), result) != outputs.end();
  }

  /// Without its result among the arguments.
  std::optional<LibraryStep> product(TensorId left, TensorId right, const TensorType& type, int64_t algorithm) const {
    const MemoryView a = lies(left);
    const MemoryView b = lies(right);
    const Shape& shape_a = graph_.type(left).shape;
    const Shape& shape_b = graph_.type(right).shape;
    MatrixProduct p;
    p.type = type.dtype;
    p.algorithm = algorithm;
    p.m = shape_a[shape_a.size() - 2];
    p.k = shape_a.back();
    p.n = shape_b.back();
    const auto matrix_a = matrix(p.m, p.k, a.strides[a.strides.size() - 2], a.strides.back());
    const auto matrix_b = matrix(p.k, p.n, b.strides[b.strides.size() - 2], b.strides.back());
    if (!matrix_a || !matrix_b) return std::nullopt;
    p.a = *matrix_a;
    p.b = *matrix_b;
    const Shape batch(type.shape.begin(), type.shape.end() - 2);
    const auto stride_a = one_stride(batch, batch_strides(shape_a, a.strides, batch.size()));
    const auto stride_b = one_stride(batch, batch_strides(shape_b, b.strides, batch.size()));
    if (!stride_a || !stride_b) return std::nullopt;
    for (int64_t size : batch) p.batch *= size;
    if (*stride_b == 0 && !p.a.transposed && *stride_a == p.m * p.a.leading) {
      // One B for all: the matrices of A are one, with more rows.
      p.m *= p.batch;
      p.batch = 1;
    } else {
      p.a.batch_stride = *stride_a;
      p.b.batch_stride = *stride_b;
    }
    return LibraryStep{p, {a.memory, b.memory}};
  }

  /// How a tensor lies in memory, as far as is known of who reads strides. Of all tensors at once: a walk over the
  /// graph for each product would take a time that grows with its square.
  const MemoryView& lies(TensorId id) const {
    if (lies_.empty()) lies_ = memory_views(graph_, plan_.strided);
    return lies_[static_cast<size_t>(id)];
  }

  /// The operation that alone reads a tensor; none for outputs.
  std::optional<size_t> only_reader(TensorId id) const {
    const auto& outputs = graph_.outputs();
    if (std::find(outputs.begin(), outputs.end(), id) != outputs.end()) return std::nullopt;
    std::optional<size_t> reader;
    for (size_t i = 0; i < graph_.operations().size(); ++i) {
      const auto& operands = graph_.operations()[i].operands;
      const auto times = std::count(operands.begin(), operands.end(), id);
      if (times == 0) continue;
      if (times > 1 || reader) return std::nullopt;
      reader = i;
    }
    return reader;
  }

  bool is_bias(TensorId id, int64_t columns) const {
    const Shape& shape = graph_.type(id).shape;
    return !shape.empty() && shape.back() == columns && graph_.type(id).elements() == columns && lies(id).memory == id;
  }

  /// What the last product does beside; the tensor that is stored then.
  TensorId add_epilogue(TensorId result, LibraryCall& made) const {
    LibraryStep& last = made.steps.back();
    auto& p = std::get<MatrixProduct>(last.work);
    const Shape& shape = graph_.type(result).shape;
    const auto next = [&]() -> const Operation* {
      // The library has no epilogues in float64.
      const auto reader = p.type == DType::F64 ? std::nullopt : only_reader(result);
      // Of two products that are added, one is the other's bias.
      if (!reader || plan_.covered[*reader]) return nullptr;
      const Operation& op = graph_.operations()[*reader];
      return op.body || graph_.type(op.results[0]).shape != shape ? nullptr : &op;
    };
    const auto take = [&](const Operation& op) {
      made.operations.push_back(static_cast<size_t>(&op - graph_.operations().data()));
      result = op.results[0];
    };
    const Operation* op = next();
    if (op != nullptr && op->kind == OpKind::Add) {
      const TensorId other = op->operands[op->operands[0] == result ? 1 : 0];
      if (is_bias(other, p.n)) {
        p.bias = true;
        last.arguments.push_back(other);
        take(*op);
        op = next();
      }
    }
    if (op != nullptr && (op->kind == OpKind::Relu || op->kind == OpKind::Gelu)) {
      p.activation = op->kind == OpKind::Relu ? Activation::Relu : Activation::Gelu;
      take(*op);
    }
    return result;
  }

  const Graph& graph_;
  const Schedules& schedules_;
  std::vector<size_t> wanted_;
  mutable std::vector<MemoryView> lies_;
  LibraryPlan plan_;
};

}  // namespace

std::vector<LibraryWork> LibraryCall::work() const {
  std::vector<LibraryWork> all;
  for (const LibraryStep& step : steps) all.push_back(step.work);
  return all;
}

const LibraryCall* LibraryPlan::at(size_t operation) const {
  for (const LibraryCall& call : calls) {
    if (call.operations.back() == operation) return &call;
  }
  return nullptr;
}

LibraryPlan plan_libraries(const Graph& graph, const Schedules& schedules) { return Planner(graph, schedules).run(); }

namespace {

/// How many times as long a kernel takes for its operations, its bytes and what each block waits for; the parts that
/// tiles are cut in; whether they are never cut, as those of several products in one launch; and the share of a sum's
/// terms that a block waits for.
struct Slower {
  double operations = 1, bytes = 1, latency = 1;
  int64_t parts = kParts;
  bool whole = false;
  double terms = 1;
};

/// Of `batch` products of m × n × k, by tensor cores (at half the rate where an element has twice the bytes) or by
/// scalar units, that move this many bytes, without the launch.
double work_seconds(bool on_tensor_cores, int64_t element, std::array<int64_t, 4> sizes, double bytes,
                    const Slower& slower, const Target& target) {
  const auto [batch, m, n, k] = sizes;
  const double rate = on_tensor_cores ? kMatrixShare * target.rates.matrix_rate * 2 / static_cast<double>(element)
                                      : kScalarShare * target.rates.scalar_rate;
  const auto all = static_cast<double>(target.multiprocessors);
  const auto tiles_of = [&, batch = batch, m = m, n = n](int64_t side) {
    return static_cast<double>(batch * ceil_div(m, side) * ceil_div(n, side));
  };
  const auto share_of = [&](double tiles) { return tiles / all / std::ceil(tiles / all); };
  const bool few = tiles_of(kTile) < all, uncut = few && slower.whole;
  // Those of scalar units and of 16 bits are small where there are few.
  const int64_t side = uncut && on_tensor_cores && element > 2 ? kTile : kSmallTile;
  const double busy = uncut ? share_of(tiles_of(side))
                      : few ? std::min(1.0, tiles_of(kTile) * static_cast<double>(slower.parts) / all)
                            : share_of(tiles_of(kTile));
  const double operations = 2 * static_cast<double>(batch * ceil_div(m, side) * side) *
                            static_cast<double>(ceil_div(n, side) * side) * static_cast<double>(k);
  const double latency = target.rates.library_start + target.rates.library_term * slower.terms * static_cast<double>(k);
  return slower.latency * latency + std::max(slower.operations * operations / (rate * busy),
                                             slower.bytes * bytes / (kBandwidthShare * target.rates.memory_bandwidth));
}

double product_seconds(const MatrixProduct& p, const Target& target) {
  const auto elements_of = [&](int64_t matrix, int64_t batch_stride) {
    return static_cast<double>(matrix * (batch_stride == 0 ? 1 : p.batch));
  };
  const int64_t size = p.size_of_operand(p.a);
  const double operands = elements_of(p.m * p.k, p.a.batch_stride) + elements_of(p.k * p.n, p.b.batch_stride);
  const auto results = static_cast<double>(p.batch * p.m * p.n * (p.accumulates ? 2 : 1));
  const double bytes = operands * static_cast<double>(size) + results * static_cast<double>(size_of(p.type));
  const auto whole = [&](int64_t elements) { return elements * size % kAligned == 0; };
  const bool aligned = whole(p.a.leading) && whole(p.a.transposed ? p.m : p.k) && whole(p.b.leading) &&
                       whole(p.b.transposed ? p.k : p.n) && (p.n * size_of(p.type)) % kAligned == 0;
  const bool on_tensor_cores = size <= 2 || p.tf32;
  // Scalar units compute as fast on single elements.
  const int64_t parts = std::min(p.m, p.n) <= kSmallTile ? kParts : kUnalignedParts;
  const bool several = p.batch > 1;
  const auto tiles = [&](int64_t side) { return p.batch * ceil_div(p.m, side) * ceil_div(p.n, side); };
  const double rate = !several || tiles(kTile) >= target.multiprocessors ? kUnalignedRate
                      : size > 2                                         ? kUnalignedWide
                      : tiles(kSmallTile) < target.multiprocessors       ? kUnalignedAlone
                                                                         : kUnalignedRate;
  Slower slower = aligned           ? Slower{.whole = several}
                  : on_tensor_cores ? Slower{rate, kUnaligned, kUnaligned, parts, several}
                                    : Slower{1, kUnaligned, 1, kParts, several};
  double launches = target.rates.launch;
  if (!several) {
    const int64_t wanted = ceil_div(target.multiprocessors, ceil_div(p.m, kTile) * ceil_div(p.n, kTile));
    const int64_t parts_of_sums = std::min(wanted, p.k / kTermsOfPart);
    if (parts_of_sums > std::max(kParts, slower.parts)) {
      slower.parts = parts_of_sums;
      slower.terms = static_cast<double>(kParts) / static_cast<double>(parts_of_sums);
      launches += target.rates.launch + target.rates.library_start;  // adds up the parts
    }
  }
  return launches + work_seconds(on_tensor_cores, size, {p.batch, p.m, p.n, p.k}, bytes, slower, target);
}

/// Channels of a group that are few: then cuDNN multiplies without tensor cores, and gradients of f32 filters are
/// slowest. Fitted to 32 convolutions and gradients on an H200, 2026-11-29: docs/emitters.md (Windows). Beside a start
/// of 15 to 26 µs its products of 16 bits and their sums take 5 to 10 T/s, those of f32 1.2 to 6, of f32 filters'
/// gradients 0.13 to 2.
constexpr int64_t kFewChannels = 4;
constexpr double kFewChannelsStart = 16e-6;
constexpr double kFewChannels16 = 7e12, kFewChannels32 = 2e12, kFewChannelsFilters = 0.5e12;

/// As a product of the filters and what they cover. Kernels on tensor cores want images, filters and results with their
/// channels last: kernels of the library's own store them so before and after it. But filters of one element multiply
/// matrices whose rows are a channel's positions, which need no other order where they are whole 16 bytes. Scalar units
/// multiply single elements as fast.
double convolution_seconds(const Convolution& c, bool on_tensor_cores, const Target& target) {
  int64_t elements = c.images * c.channels, positions = c.images, terms = c.channels / c.groups;
  bool single = true, padded = false;
  for (const ConvolutionDimension& each : c.spatial) {
    elements *= each.size;
    positions *= each.result();
    terms *= each.filter;
    single = single && each.filter == 1 && each.stride == 1;
    padded = padded || each.padding != 0;
  }
  const auto size = static_cast<double>(size_of(c.type));
  const double moved = size * static_cast<double>(elements + positions * c.filters);
  const double bytes = moved + size * static_cast<double>(c.filters * terms);
  const bool aligned = c.channels * size_of(c.type) % kAligned == 0 && c.filters * size_of(c.type) % kAligned == 0;
  const double work =
      (single ? 1 : kGathered) * (aligned || !on_tensor_cores ? 1 : kUnaligned) *
      work_seconds(on_tensor_cores, size_of(c.type), {1, positions, c.filters, terms}, bytes, {}, target);
  const bool whole_rows = single && !padded && positions / c.images * size_of(c.type) % kAligned == 0;
  const bool reorders = on_tensor_cores && !c.channels_last && !whole_rows;
  return target.rates.launch + work +
         (reorders ? target.rates.library_reordering + 2 * moved / (kBandwidthShare * target.rates.memory_bandwidth)
                   : 0);
}

/// Where f32 may be TF32, it need not be: kernels that compute it exactly remain. Not measured; groups are priced as
/// before.
double convolution_seconds(const Convolution& c, const Target& target) {
  if (const int64_t channels = c.channels / c.groups; c.groups > 1 && has_few_channels(channels)) {
    auto products = static_cast<double>(c.images * c.filters * channels);
    for (const ConvolutionDimension& each : c.spatial) products *= static_cast<double>(each.result() * each.filter);
    return few_channels_seconds(products, size_of(c.type), c.part == ConvolutionPart::Filters);
  }
  const double own = convolution_seconds(c, size_of(c.type) <= 2, target);
  return c.tf32 && c.groups == 1 ? std::min(own, convolution_seconds(c, true, target)) : own;
}

/// Each dimension is a pass over both arrays, but those that one pass transforms together are not known.
double fft_seconds(const Fft& fft, const Target& target) {
  const auto bytes = static_cast<double>(fft.bytes_read() + fft.bytes_written());
  return target.rates.launch + target.rates.library_start +
         static_cast<double>(fft.lengths.size()) * bytes / (kBandwidthShare * target.rates.memory_bandwidth);
}

}  // namespace

bool has_few_channels(int64_t of_group) { return of_group <= kFewChannels; }

double few_channels_seconds(double products, int64_t bytes, bool filters) {
  const double rate = bytes <= 2 ? kFewChannels16 : filters ? kFewChannelsFilters : kFewChannels32;
  return kFewChannelsStart + products / rate;
}

double library_seconds(const LibraryWork& work, const Target& target) {
  if (const auto* fft = std::get_if<Fft>(&work)) return fft_seconds(*fft, target);
  if (const auto* product = std::get_if<MatrixProduct>(&work)) return product_seconds(*product, target);
  if (const auto* factor = std::get_if<MatrixFactor>(&work)) return factor_seconds(*factor, target);
  if (const auto* solve = std::get_if<MatrixSolve>(&work)) return solve_seconds(*solve, target);
  if (const auto* spectrum = std::get_if<MatrixSpectrum>(&work)) return spectrum_seconds(*spectrum, target);
  return convolution_seconds(std::get<Convolution>(work), target);
}

double library_seconds(const LibraryCall& call, const Target& target) {
  double seconds = 0;
  for (const LibraryStep& step : call.steps) seconds += library_seconds(step.work, target);
  return seconds;
}

Schedules library_schedules(const Graph& graph, const Target& target, const Passes& passes,
                            const AvailableLibraries& available) {
  if (!passes.libraries || graph.level() != Level::Kernel) return {};
  const auto& operations = graph.operations();
  Schedules schedules(operations.size());
  for (size_t i = 0; i < operations.size(); ++i) {
    if (is_of(operations[i].kind, available)) schedules[i] = BlockSchedule{.algorithm = 0};
  }
  const LibraryPlan plan = plan_libraries(graph, schedules);
  const std::vector<bool> views = view_operations(graph);
  for (size_t i : plan.refused) schedules[i].reset();
  for (const LibraryCall& call : plan.calls) {
    double generated = 0;
    for (size_t i : call.operations) generated += estimate_operation(graph, operations[i], target, views).seconds;
    if (library_seconds(call, target) >= kWorthALibrary * generated) schedules[call.operations.front()].reset();
  }
  return uses_library(schedules) ? schedules : Schedules();
}

Schedules library_part(const Schedules& schedules) {
  Schedules part = schedules;
  for (auto& schedule : part) {
    if (schedule && schedule->algorithm < 0) schedule.reset();
  }
  return part;
}

Schedules without_products(const Graph& graph, const Schedules& schedules) {
  Schedules part = schedules;
  for (size_t i = 0; i < part.size(); ++i) {
    if (multiplies_matrices(graph.operations()[i].kind)) part[i].reset();
  }
  return uses_library(part) ? part : Schedules();
}

bool uses_library(const Schedules& schedules) {
  return std::any_of(schedules.begin(), schedules.end(),
                     [](const auto& schedule) { return schedule && schedule->algorithm >= 0; });
}

}  // namespace strata
