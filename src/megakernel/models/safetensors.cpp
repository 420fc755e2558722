#include "megakernel/models/safetensors.h"

#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>

#include "support/json_text.h"
#include "support/write_file.h"

static_assert(std::endian::native == std::endian::little, "tensors are used as they lie in the file");

namespace strata::megakernel {
namespace {

using Json = nlohmann::json;

constexpr size_t kLengthBytes = 8;
/// What the format's own library allows.
constexpr uint64_t kMostHeader = 100'000'000;
/// Object, tensor, list: what a header has.
constexpr int kMostNested = 3;
constexpr const char* kMetadata = "__metadata__";
constexpr const char* kDamaged = "the file is damaged or no safetensors file; get it again";

struct Format {
  std::string_view name;
  int64_t bytes;
};
constexpr std::array<Format, 16> kFormats{{{"BOOL", 1},
                                           {"U8", 1},
                                           {"I8", 1},
                                           {"F8_E5M2", 1},
                                           {"F8_E4M3", 1},
                                           {"F8_E8M0", 1},
                                           {"I16", 2},
                                           {"U16", 2},
                                           {"F16", 2},
                                           {"BF16", 2},
                                           {"I32", 4},
                                           {"U32", 4},
                                           {"F32", 4},
                                           {"F64", 8},
                                           {"I64", 8},
                                           {"U64", 8}}};

tl::unexpected<Error> damaged(tl::unexpected<Error> error) { return with_remedy(std::move(error), kDamaged); }

/// Bytes of a tensor. Error where the dtype is unknown or the number does not fit 63 bits.
Result<int64_t> tensor_bytes(const SafeTensor& tensor) {
  const auto format =
      std::find_if(kFormats.begin(), kFormats.end(), [&](const Format& f) { return f.name == tensor.dtype; });
  if (format == kFormats.end()) {
    std::vector<std::string_view> names;
    for (const Format& known : kFormats) names.push_back(known.name);
    return with_remedy(unsupported("tensor '{}' has the dtype '{}'", tensor.name, tensor.dtype),
                       fmt::format("supported: {}", fmt::join(names, ", ")));
  }
  int64_t bytes = format->bytes;
  for (const int64_t size : tensor.shape) {
    if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes))
      return damaged(
          invalid("tensor '{}' has the shape [{}], which no file holds", tensor.name, fmt::join(tensor.shape, ", ")));
  }
  return bytes;
}

Result<Json> parse_header(std::string_view text) {
  auto json = parse_json<Json>(text, kMostNested);
  if (!json) return damaged(invalid("the header:{}", json.error().message));
  if (!json->is_object() || !text.starts_with('{')) return damaged(invalid("the header is no JSON object"));
  return *std::move(json);
}

/// The entry of a list of integers that are not negative; nothing where the value is no such list.
std::optional<std::vector<int64_t>> integers(const Json& json) {
  if (!json.is_array()) return std::nullopt;
  std::vector<int64_t> values;
  for (const Json& value : json) {
    if (!value.is_number_unsigned() || value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
    values.push_back(value.get<int64_t>());
  }
  return values;
}

}  // namespace

Result<SafetensorsFile> SafetensorsFile::open(const std::string& path) {
  STRATA_TRY(MappedFile mapped, MappedFile::open(path));
  SafetensorsFile file(path, std::move(mapped));
  if (auto read = file.read_header(); !read) return tl::unexpected(read.error().within(path));
  return file;
}

