#include "runtime/library_work_json.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <utility>

namespace strata {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

Result<MatrixProduct::Operand> read_operand(const Json& json) {
  MatrixProduct::Operand operand;
  operand.transposed = json.at("transposed").get<bool>();
  operand.leading = json.at("leading").get<int64_t>();
  operand.batch_stride = json.at("batch_stride").get<int64_t>();
  if (json.contains("type")) {
    STRATA_TRY(operand.bytes, parse_byte_type(json.at("type").get<std::string>()));
  }
  operand.offset = json.value("offset", int64_t{0});
  if (operand.leading < 1 || operand.batch_stride < 0 || operand.offset < 0)
    return invalid("a product has an operand that lies nowhere");
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
    return invalid("a scaled product has operands that are not f8");
  product.bias = json.at("bias").get<bool>();
  product.accumulates = json.value("accumulates", false);
  product.tf32 = json.value("tf32", false);
  if (product.tf32 && (product.type != DType::F32 || product.a.bytes))
    return invalid("a product in TF32 has operands that are not f32");
  STRATA_TRY(product.activation, parse_activation(json.at("activation").get<std::string>()));
  product.algorithm = json.at("algorithm").get<int64_t>();
  if (product.algorithm < 0) return invalid("a product has algorithm {}", product.algorithm);
  return product;
}

OrderedJson product_json(const MatrixProduct& p) {
  const auto operand = [](const MatrixProduct::Operand& o) {
    OrderedJson made = {{"transposed", o.transposed}, {"leading", o.leading}, {"batch_stride", o.batch_stride}};
    if (o.bytes) made["type"] = std::string(name_of(*o.bytes));
    if (o.offset != 0) made["offset"] = o.offset;
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
  if (p.tf32) json["tf32"] = true;
  if (p.stored) json["stored"] = std::string(name_of(*p.stored));
  return json;
}

/// Numbers of a convolution's dimension by their names in the manifest, and the least of each.
struct DimensionNumber {
  const char* name;
  int64_t ConvolutionDimension::*member;
  int64_t least;
};
constexpr std::array<DimensionNumber, 5> kDimensionNumbers{{{"size", &ConvolutionDimension::size, 1},
                                                            {"filter", &ConvolutionDimension::filter, 1},
                                                            {"stride", &ConvolutionDimension::stride, 1},
                                                            {"padding", &ConvolutionDimension::padding, 0},
                                                            {"dilation", &ConvolutionDimension::dilation, 1}}};

/// Whether the manifest has the convolution's height, width and one stride, padding and dilation for both.
bool is_plain(const Convolution& c) {
  const ConvolutionDimension& first = c.spatial.front();
  return c.spatial.size() == 2 && c.spatial[1].stride == first.stride && c.spatial[1].padding == first.padding &&
         c.spatial[1].dilation == first.dilation;
}

/// From numbers of these names; a missing dilation is 1.
Result<void> read_dimension(const Json& json, const std::array<std::string, 5>& names, ConvolutionDimension& made) {
  for (size_t i = 0; i < names.size(); ++i) {
    const auto& [name, member, least] = kDimensionNumbers[i];
    if (member != &ConvolutionDimension::dilation || json.contains(names[i]))
      made.*member = json.at(names[i]).get<int64_t>();
    if (made.*member < least) return invalid("a convolution has {}={}", names[i], made.*member);
  }
  return {};
}

Result<void> read_dimensions(const Json& json, Convolution& made) {
  if (!json.contains("spatial")) {
    STRATA_CHECK(
        read_dimension(json, {"height", "filter_height", "stride", "padding", "dilation"}, made.spatial.front()));
    return read_dimension(json, {"width", "filter_width", "stride", "padding", "dilation"}, made.spatial.back());
  }
  made.spatial.clear();
  for (const Json& each : json.at("spatial"))
    STRATA_CHECK(
        read_dimension(each, {"size", "filter", "stride", "padding", "dilation"}, made.spatial.emplace_back()));
  if (made.spatial.size() < 2 || made.spatial.size() > 3)
    return invalid("a convolution has {} spatial dimensions", made.spatial.size());
  return {};
}

Result<Convolution> read_convolution(const Json& json) {
  Convolution c;
  STRATA_TRY(c.type, parse_dtype(json.at("type").get<std::string>()));
  if (c.type == DType::F64) return invalid("a convolution is of f64");
  for (const auto& [name, member] : {std::pair("images", &Convolution::images),
                                     {"channels", &Convolution::channels},
                                     {"filters", &Convolution::filters}}) {
    c.*member = json.at(name).get<int64_t>();
    if (c.*member < 1) return invalid("a convolution has {}={}", name, c.*member);
  }
  STRATA_CHECK(read_dimensions(json, c));
  c.groups = json.value("groups", int64_t{1});
  c.channels_last = json.at("channels_last").get<bool>();
  c.tf32 = json.value("tf32", false);
  if (c.tf32 && c.type != DType::F32) return invalid("a convolution in TF32 has operands that are not f32");
  c.relu = json.at("relu").get<bool>();
  c.algorithm = json.at("algorithm").get<int64_t>();
  STRATA_TRY(c.part, parse_convolution_part(json.value("part", std::string("result"))));
  if (c.relu && c.part != ConvolutionPart::Result) return invalid("a gradient of a convolution has relu");
  if (c.groups < 1 || c.channels % c.groups != 0 || c.filters % c.groups != 0)
    return invalid("a convolution has {} groups of {} channels and {} filters", c.groups, c.channels, c.filters);
  for (const ConvolutionDimension& each : c.spatial) {
    if (each.result() < 1) return invalid("a convolution has filters larger than its images");
  }
  if (c.algorithm < 0) return invalid("a convolution has algorithm {}", c.algorithm);
  return c;
}

OrderedJson convolution_json(const Convolution& c) {
  OrderedJson json;
  json["type"] = std::string(name_of(c.type));
  json["images"] = c.images;
  json["channels"] = c.channels;
  const ConvolutionDimension& height = c.spatial[0];
  const ConvolutionDimension& width = c.spatial[1];
  if (is_plain(c)) {
    json["height"] = height.size;
    json["width"] = width.size;
  }
  json["filters"] = c.filters;
  if (is_plain(c)) {
    json["filter_height"] = height.filter;
    json["filter_width"] = width.filter;
    json["stride"] = height.stride;
    json["padding"] = height.padding;
    if (height.dilation != 1) json["dilation"] = height.dilation;
  } else {
    for (const ConvolutionDimension& each : c.spatial) {
      OrderedJson& made = json["spatial"].emplace_back(OrderedJson::object());
      for (const DimensionNumber& number : kDimensionNumbers) made[number.name] = each.*number.member;
    }
  }
  if (c.groups != 1) json["groups"] = c.groups;
  json["channels_last"] = c.channels_last;
  if (c.tf32) json["tf32"] = true;
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
    return invalid("a Fourier transform has impossible sizes");
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

/// Sizes of at least 1, by their names.
template <class Work>
Result<void> read_sizes(const Json& json, std::initializer_list<std::pair<const char*, int64_t Work::*>> sizes,
                        Work& made) {
  for (const auto& [name, member] : sizes) {
    made.*member = json.at(name).template get<int64_t>();
    if (made.*member < 1) return invalid("work on matrices has {}={}", name, made.*member);
  }
  return {};
}

Result<MatrixFactor> read_factor(const Json& json) {
  MatrixFactor made;
  STRATA_TRY(made.kind, parse_factor_kind(json.at("kind").get<std::string>()));
  STRATA_TRY(made.element, parse_matrix_element(json.at("type").get<std::string>()));
  STRATA_CHECK(read_sizes(
      json, {{"rows", &MatrixFactor::rows}, {"columns", &MatrixFactor::columns}, {"batch", &MatrixFactor::batch}},
      made));
  made.upper = json.value("upper", false);
  made.together = json.at("together").get<bool>();
  made.algorithm = json.at("algorithm").get<int64_t>();
  made.reflectors = json.value("reflectors", int64_t{0});
  const bool orthogonal = made.kind == FactorKind::Orthogonal;
  const int64_t least = orthogonal ? 1 : 0, most = orthogonal ? std::min(made.rows, made.columns) : 0;
  if (made.reflectors < least || made.reflectors > most || (orthogonal && made.together))
    return invalid("a factor of matrices of {}×{} has {} reflectors", made.rows, made.columns, made.reflectors);
  const bool square = made.rows == made.columns || made.kind == FactorKind::Qr;
  if (!square && (made.together || made.kind == FactorKind::Cholesky))
    return invalid("a factor of matrices of {}×{} needs square ones", made.rows, made.columns);
  return made;
}

OrderedJson factor_json(const MatrixFactor& factor) {
  OrderedJson json = {{"kind", std::string(name_of(factor.kind))},
                      {"type", std::string(name_of(factor.element))},
                      {"rows", factor.rows},
                      {"columns", factor.columns},
                      {"batch", factor.batch}};
  if (factor.reflectors > 0) json["reflectors"] = factor.reflectors;
  if (factor.upper) json["upper"] = true;
  json["together"] = factor.together;
  json["algorithm"] = factor.algorithm;
  return json;
}

Result<MatrixSolve> read_solve(const Json& json) {
  MatrixSolve made;
  STRATA_TRY(made.element, parse_matrix_element(json.at("type").get<std::string>()));
  STRATA_CHECK(read_sizes(
      json, {{"order", &MatrixSolve::order}, {"sides", &MatrixSolve::sides}, {"batch", &MatrixSolve::batch}}, made));
  made.right = json.at("right").get<bool>();
  made.upper = json.at("upper").get<bool>();
  made.unit = json.at("unit").get<bool>();
  STRATA_TRY(made.operation, parse_solve_operation(json.at("operation").get<std::string>()));
  made.together = json.at("together").get<bool>();
  made.algorithm = json.at("algorithm").get<int64_t>();
  return made;
}

OrderedJson solve_json(const MatrixSolve& solve) {
  return {{"type", std::string(name_of(solve.element))},
          {"order", solve.order},
          {"sides", solve.sides},
          {"batch", solve.batch},
          {"right", solve.right},
          {"upper", solve.upper},
          {"unit", solve.unit},
          {"operation", std::string(name_of(solve.operation))},
          {"together", solve.together},
          {"algorithm", solve.algorithm}};
}

Result<MatrixSpectrum> read_spectrum(const Json& json) {
  MatrixSpectrum made;
  STRATA_TRY(made.kind, parse_spectrum_kind(json.at("kind").get<std::string>()));
  STRATA_TRY(made.element, parse_matrix_element(json.at("type").get<std::string>()));
  STRATA_CHECK(read_sizes(
      json, {{"rows", &MatrixSpectrum::rows}, {"columns", &MatrixSpectrum::columns}, {"batch", &MatrixSpectrum::batch}},
      made));
  STRATA_TRY(made.vectors, parse_spectrum_vectors(json.at("vectors").get<std::string>()));
  made.upper = json.value("upper", false);
  made.algorithm = json.at("algorithm").get<int64_t>();
  if (made.rows < made.columns || (made.kind == SpectrumKind::Eigen && made.rows != made.columns))
    return invalid("a spectrum of matrices of {}×{} has other rows", made.rows, made.columns);
  return made;
}

OrderedJson spectrum_json(const MatrixSpectrum& spectrum) {
  OrderedJson json = {{"kind", std::string(name_of(spectrum.kind))},
                      {"type", std::string(name_of(spectrum.element))},
                      {"rows", spectrum.rows},
                      {"columns", spectrum.columns},
                      {"batch", spectrum.batch},
                      {"vectors", std::string(name_of(spectrum.vectors))}};
  if (spectrum.upper) json["upper"] = true;
  json["algorithm"] = spectrum.algorithm;
  return json;
}

OrderedJson json_of(const MatrixProduct& product) { return product_json(product); }
OrderedJson json_of(const Convolution& convolution) { return convolution_json(convolution); }
OrderedJson json_of(const Fft& fft) { return fft_json(fft); }
OrderedJson json_of(const MatrixFactor& factor) { return factor_json(factor); }
OrderedJson json_of(const MatrixSolve& solve) { return solve_json(solve); }
OrderedJson json_of(const MatrixSpectrum& spectrum) { return spectrum_json(spectrum); }

/// What a launch says of a library's work: the library, the name of the work, and how much memory it may take where
/// that is known beforehand.
struct Named {
  std::string_view library;
  const char* work;
  int64_t workspace_bytes = 0;
};
/// In the order of LibraryWork's types.
constexpr std::array<Named, std::variant_size_v<LibraryWork>> kNames{
    {{kProductLibrary, "product", kProductWorkspace},
     {kConvolutionLibrary, "convolution", kConvolutionWorkspace},
     {kFftLibrary, "transform"},
     {kFactorLibrary, "factor"},
     {kSolveLibrary, "solve"},
     {kFactorLibrary, "spectrum"}}};

}  // namespace

Result<LibraryWork> read_work(const Json& launch) {
  const auto library = launch.at("library").get<std::string>();
  if (library == kProductLibrary) return read_product(launch.at("product"));
  if (library == kConvolutionLibrary) return read_convolution(launch.at("convolution"));
  if (library == kFftLibrary) return read_fft(launch.at("transform"));
  if (library == kFactorLibrary && launch.contains("spectrum")) return read_spectrum(launch.at("spectrum"));
  if (library == kFactorLibrary) return read_factor(launch.at("factor"));
  if (library == kSolveLibrary) return read_solve(launch.at("solve"));
  return invalid("'{}' is no library that launches can name", library);
}

OrderedJson work_json(const LibraryWork& work) {
  return std::visit([](const auto& one) { return json_of(one); }, work);
}

OrderedJson library_launch_json(const GpuLaunch& launch) {
  const Named& named = kNames[launch.library->index()];
  OrderedJson json = {
      {"name", launch.kernel}, {"library", std::string(named.library)}, {named.work, work_json(*launch.library)}};
  if (named.workspace_bytes > 0) json["workspace_bytes"] = named.workspace_bytes;
  json["arguments"] = launch.arguments;
  return json;
}

}  // namespace strata
