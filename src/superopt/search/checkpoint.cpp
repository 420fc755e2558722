#include "superopt/search/checkpoint.h"

#include <chrono>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "ir/text.h"
#include "runtime/result_cache.h"
#include "support/hash.h"
#include "support/read_file.h"
#include "support/write_file.h"

namespace strata {
namespace {

constexpr double kSecondsBetweenSaves = 5;
constexpr std::string_view kHead = R"({"strata_checkpoint": 2, "checksum": ")";

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

using Json = nlohmann::json;
using Searches = std::map<std::string, Checkpoint::Units>;

struct Contents {
  std::string key;
  Searches searches;
};

Error damaged_file(const std::string& path, std::string_view why) {
  return {ErrorCode::InvalidInput,
          fmt::format("checkpoint '{}' is damaged: {}", path, why),
          "remove the file, or name another with --checkpoint",
          {}};
}

/// Numbers of classes: no fraction, none below 0.
std::optional<int> class_number(const Json& json) {
  if (!json.is_number_integer()) return std::nullopt;
  if (json.is_number_unsigned() && json.get<uint64_t>() > std::numeric_limits<int>::max()) return std::nullopt;
  const auto number = json.get<int64_t>();
  if (number < 0 || number > std::numeric_limits<int>::max()) return std::nullopt;
  return static_cast<int>(number);
}

std::optional<Checkpoint::Entry> read_entry(const Json& json) {
  if (!json.is_object() || !json.contains("result") || !json.contains("inputs") || !json.contains("graph")) return {};
  Checkpoint::Entry entry;
  const auto result = class_number(json["result"]);
  if (!result || !json["inputs"].is_array() || !json["graph"].is_string()) return {};
  entry.result = *result;
  for (const Json& input : json["inputs"]) {
    const auto number = class_number(input);
    if (!number) return {};
    entry.inputs.push_back(*number);
  }
  entry.graph = json["graph"].get<std::string>();
  return entry;
}

/// Error, in a few words, where the text after the checksum is not what a checkpoint holds.
tl::expected<Contents, std::string> read_body(std::string_view body) {
  const auto wrong = [](std::string why) { return tl::unexpected(std::move(why)); };
  const Json json = Json::parse(body, nullptr, false);
  if (!json.is_object() || !json.contains("key") || !json["key"].is_string() || !json.contains("searches") ||
      !json["searches"].is_object()) {
    return wrong("it has no key or no searches");
  }
  Contents contents;
  contents.key = json["key"].get<std::string>();
  for (const auto& [search, units] : json["searches"].items()) {
    if (!units.is_object()) return wrong(fmt::format("search {} has no units", search));
    Checkpoint::Units& read = contents.searches[search];
    for (const auto& [unit, entries] : units.items()) {
      if (!entries.is_array()) return wrong(fmt::format("unit '{}' is no list", unit));
      for (const Json& json_entry : entries) {
        auto entry = read_entry(json_entry);
        if (!entry) return wrong(fmt::format("unit '{}' has an entry that is none", unit));
        read[unit].push_back(std::move(*entry));
      }
      read[unit];
    }
  }
  return contents;
}

Result<Contents> read(const std::string& path) {
  const auto text = read_file(path);
  if (!text) return tl::unexpected(text.error().within("checkpoint"));
  const std::string_view view = *text;
  const size_t line = view.find('\n');
  if (!view.starts_with(kHead) || line == std::string_view::npos) {
    return tl::unexpected(damaged_file(path, "it does not begin as a checkpoint of this version of Strata does"));
  }
  if (with_checksum(view.substr(line + 1)) != view) {
    return tl::unexpected(damaged_file(path, "its checksum is another one, so it was cut off or changed"));
  }
  auto contents = read_body(view.substr(line + 1));
  if (!contents) return tl::unexpected(damaged_file(path, contents.error()));
  return std::move(*contents);
}

Result<void> write(const std::string& path, const std::string& key, const Searches& searches) {
  Json json{{"key", key}, {"searches", Json::object()}};
  for (const auto& [search, units] : searches) {
    Json& all = json["searches"][search] = Json::object();
    for (const auto& [unit, entries] : units) {
      Json& list = all[unit] = Json::array();
      for (const Checkpoint::Entry& e : entries) {
        list.push_back({{"result", e.result}, {"inputs", e.inputs}, {"graph", e.graph}});
      }
    }
  }
  return write_file(path, with_checksum(json.dump() + "\n"));
}

}  // namespace

