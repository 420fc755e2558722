#include "ir/text.h"
#include "report/drawing.h"
#include "report/report.h"

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
      ".drawing {{ overflow-x: auto; }} summary {{ cursor: pointer; }}\n</style></head><body>\n{}</body></html>\n",
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
  body += row({"part", "makes", "operators", "kernels", "estimated µs", "result"}, "th");
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
    body += row({candidate_name(one), label(one.schedules), fmt::format("{:.2f}", one.estimated_us),
                 right ? fmt::format("{:.2f}", m.cold_us) : "", right ? fmt::format("{:.2f}", m.hot_us) : "",
                 right ? fmt::format("{:.1e}", m.error) : "", describe_row(tuning, one)});
  }
  return body + "</table>\n";
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
      fmt::format("<h1>{} on {}</h1>\n<table>\n", escape_markup(result.program->name()), options.search.target->name);
  body += row({"", "kernels", "device-memory bytes", "estimated µs"}, "th");
  body += cost_row("input", result.program_cost) + cost_row("best µGraph", best.cost) + "</table>\n";
  if (const std::string needed = needed_libraries(result.code); !needed.empty())
    body += "<p>needs at run time " + escape_markup(needed) + "</p>\n";
  if (const std::string layouts = describe_layouts(result.code); !layouts.empty())
    body += "<p>" + escape_markup(layouts) + "</p>\n";
  body += fmt::format("<h2>Best µGraph</h2>\n<div class=\"drawing\">{}</div>\n{}", svg_element(*best.graph, false),
                      details("text", print(*best.graph)));
  body += fmt::format("<h2>Input program</h2>\n<div class=\"drawing\">{}</div>\n{}",
                      svg_element(*result.program, false), details("text", print(*result.program)));
  body += "<h2>Proof</h2>\n<table>\n";
  if (best.verification.method == ProofMethod::Solver) {
    body += row({"by", "the solver, at small shapes"});
  } else {
    body += row({"random tests over finite fields", std::to_string(best.verification.tests)});
    body += row({"probability of accepting a wrong graph", fmt::format("≤ {:.3g}", best.verification.error_bound)});
  }
  body += row({"argument", best.verification.argument});
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
  body += row({"left out", result.left_out.empty() ? "nothing" : result.left_out}) + "</table>\n";
  if (result.parts.size() > 1) body += parts_tables(result);
  if (profile.tuning || !profile.skipped.empty()) body += profile_table(profile);
  body += "<h2>Candidates</h2>\n";
  for (size_t i = 0; i < result.candidates.size(); ++i) {
    const Candidate& c = result.candidates[i];
    const std::string proof = c.verification.method == ProofMethod::Solver
                                  ? std::string("proved by the solver")
                                  : fmt::format("error bound {:.3g}", c.verification.error_bound);
    body += details(fmt::format("{}. {} kernels, {:.2f} µs, {}", i + 1, c.cost.kernels, c.cost.seconds * 1e6, proof),
                    print(*c.graph));
  }
  body += "<h2>Generated CUDA</h2>\n" + details("best.cu", result.code.source);
  return page(result.program->name() + " · Strata", body);
}

}  // namespace strata
