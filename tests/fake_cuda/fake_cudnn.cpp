// A cuDNN without a GPU, for tests: STRATA_CUDNN names this library. It has the backend interface for one convolution
// with or without relu, and for its gradients, and computes on the host, as work on the stream of fake_cuda.
// $STRATA_FAKE_CUDNN has one word an algorithm: microseconds that it takes and letters for what is special about it; "3
// 2t" are two, and there is one that takes 1 µs where it is not set. A negative number is an algorithm that stores
// zeros. Letters: t uses tensor cores, d converts its operands, r sums in 16 bits, x does not do these sizes, w needs
// too much memory, f is proposed as a fallback.
#include <algorithm>
#include <array>
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

/// Whether dimensions lie in this order, the last without gaps.
bool is_packed(const Descriptor& tensor, const std::array<size_t, 4>& order) {
  int64_t stride = 1;
  for (size_t place = 4; place-- > 0;) {
    const size_t d = order[place];
    if (tensor.number(Cudnn::kTensorSizes, d) < 1 || tensor.number(Cudnn::kTensorStrides, d) != stride) return false;
    stride *= tensor.number(Cudnn::kTensorSizes, d);
  }
  return true;
}

bool is_tensor(const Descriptor& tensor) {
  return (is_packed(tensor, {0, 1, 2, 3}) || is_packed(tensor, {0, 2, 3, 1})) &&
         tensor.number(Cudnn::kTensorAlignment) % 16 == 0 && tensor.number(Cudnn::kTensorName) > 0;
}

struct Sizes {
  int64_t n, c, h, w, o, i, j, rows, columns, stride, padding, dilation, group_channels;
  std::array<int64_t, 4> x, filters, y;  ///< strides
};

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
  const auto size = [](const Descriptor& of, size_t d) { return of.number(Cudnn::kTensorSizes, d); };
  const auto strides = [](const Descriptor& of) {
    std::array<int64_t, 4> found{};
    for (size_t d = 0; d < 4; ++d) found[d] = of.number(Cudnn::kTensorStrides, d);
    return found;
  };
  return {size(x, 0),
          size(x, 1),
          size(x, 2),
          size(x, 3),
          size(w, 0),
          size(w, 2),
          size(w, 3),
          size(y, 2),
          size(y, 3),
          convolution.number(Cudnn::kStrides),
          convolution.number(Cudnn::kPaddingBefore),
          convolution.number(Cudnn::kDilations),
          size(w, 1),
          strides(x),
          strides(w),
          strides(y)};
}

bool is_convolution(const Descriptor& d) {
  for (size_t at : {0, 1}) {
    if (d.number(Cudnn::kDilations, at) != d.number(Cudnn::kDilations) ||
        d.number(Cudnn::kStrides, at) != d.number(Cudnn::kStrides) ||
        d.number(Cudnn::kPaddingBefore, at) != d.number(Cudnn::kPaddingBehind, at))
      return false;
  }
  return d.number(Cudnn::kSpatialDimensions) == 2 && d.word(Cudnn::kComputeType) == Cudnn::kF32 &&
         d.word(Cudnn::kConvolutionMode) == Cudnn::kCrossCorrelation;
}

