#include "machine/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "support/hash.h"

namespace strata {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kFormat = "strata calibration 1";

auto damaged(std::string_view why) {
  return with_remedy(invalid("the calibration is not read: {}", why), "run strata calibrate again");
}

/// A checksum of all but itself: a file that was cut or changed is not believed.
std::string checksum_of(const Json& body) { return fmt::format("{:016x}", Hasher().add(body.dump()).value()); }

}  // namespace

MeasuredRate measured_rate(std::string name, std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {std::move(name), values[values.size() / 2], values.front(), values.back()};
}

std::string print(const Calibration& calibration) {
  Json body = {{"format", kFormat},
               {"gpu", calibration.gpu},
               {"driver", calibration.driver_version},
               {"target", calibration.target},
               {"date", calibration.date},
               {"rates", Json::array()}};
  for (const MeasuredRate& rate : calibration.rates)
    body["rates"].push_back({{"name", rate.name}, {"value", rate.value}, {"low", rate.low}, {"high", rate.high}});
  const std::string checksum = checksum_of(body);
  body["checksum"] = checksum;
  return body.dump(1) + "\n";
}

Result<Calibration> parse_calibration(std::string_view text) {
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return damaged("it is no JSON object");
  const auto word = [&](const char* name) {
    return json.contains(name) && json[name].is_string() ? json[name].get<std::string>() : std::string();
  };
  if (word("format") != kFormat) return damaged(fmt::format("it is not of the format '{}'", kFormat));
  const std::string checksum = word("checksum");
  json.erase("checksum");
  if (checksum != checksum_of(json)) return damaged("its checksum is another");
  // What follows was written by this format's print().
  if (!json.contains("driver") || !json["driver"].is_number_integer() || !json.contains("rates") ||
      !json["rates"].is_array())
    return damaged("a part is missing");
  Calibration calibration{word("gpu"), json["driver"].get<int>(), word("target"), word("date"), {}};
  for (const Json& one : json["rates"]) {
    if (!one.is_object() || !one.contains("name") || !one["name"].is_string()) return damaged("a rate has no name");
    MeasuredRate rate{one["name"].get<std::string>()};
    for (const auto& [name, value] : {std::pair("value", &rate.value), {"low", &rate.low}, {"high", &rate.high}}) {
      if (!one.contains(name) || !one[name].is_number()) return damaged(fmt::format("'{}' has no number", rate.name));
      *value = one[name].get<double>();
      if (!std::isfinite(*value) || *value <= 0) return damaged(fmt::format("'{}' is {}", rate.name, *value));
    }
    calibration.rates.push_back(std::move(rate));
  }
  return calibration;
}

Target calibrated(const Target& target, const Calibration& calibration) {
  Target result = target;
  for (const MeasuredRate& measured : calibration.rates) {
    const RateDescription* rate = find_rate(measured.name);
    if (rate == nullptr) continue;  // an observation
    result.set_rate(*rate, measured.value,
                    fmt::format("measured by strata calibrate, {}, {}, driver {}.{}", calibration.gpu, calibration.date,
                                calibration.driver_version / 1000, calibration.driver_version % 1000 / 10));
  }
  return result;
}

}  // namespace strata
