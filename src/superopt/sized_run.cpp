#include "superopt/sized_run.h"

#include <algorithm>
#include <set>

#include "ir/padding.h"
#include "superopt/sized_parts.h"

namespace strata {
namespace {

bool is_searched(const Superoptimized& result, size_t p) {
  return result.partition.parts[p].searchable() && result.parts[p].equal_to < 0;
}

/// Where nothing was measured the model chooses.
void prefer_measured(const std::vector<SizedChoice>& choices, SizedRun& run) {
  std::vector<SizedChoice> measured;
  std::copy_if(choices.begin(), choices.end(), std::back_inserter(measured),
               [](const SizedChoice& choice) { return !choice.device.empty(); });
  const SizedChoice* choice = nearest(measured, run.sizes);
  if (choice == nullptr) return;
  run.preferred = choice->structure;
  run.preferred_schedule = choice->schedule;
}

}  // namespace

Result<SizePlan> plan_size(const std::shared_ptr<const SizedProgram>& program, const DimSizes& wanted,
                           SuperoptimizeOptions& options) {
  SizePlan plan;
  STRATA_TRY(plan.wanted, program->with(wanted));
  STRATA_CHECK(program->at(plan.wanted));
  plan.made = plan.wanted;
  options.sized = SizedRun{program, plan.wanted};
  const std::vector<SizedChoice> choices = known_choices(options);
  prefer_measured(choices, *options.sized);
  const SizedChoice* known = nearest(choices, plan.wanted);
  if (known == nullptr || known->sizes == plan.wanted) return plan;
  const auto note = [&](const std::string& text) { plan.note += (plan.note.empty() ? "" : "; ") + text; };
  for (const auto& [name, size] : plan.wanted) {
    const auto found = known->units.find(name);
    const int64_t unit = found == known->units.end() ? 1 : found->second;
    if (unit < 1 || size % unit == 0) continue;
    const int64_t padded = (size / unit + 1) * unit;
    if (padded >= 2 * size) continue;  // smaller tiles waste less
    if (const auto fill = padding_of(*program, name); !fill) {
      note(fmt::format("{}={} is not padded to {}: {}", name, size, padded, fill.error().message));
      continue;
    }
    DimSizes larger = plan.made;
    larger[name] = padded;
    if (!program->at(larger)) continue;
    plan.made = std::move(larger);
    note(fmt::format("{}={} is padded to {}: the tiles of what is known at {} divide multiples of {}", name, size,
                     padded, to_string(known->sizes), unit));
  }
  options.sized->sizes = plan.made;
  return plan;
}

bool is_made_of_known(const Superoptimized& result) {
  bool any = false;
  for (size_t p = 0; p < result.parts.size(); ++p) {
    if (!is_searched(result, p)) continue;
    if (result.parts[p].optimized.made_of.empty()) return false;
    any = true;
  }
  return any;
}

void keep_choice(const Superoptimized& result, const SuperoptimizeOptions& options, const std::string& device,
                 const std::string& schedule) {
  if (!options.sized || (device.empty() && is_made_of_known(result))) return;
  const Graph& best = *result.candidates.front().graph;
  store_choice({options.sized->sizes, structure_of(best), schedule, device, tile_units(*options.sized->program, best)},
               options);
}

std::string describe_origin(const Superoptimized& result, const SuperoptimizeOptions& options) {
  std::set<std::string> from;
  std::string searched;
  double seconds = 0;
  for (size_t p = 0; p < result.parts.size(); ++p) {
    if (!is_searched(result, p)) continue;
    const OptimizedPart& part = result.parts[p].optimized;
    if (!part.made_of.empty()) from.insert(part.made_of);
    seconds += part.made_seconds;
    if (part.why_searched.empty()) continue;
    const Graph& graph = *result.partition.parts[p].graph;
    searched += fmt::format("; the part of '{}' was searched: {}", graph.tensor(graph.outputs().back()).name,
                            part.why_searched);
  }
  if (from.empty()) return "searched at " + to_string(options.sized->sizes) + searched;
  return fmt::format("made of what was searched at {} in {:.2f} s and its proof{}", fmt::join(from, "; "), seconds,
                     searched);
}

std::string describe_measured(const SuperoptimizeOptions& options) {
  std::map<std::string, std::vector<std::string>> by_device;
  for (const SizedChoice& choice : known_choices(options)) {
    if (!choice.device.empty()) by_device[choice.device].push_back(to_string(choice.sizes));
  }
  if (by_device.empty()) return "the choice was measured at no size; the model made it";
  std::string text;
  for (const auto& [device, sizes] : by_device)
    text += fmt::format("{}{} on {}", text.empty() ? "" : ", ", fmt::join(sizes, "; "), device);
  return "the choice was measured at " + text;
}

}  // namespace strata
