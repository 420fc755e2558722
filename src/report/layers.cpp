#include "report/layers.h"

#include <algorithm>
#include <numeric>

namespace strata {
namespace {

constexpr int kOrderSweeps = 8;
constexpr int kPlaceSweeps = 12;
/// A place's weight. Edges that pass layers should be straight before boxes are in the middle of their readers.
constexpr double kPassingWeight = 4;

/// A node, or the place where an edge passes a layer.
struct Stop {
  size_t node = 0;
  bool passing = false;
  double width = 0;
  double middle = 0;
  double position = 0;  ///< in the order of its layer
  std::vector<size_t> above, below;
};

class Layers {
 public:
  Layers(std::vector<LayeredNode> nodes, std::vector<LayeredEdge> edges, const LayerGaps& gaps,
         const std::vector<double>& extra_above)
      : gaps_(gaps), extra_above_(extra_above) {
    drawing_.nodes = std::move(nodes);
    drawing_.edges = std::move(edges);
  }

  LayeredDrawing run() {
    make_stops();
    order();
    place_across();
    place_down();
    route();
    return std::move(drawing_);
  }

 private:
  double extra_above(size_t l) const { return l < extra_above_.size() ? extra_above_[l] : 0; }
  std::vector<size_t>& layer(int l) { return layers_[static_cast<size_t>(l)]; }

  void make_stops() {
    int last = 0;
    for (const LayeredNode& node : drawing_.nodes) last = std::max(last, node.layer);
    layers_.resize(static_cast<size_t>(last) + 1);
    for (size_t i = 0; i < drawing_.nodes.size(); ++i) {
      layer(drawing_.nodes[i].layer).push_back(stops_.size());
      stops_.push_back({i, false, drawing_.nodes[i].width, 0, 0, {}, {}});
    }
    for (const LayeredEdge& edge : drawing_.edges) {
      std::vector<size_t>& chain = chains_.emplace_back();
      chain.push_back(edge.from);
      for (int l = drawing_.nodes[edge.from].layer + 1; l < drawing_.nodes[edge.to].layer; ++l) {
        layer(l).push_back(stops_.size());
        chain.push_back(stops_.size());
        stops_.push_back({0, true, 0, 0, 0, {}, {}});
      }
      chain.push_back(edge.to);
      for (size_t n = 1; n < chain.size(); ++n) {
        stops_[chain[n - 1]].below.push_back(chain[n]);
        stops_[chain[n]].above.push_back(chain[n - 1]);
      }
    }
    for (auto& one : layers_) number(one);
  }

  void number(const std::vector<size_t>& one) {
    for (size_t n = 0; n < one.size(); ++n)
      stops_[one[n]].position = (static_cast<double>(n) + 0.5) / static_cast<double>(one.size());
  }

  /// Each layer by the mean position of its neighbours in the one before, downwards and upwards by turns: fewer
  /// crossings. The order with the fewest is kept.
  void order() {
    auto best = layers_;
    size_t fewest = crossings();
    for (int sweep = 0; sweep < kOrderSweeps && fewest > 0; ++sweep) {
      const bool down = sweep % 2 == 0;
      for (size_t n = 0; n < layers_.size(); ++n) sort(layers_[down ? n : layers_.size() - 1 - n], down);
      const size_t found = crossings();
      if (found >= fewest) continue;
      fewest = found;
      best = layers_;
    }
    layers_ = std::move(best);
  }

