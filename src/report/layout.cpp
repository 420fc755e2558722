#include "report/layout.h"

#include <algorithm>
#include <map>

namespace strata {
namespace {

constexpr double kPadding = 8;
/// Around all boxes: room for the frame of the for-loop.
constexpr double kMargin = 2 * kPadding;
/// Above the boxes of the for-loop, for its text.
constexpr double kLoopStrip = kLine + kPadding;

struct Item {
  DrawnBox::Kind kind = DrawnBox::Kind::Operator;
  std::vector<std::string> lines;
  int layer = 0;
  double width = 0, height = 0;
  Drawing inner;          ///< of a graph-defined operator
  std::vector<int> from;  ///< items that it reads
  bool in_loop = false;
  const Operation* operation = nullptr;
  TensorId tensor = -1;
};

std::string attribute_text(const Operation& op) {
  std::string text;
  for (const auto& [name, value] : op.attributes.entries()) {
    if (name == "imap" || name == "fmap" || name == "omap") continue;
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", name, to_string(value));
  }
  return text;
}

std::string map_text(const Operation& op) {
  std::string text;
  for (const auto& [name, value] : op.attributes.entries()) {
    if (name == "imap" || name == "fmap" || name == "omap")
      text += (text.empty() ? "" : "  ") + name + " " + to_string(value);
  }
  return text;
}

std::string launch_text(const Graph& graph) {
  const LaunchShape& launch = graph.launch();
  if (graph.level() == Level::Thread) return fmt::format("thread graph   threads {}", launch.threads);
  std::string text = "block graph   grid " + to_string(AttributeValue(launch.grid));
  if (launch.loop > 1) text += fmt::format("   for-loop {}", launch.loop);
  return text;
}

class Layout {
 public:
  explicit Layout(const Graph& graph) : graph_(graph) {}

  Drawing run() {
    make_items();
    assign_layers();
    measure();
    return draw(place());
  }

 private:
  void make_items() {
    std::map<TensorId, int> source;
    for (TensorId id : graph_.inputs()) {
      source[id] = static_cast<int>(items_.size());
      Item item;
      item.kind = DrawnBox::Kind::Tensor;
      item.lines = {graph_.tensor(id).name, to_string(graph_.type(id))};
      item.tensor = id;
      items_.push_back(std::move(item));
    }
    inputs_ = items_.size();
    const std::vector<LoopStage> stages =
        graph_.level() == Level::Block ? loop_stages(graph_) : std::vector<LoopStage>(graph_.operations().size());
    for (size_t i = 0; i < graph_.operations().size(); ++i) {
      const Operation& op = graph_.operations()[i];
      Item item;
      item.operation = &op;
      if (op.body) {
        item.kind = op.body->level() == Level::Block ? DrawnBox::Kind::BlockGraph : DrawnBox::Kind::ThreadGraph;
        item.lines = {launch_text(*op.body)};
        item.inner = lay_out(*op.body);
      } else {
        const std::string attributes = attribute_text(op);
        item.lines = {std::string(op.name()) + (attributes.empty() ? "" : "  " + attributes)};
        if (const std::string maps = map_text(op); !maps.empty()) item.lines.push_back(maps);
      }
      for (TensorId id : op.results) {
        item.lines.push_back(graph_.tensor(id).name + ": " + to_string(graph_.type(id)));
        source[id] = static_cast<int>(items_.size());
      }
      for (TensorId id : op.operands) item.from.push_back(source.at(id));
      item.in_loop = graph_.launch().loop > 1 && stages[i] == LoopStage::Body;
      items_.push_back(std::move(item));
    }
    for (TensorId id : graph_.outputs()) {
      Item item;
      item.kind = DrawnBox::Kind::Tensor;
      item.lines = {graph_.tensor(id).name, to_string(graph_.type(id))};
      item.from = {source.at(id)};
      item.tensor = id;
      item.layer = -1;  // the last layer
      items_.push_back(std::move(item));
    }
  }

  void assign_layers() {
    int deepest_in_loop = 0;
    for (Item& item : items_) {
      if (item.layer < 0) continue;
      for (int from : item.from) item.layer = std::max(item.layer, items_[static_cast<size_t>(from)].layer + 1);
      if (item.in_loop) deepest_in_loop = std::max(deepest_in_loop, item.layer);
    }
    // What runs after the loop lies below all of it.
    int last = 0;
    for (size_t i = inputs_; i < items_.size(); ++i) {
      Item& item = items_[i];
      if (item.layer < 0) continue;
      if (!item.in_loop && deepest_in_loop > 0) item.layer = std::max(item.layer, deepest_in_loop + 1);
      for (int from : item.from) item.layer = std::max(item.layer, items_[static_cast<size_t>(from)].layer + 1);
      last = std::max(last, item.layer);
    }
    for (Item& item : items_) {
      if (item.layer < 0) item.layer = last + 1;
    }
    // Inputs lie directly above their first reader.
    for (size_t i = 0; i < inputs_; ++i) {
      int first = last + 1;
      for (const Item& item : items_) {
        if (std::find(item.from.begin(), item.from.end(), static_cast<int>(i)) != item.from.end()) {
          first = std::min(first, item.layer);
        }
      }
      items_[i].layer = graph_.level() == Level::Kernel ? std::max(0, first - 1) : 0;
    }
  }

