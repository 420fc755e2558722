#include "megakernel/runtime/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "page/page.h"
#include "support/markup.h"

namespace strata::megakernel {
namespace {

constexpr size_t kBandwidthParts = 200;

const TaskFunction* function_of(const Plan& plan, int function) {
  return function < 0 ? nullptr : &plan.functions[static_cast<size_t>(function)];
}

/// For each compute of one step, µs from the end of its worker's previous task to the end of the last task that it
/// waits for. 0 where that ended earlier. A worker's first task has no previous one: the step begins there.
std::vector<double> waits_of(const Plan& plan, std::span<const StepTimeline::Bar> bars, std::span<const int> tasks) {
  std::vector<double> ended(plan.events.size(), 0);  // its last trigger
  for (size_t n = 0; n < bars.size(); ++n) {
    const int signal = plan.tasks[static_cast<size_t>(tasks[n])].signal;
    if (bars[n].role != Role::Compute || signal < 0) continue;
    double& end = ended[static_cast<size_t>(signal)];
    end = std::max(end, bars[n].begin + bars[n].length);
  }
  std::vector<size_t> order(bars.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return bars[a].begin < bars[b].begin; });
  std::map<int, double> free;  // since when a worker has had nothing to compute
  std::vector<double> waits(bars.size(), 0);
  for (const size_t n : order) {
    if (bars[n].role != Role::Compute) continue;
    double ready = 0;
    for (const int event : plan.tasks[static_cast<size_t>(tasks[n])].waits)
      ready = std::max(ready, ended[static_cast<size_t>(event)]);
    double& since = free[bars[n].worker];
    const double end = bars[n].begin + bars[n].length;
    waits[n] = std::max(0.0, std::min(ready, end) - since);
    since = std::max(since, end);
  }
  return waits;
}

/// The canvas, what moves it, and the colours of functions, each of which can be chosen alone.
std::string drawing(const Plan& plan, const StepTimeline& timeline) {
  std::string text = page::paragraph(
      "A row is a worker: thin bars are loads, thick ones computes. Drag to move. With the focus on it, the wheel or "
      "W and S zoom, arrows or A and D move, 0 shows all. Choose a function to see its tasks alone.");
  text += fmt::format(
      "<div class=\"timeline\"><div class=\"toolbar\"><button type=\"button\" class=\"plain\" id=\"timeline-out\" "
      "aria-label=\"Zoom out\">−</button><button type=\"button\" class=\"plain\" id=\"timeline-in\" aria-label=\"Zoom "
      "in\">+</button><button type=\"button\" class=\"plain\" id=\"timeline-all\">All</button><span class=\"end\" "
      "id=\"timeline-range\" role=\"status\"></span></div>\n<canvas id=\"timeline-canvas\" tabindex=\"0\" role=\"img\" "
      "aria-label=\"Tasks of {} workers over {}; the table of functions has what they come "
      "to\"></canvas></div>\n<ul class=\"functions\">\n",
      plan.workers, page::time(timeline.length));
  std::vector<int> drawn;
  for (const StepTimeline::Bar& bar : timeline.bars) drawn.push_back(bar.function);
  std::sort(drawn.begin(), drawn.end());
  drawn.erase(std::unique(drawn.begin(), drawn.end()), drawn.end());
  for (const int function : drawn) {
    const TaskFunction* const of = function_of(plan, function);
    text += fmt::format(
        "<li><button type=\"button\" class=\"plain\" aria-pressed=\"false\" data-function=\"{0}\"><i "
        "data-function=\"{0}\"></i>{1}</button></li>\n",
        function, of == nullptr ? "empty" : escape_markup(of->name));
  }
  return text + "</ul>\n";
}

std::string shares(const StepTimeline& timeline) {
  page::Table table{
      "Time of all workers by block function",
      {{"function"}, {"tasks", true}, {"µs a task", true}, {"µs of waiting", true}, {"share of workers' time", true}},
      {}};
  const double most = timeline.shares.empty() ? 1 : std::max(timeline.shares.front().share, 1e-9);
  for (const StepTimeline::Share& share : timeline.shares) {
    table.rows.push_back({share.function,
                          page::grouped(share.tasks),
                          fmt::format("{:.2f}", share.mean),
                          fmt::format("{:.2f}", share.wait),
                          {fmt::format("{:.1f} %", share.share * 100), share.share / most}});
  }
  return page::to_html(table);
}

}  // namespace

