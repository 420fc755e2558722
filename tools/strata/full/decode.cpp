// strata decode: a language model's next tokens, as one persistent kernel or a graph of kernels on the machine's GPU or
// on the host, or by the interpreter.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>

#include "../commands.h"
#include "../interrupt_watch.h"
#include "../machine_options.h"
#include "decode_host.h"
#include "decode_options.h"
#include "decode_plan.h"
#include "megakernel/decode/cuda_decode.h"
#include "megakernel/decode/decode_sizes.h"
#include "megakernel/decode/decoder.h"
#include "megakernel/decode/fiber_decode.h"
#include "megakernel/models/reference_decode.h"
#include "megakernel/runtime/timeline.h"
#include "runtime/result_cache.h"
#include "support/host_memory.h"
#include "token_stream.h"

namespace strata::cli {
namespace {

using namespace megakernel;
using Tokens = std::vector<std::vector<int>>;

constexpr const char* kSmaller = "take a smaller model, or decode on a GPU";

/// The weights of a command. Files are opened at once, and their headers checked; random weights, of which a large
/// model's take a minute, are drawn when they are asked for.
class CommandWeights {
 public:
  static Result<CommandWeights> open(const DecodeCommand& command, const ModelConfig& config) {
    CommandWeights made(config, command.seed);
    if (command.weights.empty()) return made;
    STRATA_TRY(made.weights_, ModelWeights::open(command.weights, config));
    for (const std::string& note : made.weights_->notes()) notice("note: {}\n", note);
    return made;
  }
  Result<const ModelWeights*> get() {
    if (!weights_) {
      STRATA_TRY(weights_, ModelWeights::random(config_, seed_));
    }
    return &*weights_;
  }
  /// Of the process's own memory.
  double bytes() const {
    double elements = 0;
    for (const WeightSpec& spec : weight_specs(config_)) elements += static_cast<double>(spec.elements());
    return weights_ ? 0 : elements * sizeof(uint16_t);
  }

