// Boxes in layers from top to bottom, and edges that go around them: the drawing method of Sugiyama and others. It
// knows rectangles and nothing of graphs of operators.
#pragma once

#include <vector>

namespace strata {

struct Point {
  double x = 0, y = 0;
};

/// A box of its layer; layers count from 0 at the top.
struct LayeredNode {
  int layer = 0;
  double width = 0, height = 0;
  double x = 0, y = 0;  ///< place_layers: of its upper left corner
};

/// From the lower side of a node to the upper side of one in a later layer.
struct LayeredEdge {
  size_t from = 0, to = 0;
  std::vector<Point> route;  ///< place_layers: from the first to the last point
};

struct LayerGaps {
  double between_nodes = 24;
  double between_edges = 10;  ///< between an edge that passes a layer and what is beside it
  double between_layers = 44;
};

struct LayeredDrawing {
  std::vector<LayeredNode> nodes;
  std::vector<LayeredEdge> edges;
  double width = 0, height = 0;
};

/// Chooses the order within each layer and all coordinates, from 0 on. Nodes do not overlap. Each piece of a route is
/// upright, or lies between two layers, where no node is; so no route meets a node but at its ends. `extra_above`: more
/// room above a layer than above others, for what is written there, where all pieces are upright; empty: none.
LayeredDrawing place_layers(std::vector<LayeredNode> nodes, std::vector<LayeredEdge> edges, const LayerGaps& gaps = {},
                            const std::vector<double>& extra_above = {});

}  // namespace strata
