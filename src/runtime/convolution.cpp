#include "runtime/convolution.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <optional>
#include <utility>

namespace strata {
namespace {

// Names of the tensors in the library's graph.
constexpr int64_t kX = 1, kW = 2, kY = 3, kSums = 4;
constexpr int64_t kAlignment = 16;
using Sizes = std::vector<int64_t>;
constexpr std::array<std::string_view, 3> kParts{"result", "images", "filters"};

/// The tensors that launches name, in the order of Convolution::arguments().
std::array<int64_t, 3> tensors_of(ConvolutionPart part) {
  if (part == ConvolutionPart::Images) return {kY, kW, kX};
  if (part == ConvolutionPart::Filters) return {kX, kY, kW};
  return {kX, kW, kY};
}

int element_type(DType type) {
  assert(type != DType::F64);
  return type == DType::F16 ? Cudnn::kF16 : type == DType::BF16 ? Cudnn::kBF16 : Cudnn::kF32;
}

Sizes of_each(const Convolution& c, int64_t ConvolutionDimension::*member) {
  Sizes values;
  for (const ConvolutionDimension& each : c.spatial) values.push_back(each.*member);
  return values;
}

/// ", stride 2", or of dimensions that differ ", stride 1×2×2"; nothing where all are `usual`.
std::string describe_each(const Convolution& c, const char* name, int64_t ConvolutionDimension::*member,
                          int64_t usual) {
  const Sizes values = of_each(c, member);
  if (std::count(values.begin(), values.end(), values.front()) != std::ssize(values))
    return fmt::format(", {} {}", name, fmt::join(values, "×"));
  return values.front() == usual ? "" : fmt::format(", {} {}", name, values.front());
}

/// A descriptor of the library; `status` is the first error of what was done with it.
class Descriptor {
 public:
  Descriptor(const Cudnn& cudnn, int kind) : cudnn_(&cudnn), status_(cudnn.create_descriptor(kind, &descriptor_)) {}
  ~Descriptor() {
    if (descriptor_ != nullptr) cudnn_->destroy_descriptor(descriptor_);
  }
  Descriptor(Descriptor&& other) noexcept
      : cudnn_(other.cudnn_), descriptor_(std::exchange(other.descriptor_, nullptr)), status_(other.status_) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(cudnn_, other.cudnn_);
    std::swap(descriptor_, other.descriptor_);
    std::swap(status_, other.status_);
    return *this;
  }

  Descriptor& set(int attribute, int type, int64_t count, const void* values) {
    if (status_ == 0) status_ = cudnn_->set_attribute(descriptor_, attribute, type, count, values);
    return *this;
  }
  template <class Value>
  Descriptor& set(int attribute, int type, const Value& value) {
    return set(attribute, type, 1, &value);
  }
  Descriptor& set(int attribute, const Descriptor& value) {
    return set(attribute, Cudnn::kDescriptorType, 1, &value.descriptor_);
  }
  Descriptor& finalize() {
    if (status_ == 0) status_ = cudnn_->finalize(descriptor_);
    return *this;
  }
  Cudnn::Descriptor get() const { return descriptor_; }
  int status() const { return status_; }

 private:
  const Cudnn* cudnn_;
  Cudnn::Descriptor descriptor_ = nullptr;
  int status_;
};

/// One that `is_virtual` has no memory: it goes from operation to operation.
Descriptor tensor(const Cudnn& cudnn, int64_t name, DType type, const Sizes& sizes, bool channels_last,
                  bool is_virtual = false) {
  Sizes strides(sizes.size());
  int64_t step = channels_last ? sizes[1] : 1;
  for (size_t d = sizes.size(); d-- > 2;) {
    strides[d] = step;
    step *= sizes[d];
  }
  strides[1] = channels_last ? 1 : step;
  strides[0] = channels_last ? step : step * sizes[1];
  Descriptor made(cudnn, Cudnn::kTensor);
  if (is_virtual) made.set(Cudnn::kTensorIsVirtual, Cudnn::kBoolean, is_virtual);
  made.set(Cudnn::kTensorName, Cudnn::kInt64, name)
      .set(Cudnn::kTensorType, Cudnn::kDataType, element_type(type))
      .set(Cudnn::kTensorAlignment, Cudnn::kInt64, kAlignment)
      .set(Cudnn::kTensorSizes, Cudnn::kInt64, std::ssize(sizes), sizes.data())
      .set(Cudnn::kTensorStrides, Cudnn::kInt64, std::ssize(strides), strides.data())
      .finalize();
  return made;
}

class PreparedConvolution final : public PreparedWork {
 public:
  PreparedConvolution(const ConvolutionLibrary& library, const Convolution& convolution)
      : library_(library), convolution_(convolution), plan_(library.functions(), Cudnn::kPlan) {}

