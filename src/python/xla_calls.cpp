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

struct Published {
  std::shared_mutex mutex;
  std::map<int64_t, std::shared_ptr<ArrayFunction>> functions;
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

/// Addresses of buffers. Those that are not aligned as the function wants get others.
class Places {
 public:
  Places(const xla::Buffers& buffers, const std::vector<hlo::Shape>& shapes, const ArrayFunction& function)
      : buffers_(buffers) {
    for (int64_t n = 0; n < buffers.count; ++n) {
      const auto place = reinterpret_cast<uintptr_t>(buffers.buffers[n]->data);
      addresses_.push_back(place);
      const hlo::Shape& shape = shapes[static_cast<size_t>(n)];
      const auto bytes = static_cast<size_t>(shape.element_count() * hlo::byte_width(shape.type));
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

xla::Error* call_function(const xla::Call& call) {
  const int64_t* number = number_of(call.attributes, "function");
  if (number == nullptr) return failed(call, xla::kInvalidArgument, "strata: the call names no function");
  std::shared_ptr<ArrayFunction> function;
  {
    const std::shared_lock lock(published().mutex);
    if (const auto found = published().functions.find(*number); found != published().functions.end())
      function = found->second;
  }
  if (function == nullptr) {
    return failed(call, xla::kFailedPrecondition,
                  "strata: the function was compiled in another process\n  trace it by strata.jax.jit in this one");
  }
  std::string wrong = mismatch(call.arguments, function->inputs(), "argument");
  if (wrong.empty()) wrong = mismatch(call.results, function->results(), "result");
  if (!wrong.empty()) return failed(call, xla::kInvalidArgument, "strata: " + wrong);
  const Places inputs(call.arguments, function->inputs(), *function);
  const Places results(call.results, function->results(), *function);
  inputs.read();
  const auto done = function->call(inputs.addresses(), results.addresses(), nullptr);
  if (!done) return failed(call, xla::kInternal, "strata: " + done.error().to_string());
  results.write();
  return nullptr;
}

xla::Error* handle(xla::Call* call) {
  if (call->extension_start != nullptr && call->extension_start->type == xla::kMetadata) {
    // Of each minor version all is here in which it differs from others, so the function is for XLA's own.
    xla::Metadata& metadata = *reinterpret_cast<xla::MetadataExtension*>(call->extension_start)->metadata;
    metadata.version = {sizeof(xla::Version), nullptr, 0, call->api != nullptr ? call->api->version.minor_version : 1};
    metadata.traits = 0;
    return nullptr;
  }
  if (call->stage != xla::kExecute) return nullptr;
  // No exception may leave a function of C.
  try {
    return call_function(*call);
  } catch (const std::exception& why) {
    return failed(*call, xla::kInternal, std::string("strata: ") + why.what());
  }
}

}  // namespace

void publish_to_xla(int64_t number, std::shared_ptr<compiler::ArrayFunction> function) {
  const std::unique_lock lock(published().mutex);
  published().functions.emplace(number, std::move(function));
}

void* xla_handler() { return reinterpret_cast<void*>(&handle); }

}  // namespace strata::python