  void measure() {
    for (Item& item : items_) {
      size_t longest = 0;
      for (const std::string& line : item.lines) longest = std::max(longest, columns(line));
      item.width = 2 * kPadding + kCharacter * static_cast<double>(longest);
      item.height = 2 * kPadding + kLine * static_cast<double>(item.lines.size());
      if (item.inner.width > 0) {
        item.width = std::max(item.width, item.inner.width + 2 * kPadding);
        item.height += item.inner.height + kPadding;
      }
    }
  }

  LayeredDrawing place() {
    std::vector<LayeredNode> nodes;
    std::vector<LayeredEdge> edges;
    int first_of_loop = -1;
    int last = 0;
    for (size_t i = 0; i < items_.size(); ++i) {
      const Item& item = items_[i];
      nodes.push_back({item.layer, item.width, item.height});
      for (int from : item.from) edges.push_back({static_cast<size_t>(from), i, {}});
      last = std::max(last, item.layer);
      if (item.in_loop && (first_of_loop < 0 || item.layer < first_of_loop)) first_of_loop = item.layer;
    }
    std::vector<double> extra(static_cast<size_t>(last) + 1);
    if (first_of_loop >= 0) extra[static_cast<size_t>(first_of_loop)] = kLoopStrip;
    LayeredDrawing placed = place_layers(std::move(nodes), std::move(edges), {}, extra);
    for (LayeredNode& node : placed.nodes) node.x += kMargin, node.y += kMargin;
    for (LayeredEdge& edge : placed.edges) {
      for (Point& point : edge.route) point.x += kMargin, point.y += kMargin;
    }
    placed.width += 2 * kMargin;
    placed.height += 2 * kMargin;
    return placed;
  }

  /// The frame around what is in the loop, with its text where no edge passes. It may make the drawing wider.
  void add_loop(Drawing& drawing, const LayeredDrawing& placed) const {
    double top = 0, bottom = 0;
    for (size_t i = 0; i < items_.size(); ++i) {
      if (!items_[i].in_loop) continue;
      const LayeredNode& node = placed.nodes[i];
      top = bottom == 0 ? node.y : std::min(top, node.y);
      bottom = std::max(bottom, node.y + node.height);
    }
    if (bottom == 0) return;
    const std::string text = fmt::format("for-loop, {} iterations", graph_.launch().loop);
    const double width = kCharacter * static_cast<double>(columns(text));
    const double baseline = top - kPadding;
    std::vector<double> passing;
    for (const LayeredEdge& edge : placed.edges) {
      // Upright here, so that one of its pieces tells where.
      for (size_t n = 1; n < edge.route.size(); ++n) {
        if (edge.route[n - 1].y <= baseline && baseline < edge.route[n].y) passing.push_back(edge.route[n].x);
      }
    }
    std::sort(passing.begin(), passing.end());
    double x = kMargin;
    for (double edge : passing) {
      if (x + width + kPadding <= edge) break;
      x = std::max(x, edge + kPadding);
    }
    drawing.width = std::max(drawing.width, x + width + kMargin);
    const Rectangle frame{kPadding / 2, top - kLoopStrip, drawing.width - kPadding,
                          bottom - top + kLoopStrip + kPadding};
    drawing.boxes.push_back({DrawnBox::Kind::Loop, frame, {text}, {x, baseline}, 0});
  }

  Drawing draw(const LayeredDrawing& placed) const {
    Drawing drawing{placed.width, placed.height, {}, {}};
    add_loop(drawing, placed);
    for (size_t i = 0; i < items_.size(); ++i) {
      const Item& item = items_[i];
      const LayeredNode& node = placed.nodes[i];
      drawing.boxes.push_back({item.kind,
                               {node.x, node.y, node.width, node.height},
                               item.lines,
                               {},
                               1,
                               &graph_,
                               item.operation,
                               item.tensor});
      if (item.inner.width == 0) continue;
      const double dx = node.x + (node.width - item.inner.width) / 2;
      const double dy = node.y + kPadding + kLine * static_cast<double>(item.lines.size());
      for (DrawnBox box : item.inner.boxes) {
        box.place.x += dx, box.text.x += dx;
        box.place.y += dy, box.text.y += dy;
        box.depth += 2;
        drawing.boxes.push_back(std::move(box));
      }
      for (DrawnEdge edge : item.inner.edges) {
        for (Point& point : edge.points) point.x += dx, point.y += dy;
        edge.depth += 2;
        drawing.edges.push_back(std::move(edge));
      }
    }
    for (const LayeredEdge& edge : placed.edges) drawing.edges.push_back({edge.route, 1});
    return drawing;
  }

  const Graph& graph_;
  std::vector<Item> items_;
  size_t inputs_ = 0;
};

}  // namespace

size_t columns(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

Drawing lay_out(const Graph& graph) { return Layout(graph).run(); }

}  // namespace strata
