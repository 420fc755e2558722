#include "python/xla_calls.h"

#include <fmt/format.h>

#include <cstring>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string_view>
#include <vector>

#include "python/xla_interface.h"

namespace strata::python {
namespace {

using compiler::ArrayFunction;

struct Function {
  std::shared_ptr<ArrayFunction> function;
  std::string name;
};

struct Published {
  std::shared_mutex mutex;
  std::map<int64_t, Function> functions;
};

/// Never destroyed: XLA's threads may call to the end of the process.
Published& published() {
  static auto* const all = new Published;
  return *all;
}

xla::Error* failed(const xla::Call& call, xla::ErrorCode code, const std::string& text) {
  xla::ErrorArguments arguments{sizeof(xla::ErrorArguments), nullptr, text.c_str(), code};
  return call.api->make_error(&arguments);
}

/// The scalar of that name; null where there is none.
const int64_t* number_of(const xla::Attributes& attributes, std::string_view name) {
  for (int64_t n = 0; n < attributes.count; ++n) {
    if (std::string_view(attributes.names[n]->data, attributes.names[n]->size) != name) continue;
    const auto* scalar = static_cast<const xla::Scalar*>(attributes.values[n]);
    const bool is_number = attributes.types[n] == xla::kScalar && scalar->type == xla::kS64;
    return is_number ? static_cast<const int64_t*>(scalar->value) : nullptr;
  }
  return nullptr;
}

size_t bytes_of(const hlo::Shape& shape) {
  return static_cast<size_t>(shape.element_count() * hlo::byte_width(shape.type));
}

/// Addresses of buffers. Those that are not aligned as the function wants get others.
class Places {
 public:
  Places(const xla::Buffers& buffers, const std::vector<hlo::Shape>& shapes, const ArrayFunction& function)
      : buffers_(buffers) {
    for (int64_t n = 0; n < buffers.count; ++n) {
      const auto place = reinterpret_cast<uintptr_t>(buffers.buffers[n]->data);
      addresses_.push_back(place);
      const size_t bytes = bytes_of(shapes[static_cast<size_t>(n)]);
      if (place % function.alignment() == 0 || bytes == 0) continue;
      Copy& copy = copies_.emplace_back(Copy{n, bytes, std::make_unique<Unit[]>(bytes / sizeof(Unit) + 1)});
      addresses_.back() = reinterpret_cast<uintptr_t>(copy.data.get());
    }
  }
  const std::vector<uintptr_t>& addresses() const { return addresses_; }
  void read() const {
    for (const Copy& copy : copies_) std::memcpy(copy.data.get(), buffers_.buffers[copy.index]->data, copy.bytes);
  }
  void write() const {
    for (const Copy& copy : copies_) std::memcpy(buffers_.buffers[copy.index]->data, copy.data.get(), copy.bytes);
  }

 private:
  struct alignas(64) Unit {
    std::byte bytes[64];
  };
  struct Copy {
    int64_t index;
    size_t bytes;
    std::unique_ptr<Unit[]> data;
  };
  const xla::Buffers& buffers_;
  std::vector<uintptr_t> addresses_;
  std::vector<Copy> copies_;
};

/// The same in the GPU's memory. What is copied gets memory of XLA's, which is given back when the copies are on the
/// stream: whoever gets it next uses it on the stream after them.
class GpuPlaces {
 public:
  GpuPlaces(const xla::Call& call, const ArrayFunction& function, CudaStream stream)
      : call_(call), function_(function), stream_(stream) {}
  ~GpuPlaces() {
    for (const Copy& copy : copies_) {
      xla::FreeArguments arguments{sizeof(xla::FreeArguments), nullptr, call_.context, copy.lent_bytes, copy.lent};
      call_.api->free(&arguments);  // of memory that it has lent it makes no error
    }
  }
  GpuPlaces(const GpuPlaces&) = delete;
  GpuPlaces& operator=(const GpuPlaces&) = delete;

  const std::vector<uintptr_t>& addresses() const { return addresses_; }

  /// Finds the places; XLA's error where it has no memory.
  xla::Error* find(const xla::Buffers& buffers, const std::vector<hlo::Shape>& shapes) {
    for (int64_t n = 0; n < buffers.count; ++n) {
      const auto place = reinterpret_cast<uintptr_t>(buffers.buffers[n]->data);
      const size_t bytes = bytes_of(shapes[static_cast<size_t>(n)]);
      addresses_.push_back(bytes == 0 ? 0 : place);  // arrays without elements begin anywhere
      if (bytes == 0 || place % function_.alignment() == 0) continue;
      const size_t more = bytes + function_.alignment() - kLentAlignment;
      xla::AllocateArguments arguments{
          sizeof(xla::AllocateArguments), nullptr, call_.context, more, kLentAlignment, nullptr};
      if (xla::Error* const error = call_.api->allocate(&arguments)) return error;
      const auto lent = reinterpret_cast<uintptr_t>(arguments.data);
      addresses_.back() = (lent + function_.alignment() - 1) / function_.alignment() * function_.alignment();
      copies_.push_back({place, bytes, addresses_.back(), arguments.data, more});
    }
    return nullptr;
  }
  Result<void> read() const {
    for (const Copy& copy : copies_) STRATA_CHECK(put(copy.aligned, copy.place, copy.bytes));
    return {};
  }
  Result<void> write() const {
    for (const Copy& copy : copies_) STRATA_CHECK(put(copy.place, copy.aligned, copy.bytes));
    return {};
  }

 private:
  static constexpr size_t kLentAlignment = 16;  ///< the most that XLA lends memory with

