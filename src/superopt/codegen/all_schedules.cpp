#include "superopt/codegen/all_schedules.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <regex>
#include <utility>

#include "ir/views.h"
#include "superopt/codegen/libraries.h"
#include "superopt/codegen/merging.h"

namespace strata {

namespace {

/// Block schedules that are tried beside the library's first algorithm.
constexpr size_t kWithLibrary = 12;
/// Algorithms that are tried of each product and of each convolution.
constexpr int kTriedOfProducts = 5;
constexpr int kTriedOfConvolutions = 8;

/// Ways to follow a block graph that are worth measuring: with a launch, and without where the model does not take that
/// for much slower.
std::vector<Handover> handovers(const Graph& graph, const Operation& op, const BlockSchedule& schedule,
                                const std::optional<MergedPair>& pair, const Target& target) {
  constexpr double kMuch = 1.5e-6;  // the model is wrong by up to 1 µs here
  std::vector<Handover> ways{Handover::Launch};
  if (!pair) return ways;
  const auto block = describe_schedule(graph, op, schedule, target);
  if (!block) return ways;
  const auto seconds = [&](Handover way) { return pair->seconds(graph, block->code, schedule, way, target); };
  const double apart = seconds(Handover::Launch);
  for (Handover way : pair->offered(graph, block->code, schedule, target)) {
    if (seconds(way) <= apart + kMuch) ways.push_back(way);
  }
  return ways;
}

constexpr std::array<std::string_view, 3> kHandoverNames{"", "+last", "+wait"};  // by Handover

std::vector<Schedules> block_rows(const Graph& graph, const Target& target, const Passes& passes) {
  std::vector<Schedules> all;
  if (!passes.registers || !passes.schedules) return {Schedules()};
  for (size_t i = 0; i < graph.operations().size(); ++i) {
    const Operation& op = graph.operations()[i];
    if (!op.body) continue;
    const auto offered = block_schedules(op, operand_strides(graph, op), target);
    if (offered.size() <= all.size()) continue;
    all.clear();
    std::optional<MergedPair> pair;
    if (passes.merging) {
      const LibraryPlan libraries = plan_libraries(graph, {});
      pair = MergedPair::find(graph, i, target, libraries, view_operations(graph, libraries.strided));
    }
    for (const BlockSchedule& schedule : offered) {
      if (schedule.bulk && !passes.bulk) continue;
      for (Handover handover : handovers(graph, op, schedule, pair, target)) {
        Schedules schedules(graph.operations().size());
        schedules[i] = schedule;
        schedules[i]->handover = handover;
        all.push_back(schedules);
      }
    }
  }
  if (all.empty()) all.emplace_back();
  return all;
}

Schedules merged(const Schedules& blocks, const Schedules& library) {
  Schedules result = library;
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i]) result[i] = blocks[i];
  }
  return result;
}

}  // namespace

std::vector<Schedules> all_schedules(const Graph& graph, const Target& target, const Passes& passes,
                                     const AvailableLibraries& available) {
  std::vector<Schedules> all = block_rows(graph, target, passes);
  const Schedules library = library_schedules(graph, target, passes, available);
  if (library.empty()) return all;
  const size_t own = all.size();
  for (size_t i = 0; i < std::min(own, kWithLibrary); ++i) all.push_back(merged(all[i], library));
  std::vector<std::vector<LibraryWork>> kinds;
  const LibraryPlan plan = plan_libraries(graph, library);
  for (const LibraryCall& call : plan.calls) {
    if (std::find(kinds.begin(), kinds.end(), call.work()) == kinds.end()) kinds.push_back(call.work());
  }
  for (const std::vector<LibraryWork>& kind : kinds) {
    const int tried = std::holds_alternative<Convolution>(kind.front()) ? kTriedOfConvolutions : kTriedOfProducts;
    for (int algorithm = 1; algorithm < tried; ++algorithm) {
      Schedules schedules = merged(all.front(), library);
      for (const LibraryCall& call : plan.calls) {
        if (call.work() == kind) schedules[call.operations.front()]->algorithm = algorithm;
      }
      all.push_back(schedules);
    }
  }
  return all;
}

std::string label(const Schedules& schedules) {
  std::string text = "own";
  std::string algorithms;
  bool found = false;
  for (const auto& schedule : schedules) {
    if (!schedule) continue;
    if (schedule->algorithm >= 0) {
      algorithms += fmt::format("{}{}", algorithms.empty() ? "lt" : ".", schedule->algorithm);
    } else if (!std::exchange(found, true)) {
      text = fmt::format("r{}g{}s{}c{}{}{}{}", schedule->row_warps, schedule->loop_warps, schedule->stages,
                         schedule->cluster, schedule->wide ? "w" : "",
                         schedule->bulk ? fmt::format("b{}{}", schedule->sharers, schedule->turns ? "t" : "") : "",
                         kHandoverNames[static_cast<size_t>(schedule->handover)]);
    }
  }
  if (algorithms.empty()) return text;
  return found ? text + " " + algorithms : algorithms;
}

std::optional<BlockSchedule> read_label(const std::string& text) {
  static const std::regex form(R"(r(\d+)g(\d+)s(\d+)c(\d+)(w?)(?:b(\d+)(t?))?(\+last|\+wait)?(?: lt[\d.]+)?)");
  std::smatch part;
  if (!std::regex_match(text, part, form)) return std::nullopt;
  BlockSchedule schedule;
  const auto number = [&](size_t n, int64_t& to) {
    const std::string digits = part[n].str();
    return std::from_chars(digits.data(), digits.data() + digits.size(), to).ec == std::errc();
  };
  schedule.wide = part[5].length() > 0;
  schedule.bulk = part[6].matched;
  schedule.turns = part[7].length() > 0;
  const auto name = std::find(kHandoverNames.begin(), kHandoverNames.end(), part[8].str());
  schedule.handover = static_cast<Handover>(name - kHandoverNames.begin());
  const bool numbers = number(1, schedule.row_warps) && number(2, schedule.loop_warps) && number(3, schedule.stages) &&
                       number(4, schedule.cluster) && (!schedule.bulk || number(6, schedule.sharers));
  return numbers ? std::optional(schedule) : std::nullopt;
}

}  // namespace strata