Result<void> SafetensorsFile::read_header() {
  const std::span<const std::byte> bytes = file_.bytes();
  if (bytes.size() < kLengthBytes) return damaged(invalid("{} bytes are too few for a header", bytes.size()));
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  if (length > kMostHeader || length > bytes.size() - kLengthBytes)
    return damaged(invalid("the header has {} bytes, the file {}", length, bytes.size()));
  const auto data = bytes.subspan(kLengthBytes + length);
  STRATA_TRY(const Json json,
             parse_header({reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, static_cast<size_t>(length)}));

  std::map<std::pair<int64_t, int64_t>, std::string> places;  // by offsets; empty tensors may share one
  for (const auto& [name, entry] : json.items()) {
    if (name == kMetadata) {
      if (!entry.is_object()) return damaged(invalid("'{}' is no object", kMetadata));
      for (const auto& [key, value] : entry.items()) {
        if (!value.is_string()) return damaged(invalid("'{}' of '{}' is no text", key, kMetadata));
        metadata_[key] = value.get<std::string>();
      }
      continue;
    }
    for (const char* key : {"dtype", "shape", "data_offsets"}) {
      if (!entry.is_object() || !entry.contains(key)) return damaged(invalid("tensor '{}' has no '{}'", name, key));
    }
    if (entry.size() != 3) return damaged(invalid("tensor '{}' has keys that the format does not know", name));
    const auto shape = integers(entry["shape"]);
    const auto offsets = integers(entry["data_offsets"]);
    if (!entry["dtype"].is_string()) return damaged(invalid("the dtype of tensor '{}' is no text", name));
    if (!shape) return damaged(invalid("the shape of tensor '{}' is no list of sizes", name));
    if (!offsets || offsets->size() != 2) return damaged(invalid("tensor '{}' has no two data_offsets", name));
    SafeTensor tensor{name, entry["dtype"].get<std::string>(), *shape, {}};
    const int64_t begin = offsets->front();
    const int64_t end = offsets->back();
    if (begin > end || end > static_cast<int64_t>(data.size()))
      return damaged(invalid("tensor '{}' lies at [{}, {}) of {} bytes", name, begin, end, data.size()));
    STRATA_TRY(const int64_t expected, tensor_bytes(tensor));
    if (end - begin != expected) {
      return damaged(invalid("tensor '{}' has {} bytes; {}[{}] has {}", name, end - begin, tensor.dtype,
                             fmt::join(*shape, ", "), expected));
    }
    tensor.bytes = data.subspan(static_cast<size_t>(begin), static_cast<size_t>(expected));
    const auto [other, free] = places.emplace(std::pair(begin, end), name);
    if (!free && begin != end) return damaged(invalid("tensors '{}' and '{}' overlap", other->second, name));
    tensors_.emplace(name, std::move(tensor));
  }
  int64_t last = 0;
  const std::string* before = nullptr;
  for (const auto& [place, name] : places) {
    if (place.first < last) return damaged(invalid("tensors '{}' and '{}' overlap", *before, name));
    if (place.first > last)
      return damaged(invalid("{} bytes before tensor '{}' belong to none", place.first - last, name));
    last = place.second;
    before = &name;
  }
  if (last != static_cast<int64_t>(data.size()))
    return damaged(invalid("{} bytes after the last tensor belong to none", static_cast<int64_t>(data.size()) - last));
  return {};
}

const SafeTensor* SafetensorsFile::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

Result<std::string> safetensors_bytes(const std::vector<SafeTensor>& tensors,
                                      const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[kMetadata] = metadata;
  size_t total = 0;
  for (const SafeTensor& tensor : tensors) {
    if (tensor.name == kMetadata || header.contains(tensor.name))
      return with_remedy(invalid("the name '{}' is taken", tensor.name), "give each tensor a name of its own");
    STRATA_TRY(const int64_t expected, tensor_bytes(tensor));
    if (static_cast<int64_t>(tensor.bytes.size()) != expected) {
      return with_remedy(invalid("tensor '{}' has {} bytes", tensor.name, tensor.bytes.size()),
                         fmt::format("{}[{}] has {}", tensor.dtype, fmt::join(tensor.shape, ", "), expected));
    }
    header[tensor.name] = {
        {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {total, total + tensor.bytes.size()}}};
    total += tensor.bytes.size();
  }
  std::string text = header.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false) != header)
    return with_remedy(invalid("a name or the metadata is no UTF-8"), "the format has no other encoding");
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();
  std::string bytes(kLengthBytes, '\0');
  std::memcpy(bytes.data(), &length, kLengthBytes);
  bytes.reserve(kLengthBytes + text.size() + total);
  bytes += text;
  for (const SafeTensor& tensor : tensors)
    bytes.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
  return bytes;
}

Result<void> write_safetensors(const std::string& path, const std::vector<SafeTensor>& tensors,
                               const std::map<std::string, std::string>& metadata) {
  STRATA_TRY(const std::string bytes, safetensors_bytes(tensors, metadata));
  return write_file(path, bytes);
}

}  // namespace strata::megakernel
