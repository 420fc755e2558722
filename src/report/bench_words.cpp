#include "page/page.h"
#include "report/bench_rows.h"
#include "report/words.h"

namespace strata {
namespace {

constexpr size_t kListed = 6;

struct Ratio {
  const BenchRow* row;
  double value;
};

std::vector<double> values(const std::vector<Ratio>& ratios) {
  std::vector<double> all;
  for (const Ratio& one : ratios) all.push_back(one.value);
  return all;
}

std::vector<Ratio> to_peers(const std::vector<BenchRow>& rows) {
  std::vector<Ratio> made;
  for (const BenchRow& row : rows) {
    if (!row.peers.empty()) made.push_back({&row, row.fastest_peer()->second / row.us});
  }
  std::stable_sort(made.begin(), made.end(), [](const Ratio& a, const Ratio& b) { return a.value < b.value; });
  return made;
}

std::vector<Ratio> to_floor(const std::vector<BenchRow>& rows) {
  std::vector<Ratio> made;
  for (const BenchRow& row : rows) {
    if (row.floor > 0) made.push_back({&row, row.us / row.floor});
  }
  std::stable_sort(made.begin(), made.end(), [](const Ratio& a, const Ratio& b) { return a.value < b.value; });
  return made;
}

Paragraph about_peers(const std::vector<Ratio>& ratios) {
  Paragraph made{"Against the fastest peer", {}};
  if (ratios.empty()) {
    made.sentences = {"The file has no times of peers."};
    return made;
  }
  const auto slower =
      std::count_if(ratios.begin(), ratios.end(), [](const Ratio& one) { return is_slower(one.value); });
  const auto faster =
      std::count_if(ratios.begin(), ratios.end(), [](const Ratio& one) { return is_faster(one.value); });
  made.sentences.push_back(
      fmt::format("In the geometric mean Strata is {:.2f} times as fast as the fastest of the peers measured, over {}.",
                  *geometric_mean(values(ratios)), counted(static_cast<int64_t>(ratios.size()), "row")));
  made.sentences.push_back(fmt::format("It is faster in {}, slower in {}, and equal within half a percent in {}.",
                                       faster, slower, static_cast<int64_t>(ratios.size()) - faster - slower));
  const Ratio& best = ratios.back();
  made.sentences.push_back(fmt::format("Most is won with {}: {} against {} of {}.", best.row->name,
                                       page::time(best.row->us), page::time(best.row->fastest_peer()->second),
                                       best.row->fastest_peer()->first));
  for (size_t i = 0; i < ratios.size() && i < kListed && is_slower(ratios[i].value); ++i) {
    const Ratio& one = ratios[i];
    made.sentences.push_back(fmt::format("Slower: {}, {} against {} of {} ({:.2f} times as fast).", one.row->name,
                                         page::time(one.row->us), page::time(one.row->fastest_peer()->second),
                                         one.row->fastest_peer()->first, one.value));
  }
  if (static_cast<size_t>(slower) > kListed)
    made.sentences.push_back(fmt::format("And {} more are slower.", static_cast<size_t>(slower) - kListed));
  return made;
}

Paragraph about_floor(const std::vector<Ratio>& ratios) {
  Paragraph made{"Against the hardware's floor", {}};
  if (ratios.empty()) {
    made.sentences = {"The file has no floors."};
    return made;
  }
  made.sentences.push_back(fmt::format(
      "In the geometric mean a row takes {:.2f} times its floor: what its bytes or its operations take alone.",
      *geometric_mean(values(ratios))));
  made.sentences.push_back(fmt::format("Nearest is {} with {:.2f}, farthest {} with {:.2f}.", ratios.front().row->name,
                                       ratios.front().value, ratios.back().row->name, ratios.back().value));
  return made;
}

}  // namespace

Explanation explain_bench(const Json& report) {
  const std::vector<BenchRow> rows = bench_rows(report);
  std::string device = text(report, "device"), date = text(report, "date");
  if (const Json& all = list(report, "rows"); !all.empty() && date.empty()) date = text(all[0], "date");
  if (const Json& all = list(report, "rows"); !all.empty() && device.empty())
    device = text(at(all[0], {"megakernel", "device"}));
  const std::vector<Ratio> peers = to_peers(rows), floors = to_floor(rows);
  Explanation made{"benchmark", text(report, "file"), {}, {}};
  if (made.title.empty()) made.title = device.empty() ? "Benchmark" : device;
  made.headline = counted(static_cast<int64_t>(rows.size()), "row");
  if (const auto mean = geometric_mean(values(peers)))
    made.headline += fmt::format("; {:.2f} times as fast as the fastest peer", *mean);
  if (const auto mean = geometric_mean(values(floors))) made.headline += fmt::format("; {:.2f} times the floor", *mean);
  made.headline += peers.empty() && floors.empty() ? "." : ", in the geometric mean.";
  Paragraph measured{"What was measured", {}};
  measured.sentences.push_back(fmt::format("{} with a time of Strata's{}{}.",
                                           counted(static_cast<int64_t>(rows.size()), "row"),
                                           device.empty() ? "" : ", on " + device, date.empty() ? "" : ", on " + date));
  if (const std::string what = text(report, "what"); !what.empty())
    measured.sentences.push_back("The file says: " + what + ".");
  if (const std::string command = text(report, "command"); !command.empty())
    measured.sentences.push_back("By: " + command);
  Paragraph left{"What is not known", {}};
  const auto without = [&](size_t known, const char* what) {
    if (known < rows.size())
      left.sentences.push_back(fmt::format(
          "{} no {}.",
          counted(static_cast<int64_t>(rows.size() - known), "row") + (rows.size() - known == 1 ? " has" : " have"),
          what));
  };
  without(peers.size(), "peer");
  without(floors.size(), "floor");
  left.sentences.push_back("Peers are those of the file, in the versions that it names; others may be faster.");
  made.paragraphs = {measured, about_peers(peers), about_floor(floors), left};
  return made;
}

}  // namespace strata
