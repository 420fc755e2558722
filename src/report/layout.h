// Places of boxes and edges for a drawing: layers from top to bottom, a box in a box for graph-defined operators.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"

namespace strata {

/// Units are SVG pixels; origin at the top left; text is monospace of kFontSize.
struct Rectangle {
  double x = 0, y = 0, width = 0, height = 0;
};

struct DrawnBox {
  enum class Kind { Tensor, Operator, BlockGraph, ThreadGraph, Loop };
  Kind kind;
  Rectangle place;
  std::vector<std::string> lines;  ///< text, from the top
  int depth = 0;                   ///< how many boxes it lies in
};

struct DrawnEdge {
  double x1, y1, x2, y2;
  std::string label;  ///< imap, fmap, omap; drawn beside the end that it belongs to
  double label_x = 0, label_y = 0;
};

struct Drawing {
  double width = 0, height = 0;
  std::vector<DrawnBox> boxes;  ///< outer ones first
  std::vector<DrawnEdge> edges;
};

constexpr double kFontSize = 12;

/// Boxes of one depth do not overlap; a deeper box lies inside one of the depth above.
Drawing lay_out(const Graph& graph);

}  // namespace strata
