// A cuDNN without a GPU, for tests: STRATA_CUDNN names this library. It has the backend interface for one convolution
// with or without relu, and for its gradients, and computes on the host, as work on the stream of fake_cuda.
// $STRATA_FAKE_CUDNN has one word an algorithm: microseconds that it takes and letters for what is special about it; "3
// 2t" are two, and there is one that takes 1 µs where it is not set. A negative number is an algorithm that stores
// zeros. Letters: t uses tensor cores, d converts its operands, r sums in 16 bits, x does not do these sizes, w needs
// too much memory, f is proposed as a fallback.
#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>

#include "host_library.h"
#include "runtime/cudnn.h"

using namespace strata;
using namespace strata::fake;

namespace {

constexpr int kBadParameter = 2000;
constexpr int kNotSupported = 3000;
constexpr int64_t kWorkspace = 1024;

struct Algorithm {
  double us = 1;
  std::string letters;

  bool is(char letter) const { return letters.find(letter) != std::string::npos; }
};

std::vector<Algorithm> algorithms() {
  const char* text = std::getenv("STRATA_FAKE_CUDNN");
  std::istringstream words(text == nullptr ? "1" : text);
  std::vector<Algorithm> found;
  for (std::string word; words >> word;) {
    size_t digits = 0;
    const double us = std::stod(word, &digits);
    found.push_back({us, word.substr(digits)});
  }
  return found;
}

struct Descriptor {
  int kind = 0;
  bool finalized = false;
  std::map<int, std::string> values;  ///< bytes, by attribute
  std::map<int, std::vector<std::shared_ptr<Descriptor>>> parts;
  size_t algorithm = 0;  ///< of configurations and engines

