#include "machine/machine_text.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <variant>

namespace strata {
namespace {

using Json = nlohmann::ordered_json;

struct Limit {
  std::string_view name, meaning;
  std::variant<int Target::*, int64_t Target::*, bool Target::*> member;
};

constexpr Limit kLimits[] = {
    {"multiprocessors", "", &Target::multiprocessors},
    {"threads_per_multiprocessor", "", &Target::threads_per_multiprocessor},
    {"blocks_per_multiprocessor", "", &Target::blocks_per_multiprocessor},
    {"shared_memory", "bytes that a block may use", &Target::shared_memory},
    {"multiprocessor_shared_memory", "bytes of a multiprocessor", &Target::multiprocessor_shared_memory},
    {"reserved_shared_memory", "bytes that each block takes beside its own", &Target::reserved_shared_memory},
    {"registers", "of 32 bits, of a multiprocessor; one block may have all", &Target::registers},
    {"l2_bytes", "", &Target::l2_bytes},
    {"device_memory", "bytes", &Target::device_memory},
    {"cluster", "blocks that a cluster may have", &Target::cluster},
    {"large_cluster", "clusters of so many blocks run on cluster_multiprocessors alone", &Target::large_cluster},
    {"cluster_multiprocessors", "", &Target::cluster_multiprocessors},
    {"wide_products", "wgmma", &Target::wide_products},
    {"overlapping_kernels", "programmatic dependent launch", &Target::overlapping_kernels},
    {"bulk_copies", "TMA", &Target::bulk_copies},
    {"vector_atomics", "one instruction adds 16 bytes of floats", &Target::vector_atomics},
};

/// "B/s" of "TB/s": what values have that are not scaled.
std::string_view base_unit(const RateUnit& unit) {
  if (unit.symbol == kFactor.symbol) return unit.symbol;
  if (unit.symbol.ends_with("B/s")) return "B/s";
  return unit.symbol.ends_with("op/s") ? "op/s" : "s";
}

/// A number that is above `least`, or the error that says which one is not.
Result<double> number(const Json& json, std::string_view name, double least) {
  if (!json.is_number()) return with_remedy(invalid("'{}' is no number", name), "write what strata machine prints");
  const auto value = json.get<double>();
  if (std::isfinite(value) && value >= least) return value;
  return with_remedy(invalid("'{}' is {}, below {}", name, value, least), "write what strata machine prints");
}

Result<void> read_limit(const Json& json, const Limit& limit, Target& target) {
  if (const auto* flag = std::get_if<bool Target::*>(&limit.member)) {
    if (!json.is_boolean())
      return with_remedy(invalid("'{}' is neither true nor false", limit.name), "write one of them");
    target.*(*flag) = json.get<bool>();
    return {};
  }
  STRATA_TRY(const double value, number(json, limit.name, 1));
  if (!json.is_number_integer() || value > 1e15)
    return with_remedy(invalid("'{}' is no number of units", limit.name), "write an integer");
  if (const auto* small = std::get_if<int Target::*>(&limit.member)) {
    if (value > 1e9) return with_remedy(invalid("'{}' is more than any GPU has", limit.name), "write a smaller number");
    target.*(*small) = static_cast<int>(value);
  } else {
    target.*std::get<int64_t Target::*>(limit.member) = json.get<int64_t>();
  }
  return {};
}

std::string limit_text(const Target& target, const Limit& limit) {
  return std::visit([&](auto member) { return fmt::format("{}", target.*member); }, limit.member);
}

}  // namespace

std::string rate_text(const RateDescription& rate, double value) {
  return fmt::format("{:.4g} {}", value / rate.unit.scale, rate.unit.symbol);
}

std::string describe(const Target& target) {
  std::string text = fmt::format("{}: {}{}\n\nlimits\n", target.name, target.gpu,
                                 target.plan ? ", a plan: no code is generated for it" : "");
  for (const Limit& limit : kLimits)
    text += fmt::format("  {:<30}{:>14}{}{}\n", limit.name, limit_text(target, limit),
                        limit.meaning.empty() ? "" : "  ", limit.meaning);
  text += "\nrates\n";
  for (const RateDescription& rate : rate_descriptions()) {
    text += fmt::format("  {:<26}{:>10.4g} {:<6}  {}; {}\n", rate.name, target.rates.*rate.member / rate.unit.scale,
                        rate.unit.symbol, rate.meaning, target.source_of(rate));
  }
  return text;
}

std::string machine_json(const Target& target) {
  Json json = {{"target", target.name}, {"gpu", target.gpu}, {"plan", target.plan}};
  for (const Limit& limit : kLimits)
    std::visit([&](auto member) { json["limits"][std::string(limit.name)] = target.*member; }, limit.member);
  for (const RateDescription& rate : rate_descriptions()) {
    json["rates"][std::string(rate.name)] = {{"value", target.rates.*rate.member},
                                             {"unit", base_unit(rate.unit)},
                                             {"meaning", rate.meaning},
                                             {"source", target.source_of(rate)}};
  }
  return json.dump(1) + "\n";
}

Result<Target> parse_machine(std::string_view text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto misses = [&](const Json& where, std::string_view name) {
    return !where.is_object() || !where.contains(std::string(name));
  };
  const auto missing = [](std::string_view name) {
    return with_remedy(invalid("the machine has no '{}'", name), "write what strata machine --json prints");
  };
  for (const char* name : {"target", "limits", "rates"}) {
    if (misses(json, name)) return missing(name);
  }
  if (!json["target"].is_string()) return missing("target");
  STRATA_TRY(const Target* known, find_described_target(json["target"].get<std::string>()));
  Target target = *known;
  for (const Limit& limit : kLimits) {
    if (misses(json["limits"], limit.name)) return missing(limit.name);
    STRATA_CHECK(read_limit(json["limits"][std::string(limit.name)], limit, target));
  }
  for (const RateDescription& rate : rate_descriptions()) {
    if (misses(json["rates"], rate.name)) return missing(rate.name);
    const Json& one = json["rates"][std::string(rate.name)];
    if (misses(one, "value")) return missing(rate.name);
    STRATA_TRY(const double value, number(one["value"], rate.name, 0));
    const bool named = !misses(one, "source") && one["source"].is_string();
    const std::string source = named ? one["source"].get<std::string>() : std::string("read");
    if (value != target.rates.*rate.member || source != target.source_of(rate)) target.set_rate(rate, value, source);
  }
  for (const auto& [name, value] : json["rates"].items()) {
    if (find_rate(name) == nullptr)
      return with_remedy(invalid("no rate is named '{}'", name), "strata machine lists them");
  }
  return target;
}

}  // namespace strata
