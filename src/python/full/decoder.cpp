#include "megakernel/decode/decoder.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "megakernel/decode/cuda_decode.h"
#include "megakernel/decode/decode_sizes.h"
#include "python/full/bindings.h"
#include "runtime/calibration_file.h"
#include "runtime/gpu_device.h"
#include "runtime/result_cache.h"

namespace strata::python {
namespace {

using megakernel::DecodeMode;
using megakernel::DecodeOptions;
using megakernel::GenerateOptions;
using megakernel::ModelConfig;
using megakernel::ModelWeights;
using megakernel::SafeTensor;

/// (name, element type as safetensors names it, sizes, address): memory of Python's, which keeps it.
using GivenTensor = std::tuple<std::string, std::string, std::vector<int64_t>, uintptr_t>;

/// With what must outlive it.
struct Decoder {
  std::shared_ptr<GpuDevice> device;  ///< null on the host
  std::optional<ResultCache> cache;
  std::optional<ModelWeights> weights;
  std::vector<std::string> notes;
  std::unique_ptr<megakernel::Decoder> decoder;
  std::mutex generating;

  ~Decoder() {
    nb::gil_scoped_release unlocked;
    decoder.reset();
  }
};

Result<ModelConfig> read_config(const std::string& kind, const std::string& given) {
  if (kind == "text") return megakernel::parse_config(given);
  const auto names = megakernel::preset_names();
  if (std::find(names.begin(), names.end(), given) != names.end()) return megakernel::preset_config(given);
  return megakernel::load_config(given);
}

Result<ModelWeights> weights_of(const std::vector<GivenTensor>& given, const ModelConfig& config) {
  std::vector<SafeTensor> tensors;
  for (const auto& [name, dtype, shape, address] : given) {
    int64_t elements = 1;
    for (const int64_t size : shape) elements *= size;
    const size_t bytes = dtype == "BF16" ? static_cast<size_t>(elements) * sizeof(uint16_t) : 0;
    tensors.push_back({name, dtype, shape, {reinterpret_cast<const std::byte*>(address), bytes}});
  }
  return ModelWeights::of(tensors, config);
}

struct DecoderRequest {
  std::string config_kind;  ///< "text" of a config.json, or a "name": that of a file, a folder or a preset
  std::string config;
  std::vector<float> frequencies;    ///< of rotary embeddings; empty: as the configuration says
  std::string path;                  ///< of weights
  std::vector<GivenTensor> tensors;  ///< or these
  std::optional<uint64_t> seed;      ///< or random ones
  std::string device;                ///< "gpu", "host" or "host-kernel"
  std::string mode;                  ///< "auto", "megakernel" or "graph"
  int64_t batch = 1;
  int64_t capacity = 0;
  std::string cache_folder;
};

Result<void> open_decoder(Decoder& made, const DecoderRequest& request) {
  STRATA_TRY(ModelConfig config, read_config(request.config_kind, request.config));
  config.frequencies = request.frequencies;
  made.notes = megakernel::notes_of(config);
  if (request.seed) {
    STRATA_TRY(made.weights, ModelWeights::random(config, *request.seed));
  } else if (!request.path.empty()) {
    STRATA_TRY(made.weights, ModelWeights::open(request.path, config));
  } else {
    STRATA_TRY(made.weights, weights_of(request.tensors, config));
  }
  made.notes.insert(made.notes.end(), made.weights->notes().begin(), made.weights->notes().end());
  DecodeOptions options;
  options.batch = request.batch;
  options.capacity = request.capacity;
  options.mode = request.mode == "graph" ? DecodeMode::Graph : DecodeMode::Megakernel;
  if (request.device == "host") {
    STRATA_TRY(made.decoder, megakernel::Decoder::interpreted(config, *made.weights, options));
    return {};
  }
  if (request.device == "host-kernel") {
    options.machine.workers = 4;  // each has 258 threads, which run in turn
    STRATA_TRY(made.decoder, megakernel::Decoder::by_host_kernel(config, *made.weights, options));
  } else {
    if (request.mode == "auto") options.mode = DecodeMode::Auto;
    options.windows = {megakernel::kDecodeWindows.begin(), megakernel::kDecodeWindows.end()};
    options.prompt_rows = megakernel::kDecodePromptRows;
    options.least_prompt = megakernel::kDecodeLongPrompt;
    if (!request.cache_folder.empty())
      made.cache.emplace(request.cache_folder, [&](const std::string& warning) { made.notes.push_back(warning); });
    const Target machine = calibrated_here(megakernel::target_of(*made.device), request.cache_folder, probe_device(),
                                           [&](const std::string& note) { made.notes.push_back(note); });
    STRATA_TRY(made.decoder, megakernel::Decoder::on_gpu(*made.device, machine, config, *made.weights, options,
                                                         made.cache ? &*made.cache : nullptr));
  }
  made.weights.reset();  // they lie on the device
  return {};
}

std::unique_ptr<Decoder> make_decoder(const DecoderRequest& request, std::shared_ptr<GpuDevice> device) {
  auto made = std::make_unique<Decoder>();
  made->device = std::move(device);
  Result<void> opened;
  {
    const nb::gil_scoped_release unlocked;
    opened = open_decoder(*made, request);
  }
  value_of(std::move(opened));
  return made;
}

/// A generation on a thread of its own, so that Python's main thread sees Ctrl-C and tokens come as they are made.
class DecodeJob {
 public:
  DecodeJob(Decoder& decoder, std::vector<std::vector<int>> prompts, GenerateOptions options) {
    value_of(decoder.decoder->check(prompts, options));
    options.stop = stop_.get_token();
    worker_ = std::jthread([this, &decoder, prompts = std::move(prompts), options = std::move(options)] {
      const std::lock_guard alone(decoder.generating);
      auto result = decoder.decoder->generate(prompts, options, [this](int64_t sequence, int token) {
        const std::lock_guard lock(mutex_);
        tokens_.emplace_back(sequence, token);
        news_.notify_all();
      });
      const std::lock_guard lock(mutex_);
      ended_ = true;
      if (!result) error_ = std::move(result.error());
      news_.notify_all();
    });
  }
  /// Waits: a generation that is stopped ends with the step.
  ~DecodeJob() {
    nb::gil_scoped_release unlocked;
    stop_.request_stop();
    worker_ = {};
  }
  DecodeJob(const DecodeJob&) = delete;
  DecodeJob& operator=(const DecodeJob&) = delete;

