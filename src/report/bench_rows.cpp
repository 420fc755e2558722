#include "report/bench_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

namespace strata {
namespace {

/// The names under which the scripts keep Strata's time, and its unit in µs.
constexpr std::pair<const char*, double> kTimes[] = {{"cold_us", 1}, {"us", 1}, {"strata_us", 1}, {"ms", 1e3}};
constexpr std::pair<const char*, double> kFloors[] = {{"floor_us", 1}, {"floor", 1}, {"floor_ms", 1e3}};
/// Numbers of a row that are times of peers.
constexpr std::pair<const char*, const char*> kPeers[] = {
    {"compile", "torch.compile"}, {"eager", "eager"}, {"xla", "XLA"}, {"xla_us", "XLA"}};

double first_of(const Json& row, std::span<const std::pair<const char*, double>> names) {
  for (const auto& [name, factor] : names) {
    if (const double value = number(row, name); value > 0) return value * factor;
  }
  return 0;
}

std::string name_of(const Json& row) {
  std::string name;
  for (const char* key : {"program", "name", "model"}) {
    if (name.empty()) name = text(row, key);
  }
  for (const auto& [key, before] : {std::pair("batch", "batch "), std::pair("position", "position ")}) {
    if (at(row, {key}).is_number()) name += fmt::format(", {}{}", before, whole(row, key));
  }
  if (const int64_t window = whole(row, "window"); window > 0) name += fmt::format(", window {}", window);
  for (const char* key : {"options", "mode", "variant", "schedule"}) {
    if (const std::string more = text(row, key); !more.empty() && at(row, {"peers"}).is_null()) name += ", " + more;
  }
  return name;
}

/// A peer's time: a number, or an object with it.
double peer_time(const Json& peer) { return peer.is_number() ? number(peer) : first_of(peer, kTimes); }

BenchRow row_of(const Json& row) {
  BenchRow made;
  made.name = name_of(row);
  for (const char* part : {"strata", "megakernel"}) {
    if (made.us == 0) made.us = first_of(at(row, {part}), kTimes);
  }
  if (made.us == 0) made.us = first_of(row, kTimes);
  made.floor = first_of(row, kFloors);
  const Json& peers = at(row, {"peers"});
  if (peers.is_object()) {
    for (const auto& [name, peer] : peers.items()) {
      if (const double time = peer_time(peer); time > 0) made.peers[name] = time;
    }
  }
  for (const auto& [key, name] : kPeers) {
    if (const double time = number(row, key); time > 0) made.peers[name] = time;
  }
  if (const double time = peer_time(at(row, {"torch"})); time > 0) made.peers["PyTorch"] = time;
  return made;
}

}  // namespace

std::map<std::string, double>::const_iterator BenchRow::fastest_peer() const {
  return std::min_element(peers.begin(), peers.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
}

std::vector<BenchRow> bench_rows(const Json& results) {
  std::vector<BenchRow> rows;
  const auto add = [&](BenchRow row) {
    if (!row.name.empty() && row.us > 0) rows.push_back(std::move(row));
  };
  for (const Json& row : list(results, "rows")) add(row_of(row));
  const Json& modules = at(results, {"modules"});
  if (modules.is_object()) {
    for (const auto& [name, module] : modules.items()) {
      BenchRow row = row_of(module);
      row.name = name;
      if (row.us == 0) row.us = number(module, "microseconds");
      add(std::move(row));
    }
  }
  return rows;
}

std::optional<double> geometric_mean(const std::vector<double>& values) {
  if (values.empty()) return std::nullopt;
  double sum = 0;
  for (const double value : values) sum += std::log(value);
  return std::exp(sum / static_cast<double>(values.size()));
}

}  // namespace strata
