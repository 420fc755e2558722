#include "report/drawing.h"

#include "page/assets.h"
#include "report/box_text.h"
#include "report/layout.h"
#include "report/report.h"
#include "support/markup.h"

namespace strata {
namespace {

std::string_view class_of(DrawnBox::Kind kind) {
  switch (kind) {
    case DrawnBox::Kind::Tensor:
      return "tensor";
    case DrawnBox::Kind::Operator:
      return "operator";
    case DrawnBox::Kind::BlockGraph:
      return "block";
    case DrawnBox::Kind::ThreadGraph:
      return "thread";
    case DrawnBox::Kind::Loop:
      return "loop";
  }
  return "";
}

/// Upright pieces as lines, others as curves that leave and arrive upright.
std::string path_of(const DrawnEdge& edge, const std::string& id) {
  std::string path = fmt::format("M{:.1f} {:.1f}", edge.points[0].x, edge.points[0].y);
  for (size_t n = 1; n < edge.points.size(); ++n) {
    const Point& from = edge.points[n - 1];
    const Point& to = edge.points[n];
    if (from.x == to.x) {
      path += fmt::format("L{:.1f} {:.1f}", to.x, to.y);
    } else {
      const double middle = (from.y + to.y) / 2;
      path += fmt::format("C{:.1f} {:.1f} {:.1f} {:.1f} {:.1f} {:.1f}", from.x, middle, to.x, middle, to.x, to.y);
    }
  }
  return fmt::format("<path class=\"edge\" marker-end=\"url(#{}-arrow)\" d=\"{}\"/>\n", id, path);
}

/// The style with the light values of its tokens written out: viewers other than browsers know no variables.
std::string plain_style() {
  std::string style = std::string(graph_style()) + "svg { background: var(--paper); }";
  for (size_t at = 0; (at = style.find("var(", at)) != std::string::npos;) {
    const size_t end = style.find(')', at);
    style.replace(at, end + 1 - at, page::light_value(style.substr(at + 4, end - at - 4)));
  }
  return style;
}

std::string text_of(const DrawnBox& box) {
  std::string svg;
  double y = box.place.y + 8 + kFontSize;
  const bool loop = box.kind == DrawnBox::Kind::Loop;
  for (size_t i = 0; i < box.lines.size(); ++i, y += kLine) {
    svg += fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\"{}>{}</text>\n",
                       loop     ? "label"
                       : i == 0 ? "strong"
                                : "plain",
                       loop ? box.text.x : box.place.x + box.place.width / 2, loop ? box.text.y : y,
                       loop ? "" : " text-anchor=\"middle\"", escape_markup(box.lines[i]));
  }
  return svg;
}

/// The attributes of a box that is a button.
std::string button(const DrawnBox& box, const TextLines& lines, const Graph& graph) {
  const std::string detail = describe_box(box);
  int line = lines.output;
  std::string kernel;
  if (box.operation != nullptr) {
    line = lines.operations.at(box.operation);
    // The name of its functions in generated code.
    if (box.graph == &graph) kernel = fmt::format("{}_{}", graph.name(), box.operation - graph.operations().data());
  } else if (box.graph != &graph) {  // what an operator with a body calls its operand
    line = lines.bodies.at(box.graph);
  } else if (lines.inputs.count(box.tensor) > 0) {
    line = lines.inputs.at(box.tensor);
  }
  return fmt::format(
      " class=\"node\" role=\"button\" tabindex=\"-1\" data-line=\"{}\" data-kernel=\"{}\" data-detail=\"{}\" "
      "aria-label=\"{}\"",
      line, escape_markup(kernel), escape_markup(detail),
      escape_markup(fmt::format("{}; line {}", fmt::join(box.lines, ", "), line)));
}

/// What the drawing shows, for who cannot see it.
std::string description(const Graph& graph, const Drawing& drawing) {
  const auto count = [&](DrawnBox::Kind kind) {
    return std::count_if(drawing.boxes.begin(), drawing.boxes.end(),
                         [&](const DrawnBox& box) { return box.kind == kind; });
  };
  return fmt::format("A graph of {} operators; in all it has {} block graphs, {} thread graphs and {} other operators",
                     graph.operations().size(), count(DrawnBox::Kind::BlockGraph), count(DrawnBox::Kind::ThreadGraph),
                     count(DrawnBox::Kind::Operator));
}

}  // namespace

std::string svg_element(const Graph& graph, const DrawingUse& use) {
  const Drawing drawing = lay_out(graph);
  const TextLines lines = use.interactive ? text_lines(graph) : TextLines{};
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "role=\"{2}\" aria-labelledby=\"{3}-title {3}-desc\">\n<title id=\"{3}-title\">{4}</title><desc "
      "id=\"{3}-desc\">{5}</desc>\n",
      drawing.width, drawing.height, use.interactive ? "group" : "img", use.id, escape_markup(graph.name()),
      description(graph, drawing));
  if (!use.interactive) svg += fmt::format("<style>{}</style>\n", plain_style());
  svg += fmt::format(
      "<defs><marker id=\"{}-arrow\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" "
      "orient=\"auto\"><path class=\"head\" d=\"M0 0L8 4L0 8z\"/></marker></defs>\n",
      use.id);
  for (const DrawnBox& box : drawing.boxes) {
    const Rectangle& r = box.place;
    const bool is_button = use.interactive && box.graph != nullptr;
    if (is_button) svg += fmt::format("<g{}>", button(box, lines, graph));
    svg +=
        fmt::format("<rect class=\"box {}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"5\"/>\n",
                    class_of(box.kind), r.x, r.y, r.width, r.height);
    svg += text_of(box);
    if (is_button) svg += "</g>\n";
  }
  for (const DrawnEdge& edge : drawing.edges) svg += path_of(edge, use.id);
  return svg + "</svg>\n";
}

std::string draw_svg(const Graph& graph) { return svg_element(graph, {}); }

}  // namespace strata
