#include <charconv>
#include <cmath>

#include "ir/text.h"
#include "page/page.h"
#include "report/pages.h"
#include "support/markup.h"

namespace strata {
namespace {

using page::Cell;
using page::code;
using page::Table;

double us(const Json& json, std::string_view key) { return number(json, key) * 1e6; }
std::string two(double value) { return fmt::format("{:.2f}", value); }

std::vector<page::Figure> figures(const Json& report) {
  const Json& input = at(report, {"input"});
  const Json& best = at(report, {"best"});
  const Json& rows = list(at(report, {"profile"}), "rows");
  double before = us(input, "estimated_seconds"), after = us(best, "estimated_seconds");
  std::string how = "estimated";
  double cold_before = 0, cold_after = 0;
  for (const Json& row : rows) {
    if (text(row, "candidate") == "input") cold_before = number(row, "cold_us");
    if (truth(row, "chosen")) cold_after = number(row, "cold_us");
  }
  if (cold_before > 0 && cold_after > 0) {
    before = cold_before;
    after = cold_after;
    how = "measured";
  }
  const Json& proof = at(report, {"verification"});
  std::vector<page::Figure> made{
      {"time, " + how, page::time(after), "in place of " + page::time(before)},
      {"times as fast as the input", after > 0 ? two(before / after) : "–",
       "by " + std::string(how == "measured" ? "cold times" : "the same estimate")},
      {"kernels", std::to_string(whole(best, "kernels")), fmt::format("in place of {}", whole(input, "kernels"))},
      {"device memory", page::bytes(number(best, "bytes")), "in place of " + page::bytes(number(input, "bytes"))}};
  if (text(proof, "method") == "solver") {
    made.push_back({"proof", "solver", "without a random part"});
  } else if (whole(proof, "tests") > 0) {
    made.push_back({"error bound of the proof", fmt::format("{:.1e}", number(proof, "error_bound")),
                    counted(whole(proof, "tests"), "random test")});
  } else {
    made.push_back({"proof", "the program itself", "nothing to test"});
  }
  return made;
}

/// The program's part of best.cu, and its first line: the device library above it is the same for all.
std::pair<std::string_view, size_t> program_part(std::string_view source) {
  constexpr std::string_view kSays = "begins in line ";
  const size_t said = source.find(kSays);
  size_t first = 1;
  if (said != std::string_view::npos && said < 4096) {
    const char* const digits = source.data() + said + kSays.size();
    std::from_chars(digits, source.data() + source.size(), first);
  }
  size_t at = 0;
  for (size_t line = 1; line < first; ++line) {
    const size_t end = source.find('\n', at);
    if (end == std::string_view::npos) return {source, 1};
    at = end + 1;
  }
  return {source.substr(at), first};
}

std::string launches(const Json& best) {
  const Json& all = list(best, "launches");
  double most = 0, sum = 0;
  for (const Json& launch : all) {
    most = std::max(most, us(launch, "estimated_seconds"));
    sum += us(launch, "estimated_seconds");
  }
  Table table{fmt::format("Launches of the best µGraph, in order; together {:.2f} µs by the model", sum),
              {{"kernel"}, {"blocks", true}, {"parts", true}, {"device memory", true}, {"estimated µs", true}},
              {}};
  for (const Json& launch : all) {
    const double time = us(launch, "estimated_seconds");
    table.rows.push_back({text(launch, "kernel"),
                          page::grouped(whole(launch, "blocks")),
                          std::to_string(whole(launch, "parts")),
                          page::bytes(number(launch, "bytes")),
                          {two(time), most > 0 ? time / most : 0}});
  }
  std::string markup = to_html(table);
  int64_t choices = 0, kernels = 0;
  double seconds = 0;
  for (const Json& layouts : list(best, "layouts")) {
    choices += whole(layouts, "choices");
    seconds += number(layouts, "seconds");
    ++kernels;
  }
  if (kernels > 0)
    markup +=
        page::paragraph(fmt::format("layouts of tiles in registers: the best of {} choices for {}, found in {:.3f} ms",
                                    choices, counted(kernels, "kernel"), seconds * 1e3));
  return markup;
}

std::string time_section(const Json& report) {
  const Json& input = at(report, {"input"});
  const Json& best = at(report, {"best"});
  const double most = std::max(us(input, "estimated_seconds"), us(best, "estimated_seconds"));
  Table table{
      "The program as given and the result, by the cost model",
      {{"program"}, {"kernels", true}, {"device memory", true}, {"moving it alone, µs", true}, {"estimated µs", true}},
      {}};
  table.sortable = false;
  const std::string name = text(input, "name");
  for (const auto& [label, one] :
       {std::pair(name.empty() ? "input" : name, &input), std::pair(std::string("best µGraph"), &best)}) {
    const double time = us(*one, "estimated_seconds");
    table.rows.push_back({label,
                          std::to_string(whole(*one, "kernels")),
                          page::bytes(number(*one, "bytes")),
                          two(us(*one, "floor_seconds")),
                          {two(time), most > 0 ? time / most : 0}});
  }
  std::string markup = to_html(table);
  if (const std::string needs = text(best, "needs"); !needs.empty())
    markup += page::paragraph("needs at run time " + needs);
  return markup + launches(best);
}

std::string measured_section(const Json& profile) {
  if (!truth(profile, "measured")) return page::paragraph("Nothing: " + text(profile, "reason"));
  std::string markup = page::paragraph(text(profile, "summary")) + page::paragraph(text(profile, "ranking"));
  page::Scatter scatter;
  scatter.title = "Estimated against measured times";
  scatter.description = "A point for each row of the table below that was right; on the dashed line both are equal";
  scatter.across = "estimated µs";
  scatter.up = "measured µs, cold caches";
  Table table{"Candidates in their schedules, the fastest first",
              {{"candidate"},
               {"schedule"},
               {"estimated µs", true},
               {"cold µs", true},
               {"hot µs", true},
               {"error", true},
               {"why not"}},
              {}};
  double most = 0;
  for (const Json& row : list(profile, "rows")) most = std::max(most, number(row, "cold_us"));
  for (const Json& row : list(profile, "rows")) {
    const double cold = number(row, "cold_us"), estimated = number(row, "estimated_us");
    const bool right = text(row, "verdict") == "right", chosen = truth(row, "chosen");
    const bool is_input = text(row, "candidate") == "input";
    if (chosen) table.chosen = table.rows.size();
    Cell verdict(text(row, at(row, {"words"}).is_string() ? "words" : "why_not"));
    if (!right && text(row, "verdict") != "not measured") verdict.tone = "bad";
    table.rows.push_back({text(row, "candidate"), text(row, "schedule"), two(estimated),
                          right ? Cell(two(cold), most > 0 ? cold / most : 0) : Cell(),
                          right ? two(number(row, "hot_us")) : "",
                          right ? fmt::format("{:.1e}", number(row, "error")) : "", verdict});
    if (right && cold > 0 && estimated > 0) {
      scatter.dots.push_back({estimated, cold,
                              fmt::format("{}, {}\nestimated {:.2f} µs, cold {:.2f} µs",
                                          is_input ? "input" : "candidate " + text(row, "candidate"),
                                          text(row, "schedule"), estimated, cold),
                              chosen     ? "best"
                              : is_input ? "given"
                                         : ""});
    }
  }
  if (scatter.dots.size() > 1) {
    markup += to_html(scatter);
    markup +=
        "<ul class=\"key\"><li><i style=\"background:var(--good)\"></i>chosen</li><li><i "
        "style=\"background:var(--bad)\"></i>the program as given</li><li><i "
        "style=\"background:var(--block-line)\"></i>others</li></ul>\n";
  }
  return markup + to_html(table);
}

std::string candidates_section(const Json& report) {
  const bool tuned = truth(at(report, {"profile"}), "measured");
  std::string words = tuned ? "The first is what was chosen by measurement; the others follow by their estimates."
                            : "By their estimates";
  if (const std::string order = text(report, "order"); !tuned) words += (order.empty() ? "" : "; " + order) + ".";
  std::string markup = page::paragraph(words);
  const Json& all = list(report, "candidates");
  double most = 0;
  for (const Json& one : all) most = std::max(most, us(one, "estimated_seconds"));
  Table table{"Graphs that are proved, in the order of their numbers",
              {{"candidate"},
               {"kernels", true},
               {"device memory", true},
               {"estimated µs", true},
               {"error in f32", true},
               {"error in its own types", true},
               {"proof"}},
              {}};
  if (!all.empty()) table.chosen = 0;
  std::string graphs;
  int n = 0;
  for (const Json& one : all) {
    ++n;
    const double time = us(one, "estimated_seconds");
    const std::string input = text(at(report, {"input", "name"}));
    const std::string name =
        truth(one, "is_input") ? fmt::format("{}: {}", n, input.empty() ? "input" : input) : std::to_string(n);
    table.rows.push_back({name,
                          std::to_string(whole(one, "kernels")),
                          page::bytes(number(one, "bytes")),
                          {two(time), most > 0 ? time / most : 0},
                          fmt::format("{:.1e}", number(one, "f32_error")),
                          fmt::format("{:.1e}", number(one, "own_type_error")),
                          text(one, "proof")});
    graphs +=
        page::details(fmt::format("{}: {}, estimated {:.2f} µs", name, counted(whole(one, "kernels"), "kernel"), time),
                      text(one, "graph"));
  }
  return markup + to_html(table) + "<h3>Their graphs</h3>\n" + graphs;
}

/// How the search got from all to few. Bars are logarithmic: what is left is a millionth.
std::string search_section(const Json& report) {
  const Json& search = at(report, {"search"});
  const auto bar = [](int64_t count, int64_t most) {
    return count <= 0 ? 0.0
           : most <= 1
               ? 1.0
               : std::max(0.01, std::log10(static_cast<double>(count) + 1) / std::log10(static_cast<double>(most) + 1));
  };
  const int64_t tried = whole(search, "generated");
  const auto proved = static_cast<int64_t>(list(report, "candidates").size());
  Table left{"What was left after each step; bars are logarithmic", {{"step"}, {"left", true}, {"what it means"}}, {}};
  left.sortable = false;
  for (const auto& [name, count, what] :
       {std::tuple("operators tried", tried, "every operator that was put on top of a partial graph"),
        std::tuple("graphs equal on a random test", whole(search, "verified"),
                   "whole graphs, sizes apart, that computed what the program computes on one random test"),
        std::tuple("graphs proved", proved, "those of the best estimates, tested until the error bound holds"),
        std::tuple("result", int64_t{1}, "the fastest of them")}) {
    left.rows.push_back({name, {page::grouped(count), bar(count, tried)}, what});
  }
  Table rules{
      "What each rule refused. Rules refuse operators, sizes of tiles and whole spaces, so that counts of "
      "different rules do not add up",
      {{"rule"}, {"refused", true}, {"what it refuses"}},
      {}};
  const std::tuple<const char*, const char*, const char*> kRules[] = {
      {"pruned by shape", "pruned_shape", "operands that do not fit, tiles that do not divide a dimension"},
      {"pruned by memory", "pruned_memory", "tiles that exceed shared memory"},
      {"pruned by abstract expression", "pruned_expression", "values that cannot become a part of the program"},
      {"pruned by axes", "pruned_axes", "values whose dimensions cannot become the program's"},
      {"pruned by stability", "pruned_stability", "exponentials that overflow for large inputs"},
      {"layouts that differ on the test", "rejected", "the right expression with its elements in other places"}};
  int64_t most = 1;
  for (const auto& rule : kRules) most = std::max(most, whole(search, std::get<1>(rule)));
  for (const auto& [name, key, what] : kRules)
    rules.rows.push_back({name, {page::grouped(whole(search, key)), bar(whole(search, key), most)}, what});
  Table limits{"Extent of the search", {{"what"}, {"value"}}, {}};
  limits.sortable = false;
  limits.rows = {
      {"ended", text(search, "stop_reason")},
      {"seconds, threads", fmt::format("{:.2f}, {}", number(search, "seconds"), whole(search, "threads"))},
      {"spaces searched", fmt::format("{} of {}", whole(search, "spaces_searched"), whole(search, "spaces_total"))},
      {"left out, with the search's own estimates",
       text(search, "left_out").empty() ? "nothing" : text(search, "left_out")}};
  return to_html(left) + to_html(rules) + to_html(limits);
}

std::string parts_section(const Json& report) {
  Table table{"Parts, in the order in which they run",
              {{"part"}, {"makes"}, {"operators", true}, {"kernels"}, {"estimated µs, input → best"}, {"result"}},
              {}};
  int p = 0;
  for (const Json& part : list(report, "parts")) {
    const Json& input = at(part, {"input"});
    const Json& best = at(part, {"best"});
    table.rows.push_back({std::to_string(p++), text(part, "makes"), std::to_string(whole(part, "operators")),
                          fmt::format("{} → {}", whole(input, "kernels"), whole(best, "kernels")),
                          fmt::format("{:.2f} → {:.2f}", us(input, "estimated_seconds"), us(best, "estimated_seconds")),
                          text(part, "result")});
  }
  Table cuts{"Where the program was cut", {{"value"}, {"from part"}, {"to part"}, {"reason"}}, {}};
  for (const Json& cut : list(report, "cuts"))
    cuts.rows.push_back({text(cut, "value"), std::to_string(whole(cut, "from")), std::to_string(whole(cut, "to")),
                         text(cut, "reason")});
  return to_html(table) + to_html(cuts) + page::paragraph("Whole program: " + text(report, "whole_check"));
}

std::string proof_section(const Json& report) {
  const Json& proof = at(report, {"verification"});
  const Json& first = list(report, "candidates").empty() ? Json() : list(report, "candidates")[0];
  const std::string words = text(proof, "words");
  Table table{"The proof of the best µGraph", {{"what"}, {"value"}}, {}};
  table.sortable = false;
  table.rows = {{"proved", words.empty() ? text(proof, "argument") : words},
                {"at the program's own shapes",
                 truth(proof, "full_shape") ? "yes, all of it" : "not all of it: the argument names the shapes"},
                {"largest error in float32, relative", fmt::format("{:.3g}", number(first, "f32_error"))},
                {"largest error in the program's own type", fmt::format("{:.3g}", number(first, "own_type_error"))}};
  return to_html(table);
}

std::string usage_section(bool has_launcher) {
  std::string markup = "<ul>\n";
  const auto item = [&](const std::string& one) { markup += "<li>" + one + "</li>\n"; };
  item(code("best.cu") +
       " is the CUDA source; its first lines say what to launch, with what, and where the kernels are. " +
       code("best.ARCH.cubin") + " is the same, compiled for an architecture, and " + code("best.launch.json") +
       " lists buffers and launches for programs to read.");
  if (has_launcher) {
    item(code("best.launch.cpp") +
         " loads a cubin and launches it by the CUDA driver's interface. Take its load() and launch() into your "
         "program, or try it: " +
         code("g++ -std=c++17 best.launch.cpp -I$CUDA_HOME/include -lcuda -o best.launch && ./best.launch "
              "best.ARCH.cubin"));
  } else {
    item("A part is computed by a library, so there is no launcher: " + code("best.launch.json") +
         " says which product or convolution each such launch is.");
  }
  item(code("best.strata") + " is the result as a µGraph: " + code("strata verify PROGRAM best.strata") +
       " proves it again, " + code("strata run best.strata") + " executes it without a GPU, " +
       code("strata show best.strata --format=svg") + " draws it.");
  item("On a machine with a GPU, " + code("strata optimize PROGRAM") +
       " measures the candidates there and takes the fastest. " + code("strata explain FOLDER") +
       " says in a terminal what this page says.");
  return markup + "</ul>\n";
}

}  // namespace

std::string search_page(const Json& report, std::string_view source) {
  const Explanation words = explain_search(report);
  const Json& best = at(report, {"best"});
  page::Page page;
  page.kind = "search";
  page.title = words.title;
  page.facts = {text(report, "gpu"), fmt::format("seed {}", whole(report, "seed")),
                fmt::format("searched for {:.2f} s", number(at(report, {"search"}), "seconds"))};
  if (page.facts[0].empty()) page.facts.erase(page.facts.begin());
  page.lead = words.headline;
  page.graphs = true;
  const auto add = [&](const char* id, const char* title, std::string markup) {
    page.sections.push_back({id, title, std::move(markup)});
  };
  add("summary", "Summary", to_html(figures(report)) + to_html(words));
  const auto [part, first] = program_part(source);
  if (const auto graph = parse_graph(text(best, "graph")); graph)
    add("best", "Best µGraph", graph_beside_source(**graph, "best-graph", part, first));
  add("time", "Time", time_section(report));
  add("measured", "Measured", measured_section(at(report, {"profile"})));
  add("candidates", "Candidates", candidates_section(report));
  add("search", "Search", search_section(report));
  add("proof", "Proof", proof_section(report));
  if (list(report, "parts").size() > 1) add("parts", "Parts", parts_section(report));
  if (const auto graph = parse_graph(text(at(report, {"input", "graph"}))); graph)
    add("input", "Input program", graph_beside_source(**graph, "input-graph", {}));
  add("use", "How to use this", usage_section(text(best, "needs").empty()));
  add("glossary", "Glossary", std::string(search_glossary()));
  return page::to_html(page);
}

}  // namespace strata
