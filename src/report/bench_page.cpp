#include <set>

#include "page/page.h"
#include "report/bench_rows.h"
#include "report/pages.h"

namespace strata {
namespace {

using page::Cell;
using page::Table;

std::string two(double value) { return fmt::format("{:.2f}", value); }

std::vector<page::Figure> figures(const std::vector<BenchRow>& rows) {
  std::vector<double> peers, floors;
  int64_t slower = 0;
  for (const BenchRow& row : rows) {
    if (row.floor > 0) floors.push_back(row.us / row.floor);
    if (row.peers.empty()) continue;
    peers.push_back(row.fastest_peer()->second / row.us);
    slower += is_slower(peers.back()) ? 1 : 0;
  }
  const auto mean = [](const std::vector<double>& all) {
    const auto value = geometric_mean(all);
    return value ? two(*value) : std::string("–");
  };
  return {{"rows", std::to_string(rows.size()), "with a time of Strata's"},
          {"times as fast as the fastest peer", mean(peers), fmt::format("geometric mean of {}", peers.size())},
          {"slower than the fastest peer", fmt::format("{} of {}", slower, peers.size()), ""},
          {"times the floor", mean(floors), fmt::format("geometric mean of {}", floors.size())}};
}

std::string table_of(const std::vector<BenchRow>& rows) {
  std::set<std::string> names;
  double most = 0;
  for (const BenchRow& row : rows) {
    for (const auto& [name, time] : row.peers) names.insert(name);
    if (!row.peers.empty()) most = std::max(most, row.fastest_peer()->second / row.us);
  }
  Table table{"Times; bars are the ratio to the fastest peer",
              {{"row"},
               {"Strata", true},
               {"floor", true},
               {"times the floor", true},
               {"fastest peer"},
               {"times as fast", true}},
              {}};
  for (const std::string& name : names) table.columns.push_back({name, true});
  for (const BenchRow& row : rows) {
    // In one unit, so that a column sorts as it reads.
    std::vector<Cell> cells{row.name, two(row.us), row.floor > 0 ? two(row.floor) : "–",
                            row.floor > 0 ? two(row.us / row.floor) : "–"};
    if (row.peers.empty()) {
      cells.insert(cells.end(), {"–", "–"});
    } else {
      const double ratio = row.fastest_peer()->second / row.us;
      Cell cell(two(ratio), most > 0 ? ratio / most : 0);
      cell.tone = is_slower(ratio) ? "bad" : "";
      cells.insert(cells.end(), {row.fastest_peer()->first, cell});
    }
    for (const std::string& name : names) {
      const auto found = row.peers.find(name);
      cells.emplace_back(found == row.peers.end() ? "–" : two(found->second));
    }
    table.rows.push_back(std::move(cells));
  }
  return page::paragraph("All times are in µs.") + to_html(table);
}

std::string against_peers(const std::vector<BenchRow>& rows) {
  page::Scatter scatter;
  scatter.title = "Strata's times against those of the fastest peer";
  scatter.description = "A point for each row that has a peer; below the dashed line Strata is faster";
  scatter.across = "fastest peer, µs";
  scatter.up = "Strata, µs";
  for (const BenchRow& row : rows) {
    if (row.peers.empty()) continue;
    const auto& [name, time] = *row.fastest_peer();
    scatter.dots.push_back({time, row.us,
                            fmt::format("{}\nStrata {:.2f} µs, {} {:.2f} µs: {:.2f} times as fast", row.name, row.us,
                                        name, time, time / row.us),
                            is_slower(time / row.us) ? "given" : ""});
  }
  if (scatter.dots.size() < 2) return {};
  return to_html(scatter) +
         "<ul class=\"key\"><li><i style=\"background:var(--block-line)\"></i>as fast as all peers, or "
         "faster</li><li><i "
         "style=\"background:var(--bad)\"></i>slower than one</li></ul>\n";
}

}  // namespace

std::string bench_page(const Json& report) {
  const Explanation words = explain_bench(report);
  const std::vector<BenchRow> rows = bench_rows(report);
  page::Page page;
  page.kind = "benchmark";
  page.title = words.title;
  for (const char* key : {"device", "date", "torch", "cuda"}) {
    const bool named = std::string_view(key) == "torch" || std::string_view(key) == "cuda";
    if (const std::string value = text(report, key); !value.empty())
      page.facts.push_back(named ? std::string(key) + " " + value : value);
  }
  page.lead = words.headline;
  page.sections = {{"summary", "Summary", to_html(figures(rows)) + to_html(words)}};
  if (std::string markup = against_peers(rows); !markup.empty())
    page.sections.push_back({"peers", "Against peers", std::move(markup)});
  page.sections.push_back({"rows", "Rows", table_of(rows)});
  return page::to_html(page);
}

}  // namespace strata
