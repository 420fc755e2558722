#include "superopt/search/checkpoint.h"

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "ir/text.h"
#include "support/read_file.h"

namespace strata {
namespace {

constexpr double kSecondsBetweenSaves = 5;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

using Json = nlohmann::json;

tl::unexpected<Error> damaged(const std::string& path) {
  return tl::unexpected(Error{ErrorCode::InvalidInput,
                              fmt::format("checkpoint '{}' is damaged", path),
                              "remove the file, or name another with --checkpoint",
                              {}});
}

Result<Json> read(const std::string& path) {
  auto text = read_file(path);
  if (!text) return tl::unexpected(text.error().within("checkpoint"));
  Json json = Json::parse(*text, nullptr, false);
  if (!json.is_object() || !json.contains("key") || !json["key"].is_string() || !json.contains("units") ||
      !json["units"].is_object()) {
    return damaged(path);
  }
  return json;
}

/// To a temporary name first, so that a kill leaves the old file whole.
Result<void> write(const std::string& path, const Json& json) {
  const std::string temporary = path + ".writing";
  std::ofstream file(temporary);
  file << json.dump() << '\n';
  file.close();
  std::error_code failed;
  if (file) std::filesystem::rename(temporary, path, failed);
  if (!file || failed) {
    return tl::unexpected(Error{ErrorCode::Environment,
                                fmt::format("cannot write checkpoint '{}'", path),
                                "check the folder's permissions and free space",
                                {}});
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Checkpoint>> Checkpoint::open(std::string path, uint64_t key) {
  std::unique_ptr<Checkpoint> checkpoint(new Checkpoint(path, key));
  checkpoint->last_saved_ = now();
  if (path.empty() || !std::filesystem::exists(path)) return checkpoint;
  STRATA_TRY(const Json json, read(path));
  if (json["key"] != fmt::format("{:016x}", key)) {
    return tl::unexpected(Error{ErrorCode::InvalidInput,
                                fmt::format("checkpoint '{}' is of another program or other options", path),
                                "use the options that it was written with, or name another file",
                                {}});
  }
  try {
    for (const auto& [unit, entries] : json["units"].items()) {
      for (const auto& e : entries) {
        checkpoint->units_[unit].push_back({e.at("result"), e.at("inputs"), e.at("seconds"), e.at("graph")});
      }
      checkpoint->units_[unit];
    }
  } catch (const nlohmann::json::exception&) {
    return damaged(path);
  }
  return checkpoint;
}

std::optional<UnitResult> Checkpoint::find(const std::string& unit) const {
  const std::lock_guard lock(mutex_);
  const auto it = units_.find(unit);
  if (it == units_.end()) return std::nullopt;
  UnitResult result;
  for (const Entry& entry : it->second) {
    auto graph = parse_graph(entry.text, path_);
    if (!graph) return std::nullopt;  // searched again
    result.choices.push_back({entry.result, entry.inputs, std::move(*graph), nullptr, entry.seconds});
  }
  return result;
}

void Checkpoint::record(const std::string& unit, const UnitResult& result) {
  if (path_.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    auto& entries = units_[unit];
    entries.clear();
    for (const KernelChoice& choice : result.choices) {
      entries.push_back({choice.result, choice.inputs, choice.seconds, print(*choice.graph)});
    }
    if (now() - last_saved_ < kSecondsBetweenSaves) return;
    last_saved_ = now();
  }
  // A failed write is reported by the save at the end; the search goes on.
  static_cast<void>(save());
}

Result<void> Checkpoint::save() {
  if (path_.empty()) return {};
  const std::lock_guard lock(mutex_);
  Json json;
  json["key"] = fmt::format("{:016x}", key_);
  json["units"] = Json::object();
  for (const auto& [unit, entries] : units_) {
    auto& list = json["units"][unit] = Json::array();
    for (const Entry& e : entries) {
      list.push_back({{"result", e.result}, {"inputs", e.inputs}, {"seconds", e.seconds}, {"graph", e.text}});
    }
  }
  return write(path_, json);
}

Result<size_t> merge_checkpoints(const std::vector<std::string>& from, const std::string& to) {
  Json merged;
  for (const std::string& path : from) {
    STRATA_TRY(Json json, read(path));
    if (merged.is_null()) {
      merged = std::move(json);
      continue;
    }
    if (json["key"] != merged["key"]) {
      return tl::unexpected(Error{ErrorCode::InvalidInput,
                                  fmt::format("checkpoint '{}' is of another search than '{}'", path, from.front()),
                                  "merge shards of one program, with the same options and target",
                                  {}});
    }
    for (auto& [unit, entries] : json["units"].items()) {
      if (merged["units"].contains(unit) && merged["units"][unit] != entries) {
        return tl::unexpected(Error{ErrorCode::InvalidInput,
                                    fmt::format("'{}' has other results for '{}' than a file before it", path, unit),
                                    "search the shards with one version of Strata",
                                    {}});
      }
      merged["units"][unit] = std::move(entries);
    }
  }
  STRATA_CHECK(write(to, merged));
  return merged["units"].size();
}

}  // namespace strata
