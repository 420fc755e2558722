// strata decode: a language model's next tokens, as one persistent kernel or a graph of kernels on the machine's GPU or
// on the host, or by the interpreter.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "commands.h"
#include "decode_host.h"
#include "machine_options.h"
#include "megakernel/decode/cuda_decode.h"
#include "megakernel/decode/decode_session.h"
#include "megakernel/decode/fiber_decode.h"
#include "megakernel/runtime/timeline.h"
#include "runtime/result_cache.h"

namespace strata::cli {
namespace {

using namespace megakernel;
using Clock = std::chrono::steady_clock;

/// Bytes on their way to a multiprocessor. Which is faster depends on the model, by 1 to 3 % (docs/megakernel.md).
constexpr std::array<int64_t, 2> kWindows{49'152, 65'536};

struct Options {
  std::string config;
  std::string weights;
  uint64_t seed = 1;
  std::vector<std::string> prompts;
  std::string prompts_file;
  GenerateOptions generate;
  SamplingOptions sampling;
  std::vector<int> stop;
  bool ignore_eos = false;
  std::string cache;
  bool no_cache = false;
  int64_t capacity = 0;
  std::string device = "gpu";
  std::string mode = "auto";
  std::string trace;
  int64_t window = 0;
  int workers = 0;
  std::optional<int64_t> tagged_bytes;
  std::optional<int64_t> ahead_bytes;
  std::vector<std::string> without;
  std::vector<std::string> just_in_time;
  int64_t measure = 0;
  std::vector<int64_t> positions;  ///< of measurements
  bool json = false;
};

Result<std::vector<int>> parse_ids(const std::string& text) {
  std::vector<int> ids;
  std::string words = text;
  std::replace(words.begin(), words.end(), ',', ' ');
  std::istringstream stream(words);
  for (std::string word; stream >> word;) {
    int id = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || end != word.data() + word.size())
      return with_remedy(invalid("'{}' is no token id", word), "write numbers, with commas or spaces between them");
    ids.push_back(id);
  }
  if (ids.empty()) return with_remedy(invalid("a prompt has no token ids"), "write one at least");
  return ids;
}

Result<std::vector<std::vector<int>>> read_prompts(const Options& options) {
  std::vector<std::string> texts = options.prompts;
  if (!options.prompts_file.empty()) {
    std::ifstream file(options.prompts_file);
    if (!file) return environment("{} cannot be read", options.prompts_file);
    for (std::string line; std::getline(file, line);) {
      if (line.find_first_not_of(" \t\r") != std::string::npos) texts.push_back(line);
    }
  }
  if (texts.empty())
    return with_remedy(invalid("there is no prompt"), "give --prompt-ids or --prompt-ids-file, one prompt a sequence");
  std::vector<std::vector<int>> prompts;
  for (const std::string& text : texts) {
    STRATA_TRY(std::vector<int> ids, parse_ids(text));
    prompts.push_back(std::move(ids));
  }
  return prompts;
}

Result<ModelConfig> read_config(const std::string& name) {
  const auto presets = preset_names();
  if (std::find(presets.begin(), presets.end(), name) != presets.end()) return preset_config(name);
  return load_config(name);
}

int64_t capacity_for(const Options& options, const std::vector<std::vector<int>>& prompts) {
  constexpr int64_t kUnit = 256;  // as many splits of attention as workers take
  if (options.capacity > 0) return options.capacity;
  size_t longest = 0;
  for (const auto& prompt : prompts) longest = std::max(longest, prompt.size());
  int64_t needed = static_cast<int64_t>(longest) + options.generate.tokens + options.measure;
  for (const int64_t position : options.positions) needed = std::max(needed, position + options.measure + 1);
  return std::max<int64_t>(ceil_div(needed, kUnit) * kUnit, 2 * kUnit);
}

Result<void> write_trace(const DecodeSession& session, const std::string& path) {
  STRATA_TRY(const std::vector<TracedTask> tasks, session.trace());
  if (!path.ends_with(".html")) return write_file(path, chrome_trace(session.plan(), tasks));
  STRATA_TRY(const StepTimeline timeline, step_timeline(session.plan(), tasks));
  return write_file(path, timeline_html(session.plan(), timeline));
}

/// ms a step after `position` positions, the median of several launches.
Result<double> measured_step(DecodeSession& session, int64_t position, uint32_t steps) {
  std::vector<double> seconds;
  constexpr int kLaunches = 7;
  for (int n = 0; n < kLaunches; ++n) {
    session.set_position(position);
    STRATA_TRY(const double one, session.run(steps));
    seconds.push_back(one / steps);
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[kLaunches / 2] * 1e3;
}

/// A trace is the mega-kernel's, as is what can be left out.
Result<DecodeMode> mode_of(const Options& options) {
  if (options.mode == "megakernel") return DecodeMode::Megakernel;
  const char* const own = !options.trace.empty()          ? "--trace records tasks"
                          : !options.without.empty()      ? "--without leaves out parts"
                          : !options.just_in_time.empty() ? "--just-in-time names functions"
                                                          : nullptr;
  if (options.mode == "auto") return own != nullptr ? DecodeMode::Megakernel : DecodeMode::Auto;
  if (own != nullptr)
    return with_remedy(invalid("{} of the mega-kernel, and --mode graph has none", own), "choose --mode megakernel");
  return DecodeMode::Graph;
}

std::string_view name_of(StepForm form) { return form == StepForm::Graph ? "graph" : "megakernel"; }

std::string describe_choice(const DecodeSession& session) {
  const FormTimes& times = *session.measured();
  if (!times.no_graph.empty()) return fmt::format("{}: no graph: {}", name_of(session.form()), times.no_graph);
  return fmt::format("{}: mega-kernel {:.4f} ms a step, graph {:.4f} ms", name_of(session.form()),
                     times.megakernel * 1e3, times.graph * 1e3);
}

constexpr std::array kParts{"tasks-ahead", "descriptors-ahead", "weights-ahead", "events-of-tasks", "tagged-words"};

DecodeAblation ablation_of(const Options& options) {
  const auto is_without = [&](const char* part) {
    return std::find(options.without.begin(), options.without.end(), part) != options.without.end();
  };
  return {is_without(kParts[0]), is_without(kParts[1]), is_without(kParts[2]),
          is_without(kParts[3]), is_without(kParts[4]), options.just_in_time};
}

Result<int> decode_on_gpu(const Options& options, const ModelConfig& config, const ModelWeights& weights,
                          const std::vector<std::vector<int>>& prompts) {
  STRATA_TRY(const std::unique_ptr<GpuDevice> device, GpuDevice::open());
  DecodeOptions session_options;
  session_options.batch = static_cast<int64_t>(prompts.size());
  session_options.capacity = capacity_for(options, prompts);
  session_options.profile = !options.trace.empty();
  STRATA_TRY(session_options.mode, mode_of(options));
  if (options.workers > 0) session_options.machine.workers = options.workers;
  if (options.tagged_bytes) session_options.machine.tagged_bytes = *options.tagged_bytes;
  session_options.ahead_bytes = options.ahead_bytes;
  session_options.without = ablation_of(options);
  if (options.window > 0) session_options.machine.window_bytes = options.window;
  if (options.window == 0 && options.trace.empty()) session_options.windows = {kWindows.begin(), kWindows.end()};
  const auto begin = Clock::now();
  std::optional<ResultCache> cache;
  const std::string folder = cache_folder(options.cache, options.no_cache);
  if (!folder.empty()) cache.emplace(folder, [](const std::string& text) { notice("warning: {}\n", text); });
  CudaDecodeTarget target(*device, cache ? &*cache : nullptr);
  STRATA_TRY(const auto session, DecodeSession::make(target, config, weights, session_options));
  const double start = std::chrono::duration<double>(Clock::now() - begin).count();
  notice(
      "ready after {:.1f} s: {} tasks a step, {} registers, {} bytes spilled, ring {} KB, scratch {} KB, window {} "
      "KB, ahead {} KB\n",
      start, session->plan().tasks.size(), target.registers(session->form()).registers,
      target.registers(session->form()).spilled_bytes, session->shape().ring_bytes / 1024,
      session->shape().scratch_bytes / 1024, session->shape().window_bytes / 1024, session->shape().ahead_bytes / 1024);
  if (session->measured()) notice("{}\n", describe_choice(*session));
  const auto decoding = Clock::now();
  const auto generated = session->generate(prompts, options.generate);
  if (!generated && session->hangs()) {
    // What would free the device's memory now waits for a kernel that does not end.
    std::fprintf(stderr, "%s\n", generated.error().to_string().c_str());
    std::_Exit(kEnvironment);
  }
  STRATA_TRY(const auto made, generated);
  const double seconds = std::chrono::duration<double>(Clock::now() - decoding).count();
  if (!options.trace.empty()) STRATA_CHECK(write_trace(*session, options.trace));
  // What ordinary loads reach: measured on this GPU by `strata calibrate`, else on an H200.
  const double bandwidth = machine_of(targets().back(), folder).rates.memory_bandwidth;
  const auto floor_ms = [&](int64_t position) {
    return static_cast<double>(session->floor_bytes(position)) / bandwidth * 1e3;
  };
  const double floor = floor_ms(session->position());
  if (!options.json) {
    for (const auto& tokens : made) fmt::print("{}\n", fmt::join(tokens, " "));
    notice("{:.3f} ms a step with the prompt; floor {:.3f} ms\n",
           seconds * 1e3 / static_cast<double>(session->position()), floor);
  }
  nlohmann::json report{{"device", device->name()},
                        {"tokens", made},
                        {"start_seconds", start},
                        {"mode", name_of(session->form())},
                        {"read_bandwidth", bandwidth},
                        {"window", session->shape().window_bytes},
                        {"ahead", session->shape().ahead_bytes}};
  if (const auto& times = session->measured(); times && times->no_graph.empty())
    report.update({{"megakernel_ms", times->megakernel * 1e3}, {"graph_ms", times->graph * 1e3}});
  if (options.measure > 0) {
    std::vector<int64_t> positions = options.positions;
    if (positions.empty()) positions.push_back(session->position());
    for (const int64_t position : positions) {
      STRATA_TRY(const double ms, measured_step(*session, position, static_cast<uint32_t>(options.measure)));
      const double least = floor_ms(position);
      report["measured"].push_back({{"position", position}, {"ms", ms}, {"floor_ms", least}, {"ratio", ms / least}});
      if (!options.json)
        fmt::print("position {}: {:.4f} ms a token, floor {:.4f} ms, ratio {:.3f}\n", position, ms, least, ms / least);
    }
  }
  if (options.json) fmt::print("{}\n", report.dump());
  return kSuccess;
}

/// The tokens of each sequence in a line, or all as JSON.
int print_tokens(const std::vector<std::vector<int>>& made, const Options& options) {
  if (options.json) {
    fmt::print("{}\n", nlohmann::json{{"device", options.device}, {"tokens", made}}.dump());
    return kSuccess;
  }
  for (const auto& tokens : made) fmt::print("{}\n", fmt::join(tokens, " "));
  return kSuccess;
}

/// By the device code that a GPU would run, with few workers: each has 258 threads, which run in turn.
Result<int> decode_by_host_kernel(const Options& options, const ModelConfig& config, const ModelWeights& weights,
                                  const std::vector<std::vector<int>>& prompts) {
  if (!options.trace.empty() || options.measure > 0)
    return with_remedy(invalid("the host has no times to measure or to trace"), "leave --trace and --measure out");
  STRATA_TRY(const auto target, FiberDecodeTarget::open());
  DecodeOptions session_options;
  session_options.batch = static_cast<int64_t>(prompts.size());
  session_options.capacity = capacity_for(options, prompts);
  session_options.machine.workers = options.workers > 0 ? options.workers : 4;
  session_options.ahead_bytes = options.ahead_bytes;
  if (options.tagged_bytes) session_options.machine.tagged_bytes = *options.tagged_bytes;
  session_options.without = ablation_of(options);
  STRATA_TRY(session_options.mode, mode_of(options));
  if (session_options.mode == DecodeMode::Auto) session_options.mode = DecodeMode::Megakernel;  // no times to choose by
  STRATA_TRY(const auto session, DecodeSession::make(*target, config, weights, session_options));
  STRATA_TRY(const auto made, session->generate(prompts, options.generate));
  return print_tokens(made, options);
}

Result<int> decode(Options options) {
  STRATA_TRY(const ModelConfig config, read_config(options.config));
  STRATA_TRY(const auto prompts, read_prompts(options));
  options.generate.sampling = {options.sampling};
  options.generate.stop_tokens = options.stop;
  if (options.stop.empty() && !options.ignore_eos)
    options.generate.stop_tokens.assign(config.eos_token_ids.begin(), config.eos_token_ids.end());
  STRATA_CHECK(check_generate(config, static_cast<int64_t>(prompts.size()), prompts, options.generate));
  STRATA_TRY(const ModelWeights weights, options.weights.empty() ? ModelWeights::random(config, options.seed)
                                                                 : ModelWeights::open(options.weights, config));
  if (options.device == "host") {
    STRATA_TRY(const auto made,
               decode_on_host(config, weights, prompts, options.generate, capacity_for(options, prompts)));
    return print_tokens(made, options);
  }
  if (options.device == "host-kernel") return decode_by_host_kernel(options, config, weights, prompts);
  return decode_on_gpu(options, config, weights, prompts);
}

}  // namespace

void add_decode(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  auto* command =
      app.add_subcommand("decode", "Decode tokens of a Qwen3 or Llama model by one persistent kernel, or a CUDA graph");
  command
      ->add_option("--config", options->config,
                   "a config.json of Hugging Face, its folder, or a built-in name such as qwen3-0.6b")
      ->required();
  command->add_option("--weights", options->weights, "safetensors, or a folder with them; default: random weights");
  command->add_option("--seed", options->seed, "of random weights")->capture_default_str();
  command->add_option("--prompt-ids", options->prompts, "token ids, with commas between them; once for each sequence")
      ->take_all()
      ->delimiter(';');
  command->add_option("--prompt-ids-file", options->prompts_file, "a file with a prompt in each line");
  command->add_option("--tokens", options->generate.tokens, "to decode for each sequence, at most")
      ->capture_default_str();
  command->add_option("--temperature", options->sampling.temperature, "of sampling; 0: the likeliest token")
      ->capture_default_str();
  command->add_option("--top-k", options->sampling.top_k, "sample from this many of the likeliest tokens; 0: from all")
      ->capture_default_str();
  command->add_option("--top-p", options->sampling.top_p, "and from the likeliest with this probability together")
      ->capture_default_str();
  command->add_option("--sampling-seed", options->sampling.seed, "of the tokens drawn")->capture_default_str();
  command->add_option("--stop-ids", options->stop, "token ids that end a sequence; default: the configuration's")
      ->delimiter(',');
  command->add_flag("--ignore-eos", options->ignore_eos, "do not end at the configuration's end-of-sequence tokens");
  command->add_option("--cache", options->cache, "folder of the cache of compiled code; default ~/.cache/strata");
  command->add_flag("--no-cache", options->no_cache, "neither read nor write the cache");
  command->add_option("--capacity", options->capacity, "positions of the caches; default: what is needed");
  command
      ->add_option("--device", options->device,
                   "gpu; host: the interpreter; host-kernel: the GPU's code, compiled for the host by c++; both for "
                   "small models")
      ->check(CLI::IsMember({"gpu", "host", "host-kernel"}))
      ->capture_default_str();
  command
      ->add_option("--mode", options->mode,
                   "megakernel: one persistent kernel; graph: a kernel for each operator, in a CUDA graph; auto: the "
                   "faster of both, measured at the start (with --trace or on the host: megakernel)")
      ->check(CLI::IsMember({"auto", "megakernel", "graph"}))
      ->capture_default_str();
  command->add_option(
      "--trace", options->trace,
      "write begin and end of each task of the last launch: for Perfetto, or of its last step, as a page, "
      "where the file ends in .html");
  command->add_option("--window", options->window,
                      "bytes of weights on their way to a multiprocessor; default: the faster of 49152 and 65536, "
                      "measured at the start");
  command
      ->add_option("--workers", options->workers,
                   "blocks that compute, one to a multiprocessor; default: 128, with --device host-kernel 4")
      ->check(CLI::Range(1, 1024));
  command
      ->add_option("--ahead-bytes", options->ahead_bytes,
                   "bytes of weights that come to the second-level cache while a multiprocessor's ring is full, a "
                   "multiple of 16; "
                   "default: 131072 or, where windows are measured and it is faster so, 0")
      ->check(CLI::Range(0, 1 << 24));
  command
      ->add_option("--tagged-bytes", options->tagged_bytes,
                   "activations of up to this many bytes are handed over in tagged words, larger ones by counters; "
                   "default: 114688")
      ->check(CLI::NonNegativeNumber);
  command
      ->add_option("--without", options->without,
                   "leave out what makes the mega-kernel fast, to measure what it brings; several with commas")
      ->delimiter(',')
      ->check(CLI::IsMember(std::vector<std::string>(kParts.begin(), kParts.end())));
  command
      ->add_option("--just-in-time", options->just_in_time,
                   "functions whose tasks schedulers launch in the kernel, such as attention, or all; default: none")
      ->delimiter(',');
  command->add_option("--measure", options->measure, "time launches of this many steps, after decoding");
  command
      ->add_option("--position", options->positions,
                   "position of the measurement, or several with commas between them; default: where decoding ended")
      ->delimiter(',')
      ->check(CLI::NonNegativeNumber);
  command->add_flag("--json", options->json, "print one JSON object");
  command->callback([options, &action] { action = [options] { return decode(*options); }; });
}

}  // namespace strata::cli
