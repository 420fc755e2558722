// Text in SVG and HTML.
#pragma once

#include <string>
#include <string_view>

namespace strata {

/// & < > " replaced by entities.
std::string escape_markup(std::string_view text);

}  // namespace strata
