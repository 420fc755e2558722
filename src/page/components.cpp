#include <cmath>

#include "page/page.h"
#include "support/markup.h"

namespace strata::page {
namespace {

std::string classes(const std::vector<std::string_view>& names) {
  std::string text;
  for (const std::string_view name : names) {
    if (!name.empty()) text += (text.empty() ? "" : " ") + std::string(name);
  }
  return text.empty() ? "" : fmt::format(" class=\"{}\"", text);
}

std::string cell_markup(const Cell& cell, const Column& column, bool heading) {
  std::string text = escape_markup(cell.text);
  if (cell.share >= 0) {
    text += fmt::format("<span class=\"gauge\" aria-hidden=\"true\"><i style=\"--share:{:.4f}\"></i></span>",
                        std::min(cell.share, 1.0));
  }
  const std::string of = classes({column.number ? "n" : "", cell.share >= 0 ? "bar" : "", cell.tone});
  return heading ? fmt::format("<th scope=\"row\"{}>{}</th>", of, text) : fmt::format("<td{}>{}</td>", of, text);
}

/// Round numbers from `least` to `most`.
std::vector<double> ticks(double least, double most) {
  constexpr double kFew = 5;  // of a narrow range, all nine
  std::vector<double> steps{1, 2, 5};
  if (most / least < kFew) steps = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  std::vector<double> all;
  for (double power = std::pow(10, std::floor(std::log10(least))); power <= most; power *= 10) {
    for (const double times : steps) {
      if (power * times >= least && power * times <= most) all.push_back(power * times);
    }
  }
  return all;
}

}  // namespace

std::string to_html(const Table& table) {
  std::string text = fmt::format(
      "<div class=\"scroll\" role=\"region\" aria-label=\"{0}\" tabindex=\"0\"><table{1}>\n<caption>{0}</caption>\n"
      "<thead><tr>",
      escape_markup(table.caption), classes({table.sortable && table.rows.size() > 1 ? "sortable" : ""}));
  for (const Column& column : table.columns)
    text += fmt::format("<th scope=\"col\"{}>{}</th>", classes({column.number ? "n" : ""}), escape_markup(column.name));
  text += "</tr></thead>\n<tbody>\n";
  for (size_t r = 0; r < table.rows.size(); ++r) {
    text += r == table.chosen ? "<tr class=\"chosen\">" : "<tr>";
    for (size_t c = 0; c < table.columns.size(); ++c) {
      text += cell_markup(c < table.rows[r].size() ? table.rows[r][c] : Cell(), table.columns[c], c == 0);
    }
    text += "</tr>\n";
  }
  return text + "</tbody></table></div>\n";
}

std::string to_html(const std::vector<Figure>& figures) {
  std::string text = "<dl class=\"figures\">\n";
  for (const Figure& figure : figures) {
    text += fmt::format("<div><dt>{}</dt><dd><span class=\"value\">{}</span>", escape_markup(figure.name),
                        escape_markup(figure.value));
    if (!figure.note.empty()) text += fmt::format("<span class=\"note\">{}</span>", escape_markup(figure.note));
    text += "</dd></div>\n";
  }
  return text + "</dl>\n";
}

std::string to_html(const Scatter& scatter) {
  constexpr double kWidth = 720, kHeight = 420, kLeft = 64, kTop = 14, kRight = 20, kBottom = 52;
  double least = HUGE_VAL, most = 0;
  for (const Scatter::Dot& dot : scatter.dots) {
    least = std::min({least, dot.x, dot.y});
    most = std::max({most, dot.x, dot.y});
  }
  if (scatter.dots.empty() || least <= 0) return {};
  least /= 1.15;
  most *= 1.15;
  const auto part = [&](double value) { return std::log(value / least) / std::log(most / least); };
  const auto across = [&](double value) { return kLeft + part(value) * (kWidth - kLeft - kRight); };
  const auto up = [&](double value) { return kHeight - kBottom - part(value) * (kHeight - kTop - kBottom); };
  std::string text = fmt::format(
      "<svg class=\"chart\" viewBox=\"0 0 {} {}\" role=\"img\" aria-labelledby=\"scatter-title scatter-desc\">\n"
      "<title id=\"scatter-title\">{}</title><desc id=\"scatter-desc\">{}</desc>\n",
      kWidth, kHeight, escape_markup(scatter.title), escape_markup(scatter.description));
  const double floor = kHeight - kBottom;
  for (const double at : ticks(least, most)) {
    text += fmt::format(
        "<path class=\"axis\" d=\"M{0:.1f} {1}V{2}M{3} {4:.1f}H{5}\"/><text x=\"{0:.1f}\" y=\"{6}\" "
        "text-anchor=\"middle\">{7:g}</text><text x=\"{8}\" y=\"{9:.1f}\" text-anchor=\"end\">{7:g}</text>\n",
        across(at), kTop, floor, kLeft, up(at), kWidth - kRight, floor + 18, at, kLeft - 8, up(at) + 4);
  }
  text += fmt::format("<path class=\"guide\" d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\"/>\n", across(least), up(least),
                      across(most), up(most));
  text += fmt::format(
      "<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text><text x=\"0\" y=\"0\" text-anchor=\"middle\" "
      "transform=\"translate(14 {:.1f}) rotate(-90)\">{}</text>\n",
      (kLeft + kWidth - kRight) / 2, kHeight - 12, escape_markup(scatter.across), (kTop + floor) / 2,
      escape_markup(scatter.up));
  for (const Scatter::Dot& dot : scatter.dots) {
    text +=
        fmt::format("<circle{} cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" data-tip=\"{}\"/>\n", classes({"dot", dot.tone}),
                    across(dot.x), up(dot.y), dot.tone.empty() ? 4 : 6, escape_markup(dot.says));
  }
  return text + "</svg>\n";
}

std::string paragraph(std::string_view text) { return fmt::format("<p>{}</p>\n", escape_markup(text)); }

std::string code(std::string_view text) { return fmt::format("<code>{}</code>", escape_markup(text)); }

std::string details(std::string_view summary, std::string_view text) {
  return fmt::format("<details><summary>{}</summary><pre tabindex=\"0\">{}</pre></details>\n", escape_markup(summary),
                     escape_markup(text));
}

std::string lines(std::string_view source, std::string_view name, size_t before) {
  std::string text = fmt::format("<pre class=\"lines {}\" style=\"--before:{}\">", name, before);
  while (!source.empty()) {
    const size_t end = source.find('\n');
    // An empty line has a space, or it would have no height.
    const std::string line = escape_markup(source.substr(0, end));
    text += fmt::format("<span>{}</span>", line.empty() ? " " : line);
    source = end == std::string_view::npos ? std::string_view() : source.substr(end + 1);
  }
  return text + "</pre>\n";
}

std::string grouped(int64_t number) {
  std::string text = std::to_string(number);
  const size_t first = number < 0 ? 1 : 0;
  for (size_t at = text.size(); at > first + 3;) text.insert(at -= 3, ",");
  return text;
}

std::string bytes(double count) {
  constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  size_t unit = 0;
  for (; count >= 999.95 && unit < 4; ++unit) count /= 1000;
  return unit == 0 ? fmt::format("{:.0f} B", count)
                   : fmt::format("{:.{}f} {}", count, count < 100 ? 2 : 1, kUnits[unit]);
}

std::string time(double microseconds) {
  if (microseconds >= 1e6) return fmt::format("{:.2f} s", microseconds / 1e6);
  if (microseconds >= 1e4) return fmt::format("{:.2f} ms", microseconds / 1e3);
  if (microseconds > 0 && microseconds < 0.1) return fmt::format("{:.2f} ns", microseconds * 1e3);
  return fmt::format("{:.2f} µs", microseconds);
}

}  // namespace strata::page