Result<StepTimeline> step_timeline(const Plan& plan, std::span<const TracedTask> tasks) {
  std::map<unsigned, size_t> computed;                                        // tasks, by epoch
  const auto is_empty = [&](const Task& task) { return task.function < 0; };  // no kernel of a graph runs it
  const auto count = plan.tasks.size() - std::count_if(plan.tasks.begin(), plan.tasks.end(), is_empty);
  for (const TracedTask& task : tasks) {
    const bool counts = task.role == Role::Compute && !is_empty(plan.tasks[static_cast<size_t>(task.record.task)]);
    computed[task.record.epoch] += counts ? 1 : 0;
  }
  const auto whole =
      std::find_if(computed.rbegin(), computed.rend(), [&](const auto& one) { return one.second == count; });
  if (whole == computed.rend())
    return with_remedy(invalid("no step of {} tasks was recorded as a whole", count),
                       "record fewer steps, or with a larger capacity");
  StepTimeline made;
  made.epoch = whole->first;
  unsigned long long first = ~0ull, last = 0;
  for (const TracedTask& task : tasks) {
    if (task.record.epoch != made.epoch) continue;
    // Loads run ahead into the step before, which is another picture.
    if (task.role == Role::Compute) first = std::min(first, task.record.begin);
    last = std::max(last, task.record.end);
  }
  const auto since_first = [&](unsigned long long when) {
    return when <= first ? 0.0 : static_cast<double>(when - first) / 1000;
  };
  made.length = since_first(last);
  made.bandwidth.resize(kBandwidthParts);
  std::map<int, StepTimeline::Share> shares;
  const double part = made.length / kBandwidthParts;
  double busy = 0;
  std::vector<int> drawn;  // the task of each bar
  for (const TracedTask& task : tasks) {
    const ProfileRecord& record = task.record;
    if (record.epoch != made.epoch) continue;
    drawn.push_back(record.task);
    const int function = plan.tasks[static_cast<size_t>(record.task)].function;
    const double begin = since_first(record.begin), end = since_first(record.end);
    made.bars.push_back({task.worker, task.role, function, begin, end - begin});
    if (task.role == Role::Compute) {
      StepTimeline::Share& share = shares[function];
      ++share.tasks;
      share.mean += end - begin;  // the sum, so far
      busy += end - begin;
      continue;
    }
    const auto bytes = static_cast<double>(loaded_bytes(plan, function));
    made.bytes += bytes;
    if (part <= 0 || bytes == 0) continue;
    // A load's bytes, evenly over its time.
    const double least = std::max(end - begin, 1e-3);
    for (auto n = static_cast<size_t>(begin / part); n < kBandwidthParts; ++n) {
      const double from = std::max(begin, static_cast<double>(n) * part);
      const double to = std::min(begin + least, static_cast<double>(n + 1) * part);
      if (to <= from) break;
      made.bandwidth[n] += bytes * (to - from) / least / part / 1000;
    }
  }
  const double all = made.length * plan.workers;
  const std::vector<double> waits = waits_of(plan, made.bars, drawn);
  for (size_t n = 0; n < waits.size(); ++n)
    if (made.bars[n].role == Role::Compute) shares[made.bars[n].function].wait += waits[n];
  if (all > 0) made.dependences = std::accumulate(waits.begin(), waits.end(), 0.0) / all;
  for (auto& [function, share] : shares) {
    const TaskFunction* const of = function_of(plan, function);
    share.function = of == nullptr ? "empty" : of->name;
    share.share = all > 0 ? share.mean / all : 0;
    share.mean /= share.tasks;
    share.wait /= share.tasks;
    made.shares.push_back(share);
  }
  std::sort(made.shares.begin(), made.shares.end(), [](const auto& a, const auto& b) { return a.share > b.share; });
  made.idle = all > 0 ? std::max(0.0, 1 - busy / all) : 0;
  return made;
}

std::string timeline_html(const Plan& plan, const StepTimeline& timeline) {
  using Json = nlohmann::ordered_json;
  const auto rounded = [](double us) { return static_cast<double>(static_cast<int64_t>(us * 1000 + 0.5)) / 1000; };
  Json bars = Json::array(), functions = Json::array();
  for (const StepTimeline::Bar& bar : timeline.bars)
    bars.push_back({bar.worker, static_cast<int>(bar.role), bar.function, rounded(bar.begin), rounded(bar.length)});
  for (const TaskFunction& function : plan.functions) functions.push_back(function.name);
  const Json data{{"length", timeline.length},
                  {"workers", plan.workers},
                  {"functions", functions},
                  {"bars", bars},
                  {"bandwidth", timeline.bandwidth}};
  const double rate = timeline.length > 0 ? timeline.bytes / timeline.length / 1e6 : 0;
  page::Page page;
  page.kind = "timeline";
  page.title = plan.name;
  page.facts = {fmt::format("step {}", timeline.epoch), fmt::format("{} workers", plan.workers)};
  page.lead = fmt::format(
      "A step of {} tasks takes {}. Loads bring {:.2f} TB/s in the mean, and workers compute nothing in {:.0f} % of "
      "their time. In {:.0f} % of it they have ended a task and the next one waits for tasks of other workers.",
      page::grouped(static_cast<int64_t>(plan.tasks.size())), page::time(timeline.length), rate, timeline.idle * 100,
      timeline.dependences * 100);
  page.timeline = true;
  page.data = {{"timeline-data", data.dump()}};
  page.sections = {{"step", "Step",
                    page::to_html(std::vector<page::Figure>{
                        {"time of the step", page::time(timeline.length), "from its first compute to its last end"},
                        {"tasks", page::grouped(static_cast<int64_t>(plan.tasks.size())),
                         fmt::format("on {} workers", plan.workers)},
                        {"loaded", page::bytes(timeline.bytes), fmt::format("{:.2f} TB/s in the mean", rate)},
                        {"without work", fmt::format("{:.0f} %", timeline.idle * 100), "of the workers' time"},
                        {"lost to dependences", fmt::format("{:.0f} %", timeline.dependences * 100),
                         "of the workers' time; loads may go on"}})},
                   {"timeline", "Timeline", drawing(plan, timeline)},
                   {"functions", "Functions", shares(timeline)}};
  return page::to_html(page);
}

}  // namespace strata::megakernel
