#include "runtime/launch_manifest.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace strata {
namespace {

using Json = nlohmann::json;

using OrderedJson = nlohmann::ordered_json;

constexpr std::array<const char*, 4> kRoles{"input", "intermediate", "counters", "output"};

Result<BufferRole> role_of(const std::string& name) {
  for (size_t i = 0; i < kRoles.size(); ++i) {
    if (name == kRoles[i]) return static_cast<BufferRole>(i);
  }
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
  if (json.contains("type")) {
    STRATA_TRY(operand.bytes, parse_byte_type(json.at("type").get<std::string>()));
  }
  if (operand.leading < 1 || operand.batch_stride < 0) return invalid("a product has an operand that lies nowhere");
  return operand;
}

Result<MatrixProduct> read_product(const Json& json) {
  MatrixProduct product;
  STRATA_TRY(product.type, parse_dtype(json.at("type").get<std::string>()));
  if (json.contains("stored")) {
    STRATA_TRY(product.stored, parse_dtype(json.at("stored").get<std::string>()));
  }
  product.batch = json.at("batch").get<int64_t>();
  product.m = json.at("m").get<int64_t>();
  product.n = json.at("n").get<int64_t>();
  product.k = json.at("k").get<int64_t>();
  for (int64_t size : {product.batch, product.m, product.n, product.k}) {
    if (size < 1) return invalid("a product has a dimension of size {}", size);
  }
  STRATA_TRY(product.a, read_operand(json.at("a")));
  STRATA_TRY(product.b, read_operand(json.at("b")));
  if (product.a.bytes.has_value() != product.b.bytes.has_value() ||
      (product.a.bytes == ByteType::S8) != (product.b.bytes == ByteType::S8))
    return invalid("a product's operands have types that do not go together");
  product.scaled = json.value("scaled", false);
  if (product.scaled && (!product.a.bytes || product.of_integers()))
    return invalid("a product is scaled whose operands are not f8");
  product.bias = json.at("bias").get<bool>();
  product.accumulates = json.value("accumulates", false);
  STRATA_TRY(product.activation, parse_activation(json.at("activation").get<std::string>()));
  product.algorithm = json.at("algorithm").get<int64_t>();
  if (product.algorithm < 0) return invalid("a product has algorithm {}", product.algorithm);
  return product;
}

OrderedJson product_json(const MatrixProduct& p) {
  const auto operand = [](const MatrixProduct::Operand& o) {
    OrderedJson made = {{"transposed", o.transposed}, {"leading", o.leading}, {"batch_stride", o.batch_stride}};
    if (o.bytes) made["type"] = std::string(name_of(*o.bytes));
    return made;
  };
  OrderedJson json = {{"type", std::string(name_of(p.type))},
                      {"batch", p.batch},
                      {"m", p.m},
                      {"n", p.n},
                      {"k", p.k},
                      {"a", operand(p.a)},
                      {"b", operand(p.b)},
                      {"bias", p.bias},
                      {"activation", std::string(name_of(p.activation))},
                      {"algorithm", p.algorithm}};
  if (p.scaled) json["scaled"] = true;
  if (p.accumulates) json["accumulates"] = true;
  if (p.stored) json["stored"] = std::string(name_of(*p.stored));
  return json;
}

/// Sizes of a convolution by their names in the manifest.
constexpr std::array<std::pair<const char*, int64_t Convolution::*>, 8> kConvolutionSizes{
    {{"images", &Convolution::images},
     {"channels", &Convolution::channels},
     {"height", &Convolution::height},
     {"width", &Convolution::width},
     {"filters", &Convolution::filters},
     {"filter_height", &Convolution::filter_height},
     {"filter_width", &Convolution::filter_width},
     {"stride", &Convolution::stride}}};

Result<Convolution> read_convolution(const Json& json) {
  Convolution c;
  STRATA_TRY(c.type, parse_dtype(json.at("type").get<std::string>()));
  if (c.type == DType::F64) return invalid("a convolution is of f64");
  for (const auto& [name, member] : kConvolutionSizes) {
    c.*member = json.at(name).get<int64_t>();
    if (c.*member < 1) return invalid("a convolution has {}={}", name, c.*member);
  }
  c.padding = json.at("padding").get<int64_t>();
  c.dilation = json.value("dilation", int64_t{1});
  c.groups = json.value("groups", int64_t{1});
  c.channels_last = json.at("channels_last").get<bool>();
  c.relu = json.at("relu").get<bool>();
  c.algorithm = json.at("algorithm").get<int64_t>();
  STRATA_TRY(c.part, parse_convolution_part(json.value("part", std::string("result"))));
  if (c.relu && c.part != ConvolutionPart::Result) return invalid("a gradient of a convolution has relu");
  if (c.padding < 0) return invalid("a convolution has padding={}", c.padding);
  if (c.dilation < 1) return invalid("a convolution has dilation={}", c.dilation);
  if (c.groups < 1 || c.channels % c.groups != 0 || c.filters % c.groups != 0)
    return invalid("a convolution has {} groups of {} channels and {} filters", c.groups, c.channels, c.filters);
  if (c.result_height() < 1 || c.result_width() < 1) return invalid("a convolution has filters larger than its images");
  if (c.algorithm < 0) return invalid("a convolution has algorithm {}", c.algorithm);
  return c;
}

OrderedJson convolution_json(const Convolution& c) {
  OrderedJson json;
  json["type"] = std::string(name_of(c.type));
  for (const auto& [name, member] : kConvolutionSizes) json[name] = c.*member;
  json["padding"] = c.padding;
  if (c.dilation != 1) json["dilation"] = c.dilation;
  if (c.groups != 1) json["groups"] = c.groups;
  json["channels_last"] = c.channels_last;
  json["relu"] = c.relu;
  if (c.part != ConvolutionPart::Result) json["part"] = std::string(name_of(c.part));
  json["algorithm"] = c.algorithm;
  return json;
}

Result<Fft> read_fft(const Json& json) {
  Fft fft;
  STRATA_TRY(fft.kind, parse_fft_kind(json.at("kind").get<std::string>()));
  fft.wide = json.at("wide").get<bool>();
  fft.lengths = json.at("lengths").get<std::vector<int64_t>>();
  fft.batch = json.at("batch").get<int64_t>();
  fft.overwrites = json.at("overwrites").get<bool>();
  fft.algorithm = json.at("algorithm").get<int64_t>();
  const bool positive = std::all_of(fft.lengths.begin(), fft.lengths.end(), [](int64_t n) { return n > 0; });
  if (fft.lengths.empty() || fft.lengths.size() > 3 || !positive || fft.batch < 1)
    return invalid("a Fourier transform has sizes that there are not");
  return fft;
}

OrderedJson fft_json(const Fft& fft) {
  return {{"kind", std::string(name_of(fft.kind))},
          {"wide", fft.wide},
          {"lengths", fft.lengths},
          {"batch", fft.batch},
          {"overwrites", fft.overwrites},
          {"algorithm", fft.algorithm}};
}

Result<LibraryWork> read_work(const Json& launch) {
  const auto library = launch.at("library").get<std::string>();
  if (library == kProductLibrary) return read_product(launch.at("product"));
  if (library == kConvolutionLibrary) return read_convolution(launch.at("convolution"));
  if (library == kFftLibrary) return read_fft(launch.at("transform"));
  return invalid("'{}' is no library that launches can name", library);
}

std::string work_text(const LibraryWork& work) {
  if (const auto* product = std::get_if<MatrixProduct>(&work)) return product_json(*product).dump();
  if (const auto* fft = std::get_if<Fft>(&work)) return fft_json(*fft).dump();
  return convolution_json(std::get<Convolution>(work)).dump();
}

OrderedJson launch_json(const GpuLaunch& launch) {
  if (const MatrixProduct* product = launch.product(); product != nullptr) {
    return {{"name", launch.kernel},
            {"library", kProductLibrary},
            {"product", product_json(*product)},
            {"workspace_bytes", kProductWorkspace},
            {"arguments", launch.arguments}};
  }
  if (const Convolution* convolution = launch.convolution(); convolution != nullptr) {
    return {{"name", launch.kernel},
            {"library", kConvolutionLibrary},
            {"convolution", convolution_json(*convolution)},
            {"workspace_bytes", kConvolutionWorkspace},
            {"arguments", launch.arguments}};
  }
  if (const Fft* fft = launch.fft(); fft != nullptr) {
    return {{"name", launch.kernel},
            {"library", kFftLibrary},
            {"transform", fft_json(*fft)},
            {"arguments", launch.arguments}};
  }
  OrderedJson json = {{"name", launch.kernel},       {"grid", launch.grid},
                      {"threads", launch.threads},   {"shared_bytes", launch.shared_bytes},
                      {"cluster", launch.cluster},   {"overlaps_previous", launch.overlaps_previous},
                      {"resident", launch.resident}, {"arguments", launch.arguments}};
  for (const GpuTensorMap& map : launch.tensor_maps) {
    json["tensor_maps"].push_back({{"argument", map.argument},
                                   {"element_bytes", map.element_bytes},
                                   {"sizes", map.sizes},
                                   {"strides", map.strides},
                                   {"box", map.box},
                                   {"swizzle", map.swizzle}});
  }
  return json;
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
      STRATA_TRY(launch.library, read_work(one));
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
    if (launch.library && launch.arguments.size() != arguments_of(*launch.library)) {
      return invalid("launch '{}' has {} arguments in place of {}", launch.kernel, launch.arguments.size(),
                     arguments_of(*launch.library));
    }
    manifest.launches.push_back(std::move(launch));
  }
  return manifest;
}

}  // namespace