  void sort(std::vector<size_t>& one, bool down) {
    std::vector<std::pair<double, size_t>> keyed;
    for (size_t s : one) {
      const std::vector<size_t>& next = down ? stops_[s].above : stops_[s].below;
      double sum = 0;
      for (size_t other : next) sum += stops_[other].position;
      keyed.emplace_back(next.empty() ? stops_[s].position : sum / static_cast<double>(next.size()), s);
    }
    std::stable_sort(keyed.begin(), keyed.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (size_t n = 0; n < one.size(); ++n) one[n] = keyed[n].second;
    number(one);
  }

  size_t crossings() {
    for (const auto& one : layers_) number(one);
    size_t count = 0;
    for (const auto& one : layers_) {
      std::vector<std::pair<double, double>> edges;
      for (size_t s : one) {
        for (size_t other : stops_[s].below) edges.emplace_back(stops_[s].position, stops_[other].position);
      }
      for (size_t a = 0; a < edges.size(); ++a) {
        for (size_t b = 0; b < a; ++b) {
          count += (edges[a].first - edges[b].first) * (edges[a].second - edges[b].second) < 0 ? 1 : 0;
        }
      }
    }
    return count;
  }

  /// How far apart the middles of neighbours of a layer must be.
  double apart(const Stop& a, const Stop& b) const {
    return (a.width + b.width) / 2 + (a.passing || b.passing ? gaps_.between_edges : gaps_.between_nodes);
  }

  /// Moves the stops of a layer as near to where they want to be as their order and distances allow, by least squares:
  /// stops that push each other move as a block (pool adjacent violators).
  void settle(const std::vector<size_t>& one, const std::vector<double>& wanted) {
    struct Block {
      double sum = 0, weight = 0;
      size_t count = 0;
      double at() const { return sum / weight; }
    };
    std::vector<Block> blocks;
    std::vector<double> offsets;
    for (size_t n = 0; n < one.size(); ++n) {
      offsets.push_back(n == 0 ? 0 : offsets.back() + apart(stops_[one[n - 1]], stops_[one[n]]));
      const double weight = stops_[one[n]].passing ? kPassingWeight : 1;
      blocks.push_back({weight * (wanted[n] - offsets[n]), weight, 1});
      while (blocks.size() > 1 && blocks[blocks.size() - 2].at() > blocks.back().at()) {
        const Block last = blocks.back();
        blocks.pop_back();
        blocks.back().sum += last.sum;
        blocks.back().weight += last.weight;
        blocks.back().count += last.count;
      }
    }
    size_t n = 0;
    for (const Block& block : blocks) {
      for (size_t i = 0; i < block.count; ++i, ++n) stops_[one[n]].middle = block.at() + offsets[n];
    }
  }

  void place_across() {
    for (const auto& one : layers_) settle(one, std::vector<double>(one.size(), 0));
    for (int sweep = 0; sweep < kPlaceSweeps; ++sweep) {
      for (size_t n = 0; n < layers_.size(); ++n) {
        const auto& one = layers_[sweep % 2 == 0 ? n : layers_.size() - 1 - n];
        std::vector<double> wanted;
        for (size_t s : one) {
          double sum = 0;
          for (size_t other : stops_[s].above) sum += stops_[other].middle;
          for (size_t other : stops_[s].below) sum += stops_[other].middle;
          const size_t count = stops_[s].above.size() + stops_[s].below.size();
          wanted.push_back(count == 0 ? stops_[s].middle : sum / static_cast<double>(count));
        }
        settle(one, wanted);
      }
    }
    double left = 1e30, right = -1e30;
    for (const Stop& stop : stops_) {
      left = std::min(left, stop.middle - stop.width / 2);
      right = std::max(right, stop.middle + stop.width / 2);
    }
    for (Stop& stop : stops_) stop.middle -= left;
    drawing_.width = stops_.empty() ? 0 : right - left;
  }

  void place_down() {
    double y = 0;
    for (size_t l = 0; l < layers_.size(); ++l) {
      y += extra_above(l);
      tops_.push_back(y);
      double tallest = 0;
      for (size_t s : layers_[l]) {
        if (stops_[s].passing) continue;
        LayeredNode& node = drawing_.nodes[stops_[s].node];
        node.x = stops_[s].middle - node.width / 2;
        node.y = y;
        tallest = std::max(tallest, node.height);
      }
      y += tallest;
      bottoms_.push_back(y);
      drawing_.height = y;
      y += gaps_.between_layers;
    }
  }

  /// Where the edges of a side meet a node: spread over it, in the order of where they go.
  std::vector<double> ports(bool upper) {
    std::vector<double> at(chains_.size());
    std::vector<std::vector<size_t>> of_node(drawing_.nodes.size());
    const auto next = [&](size_t e) {
      return stops_[upper ? chains_[e][chains_[e].size() - 2] : chains_[e][1]].middle;
    };
    for (size_t e = 0; e < chains_.size(); ++e)
      of_node[upper ? drawing_.edges[e].to : drawing_.edges[e].from].push_back(e);
    for (size_t i = 0; i < of_node.size(); ++i) {
      auto& edges = of_node[i];
      std::stable_sort(edges.begin(), edges.end(), [&](size_t a, size_t b) { return next(a) < next(b); });
      const LayeredNode& node = drawing_.nodes[i];
      for (size_t n = 0; n < edges.size(); ++n)
        at[edges[n]] = node.x + node.width * static_cast<double>(n + 1) / static_cast<double>(edges.size() + 1);
    }
    return at;
  }

  void route() {
    const std::vector<double> starts = ports(false);
    const std::vector<double> ends = ports(true);
    for (size_t e = 0; e < chains_.size(); ++e) {
      LayeredEdge& edge = drawing_.edges[e];
      const LayeredNode& from = drawing_.nodes[edge.from];
      auto l = static_cast<size_t>(from.layer);
      edge.route = {{starts[e], from.y + from.height}};
      // Down to where the tallest box of the layer ends, and only then to the side.
      const auto go = [&](double x, double y) {
        const Point& last = edge.route.back();
        if (last.x != x || last.y != y) edge.route.push_back({x, y});
      };
      go(starts[e], bottoms_[l]);
      for (size_t n = 1; n + 1 < chains_[e].size(); ++n) {
        ++l;
        go(stops_[chains_[e][n]].middle, tops_[l] - extra_above(l));
        go(stops_[chains_[e][n]].middle, bottoms_[l]);
      }
      go(ends[e], tops_[l + 1] - extra_above(l + 1));
      go(ends[e], tops_[l + 1]);
    }
  }

  LayerGaps gaps_;
  const std::vector<double>& extra_above_;
  LayeredDrawing drawing_;
  std::vector<Stop> stops_;
  std::vector<std::vector<size_t>> layers_;
  std::vector<std::vector<size_t>> chains_;  ///< of each edge: its nodes and the stops between them
  std::vector<double> tops_, bottoms_;       ///< of layers
};

}  // namespace

LayeredDrawing place_layers(std::vector<LayeredNode> nodes, std::vector<LayeredEdge> edges, const LayerGaps& gaps,
                            const std::vector<double>& extra_above) {
  return Layers(std::move(nodes), std::move(edges), gaps, extra_above).run();
}

}  // namespace strata
