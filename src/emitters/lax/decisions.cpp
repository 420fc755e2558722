#include "emitters/lax/decisions.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ir/text.h"
#include "ir/validate.h"
#include "superopt/verify/inputs.h"

namespace strata::emitters {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kKind = "part of a module";

/// One line of JSON, and behind it the cubin as it is.
std::string text_of(const LaxDecision& decision) {
  if (!decision.step) return Json{{"why_not", decision.why_not}}.dump() + "\n";
  const LaxStep& step = *decision.step;
  const Result<std::string> manifest = print(step.manifest);
  if (!manifest) return {};
  return Json{{"graph", print(*step.graph)},
              {"manifest", *manifest},
              {"reason", step.reason},
              {"microseconds", decision.microseconds},
              {"others", decision.others}}
             .dump() +
         "\n" + step.cubin;
}

LaxDecision decision_of(const std::string& text, const LaxPart& part, const Target& target) {
  const size_t line = text.find('\n');
  const Json json = Json::parse(text.substr(0, line));
  LaxDecision decision;
  decision.settled = true;
  if (json.contains("why_not")) {
    decision.why_not = json.at("why_not");
    return decision;
  }
  LaxStep step;
  const auto graph = parse_graph(json.at("graph").get<std::string>());
  if (!graph || !validate(**graph, target) || !check_replacement(*part.program.graph, **graph))
    throw std::invalid_argument("a graph that does not fit");
  step.graph = *graph;
  auto inputs = inputs_of(**graph, part.program);
  auto manifest = parse_launch_manifest(json.at("manifest"));
  if (!inputs || !manifest) throw std::invalid_argument("a step that does not fit");
  step.inputs = *std::move(inputs);
  step.manifest = *std::move(manifest);
  step.reason = json.at("reason");
  step.cubin = text.substr(line + 1);
  decision.step = std::move(step);
  decision.microseconds = json.at("microseconds");
  decision.others = json.at("others");
  return decision;
}

}  // namespace

std::optional<std::vector<int>> inputs_of(const Graph& graph, const LaxProgram& program) {
  const std::vector<TensorId> given = program.graph->arguments();
  std::vector<int> result;
  for (const TensorId id : graph.arguments()) {
    const std::optional<TensorId> same = program.graph->find_tensor(graph.tensor(id).name);
    const auto at = same ? std::find(given.begin(), given.end(), *same) : given.end();
    if (at == given.end()) return std::nullopt;
    result.push_back(program.inputs[static_cast<size_t>(at - given.begin())]);
  }
  return result;
}

std::optional<LaxDecision> find_decision(ResultCache& cache, const std::string& key, double seconds,
                                         const LaxPart& part, const Target& target) {
  const auto entry = cache.find(kKind, key);
  if (!entry || entry->effort < seconds) return std::nullopt;
  try {
    return decision_of(entry->value, part, target);
  } catch (const std::exception&) {
    cache.forget(kKind, key);
    return std::nullopt;
  }
}

void store_decision(ResultCache& cache, const std::string& key, double seconds, const LaxDecision& decision) {
  if (!decision.settled) return;
  if (const std::string text = text_of(decision); !text.empty()) cache.store(kKind, key, text, seconds);
}

}  // namespace strata::emitters
