// SVG of a layout.
#pragma once

#include <string>
#include <string_view>

#include "ir/graph.h"

namespace strata {

/// The <svg> element, with its style; `inline_style` false leaves the style to the page.
std::string svg_element(const Graph& graph, bool inline_style);

/// Colours for light and dark backgrounds, of the drawing and of the page around it.
std::string_view style_sheet();

}  // namespace strata
