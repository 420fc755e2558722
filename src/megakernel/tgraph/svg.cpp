// Task graphs as drawings.
#include <set>

#include "megakernel/tgraph/precedence.h"
#include "megakernel/tgraph/print.h"
#include "support/markup.h"

namespace strata::megakernel {
namespace {

constexpr double kColumn = 230;  // from one column of tasks to the next
constexpr double kRow = 44;
constexpr double kWidth = 130;  // of a node
constexpr double kHeight = 30;
constexpr double kTop = 56;
constexpr double kLeft = 20;
constexpr double kRadius = 9;
/// More nodes of a group than this are drawn as the first ones and one for the others.
constexpr size_t kMostNodes = 12;

/// Tasks of a group that trigger the same events and wait for the same.
struct Node {
  int group = 0;
  int64_t tasks = 0;
  int64_t classes = 1;  ///< that it stands for
  double x = 0, y = 0;
};

struct Circle {
  std::set<int> in, out;  ///< nodes
  int64_t events = 0;
  double x = 0, y = 0;
};

class Drawing {
 public:
  explicit Drawing(const TaskGraph& graph) : graph_(graph), numbers_(graph) {}

  std::string run() {
    make_nodes();
    make_circles();
    place();
    return draw();
  }

 private:
  void make_nodes() {
    std::vector<std::vector<int>> in(static_cast<size_t>(numbers_.count())), out(in);
    for (size_t e = 0; e < graph_.events.size(); ++e) {
      for (int task : numbers_.tasks_of(graph_.events[e].in))
        in[static_cast<size_t>(task)].push_back(static_cast<int>(e));
      for (int task : numbers_.tasks_of(graph_.events[e].out))
        out[static_cast<size_t>(task)].push_back(static_cast<int>(e));
    }
    node_of_.assign(in.size(), 0);
    for (size_t g = 0; g < graph_.groups.size(); ++g) {
      std::map<std::pair<std::vector<int>, std::vector<int>>, int> known;
      const size_t before = nodes_.size();
      for (int task = numbers_.base(static_cast<int>(g)); task < numbers_.base(static_cast<int>(g) + 1); ++task) {
        const auto t = static_cast<size_t>(task);
        const auto [found, added] = known.emplace(std::pair(in[t], out[t]), static_cast<int>(nodes_.size()));
        if (added && nodes_.size() - before == kMostNodes) {
          found->second = static_cast<int>(nodes_.size()) - 1;
          ++nodes_.back().classes;
        } else if (added) {
          nodes_.push_back({static_cast<int>(g)});
        }
        node_of_[t] = found->second;
        ++nodes_[static_cast<size_t>(found->second)].tasks;
      }
    }
  }

  void make_circles() {
    std::map<std::pair<std::set<int>, std::set<int>>, int64_t> alike;
    for (const TaskEvent& event : graph_.events) {
      std::set<int> in, out;
      for (int task : numbers_.tasks_of(event.in)) in.insert(node_of_[static_cast<size_t>(task)]);
      for (int task : numbers_.tasks_of(event.out)) out.insert(node_of_[static_cast<size_t>(task)]);
      ++alike[{in, out}];
    }
    for (const auto& [sides, events] : alike) circles_.push_back({sides.first, sides.second, events});
  }

