// How long the host takes to plan a model's steps: plan_times CONFIG [BATCH [CAPACITY]]. CONFIG is a config.json.
// Prints the seconds of the step that makes tokens, and of the one that takes prompts.
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>

#include "machine/target.h"
#include "megakernel/decode/decoder.h"
#include "megakernel/decode/step_plan.h"

using namespace strata::megakernel;

int main(int count, char** words) {
  if (count < 2) {
    fmt::print(stderr, "usage: plan_times CONFIG [BATCH [CAPACITY]]\n");
    return 2;
  }
  const auto config = load_config(words[1]);
  if (!config) {
    fmt::print(stderr, "{}\n", config.error().to_string());
    return 1;
  }
  DecodeOptions options;
  if (count > 2) options.batch = std::atoi(words[2]);
  if (count > 3) options.capacity = std::atoi(words[3]);
  const auto seconds_of = [begin = std::chrono::steady_clock::now()]() mutable {
    const auto now = std::chrono::steady_clock::now();
    return std::chrono::duration<double>(now - std::exchange(begin, now)).count();
  };
  auto lap = seconds_of;
  const auto step = plan_step(*config, options, strata::default_target());
  fmt::print("step {:.2f} s\n", lap());
  if (!step) return 1;
  const auto prompts = plan_prompt_step(
      strata::default_target(), *config, step->image,
      {.batch = options.batch, .capacity = step->capacity, .rows = kDecodePromptRows, .machine = step->machine});
  fmt::print("prompts {:.2f} s: {}\n", lap(),
             prompts ? fmt::format("{} positions, {} tasks", prompts->each, prompts->plan.tasks.size())
                     : prompts.error().message);
  return prompts ? 0 : 1;
}