 private:
  CommandWeights(const ModelConfig& config, uint64_t seed) : config_(config), seed_(seed) {}
  ModelConfig config_;
  uint64_t seed_;
  std::optional<ModelWeights> weights_;
};

/// Returns the last step that was recorded as a whole; a page needs one.
Result<std::optional<StepTimeline>> write_trace(const DecodeSession& session, const std::string& path) {
  if (session.decode_steps() == 0) {
    notice("note: {} is not written: a stop came before the steps that it would show\n", path);
    return std::nullopt;
  }
  STRATA_TRY(const std::vector<TracedTask> tasks, session.trace());
  auto timeline = step_timeline(session.plan(), tasks);
  if (path.ends_with(".html")) {
    if (!timeline) return tl::unexpected(timeline.error());
    STRATA_CHECK(write_file(path, timeline_html(session.plan(), *timeline)));
  } else {
    STRATA_CHECK(write_file(path, chrome_trace(session.plan(), tasks)));
  }
  return timeline ? std::optional(*std::move(timeline)) : std::nullopt;
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

/// What can be left out is the mega-kernel's. A trace is of one form, the mega-kernel where none is named.
Result<DecodeMode> mode_of(const DecodeCommand& options) {
  if (options.mode == "megakernel") return DecodeMode::Megakernel;
  const char* const own = !options.without.empty()        ? "--without leaves out parts"
                          : !options.just_in_time.empty() ? "--just-in-time names functions"
                                                          : nullptr;
  if (options.mode == "auto")
    return own != nullptr || !options.trace.empty() ? DecodeMode::Megakernel : DecodeMode::Auto;
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

void note_prompts(const DecodeSession& session) {
  if (!session.no_prompt_step().empty()) notice("note: prompts went token by token: {}\n", session.no_prompt_step());
}

/// The step of prompts is made at the start, and only for prompts that go through it.
void leave_out_unused(DecodeOptions& options, const Tokens& prompts) {
  for (const std::vector<int>& prompt : prompts)
    if (static_cast<int64_t>(prompt.size()) < options.least_prompt) options.prompt_rows = 1;
}

/// What is made, as it is made; with --json all of it is printed at the end.
class Printed {
 public:
  Printed(const DecodeCommand& command, const DecodeRequest& request)
      : is_json_(command.json),
        stream_(request.prompts.size(), request.generate.tokens, request.generate.stop_tokens) {}
  DecodeSession::OnToken on_token() {
    if (is_json_) return {};
    return [this](int64_t sequence, int token) { stream_.take(sequence, token); };
  }
  void finish() {
    if (!is_json_) stream_.finish();
  }

 private:
  bool is_json_;
  TokenStream stream_;
};

/// Of the steps that made the tokens after the longest prompt; nothing where a stop came before them.
struct StepTimes {
  double ms = 0;
  double floor_ms = 0;
};
std::optional<StepTimes> step_times(const DecodeSession& session, double bandwidth) {
  const int64_t steps = session.decode_steps();
  if (steps == 0) return {};
  // The floor grows evenly with the position, so the steps' mean is that of their middle.
  const int64_t end = session.position();
  const double bytes = static_cast<double>(session.floor_bytes(end - steps) + session.floor_bytes(end - 1)) / 2;
  return StepTimes{session.decode_seconds() / static_cast<double>(steps) * 1e3, bytes / bandwidth * 1e3};
}

Result<int> decode_on_gpu(const DecodeCommand& options, DecodeRequest& request, CommandWeights& weights) {
  STRATA_TRY(DecodeOptions session_options, session_options_of(options, request.batch(), request.capacity));
  leave_out_unused(session_options, request.prompts);
  STRATA_TRY(session_options.mode, mode_of(options));
  session_options.profile = !options.trace.empty();
  if (options.window == 0 && options.trace.empty())
    session_options.windows = {kDecodeWindows.begin(), kDecodeWindows.end()};
  std::stop_source stop;
  InterruptWatch watch(stop, InterruptWatch::From::Begin);  // before the driver's threads
  request.generate.stop = stop.get_token();
  STRATA_TRY(const std::unique_ptr<GpuDevice> device, GpuDevice::open());
  std::optional<ResultCache> cache;
  const std::string folder = cache_folder(options.cache, options.no_cache);
  if (!folder.empty()) cache.emplace(folder, [](const std::string& text) { notice("warning: {}\n", text); });
  const Target machine = machine_of(target_of(*device), folder);
  CudaDecodeTarget target(*device, machine, cache ? &*cache : nullptr);
  STRATA_TRY(const auto session, DecodeSession::make(
                                     target, request.config, [&] { return weights.get(); }, session_options));
  const StartTimes& start = session->start_times();
  notice(
      "ready after {:.1f} s: step {:.1f}, weights {:.1f}, their memory {:.1f}, timing {:.1f}, prompts {:.1f}\n"
      "{} tasks a step, {} registers, {} bytes spilled, ring {} KB, scratch {} KB, window {} KB, ahead {} KB\n",
      start.all(), start.step, start.weights, start.memory, start.choice, start.prompts, session->plan().tasks.size(),
      target.registers(session->form()).registers, target.registers(session->form()).spilled_bytes,
      session->shape().ring_bytes / 1024, session->shape().scratch_bytes / 1024, session->shape().window_bytes / 1024,
      session->shape().ahead_bytes / 1024);
  if (session->measured()) notice("{}\n", describe_choice(*session));
  Printed printed(options, request);
  watch.begin();
  const auto generated = session->generate(request.prompts, request.generate, printed.on_token());
  if (!generated && session->hangs()) {
    // What would free the device's memory now waits for a kernel that does not end.
    printed.finish();
    std::fprintf(stderr, "%s\n", generated.error().to_string().c_str());
    std::_Exit(kEnvironment);
  }
  STRATA_TRY(const auto made, generated);
  printed.finish();
  note_prompts(*session);
  std::optional<StepTimeline> timeline;
  if (!options.trace.empty()) {
    STRATA_TRY(timeline, write_trace(*session, options.trace));
  }
  // What ordinary loads reach: measured on this GPU by `strata calibrate`, else on an H200.
  const double bandwidth = machine.rates.memory_bandwidth;
  const bool is_calibrated = !machine.sources.empty();
  if (!is_calibrated)
    notice(
        "note: the floor is that of an {}, whose memory was read at {:.2f} TB/s: nothing was calibrated on this {}; "
        "`strata calibrate` measures its own\n",
        machine.gpu, bandwidth * 1e-12, device->name());
  const auto floor_ms = [&](int64_t position) {
    return static_cast<double>(session->floor_bytes(position)) / bandwidth * 1e3;
  };
  const std::optional<StepTimes> times = step_times(*session, bandwidth);
  if (times && !options.json)
    fmt::print("{:.4f} ms a token, floor {:.4f} ms, ratio {:.3f}\n", times->ms, times->floor_ms,
               times->ms / times->floor_ms);
  nlohmann::json report{{"device", device->name()},
                        {"tokens", made},
                        {"start_seconds", start.all()},
                        {"start",
                         {{"step", start.step},
                          {"weights", start.weights},
                          {"memory", start.memory},
                          {"choice", start.choice},
                          {"prompts", start.prompts}}},
                        {"mode", name_of(session->form())},
                        {"read_bandwidth", bandwidth},
                        {"calibrated", is_calibrated},
                        {"window", session->shape().window_bytes},
                        {"ahead", session->shape().ahead_bytes},
                        {"prompt_positions", session->prompt_positions()},
                        {"prompt_seconds", session->prompt_seconds()}};
  if (timeline)
    report["trace"] = {{"step_us", timeline->length},
                       {"loaded_bytes", timeline->bytes},
                       {"idle", timeline->idle},
                       {"dependences", timeline->dependences}};
  if (times)
    report.update({{"steps", session->decode_steps()}, {"ms_a_token", times->ms}, {"floor_ms", times->floor_ms}});
  if (const auto& forms = session->measured(); forms && forms->no_graph.empty())
    report.update({{"megakernel_ms", forms->megakernel * 1e3}, {"graph_ms", forms->graph * 1e3}});
  if (options.measure > 0) {
    std::vector<int64_t> positions = request.positions;
    if (positions.empty()) positions.push_back(session->position());
    for (const int64_t position : positions) {
      if (stop.stop_requested()) break;
      STRATA_TRY(const double ms, measured_step(*session, position, static_cast<uint32_t>(options.measure)));
      const double least = floor_ms(position);
      report["measured"].push_back({{"position", position}, {"ms", ms}, {"floor_ms", least}, {"ratio", ms / least}});
      if (!options.json)
        fmt::print("position {}: {:.4f} ms a token, floor {:.4f} ms, ratio {:.3f}\n", position, ms, least, ms / least);
    }
  }
  if (options.json) fmt::print("{}\n", report.dump());
  return watch.exit_code(kSuccess);
}

/// The same of all devices without times.
void report_host(const DecodeCommand& command, const Tokens& made, std::string_view mode) {
  if (command.json)
    fmt::print("{}\n", nlohmann::json{{"device", command.device}, {"mode", mode}, {"tokens", made}}.dump());
}

/// By the device code that a GPU would run, with few workers.
Result<int> decode_by_host_kernel(const DecodeCommand& command, DecodeRequest& request, CommandWeights& weights) {
  STRATA_TRY(DecodeOptions session_options, session_options_of(command, request.batch(), request.capacity));
  leave_out_unused(session_options, request.prompts);
  STRATA_TRY(session_options.mode, mode_of(command));
  if (session_options.mode == DecodeMode::Auto) session_options.mode = DecodeMode::Megakernel;  // no times to choose by
  session_options.profile = !command.trace.empty();
  STRATA_CHECK(check_host_memory(weights.bytes() * 2, "decoding by the device code on the host", kSmaller));
  STRATA_TRY(const auto target, FiberDecodeTarget::open());
  STRATA_TRY(const auto session, DecodeSession::make(
                                     *target, request.config, [&] { return weights.get(); }, session_options));
  std::stop_source stop;
  const InterruptWatch watch(stop);
  request.generate.stop = stop.get_token();
  Printed printed(command, request);
  STRATA_TRY(const auto made, session->generate(request.prompts, request.generate, printed.on_token()));
  printed.finish();
  note_prompts(*session);
  if (!command.trace.empty()) {
    if (const auto written = write_trace(*session, command.trace); !written) return tl::unexpected(written.error());
  }
  report_host(command, made, name_of(session->form()));
  return watch.exit_code(kSuccess);
}

Result<int> decode_by_interpreter(const DecodeCommand& command, DecodeRequest& request, CommandWeights& weights) {
  STRATA_CHECK(
      ReferenceDecoder<float>::check(request.config, {.batch = request.batch(), .capacity = request.capacity}));
  STRATA_TRY(const ModelWeights* const values, weights.get());
  std::stop_source stop;
  const InterruptWatch watch(stop);
  request.generate.stop = stop.get_token();
  Printed printed(command, request);
  STRATA_TRY(const auto made, decode_on_host(request.config, *values, request.prompts, request.generate,
                                             request.capacity, printed.on_token()));
  printed.finish();
  report_host(command, made, "interpreter");
  return watch.exit_code(kSuccess);
}

Result<int> decode(const DecodeCommand& command) {
  if (command.has("--plan")) return write_plans(command);
  STRATA_TRY(DecodeRequest request, read_request(command));
  if (command.device != "host") STRATA_CHECK(check_task_sizes(request.config, request.batch()));
  if (!command.trace.empty()) STRATA_CHECK(check_output_file(command.trace, "--trace", "trace.html"));
  STRATA_TRY(CommandWeights weights, CommandWeights::open(command, request.config));
  if (command.device == "host") return decode_by_interpreter(command, request, weights);
  if (command.device == "host-kernel") return decode_by_host_kernel(command, request, weights);
  return decode_on_gpu(command, request, weights);
}

}  // namespace

void add_decode(CLI::App& app, Action& action) {
  auto options = std::make_shared<DecodeCommand>();
  auto* command =
      app.add_subcommand("decode", "Decode tokens of a Qwen3 or Llama model by one persistent kernel, or a CUDA graph");
  add_decode_options(*command, *options);
  command->callback([options, command, &action] {
    for (const CLI::Option* option : command->get_options())
      if (option->count() > 0) options->given.insert("--" + option->get_lnames().front());
    action = [options] { return decode(*options); };
  });
}

}  // namespace strata::cli
