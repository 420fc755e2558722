#include "ir/text.h"
#include "report/drawing.h"
#include "report/html_text.h"
#include "report/report.h"
#include "report/summary.h"
#include "superopt/codegen/launcher.h"
#include "support/markup.h"

namespace strata {
namespace {

std::string page(const std::string& title, const std::string& body) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{}</title>\n<style>{}"
      "body {{ font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2rem auto; "
      "max-width: 90rem; padding: 0 1rem; }}\n"
      "table {{ border-collapse: collapse; margin: 1rem 0; }} td, th {{ padding: .25rem .9rem .25rem 0; text-align: "
      "left; "
      "border-bottom: 1px solid var(--line); font-variant-numeric: tabular-nums; }}\n"
      "pre {{ overflow-x: auto; background: var(--tensor); padding: 1rem; border-radius: 5px; }}\n"
      ".drawing {{ overflow-x: auto; }} summary {{ cursor: pointer; }} .headline {{ font-size: 1.25rem; }}\n"
      "dt {{ font-weight: bold; }} dd {{ margin: 0 0 .5rem 1.5rem; max-width: 50rem; }} p {{ max-width: 60rem; }}\n"
      "</style></head><body>\n{}</body></html>\n",
      escape_markup(title), style_sheet(), body);
}

std::string row(std::initializer_list<std::string> cells, const char* tag = "td") {
  std::string text = "<tr>";
  for (const std::string& cell : cells) text += fmt::format("<{0}>{1}</{0}>", tag, escape_markup(cell));
  return text + "</tr>\n";
}

std::string details(const std::string& summary, const std::string& text) {
  return fmt::format("<details><summary>{}</summary><pre>{}</pre></details>\n", escape_markup(summary),
                     escape_markup(text));
}

std::string cost_row(const std::string& name, const CostEstimate& cost) {
  return row({name, std::to_string(cost.kernels), std::to_string(cost.device_bytes),
              fmt::format("{:.2f}", cost.seconds * 1e6)});
}

std::string parts_tables(const Superoptimized& result) {
  std::string body = "<h2>Parts</h2>\n<table>\n";
  body += row({"part", "makes", "operators", "kernels", "estimated µs, input → best", "result"}, "th");
  for (size_t p = 0; p < result.parts.size(); ++p) {
    const PartOutcome& outcome = result.parts[p];
    const Part& part = result.partition.parts[p];
    body += row({std::to_string(p), part_name(*part.graph), std::to_string(part.operations.size()),
                 fmt::format("{} → {}", outcome.program_cost.kernels, outcome.best_cost.kernels),
                 fmt::format("{:.2f} → {:.2f}", outcome.program_cost.seconds * 1e6, outcome.best_cost.seconds * 1e6),
                 describe_part(result, p)});
  }
  body += "</table>\n<h2>Cuts</h2>\n<table>\n" + row({"value", "from part", "to part", "reason"}, "th");
  for (const Cut& cut : result.partition.cuts) {
    body += row({result.partition.name_of(cut), std::to_string(cut.from), std::to_string(cut.to), cut.reason});
  }
  return body + "</table>\n<p>Whole program: " + escape_markup(result.whole_check) + "</p>\n";
}

std::string profile_table(const Profile& profile) {
  std::string body = "<h2>Measured</h2>\n";
  if (!profile.tuning) return body + "<p>Nothing: " + escape_markup(profile.skipped) + "</p>\n";
  const Tuning& tuning = *profile.tuning;
  body += "<p>" + escape_markup(describe_tuning(tuning)) + "</p>\n<p>" + escape_markup(describe_ranking(tuning)) +
          "</p>\n<table>\n";
  body += row({"candidate", "schedule", "estimated µs", "cold µs", "hot µs", "error", "why not"}, "th");
  for (const TunedRow& one : tuning.rows) {
    const Measurement& m = one.measurement;
    const bool right = m.verdict == MeasureVerdict::Right;
    body += row({candidate_name(one), row_label(one), fmt::format("{:.2f}", one.estimated_us),
                 right ? fmt::format("{:.2f}", m.cold_us) : "", right ? fmt::format("{:.2f}", m.hot_us) : "",
                 right ? fmt::format("{:.1e}", m.error) : "", describe_row(tuning, one)});
  }
  return body + "</table>\n";
}

