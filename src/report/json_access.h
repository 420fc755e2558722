// Reading of reports that may be of another version, or damaged: what is missing or of another type reads as nothing.
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace strata {

using Json = nlohmann::ordered_json;

/// The value at a path of keys; null where there is none.
const Json& at(const Json& json, std::initializer_list<std::string_view> path);
/// Zero and "" where it is another type.
double number(const Json& json);
int64_t whole(const Json& json);
std::string text(const Json& json);
bool truth(const Json& json);

inline double number(const Json& json, std::string_view key) { return number(at(json, {key})); }
inline int64_t whole(const Json& json, std::string_view key) { return whole(at(json, {key})); }
inline std::string text(const Json& json, std::string_view key) { return text(at(json, {key})); }
inline bool truth(const Json& json, std::string_view key) { return truth(at(json, {key})); }
/// Its elements; none where it is no array.
const Json& list(const Json& json, std::string_view key);

}  // namespace strata
