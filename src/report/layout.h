// Places of boxes and edges for a drawing: layers from top to bottom, a box in a box for graph-defined operators.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"
#include "report/layers.h"

namespace strata {

/// Units are SVG pixels; origin at the top left; text is monospace of kFontSize.
struct Rectangle {
  double x = 0, y = 0, width = 0, height = 0;
};

struct DrawnBox {
  enum class Kind { Tensor, Operator, BlockGraph, ThreadGraph, Loop };
  Kind kind;
  Rectangle place;
  std::vector<std::string> lines;  ///< text, from the top, in the middle; of a loop one, at `text`
  Point text;                      ///< of a loop: the lower left corner of its line
  int depth = 0;                   ///< how many boxes it lies in
  /// What it shows, of the graph that was laid out or one below it: a tensor of `graph`, or what makes it. Null and -1
  /// of loops.
  const Graph* graph = nullptr;
  const Operation* operation = nullptr;
  TensorId tensor = -1;
};

/// Pieces that are not upright lie between layers of boxes, and may be drawn as curves within their height.
struct DrawnEdge {
  std::vector<Point> points;
  int depth = 0;  ///< that of the boxes at its ends
};

struct Drawing {
  double width = 0, height = 0;
  std::vector<DrawnBox> boxes;  ///< outer ones first
  std::vector<DrawnEdge> edges;
};

constexpr double kFontSize = 12;
constexpr double kCharacter = 7.3;  ///< the width of a character, rounded up
constexpr double kLine = 16;        ///< from line to line

/// Columns of a UTF-8 text.
size_t columns(const std::string& text);

/// Boxes of one depth do not overlap; a deeper box lies inside one of the depth above. No edge meets a box but those at
/// its ends and those around it, nor a text.
Drawing lay_out(const Graph& graph);

}  // namespace strata
