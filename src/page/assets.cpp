#include "page/assets.h"

namespace strata::page {
namespace {

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(' ');
  return first == std::string_view::npos ? std::string_view()
                                         : text.substr(first, text.find_last_not_of(' ') - first + 1);
}

/// One of the two values of a colour, or the value of a token that has one.
std::string_view value_of(std::string_view token, bool light) {
  const std::string_view all = page_tokens();
  for (size_t at = all.find(token); at != std::string_view::npos; at = all.find(token, at + 1)) {
    if (all.substr(at + token.size(), 1) != ":") continue;  // a longer name
    const std::string_view value =
        trimmed(all.substr(at + token.size() + 1, all.find(';', at) - at - token.size() - 1));
    constexpr std::string_view kPair = "light-dark(";
    if (!value.starts_with(kPair)) return value;
    const size_t comma = value.find(',');
    return light ? value.substr(kPair.size(), comma - kPair.size())
                 : trimmed(value.substr(comma + 1, value.find(')') - comma - 1));
  }
  return {};
}

}  // namespace

std::string_view light_value(std::string_view token) { return value_of(token, true); }
std::string_view dark_value(std::string_view token) { return value_of(token, false); }

}  // namespace strata::page
