#include "report/layout.h"

#include <algorithm>
#include <map>

namespace strata {
namespace {

constexpr double kCharacter = 7.3;  // width of a monospace character at kFontSize, rounded up
constexpr double kLine = 16;
constexpr double kPadding = 8;
constexpr double kGapX = 24;
constexpr double kGapY = 44;  // room for an edge and its label

/// Columns of a UTF-8 text.
size_t columns(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

struct Item {
  DrawnBox::Kind kind = DrawnBox::Kind::Operator;
  std::vector<std::string> lines;
  std::string label;  ///< of the edge that ends here (in_iter) or starts here (out_saver)
  bool label_below = false;
  int layer = 0;
  double width = 0, height = 0;
  Drawing inner;          ///< of a graph-defined operator
  std::vector<int> from;  ///< items that it reads
  bool in_loop = false;
  double x = 0, y = 0;
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
    order();
    place();
    return draw();
  }

 private:
  void make_items() {
    std::map<TensorId, int> source;
    for (TensorId id : graph_.inputs()) {
      source[id] = static_cast<int>(items_.size());
      Item item;
      item.kind = DrawnBox::Kind::Tensor;
      item.lines = {graph_.tensor(id).name, to_string(graph_.type(id))};
      items_.push_back(std::move(item));
    }
    inputs_ = items_.size();
    const std::vector<LoopStage> stages =
        graph_.level() == Level::Block ? loop_stages(graph_) : std::vector<LoopStage>(graph_.operations().size());
    for (size_t i = 0; i < graph_.operations().size(); ++i) {
      const Operation& op = graph_.operations()[i];
      Item item;
      if (op.body) {
        item.kind = op.body->level() == Level::Block ? DrawnBox::Kind::BlockGraph : DrawnBox::Kind::ThreadGraph;
        item.lines = {launch_text(*op.body)};
        item.inner = lay_out(*op.body);
      } else {
        const std::string attributes = attribute_text(op);
        item.lines = {std::string(op.name()) + (attributes.empty() ? "" : "  " + attributes)};
      }
      for (TensorId id : op.results) {
        item.lines.push_back(graph_.tensor(id).name + ": " + to_string(graph_.type(id)));
        source[id] = static_cast<int>(items_.size());
      }
      for (TensorId id : op.operands) item.from.push_back(source.at(id));
      item.label = map_text(op);
      item.label_below = op.kind == OpKind::OutSaver;
      item.in_loop = graph_.launch().loop > 1 && stages[i] == LoopStage::Body;
      items_.push_back(std::move(item));
    }
    for (TensorId id : graph_.outputs()) {
      Item item;
      item.kind = DrawnBox::Kind::Tensor;
      item.lines = {graph_.tensor(id).name, to_string(graph_.type(id))};
      item.from = {source.at(id)};
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
      size_t longest = columns(item.label);
      for (const std::string& line : item.lines) longest = std::max(longest, columns(line));
      item.width = 2 * kPadding + kCharacter * static_cast<double>(longest);
      item.height = 2 * kPadding + kLine * static_cast<double>(item.lines.size());
      if (item.inner.width > 0) {
        item.width = std::max(item.width, item.inner.width + 2 * kPadding);
        item.height += item.inner.height + kPadding;
      }
    }
  }

  /// Within a layer by the mean position of what an item reads: fewer crossings.
  void order() {
    int last = 0;
    for (const Item& item : items_) last = std::max(last, item.layer);
    layers_.resize(static_cast<size_t>(last) + 1);
    for (size_t i = 0; i < items_.size(); ++i) layers_[static_cast<size_t>(items_[i].layer)].push_back(i);
    std::vector<double> position(items_.size(), 0);
    for (auto& layer : layers_) {
      std::vector<std::pair<double, size_t>> keyed;
      for (size_t n = 0; n < layer.size(); ++n) {
        const Item& item = items_[layer[n]];
        double mean = static_cast<double>(n);
        if (!item.from.empty()) {
          mean = 0;
          for (int from : item.from) mean += position[static_cast<size_t>(from)];
          mean /= static_cast<double>(item.from.size());
        }
        keyed.emplace_back(mean, layer[n]);
      }
      std::stable_sort(keyed.begin(), keyed.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
      for (size_t n = 0; n < keyed.size(); ++n) {
        layer[n] = keyed[n].second;
        position[layer[n]] = static_cast<double>(n) - static_cast<double>(keyed.size()) / 2;
      }
    }
  }

  void place() {
    double widest = 0;
    std::vector<double> widths;
    for (const auto& layer : layers_) {
      double width = 0;
      for (size_t i : layer) width += items_[i].width + kGapX;
      widths.push_back(width);
      widest = std::max(widest, width);
    }
    // Room on both sides for the frame of the for-loop.
    double y = kPadding + kLine;
    for (size_t l = 0; l < layers_.size(); ++l) {
      double x = kPadding + (widest - widths[l]) / 2 + kGapX / 2;
      double tallest = 0;
      for (size_t i : layers_[l]) {
        items_[i].x = x;
        items_[i].y = y;
        x += items_[i].width + kGapX;
        tallest = std::max(tallest, items_[i].height);
      }
      y += tallest + kGapY;
    }
    width_ = widest + 2 * kPadding;
    height_ = y - kGapY + kPadding + kLine;
  }

  Drawing draw() const {
    Drawing drawing{width_, height_, {}, {}};
    Rectangle loop;
    bool any = false;
    for (const Item& item : items_) {
      if (!item.in_loop) continue;
      const double top = item.y - kLine - 4;
      const double bottom = item.y + item.height + kPadding;
      if (!any) loop = {kPadding / 2, top, width_ - kPadding, bottom - top};
      const double end = std::max(loop.y + loop.height, bottom);
      loop.y = std::min(loop.y, top);
      loop.height = end - loop.y;
      any = true;
    }
    if (any)
      drawing.boxes.push_back(
          {DrawnBox::Kind::Loop, loop, {fmt::format("for-loop, {} iterations", graph_.launch().loop)}, 0});
    for (const Item& item : items_) {
      drawing.boxes.push_back({item.kind, {item.x, item.y, item.width, item.height}, item.lines, 1});
      if (item.inner.width > 0) {
        const double dx = item.x + (item.width - item.inner.width) / 2;
        const double dy = item.y + kPadding + kLine * static_cast<double>(item.lines.size());
        for (DrawnBox box : item.inner.boxes) {
          box.place.x += dx;
          box.place.y += dy;
          box.depth += 2;
          drawing.boxes.push_back(std::move(box));
        }
        for (DrawnEdge edge : item.inner.edges) {
          edge.x1 += dx, edge.x2 += dx, edge.label_x += dx;
          edge.y1 += dy, edge.y2 += dy, edge.label_y += dy;
          drawing.edges.push_back(std::move(edge));
        }
      }
      for (int from : item.from) {
        const Item& above = items_[static_cast<size_t>(from)];
        DrawnEdge edge{above.x + above.width / 2, above.y + above.height, item.x + item.width / 2, item.y, {}};
        if (!item.label.empty() && !item.label_below) {
          edge.label = item.label;
          edge.label_x = item.x + item.width / 2;
          edge.label_y = item.y - 6;
        } else if (above.label_below) {
          edge.label = above.label;
          edge.label_x = above.x + above.width / 2;
          edge.label_y = above.y + above.height + kLine - 2;
        }
        drawing.edges.push_back(std::move(edge));
      }
    }
    return drawing;
  }

  const Graph& graph_;
  std::vector<Item> items_;
  size_t inputs_ = 0;
  std::vector<std::vector<size_t>> layers_;
  double width_ = 0, height_ = 0;
};

}  // namespace

Drawing lay_out(const Graph& graph) { return Layout(graph).run(); }

}  // namespace strata
