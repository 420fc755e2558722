#include <cmath>
#include <map>

#include "page/page.h"
#include "report/words.h"

namespace strata {
namespace {

std::string percent(double share) {
  return share < 0.01 ? fmt::format("{:.2g} %", 100 * share) : fmt::format("{:.0f} %", 100 * share);
}

std::string plural_of(std::string_view kind, int64_t count) {
  const std::string_view what = kind == "emitter"          ? "fusion by the emitters"
                                : kind == "library"        ? "product, convolution or transform by a library"
                                : kind == "superoptimizer" ? "part by the superoptimizer"
                                : kind == "loop"           ? "while loop"
                                                           : "instruction by the interpreter";
  if (count == 1) return fmt::format("1 {}", what);
  std::string many(what);
  const size_t noun = many.find(' ');
  if (kind == "library") return fmt::format("{} products, convolutions or transforms by a library", count);
  if (kind == "loop") return fmt::format("{} while loops", count);
  return fmt::format("{} {}s{}", count, many.substr(0, noun), many.substr(noun));
}

Paragraph made_of(const Json& report) {
  const Json& steps = list(report, "steps");
  Paragraph made{"What it is made of", {}};
  std::map<std::string, int64_t> kinds, emitters;
  for (const Json& step : steps) {
    ++kinds[text(step, "kind")];
    if (text(step, "kind") == "emitter") ++emitters[text(step, "what")];
  }
  std::vector<std::string> parts;
  for (const char* kind : {"emitter", "library", "superoptimizer", "loop", "interpreter"}) {
    if (kinds[kind] > 0) parts.push_back(plural_of(kind, kinds[kind]));
  }
  made.sentences.push_back(
      fmt::format("It runs as {}: {}.", counted(static_cast<int64_t>(steps.size()), "step"), fmt::join(parts, ", ")));
  if (!emitters.empty()) {
    std::vector<std::string> names;
    for (const auto& [name, count] : emitters) names.push_back(fmt::format("{} ({})", name, count));
    made.sentences.push_back(fmt::format("The fusions' emitters: {}.", fmt::join(names, ", ")));
  }
  for (const Json& step : steps) {
    if (text(step, "kind") == "interpreter")
      made.sentences.push_back(fmt::format("{} has no kernel: {}.", text(step, "name"), text(step, "reason")));
  }
  return made;
}

Paragraph times(const Json& report) {
  Paragraph made{"What takes its time", {}};
  const Json& steps = list(report, "steps");
  const bool measured = at(report, {"measured"}).is_object();
  const char* const key = measured ? "measured_us" : "estimated_us";
  const double all = measured ? number(at(report, {"measured", "all_us"})) : number(report, "estimated_us");
  if (all > 0) {
    made.sentences.push_back(measured ? fmt::format("It takes {} on {}, measured.", page::time(all),
                                                    text(at(report, {"measured", "device"})))
                                      : fmt::format("The model estimates {}; nothing was measured.", page::time(all)));
  } else {
    made.sentences.push_back("There is no estimate of the whole: some steps have none.");
  }
  const double floor = number(report, "floor_us"), own = number(report, "steps_floor_us");
  if (floor > 0) {
    made.sentences.push_back(
        fmt::format("Its parameters and results are {}; moving them once takes {} at {:.2f} TB/s{}.",
                    page::bytes(number(report, "bytes")), page::time(floor), number(report, "memory_bandwidth") / 1e12,
                    all > 0 ? ", which is " + percent(floor / all) + " of its time" : ""));
  }
  if (own > 0 && steps.size() > 1) {
    made.sentences.push_back(
        fmt::format("What its steps read and write, values between them too, takes {} to move.", page::time(own)));
  }
  std::vector<const Json*> slowest;
  for (const Json& step : steps) {
    if (number(step, key) > 0) slowest.push_back(&step);
  }
  std::stable_sort(slowest.begin(), slowest.end(),
                   [&](const Json* a, const Json* b) { return number(*a, key) > number(*b, key); });
  for (size_t i = 0; i < slowest.size() && i < 3; ++i) {
    const Json& step = *slowest[i];
    const double time = number(step, key), least = number(step, "floor_us");
    made.sentences.push_back(fmt::format(
        "{} {} ({}) takes {}{}{}.", i == 0 ? "The slowest step" : "Then", text(step, "name"), text(step, "what"),
        page::time(time), all > 0 ? fmt::format(", {:.0f} % of all", 100 * time / all) : "",
        least > 0 ? fmt::format("; moving its arrays alone takes {}", page::time(least)) : ""));
  }
  return made;
}

Paragraph why(const Json& report) {
  Paragraph made{"Why it was cut so", {}};
  made.sentences.push_back(
      "A producer and a consumer became one kernel where that saved more time, of bytes neither written nor read, than "
      "computing a value again would cost.");
  std::map<std::string, std::pair<std::string, int>> reasons;  // of each emitter, the first reason
  for (const Json& step : list(report, "steps")) {
    if (text(step, "kind") != "emitter") continue;
    auto& [reason, count] = reasons[text(step, "what")];
    if (count++ == 0) reason = text(step, "reason");
  }
  for (const auto& [emitter, known] : reasons)
    made.sentences.push_back(
        fmt::format("The {} emitter took {}: {}.", emitter, counted(known.second, "fusion"), known.first));
  return made;
}

Paragraph proved(const Json& report) {
  Paragraph made{"What is proved", {}};
  int64_t lax = 0;
  for (const Json& step : list(report, "steps")) {
    if (text(step, "kind") != "superoptimizer") continue;
    ++lax;
    made.sentences.push_back(fmt::format("{}: {}.", text(step, "name"), text(step, "reason")));
  }
  made.sentences.push_back(fmt::format(
      "{}ernels of the emitters and calls of libraries are not proved: strata run --check compares them with "
      "the interpreter.",
      lax > 0 ? "Other k" : "K"));
  return made;
}

Paragraph not_tried(const Json& report) {
  Paragraph made{"What was not tried", {}};
  for (const Json& note : list(report, "notes"))
    made.sentences.push_back(fmt::format("Not superoptimized: {}.", text(note)));
  if (number(report, "search_seconds") <= 0)
    made.sentences.push_back("No part was given to the superoptimizer: --search-seconds does that.");
  if (!at(report, {"measured"}).is_object())
    made.sentences.push_back("Nothing was measured: strata run --device gpu --profile --report does that.");
  if (made.sentences.empty()) made.sentences.push_back("Nothing that is known was left out.");
  return made;
}

}  // namespace

Explanation explain_module(const Json& report) {
  const Json& steps = list(report, "steps");
  const double measured = number(at(report, {"measured", "all_us"})), estimated = number(report, "estimated_us");
  const double all = measured > 0 ? measured : estimated;
  std::string headline = counted(static_cast<int64_t>(steps.size()), "step");
  if (all > 0)
    headline += fmt::format(": {}, {}", page::time(all), measured > 0 ? "measured" : "estimated and not measured");
  // Of modules that are all launches, a ratio to bytes says nothing.
  constexpr double kTold = 0.02;
  if (const double floor = number(report, "floor_us"); all > 0 && floor > kTold * all)
    headline += fmt::format("; {:.2f} times what moving its parameters and results once takes", all / floor);
  Explanation made{"module", fmt::format("{} on {}", text(report, "name"), text(report, "target")), headline + ".", {}};
  made.paragraphs = {made_of(report), times(report), why(report), proved(report), not_tried(report)};
  return made;
}

}  // namespace strata