  int64_t workspace_bytes() const override { return workspace_; }

  Result<void> choose() {
    const Cudnn& cudnn = library_.functions();
    STRATA_TRY(const Descriptor graph, describe_graph());
    // What the heuristic proposes, then what works for all sizes.
    std::vector<bool> known = library_.known(convolution_);
    size_t place = 0;
    int64_t usable = 0;
    for (const int mode : {Cudnn::kModeA, Cudnn::kModeFallback}) {
      Descriptor heuristic(cudnn, Cudnn::kEngineHeuristic);
      heuristic.set(Cudnn::kHeuristicGraph, graph).set(Cudnn::kHeuristicMode, Cudnn::kHeuristicModeType, mode);
      if (heuristic.finalize().status() != 0) continue;  // it has nothing to propose
      for (const Descriptor& config : proposals(heuristic)) {
        const size_t at = place++;
        if (at < known.size() && (!known[at] || usable < convolution_.algorithm)) {
          usable += known[at] ? 1 : 0;
          continue;
        }
        const bool made = is_allowed(config) && make_plan(config);
        if (at == known.size()) known.push_back(made);
        if (!made || usable++ < convolution_.algorithm) continue;
        library_.know(convolution_, std::move(known));
        return {};
      }
    }
    library_.know(convolution_, std::move(known));
    return unsupported("cuDNN has {} algorithms for {}", usable, describe(convolution_));
  }

  Result<void> run(CudaStream stream, const std::vector<CudaPointer>& arguments, CudaPointer workspace) const override {
    assert(arguments.size() == Convolution::arguments());
    const Cudnn& cudnn = library_.functions();
    const std::array<int64_t, 3> names = tensors_of(convolution_.part);
    Descriptor pack(cudnn, Cudnn::kArguments);
    pack.set(Cudnn::kArgumentNames, Cudnn::kInt64, 3, names.data())
        .set(Cudnn::kArgumentPointers, Cudnn::kPointer, 3, arguments.data())
        .set(Cudnn::kArgumentWorkspace, Cudnn::kPointer, workspace)
        .finalize();
    STRATA_CHECK(cudnn.check(pack.status(), "naming the tensors"));
    STRATA_CHECK(cudnn.check(cudnn.use_stream(library_.handle(), stream), "using a stream"));
    return cudnn.check(cudnn.execute(library_.handle(), plan_.get(), pack.get()),
                       fmt::format("convolving {}", describe(convolution_)));
  }

