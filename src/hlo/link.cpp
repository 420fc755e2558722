#include "hlo/link.h"

#include <algorithm>

namespace strata::hlo {
namespace {

/// Calls in calls are verified and run recursively.
Result<void> check_depth(const Module& module) {
  constexpr int kMaxCalls = 200;
  std::vector<int> depths;
  for (const Computation& computation : module.computations) {
    int depth = 0;
    for (const Instruction& instruction : computation.instructions) {
      for (ComputationId callee : instruction.called) {
        depth = std::max(depth, depths[static_cast<size_t>(callee)] + 1);
      }
      if (depth > kMaxCalls) {
        return tl::unexpected(Error{ErrorCode::Unsupported,
                                    fmt::format("calls are nested more than {} deep", kMaxCalls),
                                    {},
                                    instruction.location});
      }
    }
    depths.push_back(depth);
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<Module>> link(const Cursor& cursor, const std::string& name,
                                     std::vector<ParsedComputation> parsed_computations,
                                     const std::unordered_map<std::string, size_t>& places, size_t entry) {
  enum class State : uint8_t { New, Open, Done };
  std::vector<State> states(parsed_computations.size());
  std::vector<ComputationId> ids(parsed_computations.size());
  auto module = std::make_shared<Module>();
  module->name = name;
  struct Frame {
    size_t computation, instruction = 0, call = 0;
  };
  for (size_t start = 0; start < parsed_computations.size(); ++start) {
    if (states[start] != State::New) continue;
    std::vector<Frame> stack{{start}};
    states[start] = State::Open;
    while (!stack.empty()) {
      Frame& frame = stack.back();
      ParsedComputation& parsed = parsed_computations[frame.computation];
      if (frame.instruction == parsed.called.size()) {
        states[frame.computation] = State::Done;
        ids[frame.computation] = static_cast<ComputationId>(module->computations.size());
        module->computations.push_back(std::move(parsed.computation));
        stack.pop_back();
        continue;
      }
      const auto& calls = parsed.called[frame.instruction];
      if (frame.call == calls.size()) {
        ++frame.instruction;
        frame.call = 0;
        continue;
      }
      const auto& [callee_name, place] = calls[frame.call];
      const auto found = places.find(callee_name);
      if (found == places.end()) {
        return cursor.error_at(place, fmt::format("there is no computation '{}'", callee_name));
      }
      const size_t callee = found->second;
      if (states[callee] == State::Open) {
        return cursor.error_at(place, fmt::format("'{}' calls itself", callee_name));
      }
      if (states[callee] == State::Done) {
        parsed.computation.instructions[frame.instruction].called.push_back(ids[callee]);
        ++frame.call;
      } else {
        states[callee] = State::Open;
        stack.push_back({callee});
      }
    }
  }
  STRATA_CHECK(check_depth(*module));
  module->entry = ids[entry];
  return module;
}

}  // namespace strata::hlo
