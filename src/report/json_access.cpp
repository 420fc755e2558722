#include "report/json_access.h"

#include <cmath>

namespace strata {
namespace {

const Json kNull;
const Json kEmpty = Json::array();

}  // namespace

const Json& at(const Json& json, std::initializer_list<std::string_view> path) {
  const Json* here = &json;
  for (const std::string_view key : path) {
    if (!here->is_object()) return kNull;
    const auto found = here->find(std::string(key));
    if (found == here->end()) return kNull;
    here = &*found;
  }
  return *here;
}

double number(const Json& json) { return json.is_number() ? json.get<double>() : 0; }
int64_t whole(const Json& json) {
  if (json.is_number_integer()) return json.get<int64_t>();
  const double value = number(json);
  return std::abs(value) < 9e18 ? static_cast<int64_t>(value) : 0;
}
std::string text(const Json& json) { return json.is_string() ? json.get<std::string>() : std::string(); }
bool truth(const Json& json) { return json.is_boolean() && json.get<bool>(); }

const Json& list(const Json& json, std::string_view key) {
  const Json& value = at(json, {key});
  return value.is_array() ? value : kEmpty;
}

}  // namespace strata
