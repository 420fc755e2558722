#include "page/page.h"
#include "report/pages.h"
#include "support/markup.h"

namespace strata {
namespace {

using page::Cell;
using page::Table;

std::string two(const Json& value) { return value.is_number() ? fmt::format("{:.2f}", number(value)) : "–"; }

std::string percent(double share) {
  return share < 0.01 ? fmt::format("{:.2g} %", 100 * share) : fmt::format("{:.0f} %", 100 * share);
}

/// A step's time: measured where it was, else the estimate.
double time_of(const Json& step, bool measured) { return number(step, measured ? "measured_us" : "estimated_us"); }

std::string arrays(const Json& all) {
  std::vector<std::string> words;
  for (const Json& one : all) words.push_back(text(one, "shape"));
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string steps_table(const Json& steps, bool measured, std::string_view caption) {
  double most = 0;
  for (const Json& step : steps) most = std::max(most, time_of(step, measured));
  Table table{
      std::string(caption),
      {{"step"}, {"made by"}, {"reads and writes", true}, {"moving it alone, µs", true}, {"estimated µs", true}},
      {}};
  if (measured) table.columns.push_back({"measured µs", true});
  table.columns.push_back({"share of the floor", true});
  for (const Json& step : steps) {
    const double time = time_of(step, measured), floor = number(step, "floor_us");
    std::vector<Cell> row{text(step, "name"), text(step, "what"), page::bytes(number(step, "bytes")),
                          two(at(step, {"floor_us"}))};
    const double share = most > 0 ? time / most : 0;
    row.push_back(measured || time <= 0 ? Cell(two(at(step, {"estimated_us"})))
                                        : Cell(two(at(step, {"estimated_us"})), share));
    if (measured) row.push_back(time <= 0 ? Cell("–") : Cell(two(at(step, {"measured_us"})), share));
    row.push_back(time > 0 && floor > 0 ? percent(floor / time) : "–");
    table.rows.push_back(std::move(row));
  }
  return to_html(table);
}

/// What a step is and why, as a list that opens.
std::string step_details(const Json& step) {
  std::string words =
      fmt::format("made by       {}\nwhy           {}\nreads         {}\nwrites        {}\n", text(step, "what"),
                  text(step, "reason"), arrays(list(step, "reads")), arrays(list(step, "writes")));
  for (const Json& launch : list(step, "launches")) {
    words += fmt::format("kernel        {}: {} of {}, {} of shared memory\n", text(launch, "kernel"),
                         counted(whole(launch, "blocks"), "block"), counted(whole(launch, "threads"), "thread"),
                         page::bytes(number(launch, "shared_bytes")));
  }
  for (const char* key : {"details", "refused"}) {
    for (const Json& pair : list(step, key)) {
      if (!pair.is_array() || pair.size() != 2) continue;
      const std::string name = (std::string_view(key) == "refused" ? "not " : "") + text(pair[0]);
      words += fmt::format("{:<13} {}\n", name, text(pair[1]));
    }
  }
  for (const Json& note : list(step, "notes")) words += fmt::format("no library    {}\n", text(note));
  return page::details(fmt::format("{}: {}", text(step, "name"), text(step, "what")), words);
}

std::string loops(const Json& steps, bool measured) {
  std::string markup;
  for (const Json& step : steps) {
    const Json& body = list(step, "steps");
    if (body.empty()) continue;
    markup += steps_table(body, measured,
                          fmt::format("One iteration of the loop {}: {}", text(step, "name"), text(step, "reason")));
    for (const Json& one : body) markup += step_details(one);
    markup += loops(body, measured);
  }
  return markup;
}

std::vector<page::Figure> figures(const Json& report) {
  const bool measured = at(report, {"measured"}).is_object();
  const double all = measured ? number(at(report, {"measured", "all_us"})) : number(report, "estimated_us");
  const double floor = number(report, "floor_us");
  return {{measured ? "time, measured" : "time, estimated", all > 0 ? page::time(all) : "–",
           measured ? "as a CUDA graph where it can be one" : "the sum of its steps"},
          {"steps", std::to_string(list(report, "steps").size()), ""},
          {"parameters and results", page::bytes(number(report, "bytes")), "moved once at the least"},
          {"floor", floor > 0 ? page::time(floor) : "–", "for moving these alone"},
          {"share of the floor", all > 0 && floor > 0 ? percent(floor / all) : "–", "100 %: nothing but these bytes"}};
}

}  // namespace

std::string module_page(const Json& report) {
  const Explanation words = explain_module(report);
  const Json& steps = list(report, "steps");
  const bool measured = at(report, {"measured"}).is_object();
  page::Page page;
  page.kind = "module";
  page.title = words.title;
  page.facts = {text(report, "gpu")};
  if (measured) page.facts.push_back("measured on " + text(at(report, {"measured", "device"})));
  page.lead = words.headline;
  std::string why;
  for (const Json& step : steps) why += step_details(step);
  page.sections = {{"summary", "Summary", to_html(figures(report)) + to_html(words)},
                   {"steps", "Steps", steps_table(steps, measured, "Steps, in the order in which they run")},
                   {"why", "Why each step", why}};
  if (const std::string inner = loops(steps, measured); !inner.empty())
    page.sections.push_back({"loops", "Loops", inner});
  return page::to_html(page);
}

}  // namespace strata
