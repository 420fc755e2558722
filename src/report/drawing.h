// SVG of a layout.
#pragma once

#include <string>

#include "ir/graph.h"

namespace strata {

/// How an <svg> element is used.
struct DrawingUse {
  std::string id = "graph";  ///< what ids within it begin with
  /// In a page: boxes are buttons that say what they are (page/assets/graph.js), and the page has the style. Else a
  /// file of its own, with its style in light colours.
  bool interactive = false;
};
std::string svg_element(const Graph& graph, const DrawingUse& use);

}  // namespace strata
