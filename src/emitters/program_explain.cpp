// What `strata emit --explain` prints of a program, and its estimated time.
#include <fmt/format.h>

#include <cmath>

#include "emitters/program.h"

namespace strata::emitters {

namespace {

std::string explain(const LoopStep& loop) {
  std::string text = fmt::format("  {:<16} {}\n", "loop",
                                 loop.counted ? fmt::format("{} iterations", loop.counted->count)
                                 : loop.once  ? "one iteration or none"
                                              : "until its condition is false");
  if (!loop.why_not_elements.empty()) text += fmt::format("  {:<16} {}\n", "not of elements", loop.why_not_elements);
  std::string body = strata::emitters::explain(*loop.body);
  for (size_t at = 0; at < body.size();) {
    const size_t end = body.find('\n', at);
    text += "    " + body.substr(at, end - at) + "\n";
    at = end + 1;
  }
  return text;
}

}  // namespace

std::string explain(const EmittedProgram& program) {
  std::string text;
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const ProgramStep& step = program.steps[i];
    const auto list = [&](const std::vector<int>& numbers) {
      std::vector<std::string> shapes;
      for (const int number : numbers) {
        shapes.push_back(
            fmt::format("b{} {}", number, hlo::to_string(program.buffers[static_cast<size_t>(number)].shape)));
      }
      return fmt::format("{}", fmt::join(shapes, ", "));
    };
    const std::string name = step.fusion ? step.fusion->name() : step.interpreted->entry_computation().name;
    text += fmt::format("{}: ({}) -> ({})\n", name, list(step.inputs), list(step.outputs));
    if (step.fusion && step.fusion->module_name() != step.fusion->name())
      text += fmt::format("  {:<16} {}, which is equal but for names\n", "kernels of", step.fusion->module_name());
    text += step.fusion    ? to_string(step.fusion->decision())
            : step.library ? fmt::format("  {:<16} {}: {}\n", library_of(step.library->work),
                                         describe(step.library->work), step.library->reason)
            : step.lax     ? fmt::format("  {:<16} {}\n", "superoptimizer", step.lax->reason)
            : step.loop    ? explain(*step.loop)
                           : fmt::format("  {:<16} {}\n", "interpreter", step.why_interpreted);
    for (const std::string& note : step.notes) text += fmt::format("  {:<16} {}\n", "no library", note);
  }
  for (const std::string& note : program.notes) text += fmt::format("not superoptimized: {}\n", note);
  return text;
}

std::optional<double> estimated_microseconds(const EmittedProgram& program) {
  double sum = 0;
  for (const ProgramStep& step : program.steps) {
    if (!step.microseconds || !std::isfinite(*step.microseconds)) return std::nullopt;
    sum += *step.microseconds;
  }
  return sum;
}

}  // namespace strata::emitters