/// What is beside the report, and what to do with it.
std::string usage_section(const Superoptimized& result) {
  const auto code = [](std::string_view text) { return fmt::format("<code>{}</code>", escape_markup(text)); };
  std::string body = "<h2>How to use this</h2>\n<ul>\n";
  const auto item = [&](const std::string& text) { body += "<li>" + text + "</li>\n"; };
  item(code("best.cu") +
       " is the CUDA source; its first lines say what to launch, with what, and where the kernels are. " +
       code("best.ARCH.cubin") + " is the same, compiled for an architecture, and " + code("best.launch.json") +
       " lists buffers and launches for programs to read.");
  if (needed_libraries(result.code).empty()) {
    item(code("best.launch.cpp") +
         " loads a cubin and launches it by the CUDA driver's interface. Take its load() and "
         "launch() into your program, or try it: " +
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
       " measures the candidates there and takes the fastest.");
  return body + "</ul>\n";
}

std::string candidates_section(const Superoptimized& result, const Profile& profile) {
  std::string body = "<h2>Candidates</h2>\n<p>";
  if (profile.tuning) {
    body += "The first is what was chosen by measurement; the others follow by their estimates.";
  } else {
    body += "By their estimates.";
    if (const std::string order = describe_order(result); !order.empty()) body += " " + escape_markup(order) + ".";
  }
  body += "</p>\n";
  for (size_t i = 0; i < result.candidates.size(); ++i) {
    const Candidate& c = result.candidates[i];
    const bool is_input = same_structure(*c.graph, *result.program);
    body += details(
        fmt::format("{}. {}{} kernel{}, estimated {:.2f} µs; {}", i + 1, is_input ? describe_input(result) + ": " : "",
                    c.cost.kernels, c.cost.kernels == 1 ? "" : "s", c.cost.seconds * 1e6, name_proof(c.verification)),
        print(*c.graph));
  }
  return body;
}

}  // namespace

std::string draw_html(const Graph& graph) {
  return page(graph.name(), fmt::format("<h1>{}</h1>\n<div class=\"drawing\">{}</div>\n{}", escape_markup(graph.name()),
                                        svg_element(graph, false), details("text", print(graph))));
}

std::string report_html(const Superoptimized& result, const SuperoptimizeOptions& options, const Profile& profile) {
  const Candidate& best = result.candidates.front();
  const SearchStatistics& s = result.statistics;
  std::string body =
      fmt::format("<h1>{} on {}</h1>\n<p class=\"headline\">{}.</p>\n<table>\n", escape_markup(result.program->name()),
                  options.search.target->name, escape_markup(headline(result, profile)));
  body += row({"", "kernels", "device-memory bytes", "estimated µs"}, "th");
  body += cost_row(describe_input(result), result.program_cost) + cost_row("best µGraph", best.cost) + "</table>\n";
  if (const std::string needed = needed_libraries(result.code); !needed.empty())
    body += "<p>needs at run time " + escape_markup(needed) + "</p>\n";
  if (const std::string layouts = describe_layouts(result.code); !layouts.empty())
    body += "<p>" + escape_markup(layouts) + "</p>\n";
  body += usage_section(result);
  body += fmt::format("<h2>Best µGraph</h2>\n{}<div class=\"drawing\">{}</div>\n{}", drawing_legend(),
                      svg_element(*best.graph, false), details("text", print(*best.graph)));
  body += fmt::format("<h2>Input program</h2>\n<div class=\"drawing\">{}</div>\n{}",
                      svg_element(*result.program, false), details("text", print(*result.program)));
  body += "<h2>Proof</h2>\n<table>\n" + row({"proved", describe_proof(best.verification)});
  body += row({"largest error in float32, relative", fmt::format("{:.3g}", best.errors.candidate_f32)});
  body +=
      row({"largest error in the program's own type", fmt::format("{:.3g}", best.errors.candidate_own)}) + "</table>\n";
  body += "<h2>Search</h2>\n<table>\n" + row({"ended", std::string(name_of(result.stop_reason))});
  body += row({"seconds, threads", fmt::format("{:.2f}, {}", s.seconds, s.threads)});
  body += row({"spaces searched", fmt::format("{} of {}", s.spaces_searched, s.spaces_total)});
  body += row({"operators tried", std::to_string(s.generated)});
  body += row({"pruned by shape", std::to_string(s.pruned_shape)});
  body += row({"pruned by memory", std::to_string(s.pruned_memory)});
  body += row({"pruned by abstract expression", std::to_string(s.pruned_expression)});
  body += row({"pruned by axes", std::to_string(s.pruned_axes)});
  body += row({"pruned by stability", std::to_string(s.pruned_stability)});
  body += row({"graphs equal to the program on a random test", std::to_string(s.verified)});
  body += row({"layouts that differ on it", std::to_string(s.rejected)});
  body += row({"left out, with the search's own estimates", result.left_out.empty() ? "nothing" : result.left_out}) +
          "</table>\n";
  if (result.parts.size() > 1) body += parts_tables(result);
  if (profile.tuning || !profile.skipped.empty()) body += profile_table(profile);
  body += candidates_section(result, profile);
  body += "<h2>Generated CUDA</h2>\n" +
          details("best.cu", annotated_source(result.code, *best.graph, *options.search.target));
  body += fmt::format("<h2>Glossary</h2>\n{}", glossary());
  return page(result.program->name() + " · Strata", body);
}

}  // namespace strata