bool is_operation(const Descriptor& d) {
  const int l = later(d);
  for (const int attribute : {Cudnn::kForwardX, Cudnn::kForwardW, Cudnn::kForwardY, Cudnn::kForwardConvolution}) {
    if (!d.part(attribute + l).finalized) return false;
  }
  const Sizes s = sizes_of(d);
  const Descriptor& y = d.part(Cudnn::kForwardY + l);
  return d.factor(Cudnn::kForwardAlpha + l) == 1 && d.factor(Cudnn::kForwardBeta + l) == 0 && s.group_channels > 0 &&
         s.c % s.group_channels == 0 && s.o % (s.c / s.group_channels) == 0 && y.number(Cudnn::kTensorSizes) == s.n &&
         y.number(Cudnn::kTensorSizes, 1) == s.o &&
         s.rows == (s.h + 2 * s.padding - (s.i - 1) * s.dilation - 1) / s.stride + 1 &&
         s.columns == (s.w + 2 * s.padding - (s.j - 1) * s.dilation - 1) / s.stride + 1;
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

int64_t place(const std::array<int64_t, 4>& strides, int64_t a, int64_t b, int64_t c, int64_t d) {
  return a * strides[0] + b * strides[1] + c * strides[2] + d * strides[3];
}

/// Images or filters from the other one and the result.
void gradient(const Sizes& s, bool of_images, DType type, char* x, char* w, const char* y) {
  std::vector<double> sums(static_cast<size_t>(of_images ? s.n * s.c * s.h * s.w : s.o * s.group_channels * s.i * s.j));
  for (int64_t at = 0; at < s.n * s.o * s.rows * s.columns; ++at) {
    const int64_t column = at % s.columns, row = at / s.columns % s.rows, filter = at / (s.columns * s.rows) % s.o;
    const int64_t image = at / (s.columns * s.rows * s.o);
    const int64_t first = filter / (s.o / (s.c / s.group_channels)) * s.group_channels;
    const double value = load(y, type, place(s.y, image, filter, row, column));
    for (int64_t term = 0; term < s.group_channels * s.i * s.j; ++term) {
      const int64_t c = term / (s.i * s.j), i = term / s.j % s.i, j = term % s.j;
      const int64_t at_row = row * s.stride - s.padding + i * s.dilation;
      const int64_t at_column = column * s.stride - s.padding + j * s.dilation;
      if (at_row < 0 || at_row >= s.h || at_column < 0 || at_column >= s.w) continue;
      const int64_t in_x = place(s.x, image, first + c, at_row, at_column), in_w = place(s.filters, filter, c, i, j);
      sums[static_cast<size_t>(of_images ? in_x : in_w)] +=
          value * load(of_images ? w : x, type, of_images ? in_w : in_x);
    }
  }
  for (size_t i = 0; i < sums.size(); ++i) store(of_images ? x : w, type, static_cast<int64_t>(i), sums[i]);
}

void convolve(const Sizes& s, bool relu, DType type, const char* x, const char* w, char* y) {
  for (int64_t at = 0; at < s.n * s.o * s.rows * s.columns; ++at) {
    const int64_t column = at % s.columns, row = at / s.columns % s.rows, filter = at / (s.columns * s.rows) % s.o;
    const int64_t image = at / (s.columns * s.rows * s.o);
    double sum = 0;
    const int64_t first = filter / (s.o / (s.c / s.group_channels)) * s.group_channels;
    for (int64_t term = 0; term < s.group_channels * s.i * s.j; ++term) {
      const int64_t c = term / (s.i * s.j);
      const int64_t i = term / s.j % s.i, j = term % s.j;
      const int64_t from_row = row * s.stride - s.padding + i * s.dilation;
      const int64_t from_column = column * s.stride - s.padding + j * s.dilation;
      if (from_row < 0 || from_row >= s.h || from_column < 0 || from_column >= s.w) continue;
      sum += load(x, type, place(s.x, image, first + c, from_row, from_column)) *
             load(w, type, place(s.filters, filter, c, i, j));
    }
    store(y, type, place(s.y, image, filter, row, column), relu ? std::max(sum, 0.0) : sum);
  }
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
  Sizes sizes = sizes_of(operation);
  const DType type = element_type(operation.part(Cudnn::kForwardX + l));
  const double us = algorithms()[config.algorithm].us;
  if (us < 0) sizes.i = 0;
  if (l != 0) {
    const bool of_images = operation.kind == Cudnn::kImagesOperation;
    return enqueue(current_stream, std::abs(us),
                   [=, x = place(Cudnn::kForwardX), w = place(Cudnn::kForwardW), y = place(Cudnn::kForwardY)] {
                     gradient(sizes, of_images, type, x, w, y);
                   });
  }
  return enqueue(current_stream, std::abs(us),
                 [=, x = place(Cudnn::kForwardX), w = place(Cudnn::kForwardW),
                  y = relu ? memory.at(operations.back()->part(Cudnn::kPointwiseY).number(Cudnn::kTensorName))
                           : place(Cudnn::kForwardY)] { convolve(sizes, relu, type, x, w, y); });
}

}  // extern "C"
