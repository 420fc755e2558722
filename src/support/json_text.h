// JSON that comes from outside: parsed with limits, and shown in messages.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "support/error.h"

namespace strata {

/// Arrays and objects inside each other, at most: more than any format here has.
inline constexpr int kMostNestedJson = 32;

/// Parses JSON as RFC 8259 defines it, and refuses what nlohmann's parser lets pass. Errors (InvalidInput) begin with
/// "LINE:COLUMN: ", from 1: what is no JSON, a number that a double does not hold (1e999), arrays and objects more than
/// `most_nested` deep, and a key that an object has twice. A mark of byte order at the beginning, which RFC 8259 lets a
/// parser ignore, is no error and no column. `Json` is nlohmann::json or nlohmann::ordered_json.
template <class Json>
Result<Json> parse_json(std::string_view text, int most_nested = kMostNestedJson);

/// A value for a message: its text, cut after 60 bytes or a little less.
template <class Json>
std::string shown_json(const Json& value);

}  // namespace strata
