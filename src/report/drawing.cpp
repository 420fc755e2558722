#include "report/drawing.h"

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
std::string path_of(const DrawnEdge& edge) {
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
  return fmt::format("<path class=\"edge\" marker-end=\"url(#arrow)\" d=\"{}\"/>\n", path);
}

}  // namespace

std::string_view style_sheet() {
  return R"(
:root { --ink: #1d2733; --soft: #5b6875; --paper: #ffffff; --line: #8a97a5; --tensor: #eef1f4; --operator: #ffffff;
  --block: #eaf2fb; --thread: #e9f6ec; --accent: #1f6fb2; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e9ee; --soft: #9aa7b4; --paper: #14191f; --line: #667381; --tensor: #222a33; --operator: #1a2129;
    --block: #17283a; --thread: #17301f; --accent: #6db3f2; } }
svg text { font: 12px ui-monospace, 'DejaVu Sans Mono', monospace; fill: var(--ink); }
svg rect { stroke: var(--line); stroke-width: 1; }
svg .tensor { fill: var(--tensor); } svg .operator { fill: var(--operator); }
svg .block { fill: var(--block); stroke: var(--accent); stroke-width: 1.5; }
svg .thread { fill: var(--thread); stroke: #3b8a52; }
svg .loop { fill: none; stroke: var(--accent); stroke-dasharray: 6 4; }
svg .edge { fill: none; stroke: var(--soft); stroke-width: 1.2; }
svg .label { fill: var(--accent); } svg .strong { font-weight: bold; }
)";
}

/// The light style with its colours written out: viewers other than browsers know no variables.
std::string plain_style() {
  const std::string_view all = style_sheet();
  const size_t rules = all.find("svg text");
  std::string style = std::string(all.substr(rules)) + "svg { background: var(--paper); }";
  for (size_t at = 0; (at = style.find("var(", at)) != std::string::npos;) {
    const size_t end = style.find(')', at);
    const std::string name = style.substr(at + 4, end - at - 4) + ": ";
    const size_t value = all.find(name) + name.size();
    style.replace(at, end + 1 - at, all.substr(value, all.find(';', value) - value));
  }
  return style;
}

std::string svg_element(const Graph& graph, bool inline_style) {
  const Drawing drawing = lay_out(graph);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "role=\"img\" aria-label=\"{2}\">\n",
      drawing.width, drawing.height, escape_markup(graph.name()));
  if (inline_style) svg += fmt::format("<style>{}</style>\n", plain_style());
  svg +=
      "<defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" "
      "orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"#7a8794\"/></marker></defs>\n";
  for (const DrawnBox& box : drawing.boxes) {
    const Rectangle& r = box.place;
    svg += fmt::format("<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"5\"/>\n",
                       class_of(box.kind), r.x, r.y, r.width, r.height);
    double y = r.y + 8 + kFontSize;
    const bool loop = box.kind == DrawnBox::Kind::Loop;
    for (size_t i = 0; i < box.lines.size(); ++i) {
      svg += fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\"{}>{}</text>\n",
                         loop     ? "label"
                         : i == 0 ? "strong"
                                  : "plain",
                         loop ? box.text.x : r.x + r.width / 2, loop ? box.text.y : y,
                         loop ? "" : " text-anchor=\"middle\"", escape_markup(box.lines[i]));
      y += kLine;
    }
  }
  for (const DrawnEdge& edge : drawing.edges) svg += path_of(edge);
  return svg + "</svg>\n";
}

std::string draw_svg(const Graph& graph) { return svg_element(graph, true); }

}  // namespace strata