  using Taken = std::vector<std::pair<int64_t, int>>;
  /// What has come since, by (sequence, token), and whether that was all; after so many seconds at most.
  std::pair<Taken, bool> take(double seconds) {
    const nb::gil_scoped_release unlocked;
    std::unique_lock lock(mutex_);
    news_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return ended_ || !tokens_.empty(); });
    Taken taken(tokens_.begin(), tokens_.end());
    tokens_.clear();
    if (ended_ && taken.empty() && error_) throw Raised(*error_);
    return {std::move(taken), ended_ && !error_};
  }
  void stop() { stop_.request_stop(); }

 private:
  std::stop_source stop_;
  std::mutex mutex_;
  std::condition_variable news_;
  std::deque<std::pair<int64_t, int>> tokens_;
  bool ended_ = false;
  std::optional<Error> error_;
  std::jthread worker_;  // last: it uses the others
};

}  // namespace

void bind_decoder(nb::module_& module) {
  using namespace nb::literals;
  module.def(
      "check_decoder",
      [](const std::string& config, int64_t batch) {
        const ModelConfig read = value_of(read_config("text", config));
        value_of(megakernel::check_task_sizes(read, batch));
      },
      "config"_a, "batch"_a, "Error where the device code of a step does not take the sizes of a config.json's text.");
  nb::class_<Decoder>(module, "Decoder", "A model that decodes tokens on a device.")
      .def_static(
          "open",
          [](const std::string& config_kind, const std::string& config, const std::vector<float>& frequencies,
             const std::string& path, const std::vector<GivenTensor>& tensors, std::optional<uint64_t> seed,
             const std::string& device_name, std::shared_ptr<GpuDevice> device, const std::string& mode, int64_t batch,
             int64_t capacity, const std::string& cache_folder) {
            return make_decoder({config_kind, config, frequencies, path, tensors, seed, device_name, mode, batch,
                                 capacity, cache_folder},
                                std::move(device));
          },
          "config_kind"_a, "config"_a, "frequencies"_a, "path"_a, "tensors"_a, "seed"_a.none(), "device_name"_a,
          "device"_a.none(), "mode"_a, "batch"_a, "capacity"_a, "cache_folder"_a,
          "Compiles the step and packs the weights. `tensors` must live as long as the decoder.")
      .def(
          "step",
          [](Decoder& of, const std::vector<int>& tokens, int64_t position,
             const std::vector<std::pair<uint64_t, uint64_t>>& caches, int64_t positions, bool takes_caches,
             uint64_t logits) {
            megakernel::CallerStep step{tokens, position, {}, positions, takes_caches, logits};
            for (const auto& [keys, values] : caches) step.caches.push_back({keys, values});
            Result<void> done;
            {
              const nb::gil_scoped_release unlocked;
              const std::lock_guard alone(of.generating);
              done = of.decoder->step(step);
            }
            value_of(std::move(done));
          },
          "tokens"_a, "position"_a, "caches"_a, "positions"_a, "takes_caches"_a, "logits"_a,
          "One step, with addresses of a caller's keys and values by layer, bfloat16 [batch, heads, positions, "
          "head_dim] "
          "each, and of logits, bfloat16 [batch, vocab_size]. takes_caches: rows before the position are the caller's.")
      .def_prop_ro("description", [](const Decoder& of) { return of.decoder->description(); })
      .def_prop_ro("start_seconds",
                   [](const Decoder& of) {
                     const megakernel::StartTimes times = of.decoder->start_times();
                     return std::map<std::string, double>{{"step", times.step},
                                                          {"weights", times.weights},
                                                          {"memory", times.memory},
                                                          {"choice", times.choice},
                                                          {"prompts", times.prompts}};
                   })
      .def_prop_ro("capacity", [](const Decoder& of) { return of.decoder->capacity(); })
      .def_prop_ro("vocab_size", [](const Decoder& of) { return of.decoder->config().vocab_size; })
      .def_prop_ro("eos", [](const Decoder& of) { return of.decoder->config().eos_token_ids; })
      .def_ro("notes", &Decoder::notes);
  nb::class_<DecodeJob>(module, "DecodeJob", "A generation in the background.")
      .def(
          "__init__",
          [](DecodeJob* job, Decoder& decoder, const std::vector<std::vector<int>>& prompts, int64_t tokens,
             float temperature, int64_t top_k, float top_p, uint64_t seed, const std::vector<int>& stop) {
            new (job)
                DecodeJob(decoder, prompts,
                          {.tokens = tokens, .sampling = {{temperature, top_k, top_p, seed}}, .stop_tokens = stop});
          },
          nb::keep_alive<1, 2>(), "decoder"_a, "prompts"_a, "tokens"_a, "temperature"_a, "top_k"_a, "top_p"_a, "seed"_a,
          "stop"_a)
      .def("take", &DecodeJob::take, "seconds"_a,
           "What has come since, by (sequence, token), and whether that was all; after so many seconds at most.")
      .def("stop", &DecodeJob::stop, "Ends it with the step that runs.");
}

}  // namespace strata::python
