#include "ir/text.h"
#include "page/page.h"
#include "report/drawing.h"
#include "report/pages.h"
#include "report/report.h"
#include "support/markup.h"

namespace strata {
namespace {

constexpr const char* kKey =
    "<ul class=\"key\"><li><i style=\"background:var(--tensor)\"></i>tensor in device memory</li><li><i "
    "style=\"background:var(--operator)\"></i>operator</li><li><i style=\"background:var(--block);"
    "border-color:var(--block-line)\"></i>block graph: one kernel</li><li><i style=\"background:var(--thread);"
    "border-color:var(--thread-line)\"></i>thread graph: in registers</li><li><i style=\"border:1px dashed "
    "var(--block-line)\"></i>repeated by the for-loop</li></ul>\n";

/// Operators of a graph that is drawn. The time that a drawing takes, and its size, grow with the square of them;
/// nobody would find anything in it.
constexpr size_t kMostDrawn = 500;

std::string tab(std::string_view id, std::string_view name, std::string_view words, bool chosen) {
  return fmt::format(
      "<button type=\"button\" class=\"plain\" role=\"tab\" id=\"{0}-{1}-tab\" aria-controls=\"{0}-{1}\" "
      "aria-selected=\"{2}\" tabindex=\"{3}\">{4}</button>",
      id, name, chosen, chosen ? 0 : -1, words);
}

std::string panel(std::string_view id, std::string_view name, const std::string& markup, bool chosen) {
  return fmt::format(
      "<div class=\"view\" role=\"tabpanel\" id=\"{0}-{1}\" aria-labelledby=\"{0}-{1}-tab\" "
      "tabindex=\"0\"{2}>{3}</div>\n",
      id, name, chosen ? "" : " hidden", markup);
}

}  // namespace

std::string graph_beside_source(const Graph& graph, std::string_view id, std::string_view code, size_t first) {
  if (graph.operations().size() > kMostDrawn) {
    return fmt::format(
        "<p>It has {} operators. More than {} are not drawn; <code>strata show --format svg</code> draws "
        "any number.</p>\n{}{}",
        graph.operations().size(), kMostDrawn, page::lines(print(graph), "mugraph"),
        code.empty() ? "" : page::lines(code, "cuda", first - 1));
  }
  constexpr const char* kEmpty =
      "Point at a box, or tab into the graph and use the arrow keys: what it makes, reads and means is shown here.";
  std::string markup = kKey;
  markup += fmt::format(
      "<div class=\"split\">\n<div class=\"pane\"><div class=\"toolbar\"><button type=\"button\" class=\"plain\" "
      "data-zoom=\"out\" aria-label=\"Zoom out\">−</button><button type=\"button\" class=\"plain\" data-zoom=\"in\" "
      "aria-label=\"Zoom in\">+</button><button type=\"button\" class=\"plain\" data-zoom=\"fit\">Fit</button><span "
      "class=\"end zoom\"></span></div>\n<div class=\"view drawing\">{}</div>\n<div class=\"detail\" "
      "role=\"status\" data-empty=\"{}\">{}</div></div>\n",
      svg_element(graph, {std::string(id), true}), kEmpty, kEmpty);
  markup +=
      fmt::format("<div class=\"pane\"><div class=\"toolbar\" role=\"tablist\" aria-label=\"Text of {}\">{}{}</div>\n",
                  escape_markup(graph.name()), tab(id, "mugraph", "µGraph", true),
                  code.empty() ? "" : tab(id, "cuda", "CUDA", false));
  markup += panel(id, "mugraph", page::lines(print(graph), "mugraph"), true);
  if (!code.empty()) markup += panel(id, "cuda", page::lines(code, "cuda", first - 1), false);
  return markup + "</div>\n</div>\n";
}

std::string draw_html(const Graph& graph) {
  page::Page page;
  page.kind = "graph";
  page.title = graph.name();
  page.graphs = true;
  page.sections = {{"graph-section", "Graph", graph_beside_source(graph, "graph", {})}};
  return page::to_html(page);
}

}  // namespace strata
