#include "runtime/launch_manifest.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace strata {
namespace {

using Json = nlohmann::json;

Result<BufferRole> role_of(const std::string& name) {
  if (name == "input") return BufferRole::Input;
  if (name == "intermediate") return BufferRole::Intermediate;
  if (name == "counters") return BufferRole::Counters;
  if (name == "output") return BufferRole::Output;
  return invalid("'{}' is no role of a buffer", name);
}

Result<GpuTensorMap> tensor_map(const Json& json, const GpuLaunch& launch) {
  GpuTensorMap map;
  map.argument = json.at("argument").get<size_t>();
  map.element_bytes = json.at("element_bytes").get<int64_t>();
  map.sizes = json.at("sizes").get<std::vector<int64_t>>();
  map.strides = json.at("strides").get<std::vector<int64_t>>();
  map.box = json.at("box").get<std::vector<int64_t>>();
  map.swizzle = json.at("swizzle").get<int64_t>();
  constexpr size_t kMostDimensions = 5;
  const size_t rank = map.sizes.size();
  if (map.argument >= launch.arguments.size() || rank == 0 || rank > kMostDimensions || map.strides.size() != rank ||
      map.box.size() != rank) {
    return invalid("kernel '{}' has a tensor map that fits none of its arguments", launch.kernel);
  }
  return map;
}

Result<MatrixProduct::Operand> read_operand(const Json& json) {
  MatrixProduct::Operand operand;
  operand.transposed = json.at("transposed").get<bool>();
  operand.leading = json.at("leading").get<int64_t>();
  operand.batch_stride = json.at("batch_stride").get<int64_t>();
  if (operand.leading < 1 || operand.batch_stride < 0) return invalid("a product has an operand that lies nowhere");
  return operand;
}

Result<MatrixProduct> read_product(const Json& json) {
  MatrixProduct product;
  STRATA_TRY(product.type, parse_dtype(json.at("type").get<std::string>()));
  product.batch = json.at("batch").get<int64_t>();
  product.m = json.at("m").get<int64_t>();
  product.n = json.at("n").get<int64_t>();
  product.k = json.at("k").get<int64_t>();
  for (int64_t size : {product.batch, product.m, product.n, product.k}) {
    if (size < 1) return invalid("a product has a dimension of size {}", size);
  }
  STRATA_TRY(product.a, read_operand(json.at("a")));
  STRATA_TRY(product.b, read_operand(json.at("b")));
  product.bias = json.at("bias").get<bool>();
  STRATA_TRY(product.activation, parse_activation(json.at("activation").get<std::string>()));
  product.algorithm = json.at("algorithm").get<int64_t>();
  if (product.algorithm < 0) return invalid("a product has algorithm {}", product.algorithm);
  return product;
}

Result<LaunchManifest> read(const Json& json) {
  LaunchManifest manifest;
  for (const Json& one : json.value("buffers", Json::array())) {
    GpuBuffer buffer;
    buffer.name = one.at("name").get<std::string>();
    STRATA_TRY(buffer.role, role_of(one.at("role").get<std::string>()));
    STRATA_TRY(buffer.type.dtype, parse_dtype(one.at("type").get<std::string>()));
    buffer.type.shape = one.at("shape").get<Shape>();
    int64_t elements = 1;
    for (int64_t size : buffer.type.shape) {
      if (size < 1) return invalid("buffer '{}' has a dimension of size {}", buffer.name, size);
      STRATA_TRY(elements, checked_product(elements, size));
    }
    manifest.buffers.push_back(std::move(buffer));
  }
  for (const Json& one : json.value("kernels", Json::array())) {
    GpuLaunch launch;
    launch.kernel = one.at("name").get<std::string>();
    if (one.contains("library")) {
      const auto library = one.at("library").get<std::string>();
      if (library != kProductLibrary) return invalid("'{}' is no library that launches can name", library);
      STRATA_TRY(launch.product, read_product(one.at("product")));
    } else {
      launch.grid = one.at("grid").get<std::array<int64_t, 3>>();
      launch.threads = one.at("threads").get<int64_t>();
      launch.shared_bytes = one.at("shared_bytes").get<int64_t>();
      launch.cluster = one.at("cluster").get<int64_t>();
      launch.overlaps_previous = one.at("overlaps_previous").get<bool>();
      launch.resident = one.value("resident", false);
    }
    launch.arguments = one.at("arguments").get<std::vector<std::string>>();
    for (const std::string& name : launch.arguments) {
      const bool listed = std::any_of(manifest.buffers.begin(), manifest.buffers.end(),
                                      [&](const GpuBuffer& buffer) { return buffer.name == name; });
      if (!listed) return invalid("kernel '{}' has an argument '{}', which is no buffer", launch.kernel, name);
    }
    for (const Json& map : one.value("tensor_maps", Json::array())) {
      STRATA_TRY(GpuTensorMap made, tensor_map(map, launch));
      launch.tensor_maps.push_back(std::move(made));
    }
    if (launch.product && launch.arguments.size() != launch.product->arguments()) {
      return invalid("product '{}' has {} arguments in place of {}", launch.kernel, launch.arguments.size(),
                     launch.product->arguments());
    }
    manifest.launches.push_back(std::move(launch));
  }
  return manifest;
}

}  // namespace

bool LaunchManifest::uses_products() const {
  return std::any_of(launches.begin(), launches.end(), [](const GpuLaunch& launch) { return launch.product; });
}

bool LaunchManifest::uses_kernels() const {
  return std::any_of(launches.begin(), launches.end(), [](const GpuLaunch& launch) { return !launch.product; });
}

int64_t LaunchManifest::bytes(BufferRole role) const {
  int64_t sum = 0;
  for (const GpuBuffer& buffer : buffers) sum += buffer.role == role ? buffer.type.bytes() : 0;
  return sum;
}

Result<LaunchManifest> parse_launch_manifest(const std::string& text) {
  try {
    return read(Json::parse(text));
  } catch (const Json::exception& error) {
    return invalid("the launch manifest is unreadable: {}", error.what());
  }
}

}  // namespace strata