  /// Columns in an order in which groups can be executed, each of them as far left as it can be.
  void place() {
    std::vector<int> column(graph_.groups.size(), 0);
    for (size_t pass = 0; pass < graph_.groups.size(); ++pass) {
      bool changed = false;
      for (const TaskEvent& event : graph_.events) {
        int after = 0;
        for (const auto& [group, blocks] : event.in.groups)
          after = std::max(after, column[static_cast<size_t>(group)] + 1);
        for (const auto& [group, blocks] : event.out.groups) {
          if (column[static_cast<size_t>(group)] >= after) continue;
          column[static_cast<size_t>(group)] = after;
          changed = true;
        }
      }
      if (!changed) break;
    }
    std::map<int, int> rows;
    for (Node& node : nodes_) {
      const int at = column[static_cast<size_t>(node.group)];
      node.x = kLeft + at * kColumn;
      node.y = kTop + rows[at]++ * kRow;
    }
    int most = 1;
    for (const auto& [at, count] : rows) most = std::max(most, count);
    for (Node& node : nodes_) node.y += (most - rows[column[static_cast<size_t>(node.group)]]) * kRow / 2;
    // A circle stands before the first of those that wait for it; those of one place stand below each other.
    std::map<std::pair<int, int>, int> taken;
    for (Circle& circle : circles_) {
      double x = 1e30, y = 0;
      for (int node : circle.out) x = std::min(x, nodes_[static_cast<size_t>(node)].x);
      if (circle.out.empty()) {
        x = 0;
        for (int node : circle.in) x = std::max(x, nodes_[static_cast<size_t>(node)].x + kColumn);
      }
      for (int node : circle.out) y += nodes_[static_cast<size_t>(node)].y;
      for (int node : circle.in) y += nodes_[static_cast<size_t>(node)].y;
      circle.x = x - (kColumn - kWidth) / 2;
      circle.y = y / static_cast<double>(circle.in.size() + circle.out.size()) + kHeight / 2;
      while (taken[{static_cast<int>(circle.x), static_cast<int>(circle.y / (2 * kRadius + 4))}]++ > 0)
        circle.y += 2 * kRadius + 4;
      height_ = std::max(height_, circle.y + 2 * kRadius);
    }
    // One that nobody triggers stands left of the first column.
    double first = kLeft + kRadius;
    for (const Circle& circle : circles_) first = std::min(first, circle.x);
    const double shift = kLeft + kRadius - first;
    for (Node& node : nodes_) node.x += shift;
    for (Circle& circle : circles_) circle.x += shift;
    for (const Node& node : nodes_) {
      height_ = std::max(height_, node.y + kHeight + 20);
      width_ = std::max(width_, node.x + kWidth + kLeft);
    }
    for (const Circle& circle : circles_) width_ = std::max(width_, circle.x + kRadius + kLeft);
  }

  static std::string curve(double x0, double y0, double x1, double y1) {
    const double middle = (x0 + x1) / 2;
    return fmt::format("<path d=\"M{:.1f} {:.1f}C{:.1f} {:.1f} {:.1f} {:.1f} {:.1f} {:.1f}\"/>\n", x0, y0, middle, y0,
                       middle, y1, x1, y1);
  }

  std::string draw() const {
    std::string svg = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} "
        "{1:.0f}\" "
        "role=\"img\" aria-label=\"task graph\">\n",
        width_, height_);
    svg +=
        "<style>svg { background: #ffffff; } text { font: 12px 'DejaVu Sans Mono', monospace; fill: #1d2733; "
        "text-anchor: middle; } rect { fill: #eaf2fb; stroke: #1f6fb2; } rect.empty { fill: #ffffff; stroke-dasharray: "
        "4 3; } circle { fill: #fdf3df; stroke: #a9781b; } path { fill: none; stroke: #8a97a5; }</style>\n";
    for (const Circle& circle : circles_) {
      for (int node : circle.in) {
        const Node& from = nodes_[static_cast<size_t>(node)];
        svg += curve(from.x + kWidth, from.y + kHeight / 2, circle.x - kRadius, circle.y);
      }
      for (int node : circle.out) {
        const Node& to = nodes_[static_cast<size_t>(node)];
        svg += curve(circle.x + kRadius, circle.y, to.x, to.y + kHeight / 2);
      }
    }
    for (const Node& node : nodes_) {
      const TaskGroup& group = graph_.groups[static_cast<size_t>(node.group)];
      svg += fmt::format("<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.0f}\" height=\"{:.0f}\" rx=\"5\"/>\n",
                         group.op < 0 ? "empty" : "task", node.x, node.y, kWidth, kHeight);
      constexpr size_t kMostLetters = 11;
      const std::string name =
          group.name.size() > kMostLetters ? group.name.substr(0, kMostLetters - 1) + "…" : group.name;
      svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">{} × {}<title>{}: {} tasks, {} kinds</title></text>\n",
                         node.x + kWidth / 2, node.y + kHeight / 2 + 4, escape_markup(name), node.tasks,
                         escape_markup(group.name), node.tasks, node.classes);
    }
    for (const Circle& circle : circles_) {
      svg += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.0f}\"/>\n", circle.x, circle.y, kRadius);
      if (circle.events > 1)
        svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", circle.x, circle.y + 4, circle.events);
    }
    return svg + "</svg>\n";
  }

  const TaskGraph& graph_;
  const TaskNumbers numbers_;
  std::vector<Node> nodes_;
  std::vector<int> node_of_;
  std::vector<Circle> circles_;
  double width_ = 0, height_ = 0;
};

}  // namespace

std::string to_svg(const TaskGraph& graph) { return Drawing(graph).run(); }

}  // namespace strata::megakernel