  int64_t number(int attribute, size_t place = 0) const {
    int64_t value = 0;
    std::memcpy(&value, values.at(attribute).data() + place * sizeof value, sizeof value);
    return value;
  }
  int word(int attribute) const {
    int value = 0;
    std::memcpy(&value, values.at(attribute).data(), sizeof value);
    return value;
  }
  float factor(int attribute) const {
    float value = 0;
    std::memcpy(&value, values.at(attribute).data(), sizeof value);
    return value;
  }
  const Descriptor& part(int attribute) const { return *parts.at(attribute).at(0); }
};

/// What callers hold: finalized descriptors outlive the handles of those who made them.
using Held = std::shared_ptr<Descriptor>;
Held& held(void* handle) { return *static_cast<Held*>(handle); }

size_t size_of_type(int type) {
  switch (type) {
    case Cudnn::kHandleType:
    case Cudnn::kInt64:
    case Cudnn::kPointer:
      return 8;
    case Cudnn::kDataType:
    case Cudnn::kFloat:
    case Cudnn::kConvolutionModeType:
    case Cudnn::kHeuristicModeType:
    case Cudnn::kPointwiseModeType:
      return 4;
    case Cudnn::kBoolean:
      return 1;
    default:
      return 0;
  }
}

size_t count_of(const Descriptor& d, int attribute) { return d.values.at(attribute).size() / sizeof(int64_t); }

std::vector<int64_t> numbers(const Descriptor& d, int attribute) {
  std::vector<int64_t> all;
  for (size_t i = 0; i < count_of(d, attribute); ++i) all.push_back(d.number(attribute, i));
  return all;
}

/// Whether dimensions lie without gaps, channels first or last.
bool is_packed(const Descriptor& tensor, bool channels_last) {
  std::vector<size_t> order{0};
  if (!channels_last) order.push_back(1);
  for (size_t d = 2; d < count_of(tensor, Cudnn::kTensorSizes); ++d) order.push_back(d);
  if (channels_last) order.push_back(1);
  int64_t stride = 1;
  for (size_t place = order.size(); place-- > 0;) {
    const size_t d = order[place];
    if (tensor.number(Cudnn::kTensorSizes, d) < 1 || tensor.number(Cudnn::kTensorStrides, d) != stride) return false;
    stride *= tensor.number(Cudnn::kTensorSizes, d);
  }
  return true;
}

bool is_tensor(const Descriptor& tensor) {
  const size_t rank = count_of(tensor, Cudnn::kTensorSizes);
  return (rank == 4 || rank == 5) && count_of(tensor, Cudnn::kTensorStrides) == rank &&
         (is_packed(tensor, false) || is_packed(tensor, true)) && tensor.number(Cudnn::kTensorAlignment) % 16 == 0 &&
         tensor.number(Cudnn::kTensorName) > 0;
}

struct Sizes {
  int64_t n, c, o, group_channels;
  std::vector<int64_t> image, filter, result, stride, padding, dilation;  ///< by spatial dimension
  std::vector<int64_t> x, filters, y;                                     ///< strides
};

int64_t product(const std::vector<int64_t>& of) {
  int64_t all = 1;
  for (const int64_t one : of) all *= one;
  return all;
}

/// By how much the attributes of an operation are later than those of the forward one.
int later(const Descriptor& operation) {
  return operation.kind == Cudnn::kImagesOperation    ? Cudnn::kImagesAlpha - Cudnn::kForwardAlpha
         : operation.kind == Cudnn::kFiltersOperation ? Cudnn::kFiltersAlpha - Cudnn::kForwardAlpha
                                                      : 0;
}

Sizes sizes_of(const Descriptor& operation) {
  const int l = later(operation);
  const Descriptor& x = operation.part(Cudnn::kForwardX + l);
  const Descriptor& w = operation.part(Cudnn::kForwardW + l);
  const Descriptor& y = operation.part(Cudnn::kForwardY + l);
  const Descriptor& convolution = operation.part(Cudnn::kForwardConvolution + l);
  const auto sizes = [](const Descriptor& of) { return numbers(of, Cudnn::kTensorSizes); };
  const auto spatial = [&](const Descriptor& of) {
    const std::vector<int64_t> all = sizes(of);
    return std::vector<int64_t>(all.begin() + 2, all.end());
  };
  return {sizes(x)[0],
          sizes(x)[1],
          sizes(w)[0],
          sizes(w)[1],
          spatial(x),
          spatial(w),
          spatial(y),
          numbers(convolution, Cudnn::kStrides),
          numbers(convolution, Cudnn::kPaddingBefore),
          numbers(convolution, Cudnn::kDilations),
          numbers(x, Cudnn::kTensorStrides),
          numbers(w, Cudnn::kTensorStrides),
          numbers(y, Cudnn::kTensorStrides)};
}

bool is_convolution(const Descriptor& d) {
  const auto spatial = static_cast<size_t>(d.number(Cudnn::kSpatialDimensions));
  for (const int attribute : {Cudnn::kDilations, Cudnn::kStrides, Cudnn::kPaddingBefore, Cudnn::kPaddingBehind}) {
    if (count_of(d, attribute) != spatial) return false;
  }
  return (spatial == 2 || spatial == 3) && numbers(d, Cudnn::kPaddingBefore) == numbers(d, Cudnn::kPaddingBehind) &&
         d.word(Cudnn::kComputeType) == Cudnn::kF32 && d.word(Cudnn::kConvolutionMode) == Cudnn::kCrossCorrelation;
}

bool is_operation(const Descriptor& d) {
  const int l = later(d);
  for (const int attribute : {Cudnn::kForwardX, Cudnn::kForwardW, Cudnn::kForwardY, Cudnn::kForwardConvolution}) {
    if (!d.part(attribute + l).finalized) return false;
  }
  const Sizes s = sizes_of(d);
  const size_t spatial = s.stride.size();
  if (s.image.size() != spatial || s.filter.size() != spatial || s.result.size() != spatial) return false;
  for (size_t i = 0; i < spatial; ++i) {
    const int64_t room = s.image[i] + 2 * s.padding[i] - (s.filter[i] - 1) * s.dilation[i] - 1;
    if (s.result[i] != room / s.stride[i] + 1) return false;
  }
  const Descriptor& y = d.part(Cudnn::kForwardY + l);
  return d.factor(Cudnn::kForwardAlpha + l) == 1 && d.factor(Cudnn::kForwardBeta + l) == 0 && s.group_channels > 0 &&
         s.c % s.group_channels == 0 && s.o % (s.c / s.group_channels) == 0 && y.number(Cudnn::kTensorSizes) == s.n &&
         y.number(Cudnn::kTensorSizes, 1) == s.o;
}

bool is_complete(const Descriptor& d) {
  switch (d.kind) {
    case Cudnn::kTensor:
      return is_tensor(d);
    case Cudnn::kPointwise:
      return d.word(Cudnn::kPointwiseMode) == Cudnn::kRelu && d.word(Cudnn::kPointwiseType) == Cudnn::kF32;
    case Cudnn::kPointwiseOperation:
      return d.part(Cudnn::kPointwiseOf).finalized &&
             d.part(Cudnn::kPointwiseX).values.count(Cudnn::kTensorIsVirtual) && d.part(Cudnn::kPointwiseY).finalized;
    case Cudnn::kConvolution:
      return is_convolution(d);
    case Cudnn::kForwardOperation:
    case Cudnn::kImagesOperation:
    case Cudnn::kFiltersOperation:
      return is_operation(d);
    case Cudnn::kGraph:
      return d.part(Cudnn::kGraphOperations).finalized && d.values.at(Cudnn::kGraphHandle).size() == 8;
    case Cudnn::kEngineHeuristic:
      return d.part(Cudnn::kHeuristicGraph).finalized && d.word(Cudnn::kHeuristicMode) >= 0;
    case Cudnn::kPlan:
      return d.part(Cudnn::kPlanConfig).finalized && d.values.at(Cudnn::kPlanHandle).size() == 8;
    case Cudnn::kArguments:
      return d.values.at(Cudnn::kArgumentNames).size() == d.values.at(Cudnn::kArgumentPointers).size();
    default:
      return false;
  }
}

DType element_type(const Descriptor& tensor) {
  const int type = tensor.word(Cudnn::kTensorType);
  return type == Cudnn::kF16 ? DType::F16 : type == Cudnn::kBF16 ? DType::BF16 : DType::F32;
}

/// The coordinates of an element of these sizes, the last dimension first to move on.
std::vector<int64_t> coordinates(int64_t element, const std::vector<int64_t>& sizes) {
  std::vector<int64_t> all(sizes.size());
  for (size_t d = sizes.size(); d-- > 0; element /= sizes[d]) all[d] = element % sizes[d];
  return all;
}

int64_t place(const std::vector<int64_t>& strides, int64_t outer, int64_t channel,
              const std::vector<int64_t>& spatial) {
  int64_t at = outer * strides[0] + channel * strides[1];
  for (size_t d = 0; d < spatial.size(); ++d) at += spatial[d] * strides[d + 2];
  return at;
}

/// Calls `visit` with the places in x, w and y of each product and of what it is a term of.
template <class Visit>
void for_each_term(const Sizes& s, Visit visit) {
  const int64_t positions = product(s.result);
  std::vector<std::vector<int64_t>> elements;
  for (int64_t i = 0; i < product(s.filter); ++i) elements.push_back(coordinates(i, s.filter));
  std::vector<int64_t> from(s.stride.size());
  for (int64_t at = 0; at < s.n * s.o * positions; ++at) {
    const std::vector<int64_t> position = coordinates(at % positions, s.result);
    const int64_t filter = at / positions % s.o, image = at / (positions * s.o);
    const int64_t first = filter / (s.o / (s.c / s.group_channels)) * s.group_channels;
    const int64_t in_y = place(s.y, image, filter, position);
    for (const std::vector<int64_t>& element : elements) {
      bool inside = true;
      for (size_t d = 0; d < from.size(); ++d) {
        from[d] = position[d] * s.stride[d] - s.padding[d] + element[d] * s.dilation[d];
        inside = inside && from[d] >= 0 && from[d] < s.image[d];
      }
      if (!inside) continue;
      const int64_t in_x = place(s.x, image, first, from), in_w = place(s.filters, filter, 0, element);
      for (int64_t c = 0; c < s.group_channels; ++c) visit(in_x + c * s.x[1], in_w + c * s.filters[1], in_y);
    }
  }
}

/// The result, or images or filters from the other one and the result.
void compute(const Sizes& s, int kind, bool zeros, bool relu, DType type, char* x, char* w, char* y) {
  const bool of_images = kind == Cudnn::kImagesOperation, of_filters = kind == Cudnn::kFiltersOperation;
  const int64_t count = of_images    ? s.n * s.c * product(s.image)
                        : of_filters ? s.o * s.group_channels * product(s.filter)
                                     : s.n * s.o * product(s.result);
  std::vector<double> sums(static_cast<size_t>(count));
  const auto add = [&](int64_t in_x, int64_t in_w, int64_t in_y) {
    sums[static_cast<size_t>(of_images    ? in_x
                             : of_filters ? in_w
                                          : in_y)] += (of_images ? load(y, type, in_y) : load(x, type, in_x)) *
                                                      (of_filters ? load(y, type, in_y) : load(w, type, in_w));
  };
  if (!zeros) for_each_term(s, add);
  for (size_t i = 0; i < sums.size(); ++i)
    store(of_images ? x : of_filters ? w : y, type, static_cast<int64_t>(i), relu ? std::max(sums[i], 0.0) : sums[i]);
}

CudaStream current_stream = nullptr;

}  // namespace