  struct Copy {
    uintptr_t place;
    size_t bytes;
    uintptr_t aligned;
    void* lent;
    size_t lent_bytes;
  };
  Result<void> put(uintptr_t to, uintptr_t from, size_t bytes) const {
    return function_.on_device()->copy(to, from, bytes, stream_);
  }

  const xla::Call& call_;
  const ArrayFunction& function_;
  CudaStream stream_;
  std::vector<uintptr_t> addresses_;
  std::vector<Copy> copies_;
};

/// Why these are not the arrays of the function; empty where they are.
std::string mismatch(const xla::Buffers& buffers, const std::vector<hlo::Shape>& shapes, const char* what) {
  if (buffers.count != static_cast<int64_t>(shapes.size()))
    return fmt::format("{} {}s, and the function has {}", buffers.count, what, shapes.size());
  for (int64_t n = 0; n < buffers.count; ++n) {
    const xla::Buffer& buffer = *buffers.buffers[n];
    const std::vector<int64_t> sizes(buffer.sizes, buffer.sizes + buffer.rank);
    const hlo::Shape& shape = shapes[static_cast<size_t>(n)];
    if (sizes != std::vector<int64_t>(shape.dims.begin(), shape.dims.end()) || !shape.has_default_layout())
      return fmt::format("{} {} is not {}", what, n, hlo::to_string(shape));
  }
  return "";
}

xla::Error* call_on_cpu(const xla::Call& call, ArrayFunction& function, const std::string& what) {
  const Places inputs(call.arguments, function.inputs(), function);
  const Places results(call.results, function.results(), function);
  inputs.read();
  const auto done = function.call(inputs.addresses(), results.addresses(), nullptr);
  if (!done) return failed(call, xla::kInternal, what + done.error().to_string());
  results.write();
  return nullptr;
}

xla::Error* call_on_gpu(const xla::Call& call, ArrayFunction& function, const std::string& what) {
  xla::StreamArguments of_stream{sizeof(xla::StreamArguments), nullptr, call.context, nullptr};
  if (xla::Error* const error = call.api->stream(&of_stream)) return error;
  const auto stream = static_cast<CudaStream>(of_stream.stream);
  if (const auto right = function.on_device()->check_stream(stream); !right)
    return failed(call, xla::kFailedPrecondition, what + right.error().to_string());
  GpuPlaces inputs(call, function, stream);
  GpuPlaces results(call, function, stream);
  if (xla::Error* const error = inputs.find(call.arguments, function.inputs())) return error;
  if (xla::Error* const error = results.find(call.results, function.results())) return error;
  const auto done = [&]() -> Result<void> {
    STRATA_CHECK(inputs.read());
    STRATA_CHECK(function.call(inputs.addresses(), results.addresses(), stream));
    return results.write();
  }();
  return done ? nullptr : failed(call, xla::kInternal, what + done.error().to_string());
}

xla::Error* call_function(const xla::Call& call, bool on_gpu) {
  const int64_t* number = number_of(call.attributes, "function");
  if (number == nullptr) return failed(call, xla::kInvalidArgument, "strata: the call names no function");
  Function found;
  {
    const std::shared_lock lock(published().mutex);
    if (const auto at = published().functions.find(*number); at != published().functions.end()) found = at->second;
  }
  if (found.function == nullptr) {
    return failed(call, xla::kFailedPrecondition,
                  "strata: the function was compiled in another process\n  trace it by strata.jax.jit in this one");
  }
  ArrayFunction& function = *found.function;
  const std::string what = found.name.empty() ? "strata: " : fmt::format("strata: {}: ", found.name);
  std::string wrong = mismatch(call.arguments, function.inputs(), "argument");
  if (wrong.empty()) wrong = mismatch(call.results, function.results(), "result");
  if (wrong.empty() && function.on_gpu() != on_gpu)
    wrong = on_gpu ? "the function is compiled for the processor" : "the function is compiled for the GPU";
  if (!wrong.empty()) return failed(call, xla::kInvalidArgument, what + wrong);
  return on_gpu ? call_on_gpu(call, function, what) : call_on_cpu(call, function, what);
}

template <bool kOnGpu>
xla::Error* handle(xla::Call* call) {
  if (call->extension_start != nullptr && call->extension_start->type == xla::kMetadata) {
    // Of each minor version all is here in which it differs from others, so the function is for XLA's own.
    xla::Metadata& metadata = *reinterpret_cast<xla::MetadataExtension*>(call->extension_start)->metadata;
    metadata.version = {sizeof(xla::Version), nullptr, 0, call->api != nullptr ? call->api->version.minor_version : 1};
    // XLA may not record a call to one of its CUDA graphs. Calls of a function share its memory, so they are put in
    // order by events, and in a graph, whose branches XLA runs side by side, nothing would do that; steps of the host
    // cannot be recorded at all; and copies take memory during the call. Calls that come back are a graph of the
    // function's own (LaunchGraphs).
    metadata.traits = 0;
    return nullptr;
  }
  if (call->stage != xla::kExecute) return nullptr;
  // No exception may leave a function of C.
  try {
    return call_function(*call, kOnGpu);
  } catch (const std::exception& why) {
    return failed(*call, xla::kInternal, std::string("strata: ") + why.what());
  }
}

}  // namespace

void publish_to_xla(int64_t number, std::shared_ptr<compiler::ArrayFunction> function, std::string name) {
  const std::unique_lock lock(published().mutex);
  published().functions.emplace(number, Function{std::move(function), std::move(name)});
}

void* xla_handler() { return reinterpret_cast<void*>(&handle<false>); }
void* xla_gpu_handler() { return reinterpret_cast<void*>(&handle<true>); }

}  // namespace strata::python