std::string with_checksum(std::string_view body) {
  return fmt::format("{}{:016x}\"}}\n{}", kHead, Hasher().add(body).value(), body);
}

std::string search_key(const Graph& program, const SearchOptions& options) {
  // With every rule by name: one that is added does not compile before it is here. Without `cost`: it decides which
  // units are searched, and nothing in them.
  const auto& [expression, maps, axes, products, sizes, cost, stability] = options.rules;
  static_cast<void>(cost);
  Hasher hasher;
  hasher.add(print(program)).add(options.target->identity()).add(options.seed);
  hasher.add(static_cast<uint64_t>(options.max_kernel_ops)).add(static_cast<uint64_t>(options.max_block_ops));
  hasher.add(expression).add(maps).add(axes).add(products).add(sizes).add(stability);
  hasher.add(options.keep_all);
  return fmt::format("{:016x}", hasher.value());
}

Result<std::shared_ptr<Checkpoint>> Checkpoint::open(std::string path, const Graph& program,
                                                     const SearchOptions& options) {
  // Numbers of classes and names of units mean the same in one build only.
  const std::string key = fmt::format("{} {}", build_identity(), search_key(program, options));
  std::shared_ptr<Checkpoint> checkpoint(new Checkpoint(path, key));
  std::error_code unknown;
  if (std::filesystem::exists(path, unknown)) {
    STRATA_TRY(Contents contents, read(path));
    if (contents.key != key) {
      const bool same_build = contents.key.starts_with(build_identity() + " ");
      return tl::unexpected(
          Error{ErrorCode::InvalidInput,
                fmt::format("checkpoint '{}' is of another {}", path,
                            same_build ? "program or other options" : "build of Strata"),
                same_build ? "use the options that it was written with, or name another file" : "name another file",
                {}});
    }
    checkpoint->searches_ = std::move(contents.searches);
  }
  STRATA_CHECK(checkpoint->save());
  return checkpoint;
}

Checkpoint::Units Checkpoint::finished(const std::string& search) const {
  const std::lock_guard lock(mutex_);
  const auto it = searches_.find(search);
  return it == searches_.end() ? Units{} : it->second;
}

void Checkpoint::record(const std::string& search, const std::string& unit, const UnitResult& result) {
  {
    const std::lock_guard lock(mutex_);
    auto& entries = searches_[search][unit];
    entries.clear();
    for (const KernelChoice& choice : result.choices) {
      entries.push_back({choice.result, choice.inputs, print(*choice.graph)});
    }
    if (now() - last_saved_ < kSecondsBetweenSaves) return;
  }
  // A failed write is reported by the save at the end; the search goes on.
  static_cast<void>(save());
}

Result<void> Checkpoint::save() {
  const std::lock_guard lock(mutex_);
  last_saved_ = now();
  return write(path_, key_, searches_);
}

Error Checkpoint::damaged(std::string_view why) const { return damaged_file(path_, why); }

Result<size_t> merge_checkpoints(const std::vector<std::string>& from, const std::string& to) {
  std::optional<Contents> merged;
  for (const std::string& path : from) {
    STRATA_TRY(Contents contents, read(path));
    if (!merged) {
      merged = std::move(contents);
      continue;
    }
    if (contents.key != merged->key) {
      return tl::unexpected(Error{ErrorCode::InvalidInput,
                                  fmt::format("checkpoint '{}' is of another search than '{}'", path, from.front()),
                                  "merge shards of one program, with the same options, target and build of Strata",
                                  {}});
    }
    for (auto& [search, units] : contents.searches) {
      for (auto& [unit, entries] : units) {
        const auto [known, fresh] = merged->searches[search].emplace(unit, entries);
        if (fresh || known->second == entries) continue;
        return tl::unexpected(Error{ErrorCode::InvalidInput,
                                    fmt::format("'{}' has other results for '{}' than a file before it", path, unit),
                                    "search the shards anew, or leave this one out",
                                    {}});
      }
    }
  }
  if (!merged) return invalid("no checkpoints to merge");
  STRATA_CHECK(write(to, merged->key, merged->searches));
  size_t count = 0;
  for (const auto& [search, units] : merged->searches) count += units.size();
  return count;
}

}  // namespace strata
