#include "megakernel/runtime/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "support/markup.h"

namespace strata::megakernel {
namespace {

constexpr size_t kBandwidthParts = 200;

constexpr const char* kPage = R"page(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
body { font: 14px sans-serif; margin: 16px; color: #222 }
canvas { border: 1px solid #ccc; display: block; width: 100%; margin-bottom: 8px }
table { border-collapse: collapse } td, th { padding: 2px 10px; text-align: right } td:first-child { text-align: left }
i { display: inline-block; width: 12px; height: 12px; margin-right: 6px }
#tip { position: fixed; background: #fffbe6; border: 1px solid #999; padding: 4px 8px; display: none }
</style></head><body>
<h1>{title}</h1><p>{summary}</p>
<canvas id="rate" height="90"></canvas><canvas id="bars" height="640"></canvas>
<p>A row is a worker: loads in its upper third, compute below. Turn the wheel to zoom, drag to move.</p>
<table id="shares"></table><div id="tip"></div>
<script>
const data = {data};
const color = f => f < 0 ? "#bbb" : `hsl(${f * 137.5 % 360} 65% 55%)`;
const bars = document.getElementById("bars"), rate = document.getElementById("rate");
let from = 0, to = data.length;
const across = us => (us - from) / (to - from) * bars.width;
function draw() {
  for (const c of [bars, rate]) c.width = c.clientWidth;
  const rows = bars.getContext("2d"), row = bars.height / data.workers;
  for (const [worker, role, f, begin, length] of data.bars) {
    if (begin + length < from || begin > to) continue;
    rows.fillStyle = color(f);
    const load = role === 1;
    const left = across(begin), width = Math.max(across(begin + length) - left, 0.3);
    rows.fillRect(left, (worker + (load ? 0 : 0.35)) * row, width, row * (load ? 0.3 : 0.6));
  }
  const r = rate.getContext("2d"), most = Math.max(...data.bandwidth, 1), part = data.length / data.bandwidth.length;
  r.fillStyle = "#69c";
  data.bandwidth.forEach((value, n) => {
    const left = across(n * part);
    r.fillRect(left, 90 - value / most * 75, across((n + 1) * part) - left, value / most * 75);
  });
  r.fillStyle = "#222";
  r.fillText(`loads: ${(most / 1000).toFixed(2)} TB/s at most`, 4, 12);
  r.fillText(`${from.toFixed(1)} to ${to.toFixed(1)} µs`, bars.width - 120, 12);
}
function clamp(a, b) {
  const width = Math.min(b - a, data.length);
  from = Math.min(Math.max(a, 0), data.length - width); to = from + width; draw();
}
bars.onwheel = e => {
  e.preventDefault();
  const at = from + e.offsetX / bars.clientWidth * (to - from), by = Math.exp(e.deltaY / 500);
  clamp(at - (at - from) * by, at + (to - at) * by);
};
let drag = null;
bars.onmousedown = e => drag = [e.clientX, from, to];
window.onmouseup = () => drag = null;
bars.onmousemove = e => {
  if (drag) {
    const by = (drag[0] - e.clientX) / bars.clientWidth * (drag[2] - drag[1]);
    clamp(drag[1] + by, drag[2] + by);
  }
  const at = from + e.offsetX / bars.clientWidth * (to - from), y = e.offsetY / bars.height * data.workers;
  const worker = Math.floor(y), role = y - worker < 0.33 ? 1 : 2;
  const hit = data.bars.find(b => b[0] === worker && b[1] === role && b[3] <= at && at <= b[3] + b[4]);
  const tip = document.getElementById("tip");
  tip.style.display = hit ? "block" : "none";
  if (!hit) return;
  tip.style.left = e.clientX + 12 + "px"; tip.style.top = e.clientY + 12 + "px";
  const name = hit[2] < 0 ? "empty" : data.functions[hit[2]];
  tip.textContent = `worker ${worker}, ${role === 1 ? "load" : "compute"}: ${name}, ${hit[3].toFixed(2)} µs + ` +
                    `${hit[4].toFixed(2)} µs`;
};
document.getElementById("shares").innerHTML = "<tr><th>function<th>tasks<th>µs a task<th>% of workers' time</tr>" +
  data.shares.map(s => `<tr><td><i style="background:${color(data.functions.indexOf(s[0]))}"></i>${s[0]}<td>${s[1]}` +
                       `<td>${s[2].toFixed(2)}<td>${(s[3] * 100).toFixed(1)}</tr>`).join("");
window.onresize = draw; draw();
</script></body></html>
)page";

std::string with(std::string text, std::string_view name, std::string_view value) {
  for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + value.size()))
    text.replace(at, name.size(), value);
  return text;
}

const TaskFunction* function_of(const Plan& plan, int function) {
  return function < 0 ? nullptr : &plan.functions[static_cast<size_t>(function)];
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
  for (const TracedTask& task : tasks) {
    const ProfileRecord& record = task.record;
    if (record.epoch != made.epoch) continue;
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
    const TaskFunction* const of = function_of(plan, function);
    if (of == nullptr || of->stages == 0) continue;
    const auto bytes = static_cast<double>(of->stages * of->stage_bytes);
    made.bytes += bytes;
    if (part <= 0) continue;
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
  for (auto& [function, share] : shares) {
    const TaskFunction* const of = function_of(plan, function);
    share.function = of == nullptr ? "empty" : of->name;
    share.share = all > 0 ? share.mean / all : 0;
    share.mean /= share.tasks;
    made.shares.push_back(share);
  }
  std::sort(made.shares.begin(), made.shares.end(), [](const auto& a, const auto& b) { return a.share > b.share; });
  made.idle = all > 0 ? std::max(0.0, 1 - busy / all) : 0;
  return made;
}

std::string timeline_html(const Plan& plan, const StepTimeline& timeline) {
  using Json = nlohmann::ordered_json;
  const auto rounded = [](double us) { return static_cast<double>(static_cast<int64_t>(us * 1000 + 0.5)) / 1000; };
  Json bars = Json::array(), shares = Json::array(), functions = Json::array();
  for (const StepTimeline::Bar& bar : timeline.bars)
    bars.push_back({bar.worker, static_cast<int>(bar.role), bar.function, rounded(bar.begin), rounded(bar.length)});
  for (const StepTimeline::Share& share : timeline.shares)
    shares.push_back({escape_markup(share.function), share.tasks, share.mean, share.share});
  for (const TaskFunction& function : plan.functions) functions.push_back(escape_markup(function.name));
  const Json data{{"length", timeline.length}, {"workers", plan.workers},
                  {"functions", functions},    {"bars", bars},
                  {"shares", shares},          {"bandwidth", timeline.bandwidth}};
  const std::string summary = fmt::format(
      "Step {}: {:.1f} µs on {} workers, {} tasks; loads bring {:.1f} MB, {:.2f} TB/s in the mean; workers "
      "compute nothing in {:.0f} % of their time.",
      timeline.epoch, timeline.length, plan.workers, plan.tasks.size(), timeline.bytes / 1e6,
      timeline.length > 0 ? timeline.bytes / timeline.length / 1e6 : 0, timeline.idle * 100);
  const std::string page = with(with(kPage, "{title}", escape_markup(plan.name)), "{summary}", summary);
  return with(page, "{data}", with(data.dump(), "</", "<\\/"));
}

}  // namespace strata::megakernel
