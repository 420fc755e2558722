// SVG of a layout, and the escaping that all of the report's markup needs.
#pragma once

#include <string>
#include <string_view>

#include "ir/graph.h"

namespace strata {

/// & < > " replaced by entities.
std::string escape_markup(std::string_view text);

/// The <svg> element, with its style; `inline_style` false leaves the style to the page.
std::string svg_element(const Graph& graph, bool inline_style);

/// Colours for light and dark backgrounds, of the drawing and of the page around it.
std::string_view style_sheet();

}  // namespace strata