 private:
  /// Y = 1 · X * W + 0 · Y, and relu after it; or X or W in place of Y.
  Result<Descriptor> describe_graph() const {
    const Cudnn& cudnn = library_.functions();
    const Convolution& c = convolution_;
    const bool last = c.channels_last;
    const Sizes result = c.result_shape();
    const Descriptor x = tensor(cudnn, kX, c.type, c.images_shape(), last);
    const Descriptor w = tensor(cudnn, kW, c.type, c.filters_shape(), last);
    const Descriptor y = tensor(cudnn, kY, c.type, result, last);
    std::optional<Descriptor> sums;
    if (c.relu) sums = tensor(cudnn, kSums, DType::F32, result, last, true);
    const int64_t spatial = std::ssize(c.spatial);
    const Sizes strides = of_each(c, &ConvolutionDimension::stride);
    const Sizes padding = of_each(c, &ConvolutionDimension::padding);
    const Sizes dilations = of_each(c, &ConvolutionDimension::dilation);
    Descriptor convolution(cudnn, Cudnn::kConvolution);
    convolution.set(Cudnn::kSpatialDimensions, Cudnn::kInt64, spatial)
        .set(Cudnn::kComputeType, Cudnn::kDataType, Cudnn::kF32)
        .set(Cudnn::kConvolutionMode, Cudnn::kConvolutionModeType, Cudnn::kCrossCorrelation)
        .set(Cudnn::kPaddingBefore, Cudnn::kInt64, spatial, padding.data())
        .set(Cudnn::kPaddingBehind, Cudnn::kInt64, spatial, padding.data())
        .set(Cudnn::kDilations, Cudnn::kInt64, spatial, dilations.data())
        .set(Cudnn::kStrides, Cudnn::kInt64, spatial, strides.data())
        .finalize();
    const auto [kind, alpha] =
        c.part == ConvolutionPart::Images    ? std::pair(Cudnn::kImagesOperation, Cudnn::kImagesAlpha)
        : c.part == ConvolutionPart::Filters ? std::pair(Cudnn::kFiltersOperation, Cudnn::kFiltersAlpha)
                                             : std::pair(Cudnn::kForwardOperation, Cudnn::kForwardAlpha);
    const int later = alpha - Cudnn::kForwardAlpha;
    Descriptor operation(cudnn, kind);
    operation.set(Cudnn::kForwardX + later, x)
        .set(Cudnn::kForwardW + later, w)
        .set(Cudnn::kForwardY + later, sums ? *sums : y)
        .set(Cudnn::kForwardConvolution + later, convolution)
        .set(Cudnn::kForwardAlpha + later, Cudnn::kFloat, 1.0F)
        .set(Cudnn::kForwardBeta + later, Cudnn::kFloat, 0.0F)
        .finalize();
    Descriptor relu(cudnn, Cudnn::kPointwise);
    Descriptor relu_operation(cudnn, Cudnn::kPointwiseOperation);
    std::vector<Cudnn::Descriptor> operations{operation.get()};
    if (c.relu) {
      relu.set(Cudnn::kPointwiseMode, Cudnn::kPointwiseModeType, Cudnn::kRelu)
          .set(Cudnn::kPointwiseType, Cudnn::kDataType, Cudnn::kF32)
          .finalize();
      relu_operation.set(Cudnn::kPointwiseOf, relu)
          .set(Cudnn::kPointwiseX, *sums)
          .set(Cudnn::kPointwiseY, y)
          .finalize();
      operations.push_back(relu_operation.get());
    }
    const Cudnn::Handle handle = library_.handle();
    Descriptor graph(cudnn, Cudnn::kGraph);
    graph.set(Cudnn::kGraphHandle, Cudnn::kHandleType, handle)
        .set(Cudnn::kGraphOperations, Cudnn::kDescriptorType, std::ssize(operations), operations.data())
        .finalize();
    for (const Descriptor* each :
         {&x, &w, &y, &std::as_const(sums ? *sums : y), &std::as_const(convolution), &std::as_const(operation),
          &std::as_const(relu), &std::as_const(relu_operation), &std::as_const(graph)})
      STRATA_CHECK(cudnn.check(each->status(), fmt::format("describing {}", describe(c))));
    return graph;
  }

  /// Whether there is one for this device and these sizes, with no more memory than is set aside.
  bool make_plan(const Descriptor& config) {
    const Cudnn& cudnn = library_.functions();
    Descriptor plan(cudnn, Cudnn::kPlan);
    const Cudnn::Handle handle = library_.handle();
    plan.set(Cudnn::kPlanHandle, Cudnn::kHandleType, handle).set(Cudnn::kPlanConfig, config);
    if (plan.finalize().status() != 0) return false;
    int64_t bytes = 0;
    int64_t found = 0;
    if (cudnn.get_attribute(plan.get(), Cudnn::kPlanWorkspace, Cudnn::kInt64, 1, &found, &bytes) != 0 ||
        bytes > kConvolutionWorkspace)
      return false;
    plan_ = std::move(plan);
    workspace_ = bytes;
    return true;
  }

  std::vector<Descriptor> proposals(const Descriptor& heuristic) const {
    const Cudnn& cudnn = library_.functions();
    std::vector<Descriptor> made;
    std::array<Cudnn::Descriptor, kMostConvolutionAlgorithms> places{};
    for (Cudnn::Descriptor& place : places) place = made.emplace_back(cudnn, Cudnn::kEngineConfig).get();
    int64_t found = 0;
    const int status = cudnn.get_attribute(heuristic.get(), Cudnn::kHeuristicResults, Cudnn::kDescriptorType,
                                           kMostConvolutionAlgorithms, &found, places.data());
    if (status != 0) found = 0;
    while (std::ssize(made) > std::min<int64_t>(found, kMostConvolutionAlgorithms)) made.pop_back();
    return made;
  }