extern "C" {

size_t cudnnGetVersion() { return 91501; }
const char* cudnnGetErrorString(int status) {
  return status == kNotSupported ? "CUDNN_STATUS_NOT_SUPPORTED" : "CUDNN_STATUS_BAD_PARAM";
}
int cudnnCreate(void** handle) {
  *handle = new int(0);
  return 0;
}
int cudnnDestroy(void* handle) {
  delete static_cast<int*>(handle);
  return 0;
}
int cudnnSetStream(void*, CudaStream stream) {
  current_stream = stream;
  return 0;
}
int cudnnBackendCreateDescriptor(int kind, void** made) {
  *made = new Held(std::make_shared<Descriptor>(Descriptor{.kind = kind}));
  return 0;
}
int cudnnBackendDestroyDescriptor(void* descriptor) {
  delete static_cast<Held*>(descriptor);
  return 0;
}
int cudnnBackendSetAttribute(void* handle, int attribute, int type, int64_t count, const void* values) {
  Descriptor& descriptor = *held(handle);
  if (descriptor.finalized) return kBadParameter;
  if (type == Cudnn::kDescriptorType) {
    auto& parts = descriptor.parts[attribute];
    for (int64_t i = 0; i < count; ++i) parts.push_back(held(static_cast<void* const*>(values)[i]));
    return 0;
  }
  if (size_of_type(type) == 0) return kBadParameter;
  descriptor.values[attribute].assign(static_cast<const char*>(values),
                                      static_cast<size_t>(count) * size_of_type(type));
  return 0;
}
int cudnnBackendFinalize(void* handle) {
  Descriptor& descriptor = *held(handle);
  try {
    if (descriptor.finalized || !is_complete(descriptor)) return kBadParameter;
  } catch (const std::out_of_range&) {
    return kBadParameter;  // an attribute was not set
  }
  if (descriptor.kind == Cudnn::kPlan && algorithms()[descriptor.part(Cudnn::kPlanConfig).algorithm].is('x'))
    return kNotSupported;
  descriptor.finalized = true;
  return 0;
}
int cudnnBackendGetAttribute(void* handle, int attribute, int, int64_t wanted, int64_t* found, void* values) {
  const Descriptor& descriptor = *held(handle);
  if (!descriptor.finalized) return kBadParameter;
  const std::vector<Algorithm> all = algorithms();
  *found = 0;
  if (attribute == Cudnn::kHeuristicResults) {
    const bool fallback = descriptor.word(Cudnn::kHeuristicMode) == Cudnn::kModeFallback;
    for (size_t i = 0; i < all.size() && *found < wanted; ++i) {
      if (all[i].is('f') != fallback) continue;
      Descriptor& config = *held(static_cast<void**>(values)[*found]);
      config.parts[Cudnn::kHeuristicGraph] = descriptor.parts.at(Cudnn::kHeuristicGraph);
      config.algorithm = i;
      config.finalized = true;
      ++*found;
    }
    return 0;
  }
  if (attribute == Cudnn::kConfiguredEngine) {
    Descriptor& engine = *held(*static_cast<void**>(values));
    engine.algorithm = descriptor.algorithm;
    engine.finalized = true;
    *found = 1;
    return 0;
  }
  if (attribute == Cudnn::kNumericalNotes) {
    for (const auto& [letter, note] :
         {std::pair('t', Cudnn::kTensorCores), {'d', Cudnn::kConvertsInputs}, {'r', Cudnn::kReducedSums}}) {
      if (all[descriptor.algorithm].is(letter) && *found < wanted) static_cast<int*>(values)[(*found)++] = note;
    }
    return 0;
  }
  if (attribute == Cudnn::kPlanWorkspace) {
    const bool large = all[descriptor.part(Cudnn::kPlanConfig).algorithm].is('w');
    *static_cast<int64_t*>(values) = large ? int64_t{1} << 40 : kWorkspace;
    *found = 1;
    return 0;
  }
  return kBadParameter;
}
int cudnnBackendExecute(void*, void* plan_handle, void* arguments_handle) {
  const Descriptor& plan = *held(plan_handle);
  const Descriptor& arguments = *held(arguments_handle);
  if (!plan.finalized || !arguments.finalized || arguments.number(Cudnn::kArgumentWorkspace) == 0) return kBadParameter;
  const Descriptor& config = plan.part(Cudnn::kPlanConfig);
  const auto& operations = config.part(Cudnn::kHeuristicGraph).parts.at(Cudnn::kGraphOperations);
  const Descriptor& operation = *operations.front();
  const bool relu = operations.size() == 2;
  std::map<int64_t, char*> memory;
  for (size_t i = 0; i < arguments.values.at(Cudnn::kArgumentNames).size() / 8; ++i)
    memory[arguments.number(Cudnn::kArgumentNames, i)] =
        reinterpret_cast<char*>(arguments.number(Cudnn::kArgumentPointers, i));
  const int l = later(operation);
  const auto place = [&](int attribute) { return memory.at(operation.part(attribute + l).number(Cudnn::kTensorName)); };
  const Sizes sizes = sizes_of(operation);
  const DType type = element_type(operation.part(Cudnn::kForwardX + l));
  const double us = algorithms()[config.algorithm].us;
  return enqueue(current_stream, std::abs(us),
                 [=, kind = operation.kind, x = place(Cudnn::kForwardX), w = place(Cudnn::kForwardW),
                  y = relu ? memory.at(operations.back()->part(Cudnn::kPointwiseY).number(Cudnn::kTensorName))
                           : place(Cudnn::kForwardY)] { compute(sizes, kind, us < 0, relu, type, x, w, y); });
}

}  // extern "C"
