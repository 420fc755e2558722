#include "runtime/launch_manifest.h"

#include <algorithm>

namespace strata {

ArrayType::ArrayType(const TensorType& type)
    : element(name_of(type.dtype)), element_bytes(size_of(type.dtype)), shape(type.shape) {}

Result<TensorType> ArrayType::tensor() const {
  TensorType type;
  const Result<DType> known = parse_dtype(element);
  if (!known || size_of(*known) != element_bytes || !minor_to_major.empty())
    return unsupported("{} is no tensor of a µGraph", to_string(*this));
  type.dtype = *known;
  type.shape = shape;
  return type;
}

std::string to_string(const ArrayType& type) { return type.element + to_string(type.shape); }

std::string name_of(const GpuStep& step) {
  if (!step.part.empty()) return step.part;
  if (const GpuLaunch* launch = step.launch()) return launch->kernel;
  if (const auto* copy = std::get_if<GpuCopy>(&step.work)) return "copy to " + copy->to;
  if (const auto* fill = std::get_if<GpuFill>(&step.work)) return "fill " + fill->to;
  return step.loop() != nullptr ? "loop" : "host";
}

void for_each_step(const std::vector<GpuStep>& steps, const std::function<void(const GpuStep&)>& visit) {
  for (const GpuStep& step : steps) {
    visit(step);
    if (const GpuLoop* loop = step.loop()) {
      for_each_step(loop->condition, visit);
      for_each_step(loop->body, visit);
    }
  }
}

void for_each_step(std::vector<GpuStep>& steps, const std::function<void(GpuStep&)>& visit) {
  for (GpuStep& step : steps) {
    visit(step);
    if (GpuLoop* loop = step.loop()) {
      for_each_step(loop->condition, visit);
      for_each_step(loop->body, visit);
    }
  }
}

bool LaunchManifest::uses_kernels() const {
  bool found = false;
  for_each_step(steps, [&](const GpuStep& step) {
    const GpuLaunch* launch = step.launch();
    found = found || (launch != nullptr && !launch->library);
  });
  return found;
}

int64_t LaunchManifest::bytes(BufferRole role) const {
  int64_t sum = 0;
  for (const GpuBuffer& buffer : buffers) sum += buffer.role == role ? buffer.type.bytes() : 0;
  return sum;
}

const GpuBuffer* LaunchManifest::find(const std::string& buffer) const {
  const auto found =
      std::find_if(buffers.begin(), buffers.end(), [&](const GpuBuffer& one) { return one.name == buffer; });
  return found == buffers.end() ? nullptr : &*found;
}

}  // namespace strata