  /// Whether operands are taken as they are, or float32 as TF32 where that may be, and sums in float32. Winograd's
  /// larger tiles lose digits in any type; tensor cores round float32 to TF32.
  bool is_allowed(const Descriptor& config) const {
    const Cudnn& cudnn = library_.functions();
    const Descriptor engine(cudnn, Cudnn::kEngine);
    Cudnn::Descriptor place = engine.get();
    int64_t found = 0;
    if (cudnn.get_attribute(config.get(), Cudnn::kConfiguredEngine, Cudnn::kDescriptorType, 1, &found, &place) != 0)
      return false;
    std::array<int, Cudnn::kMostNotes> notes{};
    const int status = cudnn.get_attribute(place, Cudnn::kNumericalNotes, Cudnn::kNumericalNoteType, Cudnn::kMostNotes,
                                           &found, notes.data());
    if (status != 0) return false;
    return std::none_of(notes.begin(), notes.begin() + found, [&](int note) {
      return note == Cudnn::kConvertsInputs || note == Cudnn::kReducedSums || note == Cudnn::kWinograd6 ||
             note == Cudnn::kWinograd13 ||
             (note == Cudnn::kTensorCores && convolution_.type == DType::F32 && !convolution_.tf32);
    });
  }

  const ConvolutionLibrary& library_;
  Convolution convolution_;
  Descriptor plan_;
  int64_t workspace_ = 0;
};

Convolution with_first_algorithm(Convolution of) {
  of.algorithm = 0;
  return of;
}

}  // namespace

std::vector<bool> ConvolutionLibrary::known(const Convolution& of) const {
  const std::scoped_lock lock(mutex_);
  const auto found =
      std::ranges::find(known_, with_first_algorithm(of), &std::pair<Convolution, std::vector<bool>>::first);
  return found == known_.end() ? std::vector<bool>() : found->second;
}

void ConvolutionLibrary::know(const Convolution& of, std::vector<bool> usable) const {
  const std::scoped_lock lock(mutex_);
  const Convolution first = with_first_algorithm(of);
  const auto found = std::ranges::find(known_, first, &std::pair<Convolution, std::vector<bool>>::first);
  if (found == known_.end()) {
    known_.emplace_back(first, std::move(usable));
  } else if (found->second.size() < usable.size()) {
    found->second = std::move(usable);
  }
}

std::string_view name_of(ConvolutionPart part) { return kParts[static_cast<size_t>(part)]; }

Result<ConvolutionPart> parse_convolution_part(std::string_view name) {
  for (size_t i = 0; i < kParts.size(); ++i) {
    if (kParts[i] == name) return static_cast<ConvolutionPart>(i);
  }
  return invalid("'{}' is no part of a convolution", name);
}

Sizes Convolution::images_shape() const {
  Sizes shape{images, channels};
  for (const ConvolutionDimension& each : spatial) shape.push_back(each.size);
  return shape;
}

Sizes Convolution::filters_shape() const {
  Sizes shape{filters, channels / groups};
  for (const ConvolutionDimension& each : spatial) shape.push_back(each.filter);
  return shape;
}

Sizes Convolution::result_shape() const {
  Sizes shape{images, filters};
  for (const ConvolutionDimension& each : spatial) shape.push_back(each.result());
  return shape;
}

std::string describe(const Convolution& c) {
  return fmt::format("{}{}{} {} by {}{}{}{}{}{}{}, algorithm {}",
                     c.part == ConvolutionPart::Result ? "" : fmt::format("{} of ", name_of(c.part)), name_of(c.type),
                     c.tf32 ? " as tf32" : "", fmt::join(c.images_shape(), "×"), fmt::join(c.filters_shape(), "×"),
                     describe_each(c, "stride", &ConvolutionDimension::stride, 1),
                     describe_each(c, "padding", &ConvolutionDimension::padding, 0),
                     describe_each(c, "dilation", &ConvolutionDimension::dilation, 1),
                     c.groups == 1 ? "" : fmt::format(", {} groups", c.groups),
                     c.channels_last ? ", channels last" : "", c.relu ? ", relu" : "", c.algorithm);
}

Result<std::unique_ptr<ConvolutionLibrary>> ConvolutionLibrary::open() {
  std::unique_ptr<ConvolutionLibrary> made(new ConvolutionLibrary);
  STRATA_TRY(made->cudnn_, open_cudnn());
  STRATA_CHECK(made->cudnn_.check(made->cudnn_.create(&made->handle_), "starting"));
  return made;
}

ConvolutionLibrary::~ConvolutionLibrary() {
  if (handle_ != nullptr) cudnn_.destroy(handle_);
}

Result<std::unique_ptr<PreparedWork>> prepare(const ConvolutionLibrary& library, const Convolution& convolution) {
  auto made = std::make_unique<PreparedConvolution>(library, convolution);
  STRATA_CHECK(made->choose());
  return made;
}

}  // namespace strata
