// Launch manifests as JSON.
#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "runtime/launch_manifest.h"
#include "runtime/library_work_json.h"

namespace strata {
namespace {

using Json = nlohmann::json;

using OrderedJson = nlohmann::ordered_json;

/// Loops in loops in a text that is read.
constexpr int kMostNested = 32;

/// Of the text. Since 2 launches have classes of arguments and accesses; texts without a version are of 1.
constexpr int64_t kVersion = 2;

/// In the order of ArgumentClass.
constexpr std::array<const char*, 3> kClasses{"constant", "activation", "state"};

/// In the order of BufferRole.
constexpr std::array<const char*, 6> kRoles{"input", "intermediate", "counters", "output", "constant", "carried"};

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

OrderedJson launch_json(const GpuLaunch& launch) {
  if (launch.library) return library_launch_json(launch);
  OrderedJson json = {{"name", launch.kernel},       {"grid", launch.grid},
                      {"threads", launch.threads},   {"shared_bytes", launch.shared_bytes},
                      {"cluster", launch.cluster},   {"overlaps_previous", launch.overlaps_previous},
                      {"resident", launch.resident}, {"arguments", launch.arguments}};
  if (launch.fewer_blocks) json["fewer_blocks"] = true;
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

std::string hex(const std::string& bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

Result<std::string> read_pattern(const std::string& text) {
  constexpr size_t kMostBytes = 16;
  std::string bytes;
  for (size_t i = 0; i + 1 < text.size(); i += 2) {
    int value = 0;
    const auto [end, error] = std::from_chars(text.data() + i, text.data() + i + 2, value, 16);
    if (error != std::errc() || end != text.data() + i + 2) return invalid("'{}' is not a pattern of bytes", text);
    bytes.push_back(static_cast<char>(value));
  }
  const size_t size = bytes.size();
  if (text.size() % 2 != 0 || size == 0 || size > kMostBytes || (size > 2 && size % 4 != 0))
    return invalid("'{}' is not a pattern of 1, 2, 4, 8, 12 or 16 bytes", text);
  return bytes;
}

void add_accesses(const GpuLaunch& launch, OrderedJson& json) {
  if (launch.classes.empty()) return;
  for (const ArgumentClass one : launch.classes) json["classes"].push_back(kClasses[static_cast<size_t>(one)]);
  json["accesses"] = OrderedJson::array();
  for (const GpuAccess& access : launch.accesses) {
    OrderedJson one = {{"argument", access.argument},
                       {access.writes ? "writes" : "reads", indexing::to_string(access.map)}};
    if (!access.exact) one["exact"] = false;
    json["accesses"].push_back(std::move(one));
  }
}

OrderedJson steps_json(const std::vector<GpuStep>& steps);

OrderedJson loop_json(const GpuLoop& loop) {
  OrderedJson json;
  if (loop.count) json["count"] = *loop.count;
  json["values"] = OrderedJson::array();
  for (const GpuLoop::Value& value : loop.values) {
    OrderedJson one = {{"initial", value.initial}, {"current", value.current}, {"next", value.next}};
    if (!value.result.empty()) one["result"] = value.result;
    if (value.over >= 0) one["over"] = value.over;
    if (value.in_place) one["in_place"] = true;
    if (!value.counted.empty()) one["counted"] = value.counted;
    if (!value.spare.empty()) one["spare"] = value.spare;
    json["values"].push_back(std::move(one));
  }
  if (!loop.scratch.empty()) json["scratch"] = loop.scratch;
  if (!loop.answer.empty()) json["answer"] = loop.answer;
  if (loop.once) json["once"] = true;
  if (!loop.condition.empty()) json["condition"] = steps_json(loop.condition);
  json["body"] = steps_json(loop.body);
  return json;
}

OrderedJson step_json(const GpuStep& step) {
  OrderedJson json;
  if (const GpuLaunch* launch = step.launch()) {
    json = launch_json(*launch);
    if (!launch->module.empty()) json["module"] = launch->module;
    add_accesses(*launch, json);
  } else if (const auto* copy = std::get_if<GpuCopy>(&step.work)) {
    json = {{"copy", copy->from}, {"to", copy->to}};
  } else if (const auto* fill = std::get_if<GpuFill>(&step.work)) {
    json = {{"fill", hex(fill->pattern)}, {"to", fill->to}};
  } else if (const GpuLoop* loop = step.loop()) {
    json = {{"loop", loop_json(*loop)}};
  }
  if (!step.part.empty()) json["part"] = step.part;
  if (!step.what.empty()) json["what"] = step.what;
  return json;
}

OrderedJson steps_json(const std::vector<GpuStep>& steps) {
  OrderedJson json = OrderedJson::array();
  for (const GpuStep& step : steps) json.push_back(step_json(step));
  return json;
}

class Reader {
 public:
  Result<LaunchManifest> read(const Json& json) {
    if (const auto version = json.value("version", int64_t{1}); version < 1 || version > kVersion)
      return with_remedy(
          invalid("the launch manifest has version {}, and this Strata reads 1 to {}", version, kVersion),
          "make it anew with this Strata, or run it with the one that made it");
    LaunchManifest manifest;
    manifest.name = json.value("name", std::string());
    manifest.target = json.value("target", std::string());
    manifest.runs_overlap = json.value("runs_overlap", true);
    for (const Json& one : json.value("buffers", Json::array())) {
      STRATA_TRY(GpuBuffer buffer, read_buffer(one));
      names_.insert(buffer.name);
      manifest.buffers.push_back(std::move(buffer));
    }
    const char* steps = json.contains("steps") ? "steps" : "kernels";
    STRATA_TRY(manifest.steps, read_steps(json.value(steps, Json::array()), 0));
    for (const Json& one : json.value("results", Json::array())) {
      const auto name = one.at("name").get<std::string>();
      STRATA_TRY(std::string buffer, listed(one.at("buffer").get<std::string>(), "result '" + name + "'"));
      manifest.results.emplace_back(name, std::move(buffer));
    }
    return manifest;
  }

 private:
  static Result<GpuBuffer> read_buffer(const Json& one) {
    GpuBuffer buffer;
    buffer.name = one.at("name").get<std::string>();
    STRATA_TRY(buffer.role, role_of(one.at("role").get<std::string>()));
    ArrayType& type = buffer.type;
    type.element = one.at("type").get<std::string>();
    if (one.contains("element_bytes")) {
      type.element_bytes = one.at("element_bytes").get<int64_t>();
      constexpr int64_t kMostBytes = 16;
      if (type.element_bytes < 1 || type.element_bytes > kMostBytes)
        return invalid("buffer '{}' has elements of {} bytes", buffer.name, type.element_bytes);
    } else {
      STRATA_TRY(const DType known, parse_dtype(type.element));
      type.element_bytes = size_of(known);
    }
    type.shape = one.at("shape").get<Shape>();
    type.minor_to_major = one.value("minor_to_major", std::vector<int64_t>());
    int64_t bytes = type.element_bytes;
    for (const int64_t size : type.shape) {
      if (size < 0) return invalid("buffer '{}' has a dimension of size {}", buffer.name, size);
      STRATA_TRY(bytes, checked_product(bytes, size));
    }
    std::vector<int64_t> order = type.minor_to_major;
    std::sort(order.begin(), order.end());
    for (size_t i = 0; i < order.size(); ++i) {
      if (order.size() != type.shape.size() || order[i] != static_cast<int64_t>(i))
        return invalid("buffer '{}' has a layout of other dimensions", buffer.name);
    }
    if (one.contains("offset")) {
      constexpr int64_t kMost = int64_t{1} << 60;
      buffer.offset = one.at("offset").get<int64_t>();
      if (*buffer.offset < 0 || *buffer.offset % 256 != 0 || *buffer.offset > kMost || bytes > kMost)
        return invalid("buffer '{}' has the offset {}", buffer.name, *buffer.offset);
    }
    buffer.lies_in = one.value("lies_in", std::string());
    return buffer;
  }

  Result<std::string> listed(std::string name, const std::string& by) const {
    if (names_.count(name) == 0) return invalid("{} has an argument '{}', which is no buffer", by, name);
    return name;
  }

  static Result<GpuAccess> read_access(const Json& json, const GpuLaunch& launch) {
    GpuAccess access;
    access.argument = json.at("argument").get<size_t>();
    access.writes = json.contains("writes");
    access.exact = json.value("exact", true);
    STRATA_TRY(access.map,
               indexing::parse_indexing_map(json.at(access.writes ? "writes" : "reads").get<std::string>()));
    if (access.argument >= launch.arguments.size())
      return invalid("kernel '{}' has an access of argument {}, and {} arguments", launch.kernel, access.argument,
                     launch.arguments.size());
    return access;
  }

  static Result<void> read_accesses(const Json& one, GpuLaunch& launch) {
    for (const auto& name : one.value("classes", std::vector<std::string>())) {
      const auto known = std::find(kClasses.begin(), kClasses.end(), name);
      if (known == kClasses.end()) return invalid("kernel '{}': '{}' is no class of an argument", launch.kernel, name);
      launch.classes.push_back(static_cast<ArgumentClass>(known - kClasses.begin()));
    }
    for (const Json& access : one.value("accesses", Json::array())) {
      STRATA_TRY(GpuAccess made, read_access(access, launch));
      launch.accesses.push_back(std::move(made));
    }
    return {};
  }

  Result<GpuLaunch> read_launch(const Json& one) const {
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
      launch.fewer_blocks = one.value("fewer_blocks", false);
      launch.module = one.value("module", std::string());
    }
    launch.arguments = one.at("arguments").get<std::vector<std::string>>();
    for (const std::string& name : launch.arguments)
      STRATA_CHECK(listed(name, fmt::format("kernel '{}'", launch.kernel)));
    for (const Json& map : one.value("tensor_maps", Json::array())) {
      STRATA_TRY(GpuTensorMap made, tensor_map(map, launch));
      launch.tensor_maps.push_back(std::move(made));
    }
    STRATA_CHECK(read_accesses(one, launch));
    if (launch.library && launch.arguments.size() != arguments_of(*launch.library)) {
      return invalid("launch '{}' has {} arguments in place of {}", launch.kernel, launch.arguments.size(),
                     arguments_of(*launch.library));
    }
    return launch;
  }

  Result<GpuLoop> read_loop(const Json& json, int depth) const {
    GpuLoop loop;
    if (json.contains("count")) loop.count = json.at("count").get<int64_t>();
    for (const Json& one : json.at("values")) {
      GpuLoop::Value value;
      value.initial = one.at("initial").get<std::string>();
      value.result = one.value("result", std::string());
      value.current = one.at("current").get<std::vector<std::string>>();
      value.next = one.at("next").get<std::string>();
      value.over = one.value("over", int64_t{-1});
      value.in_place = one.value("in_place", false);
      value.counted = one.value("counted", std::string());
      value.spare = one.value("spare", std::string());
      loop.values.push_back(std::move(value));
    }
    loop.scratch = json.value("scratch", std::vector<std::string>());
    loop.answer = json.value("answer", std::string());
    loop.once = json.value("once", false);
    STRATA_TRY(loop.condition, read_steps(json.value("condition", Json::array()), depth + 1));
    STRATA_TRY(loop.body, read_steps(json.at("body"), depth + 1));
    return loop;
  }

  Result<std::vector<GpuStep>> read_steps(const Json& json, int depth) const {
    if (depth > kMostNested) return invalid("loops are nested more than {} deep", kMostNested);
    std::vector<GpuStep> steps;
    for (const Json& one : json) {
      GpuStep& step = steps.emplace_back();
      if (one.contains("loop")) {
        STRATA_TRY(step.work, read_loop(one.at("loop"), depth));
      } else if (one.contains("copy")) {
        GpuCopy copy;
        STRATA_TRY(copy.from, listed(one.at("copy").get<std::string>(), "a copy"));
        STRATA_TRY(copy.to, listed(one.at("to").get<std::string>(), "a copy"));
        step.work = copy;
      } else if (one.contains("fill")) {
        GpuFill fill;
        STRATA_TRY(fill.pattern, read_pattern(one.at("fill").get<std::string>()));
        STRATA_TRY(fill.to, listed(one.at("to").get<std::string>(), "a fill"));
        step.work = fill;
      } else {
        STRATA_TRY(step.work, read_launch(one));
      }
      step.part = one.value("part", std::string());
      step.what = one.value("what", std::string());
    }
    return steps;
  }

  std::set<std::string> names_;
};

}  // namespace

std::string identity_of(const LibraryWork& work) {
  return fmt::format("{} {}", library_of(work), work_json(work).dump());
}

Result<std::string> print(const LaunchManifest& manifest) {
  OrderedJson json;
  json["version"] = kVersion;
  if (!manifest.name.empty()) json["name"] = manifest.name;
  if (!manifest.target.empty()) json["target"] = manifest.target;
  if (!manifest.runs_overlap) json["runs_overlap"] = false;
  for (const GpuBuffer& buffer : manifest.buffers) {
    OrderedJson one = {{"name", buffer.name},
                       {"role", kRoles[static_cast<size_t>(buffer.role)]},
                       {"type", buffer.type.element},
                       {"shape", buffer.type.shape}};
    if (!parse_dtype(buffer.type.element)) one["element_bytes"] = buffer.type.element_bytes;
    if (!buffer.type.minor_to_major.empty()) one["minor_to_major"] = buffer.type.minor_to_major;
    if (buffer.offset) one["offset"] = *buffer.offset;
    if (!buffer.lies_in.empty()) one["lies_in"] = buffer.lies_in;
    json["buffers"].push_back(std::move(one));
  }
  const GpuStep* host = nullptr;
  for_each_step(manifest.steps, [&](const GpuStep& step) { host = step.host() != nullptr ? &step : host; });
  if (host != nullptr)
    return unsupported("step '{}' runs on the host, which no manifest can say: {}", name_of(*host), host->host()->why);
  json["steps"] = steps_json(manifest.steps);
  for (const auto& [name, buffer] : manifest.results) json["results"].push_back({{"name", name}, {"buffer", buffer}});
  return json.dump(2) + "\n";
}

Result<LaunchManifest> parse_launch_manifest(const std::string& text) {
  try {
    return Reader().read(Json::parse(text));
  } catch (const Json::exception& error) {
    return invalid("the launch manifest is unreadable: {}", error.what());
  }
}

}  // namespace strata