bool LaunchManifest::uses_kernels() const {
  return std::any_of(launches.begin(), launches.end(), [](const GpuLaunch& launch) { return !launch.library; });
}

int64_t LaunchManifest::bytes(BufferRole role) const {
  int64_t sum = 0;
  for (const GpuBuffer& buffer : buffers) sum += buffer.role == role ? buffer.type.bytes() : 0;
  return sum;
}

std::string identity_of(const LibraryWork& work) { return fmt::format("{} {}", library_of(work), work_text(work)); }

std::string print(const LaunchManifest& manifest) {
  OrderedJson json;
  for (const GpuBuffer& buffer : manifest.buffers) {
    json["buffers"].push_back({{"name", buffer.name},
                               {"role", kRoles[static_cast<size_t>(buffer.role)]},
                               {"type", std::string(name_of(buffer.type.dtype))},
                               {"shape", buffer.type.shape}});
  }
  json["kernels"] = OrderedJson::array();
  for (const GpuLaunch& launch : manifest.launches) json["kernels"].push_back(launch_json(launch));
  return json.dump(2) + "\n";
}

Result<LaunchManifest> parse_launch_manifest(const std::string& text) {
  try {
    return read(Json::parse(text));
  } catch (const Json::exception& error) {
    return invalid("the launch manifest is unreadable: {}", error.what());
  }
}

}  // namespace strata
