#include "decode_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "../commands.h"
#include "../machine_options.h"
#include "machine/target.h"
#include "megakernel/decode/decode_sizes.h"
#include "megakernel/decode/decoder.h"
#include "megakernel/decode/step_plan.h"

namespace strata::cli {
namespace {

using namespace megakernel;

constexpr int64_t kMostPlanned = 16;  // sequences

/// "llama-3.2-1b" of a built-in name, of llama-3.2-1b.json, and of llama-3.2-1b/config.json.
std::string model_name(const std::string& config) {
  std::filesystem::path path = std::filesystem::absolute(config).lexically_normal();
  if (path.filename().empty()) path = path.parent_path();  // "folder/"
  if (path.filename() == "config.json" && path.has_parent_path()) path = path.parent_path();
  std::string name = path.filename().string();
  constexpr std::string_view kEnding = ".json";
  if (name.ends_with(kEnding)) name.resize(name.size() - kEnding.size());
  return name;
}

}  // namespace

Result<DecodeOptions> session_options_of(const DecodeCommand& command, int64_t batch, int64_t capacity) {
  DecodeOptions options;
  options.batch = batch;
  options.capacity = capacity;
  if (command.workers > 0) {
    options.machine.workers = static_cast<int>(command.workers);
  } else if (command.device == "host-kernel") {
    options.machine.workers = kHostWorkers;
  }
  if (command.has("--tagged-bytes")) options.machine.tagged_bytes = command.tagged_bytes;
  if (command.has("--ahead-bytes")) options.ahead_bytes = command.ahead_bytes;
  if (command.window > 0) options.machine.window_bytes = command.window;
  if (command.prompt_rows > 0) {
    options.prompt_rows = command.prompt_rows;
  } else if (command.device == "gpu") {
    options.prompt_rows = kDecodePromptRows;
    options.least_prompt = kDecodeLongPrompt;
  }
  const auto is_without = [&](const char* part) {
    return std::find(command.without.begin(), command.without.end(), part) != command.without.end();
  };
  options.without = {is_without(kDecodeParts[0]), is_without(kDecodeParts[1]), is_without(kDecodeParts[2]),
                     is_without(kDecodeParts[3]), is_without(kDecodeParts[4]), command.just_in_time};
  return options;
}

Result<void> check_output_file(const std::string& path, const char* option, const char* example) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    return with_remedy(invalid("{} {}: it is a folder", option, path), fmt::format("name a file, such as {}", example));
  if (std::filesystem::exists(path, ignored) && !std::filesystem::is_regular_file(path, ignored)) return {};  // a pipe
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  return check_writable(folder.empty() ? "." : folder.string(), option);
}

Result<int> write_plans(const DecodeCommand& command) {
  STRATA_TRY(const ModelConfig config, read_plan_config(command));
  STRATA_CHECK(check_task_sizes(config, kMostPlanned));
  STRATA_CHECK(check_output_file(command.plan, "--plan", "plan.json"));
  const int64_t capacity = command.capacity > 0 ? command.capacity : DecodeOptions{}.capacity;
  const std::string folder = command.device == "gpu" ? cache_folder(command.cache, command.no_cache) : std::string();
  const Target machine = machine_of(default_target(), folder);
  std::string explained;
  const auto plan_of = [&](int64_t batch) -> Result<Plan> {
    STRATA_TRY(const DecodeOptions options, session_options_of(command, batch, capacity));
    STRATA_TRY(StepPlan step, plan_step(config, options, machine));
    explained += fmt::format("batch {}: caches of {} positions\n{}", batch, step.capacity, passes_text(step.compiled));
    return std::move(step.compiled.plan);
  };
  STRATA_TRY(const PlanFile file, compile_batches(model_name(command.config), kMostPlanned, plan_of));
  STRATA_CHECK(write_file(command.plan, print_plan_file(file)));
  std::vector<int64_t> batches;
  for (const auto& [batch, plan] : file.by_batch) batches.push_back(batch);
  notice("{}: plans for {} sequences\n", command.plan, fmt::join(batches, ", "));
  if (command.explain) fmt::print("{}", explained);
  return kSuccess;
}

}  // namespace strata::cli
