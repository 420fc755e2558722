#include "page/page.h"

#include "page/assets.h"
#include "support/markup.h"

namespace strata::page {
namespace {

/// JSON in a script element, where "</" and "<!--" would mean something: a string's < is as good written as \u003c.
std::string in_script(const std::string& json) {
  std::string text;
  for (const char c : json) text += c == '<' ? std::string("\\u003c") : std::string(1, c);
  return text;
}

std::string head(const Page& page) {
  std::string style = std::string(page_tokens()) + std::string(page_style());
  if (page.graphs) style += graph_style();
  if (page.timeline) style += timeline_style();
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<title>{} · Strata "
      "{}</title>\n<style>\n{}</style>\n</head>",
      escape_markup(page.title), escape_markup(page.kind), style);
}

std::string masthead(const Page& page) {
  std::string text = fmt::format(
      "<a class=\"skip\" href=\"#content\">Skip to the content</a>\n<header class=\"masthead\">\n"
      "<div class=\"brand\"><span><b>Strata</b> {}</span>"
      "<button type=\"button\" class=\"plain\" id=\"theme\" hidden>Theme: system</button></div>\n<h1>{}</h1>\n",
      escape_markup(page.kind), escape_markup(page.title));
  if (!page.facts.empty()) {
    text += "<ul class=\"facts\">";
    for (const std::string& fact : page.facts) text += "<li>" + escape_markup(fact) + "</li>";
    text += "</ul>\n";
  }
  if (!page.lead.empty()) text += fmt::format("<p class=\"lead\">{}</p>\n", escape_markup(page.lead));
  return text + "</header>\n";
}

std::string contents(const Page& page) {
  std::string text = "<nav aria-label=\"Sections\"><ul>\n";
  for (const Section& section : page.sections)
    text += fmt::format("<li><a href=\"#{}\">{}</a></li>\n", section.id, escape_markup(section.title));
  return text + "</ul></nav>\n";
}

}  // namespace

std::string to_html(const Page& page) {
  std::string text = head(page) + "<body>\n" + masthead(page) + "<div class=\"layout\">\n" + contents(page) +
                     "<main id=\"content\" tabindex=\"-1\">\n";
  for (const Section& section : page.sections) {
    text += fmt::format(
        "<section id=\"{0}\" aria-labelledby=\"{0}-title\">\n<h2 id=\"{0}-title\">{1}</h2>\n{2}</section>\n",
        section.id, escape_markup(section.title), section.markup);
  }
  text += "</main>\n</div>\n<div id=\"tip\" hidden></div>\n";
  for (const auto& [id, json] : page.data)
    text += fmt::format("<script type=\"application/json\" id=\"{}\">{}</script>\n", id, in_script(json));
  text += fmt::format("<script>\n{}</script>\n", page_script());
  if (page.graphs) text += fmt::format("<script>\n{}</script>\n", graph_script());
  if (page.timeline) text += fmt::format("<script>\n{}</script>\n", timeline_script());
  return text + "</body></html>\n";
}

}  // namespace strata::page
