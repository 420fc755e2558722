#include "superopt/sized_parts.h"

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "interpret/work.h"
#include "ir/text.h"
#include "superopt/part_record.h"
#include "superopt/prove.h"
#include "superopt/resize.h"
#include "superopt/variants.h"

namespace strata {
namespace {

using Json = nlohmann::json;

constexpr const char* kParts = "sizes";
constexpr const char* kChoices = "size choices";
/// Graphs of a part that are kept for other sizes, and of what is made of them the ones that are proved.
constexpr size_t kMostKnown = 4;
constexpr int kMostProved = 2;

/// Attributes that say which dimension, and not how much.
bool has_no_size(const std::string& name) {
  return name != "shape" && name != "every" && name != "start" && name != "size" && name != "times" &&
         name != "factor" && name != "value";
}

void append_structure(const Graph& graph, std::string& text) {
  for (const Operation& op : graph.operations()) {
    for (const TensorId id : op.results) text += fmt::format("{} ", id);
    text += fmt::format("= {}(", op.name());
    for (const TensorId id : op.operands) text += fmt::format("{} ", id);
    for (const auto& [name, value] : op.attributes.entries()) {
      if (has_no_size(name)) text += fmt::format("{}={} ", name, to_string(value));
    }
    text += ")";
    if (op.body) {
      text += fmt::format("{}{}{{", op.body->launch().grid.size(), op.body->launch().loop > 1 ? " loop" : "");
      append_structure(*op.body, text);
      text += "}";
    }
    text += ";";
  }
}

/// The program and everything beside sizes on which a result depends.
std::string program_key(const SuperoptimizeOptions& options) {
  SizedProgram program = *options.sized->program;
  for (SizedProgram::Dim& dim : program.dims) dim.size = 1;  // what it declares decides nothing
  return fmt::format("{}\n{}", search_key(options), print(program));
}

/// A part, by its place in the program.
std::string key_of(const Graph& part, const SuperoptimizeOptions& options) {
  std::string text = program_key(options);
  for (const TensorInfo& info : part.tensors()) {
    text += info.name + " ";
    if (const auto& iota = info.type.iota)
      text += fmt::format("{} {} {} ", iota->dim, iota->start.to_string(), iota->step);
  }
  return text + structure_of(part);
}

struct Relative {
  DimSizes sizes;
  GraphPtr part;
  std::vector<GraphPtr> graphs;
  double effort = 0;
};

double distance(const DimSizes& a, const DimSizes& b) {
  double sum = 0;
  for (const auto& [name, size] : a) {
    const auto other = b.find(name);
    if (other == b.end()) return std::numeric_limits<double>::infinity();
    sum += std::abs(std::log(static_cast<double>(size) / static_cast<double>(other->second)));
  }
  return sum;
}

Json entries_of(ResultCache& cache, const char* kind, const std::string& key) {
  const auto entry = cache.find(kind, key);
  if (!entry) return Json::array();
  const Json json = Json::parse(entry->value, nullptr, false);
  return json.is_array() ? json : Json::array();
}

/// Puts an entry in the place of those at the same sizes.
void add_entry(Json& entries, Json entry) {
  Json kept = Json::array();
  for (Json& one : entries) {
    if (one.is_object() && one.value("sizes", Json()) != entry["sizes"]) kept.push_back(std::move(one));
  }
  kept.push_back(std::move(entry));
  entries = std::move(kept);
}

std::vector<Relative> relatives_of(const Graph& part, double effort, const SuperoptimizeOptions& options) {
  std::vector<Relative> found;
  for (const Json& json : entries_of(*options.cache, kParts, key_of(part, options))) {
    try {
      Relative one{json.at("sizes"), nullptr, {}, json.at("effort")};
      if (one.effort < effort) continue;
      one.part = parse_graph(json.at("part").get<std::string>()).value();
      for (const Json& graph : json.at("graphs")) one.graphs.push_back(parse_graph(graph.get<std::string>()).value());
      found.push_back(std::move(one));
    } catch (const std::exception&) {
      // Damaged: as if it were not there. What is stored next replaces it.
    }
  }
  const DimSizes& sizes = options.sized->sizes;
  std::stable_sort(found.begin(), found.end(), [&](const Relative& a, const Relative& b) {
    return distance(sizes, a.sizes) < distance(sizes, b.sizes);
  });
  return found;
}

/// The graph with the names of the canonical form.
GraphPtr canonical_graph(const Graph& graph, const CanonicalProgram& form) {
  Names names;
  for (const auto& [canonical, original] : form.original) names[original] = canonical;
  std::vector<size_t> order(form.output_order.size());
  for (size_t o = 0; o < order.size(); ++o) order[form.output_order[o]] = o;
  return rename(graph, names, form.graph->name(), order);
}

/// The forms of a known graph at the sizes of `part`, of which code can be made, with the names of the canonical form.
/// Error where the best known graph has none.
Result<std::vector<GraphPtr>> forms_of(const Graph& graph, const Relative& known, const Graph& part,
                                       const CanonicalProgram& form, const SuperoptimizeOptions& options,
                                       const Deadline& deadline, KnownSchedules& schedules) {
  const auto made = resized(graph, *known.part, part, *options.search.target);
  if (!made) {
    if (&graph != known.graphs.front().get()) return std::vector<GraphPtr>{};
    return unsupported("what is known at {} cannot be made at this size: {}", to_string(known.sizes),
                       made.error().message);
  }
  std::vector<GraphPtr> canonical;
  for (const GraphPtr& one : *made) canonical.push_back(canonical_graph(*one, form));
  return best_variants(canonical, options, deadline, schedules);
}

}  // namespace

std::string structure_of(const Graph& graph) {
  std::string text;
  append_structure(graph, text);
  for (const TensorId id : graph.outputs()) text += fmt::format("{} ", id);
  return text;
}

Result<OptimizedPart> part_of_other_sizes(const Graph& part, const CanonicalProgram& form, double effort,
                                          const SuperoptimizeOptions& options, const Deadline& deadline) {
  const auto start = std::chrono::steady_clock::now();
  const std::vector<Relative> relatives =
      options.cache == nullptr ? std::vector<Relative>{} : relatives_of(part, effort, options);
  if (relatives.empty()) return unsupported("");
  const Relative& known = relatives.front();
  const Target& target = *options.search.target;
  const std::string where = to_string(known.sizes);
  OptimizedPart result;
  result.made_of = where;
  result.candidates = {as_candidate(form.graph, target)};
  if (known.graphs.empty()) return result;  // nothing better is known there either
  KnownSchedules schedules(target);
  const CostEstimate as_given = scheduled_cost(*form.graph, schedules);
  std::vector<std::pair<double, GraphPtr>> rated;
  for (const GraphPtr& graph : known.graphs) {
    if (deadline.passed()) break;
    STRATA_TRY(const std::vector<GraphPtr> graphs, forms_of(*graph, known, part, form, options, deadline, schedules));
    for (const GraphPtr& one : graphs) rated.emplace_back(scheduled_cost(*one, schedules).seconds, one);
    // The others are there because they are near it: without it they say little.
    if (rated.empty()) return unsupported("code cannot be made of what is known at {} at this size", where);
  }
  std::stable_sort(rated.begin(), rated.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<GraphPtr> graphs;
  for (const auto& [seconds, graph] : rated) {
    if (seconds < as_given.seconds) graphs.push_back(graph);
  }
  if (graphs.empty())
    return unsupported("what is known at {} is estimated to be no faster at this size than the program", where);
  SuperoptimizeOptions proofs = options;
  proofs.candidates = std::min(options.candidates, kMostProved);
  result.candidates.clear();
  result.made_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  prove_cheapest(form.graph, graphs, proofs, deadline, result);
  if (result.candidates.empty()) {
    return unsupported("what is known at {} is not proved at this size: {}", where,
                       result.unproved_reason.empty() ? "there was no time" : result.unproved_reason);
  }
  result.candidates.push_back(as_candidate(form.graph, target));
  std::stable_sort(result.candidates.begin(), result.candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return cheaper(a.cost, b.cost); });
  return result;
}

void store_part_of_size(const Graph& part, const OptimizedPart& named, double effort,
                        const SuperoptimizeOptions& options, bool interrupted) {
  if (options.cache == nullptr || interrupted || named.stop_reason == StopReason::Interrupted) return;
  const std::string key = key_of(part, options);
  Json entries = entries_of(*options.cache, kParts, key);
  const bool complete = named.stop_reason == StopReason::Exhausted && !named.cut;
  Json entry{{"sizes", options.sized->sizes},
             {"part", print(part)},
             {"graphs", Json::array()},
             {"effort", complete ? kExhaustive : effort}};
  for (const Candidate& candidate : named.candidates) {
    if (entry["graphs"].size() < kMostKnown && !same_structure(*candidate.graph, part))
      entry["graphs"].push_back(print(*candidate.graph));
  }
  add_entry(entries, std::move(entry));
  options.cache->store(kParts, key, entries.dump());
}

std::vector<SizedChoice> known_choices(const SuperoptimizeOptions& options) {
  std::vector<SizedChoice> choices;
  if (options.cache == nullptr || !options.sized) return choices;
  for (const Json& json : entries_of(*options.cache, kChoices, program_key(options))) {
    try {
      choices.push_back(
          {json.at("sizes"), json.at("structure"), json.at("schedule"), json.at("device"), json.at("units")});
    } catch (const std::exception&) {
      // Damaged: as if it were not there.
    }
  }
  return choices;
}

void store_choice(const SizedChoice& choice, const SuperoptimizeOptions& options) {
  if (options.cache == nullptr || !options.sized) return;
  for (const SizedChoice& known : known_choices(options)) {
    if (known.sizes == choice.sizes && !known.device.empty() && choice.device.empty()) return;
  }
  const std::string key = program_key(options);
  Json entries = entries_of(*options.cache, kChoices, key);
  add_entry(entries, {{"sizes", choice.sizes},
                      {"structure", choice.structure},
                      {"schedule", choice.schedule},
                      {"device", choice.device},
                      {"units", choice.units}});
  options.cache->store(kChoices, key, entries.dump());
}

const SizedChoice* nearest(const std::vector<SizedChoice>& choices, const DimSizes& sizes) {
  const auto found = std::min_element(choices.begin(), choices.end(), [&](const SizedChoice& a, const SizedChoice& b) {
    return distance(sizes, a.sizes) < distance(sizes, b.sizes);
  });
  return found == choices.end() ? nullptr : &*found;
}

std::map<std::string, int64_t> tile_units(const SizedProgram& program, const Graph& best) {
  std::map<std::string, int64_t> units;
  for (const SizedProgram::Dim& dim : program.dims) units[dim.name] = 1;
  for (const Operation& op : best.operations()) {
    if (!op.body) continue;
    for (const Operation& read : op.body->operations()) {
      if (read.kind != OpKind::InIter) continue;
      const auto& formals = op.body->inputs();
      const auto formal = std::find(formals.begin(), formals.end(), read.operands[0]) - formals.begin();
      const TensorInfo& info = best.tensor(op.operands[static_cast<size_t>(formal)]);
      const auto named = program.graph->find_tensor(info.name);
      if (!named) continue;
      const auto& sizes = program.shapes[static_cast<size_t>(*named)];
      const Shape& tile = op.body->type(read.results[0]).shape;
      for (size_t d = 0; d < sizes.size() && d < tile.size(); ++d) {
        // A tile of all there is fits any size.
        if (sizes[d].dims().size() != 1 || tile[d] == info.type.shape[d]) continue;
        const std::string name = *sizes[d].dims().begin();
        int64_t& unit = units[name];
        // The least size whose extent tiles divide; of other expressions than c·name nothing is known.
        for (int64_t least = 1; least <= tile[d]; ++least) {
          const auto extent = sizes[d].size({{name, least}});
          if (!extent || *extent % tile[d] != 0) continue;
          unit = std::lcm(unit, least);
          break;
        }
      }
    }
  }
  return units;
}

}  // namespace strata
