// The files of assets/, as they are embedded.
#pragma once

#include <string_view>

namespace strata {

std::string_view page_tokens();
std::string_view page_style();
std::string_view page_script();
std::string_view graph_style();
std::string_view graph_script();
std::string_view timeline_style();
std::string_view timeline_script();

namespace page {

/// The light value of a token of tokens.css: "--ink" → "#1b1f24"; empty where there is none.
std::string_view light_value(std::string_view token);
std::string_view dark_value(std::string_view token);

}  // namespace page
}  // namespace strata
