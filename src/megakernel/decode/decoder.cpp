#include "megakernel/decode/decoder.h"

#include <algorithm>

#include "megakernel/decode/cuda_decode.h"
#include "megakernel/decode/fiber_decode.h"
#include "megakernel/models/bf16.h"
#include "megakernel/models/reference_decode.h"
#include "runtime/cuda_streams.h"

namespace strata::megakernel {
namespace {

/// A session, and the target that must outlive it.
class SessionDecoder : public Decoder {
 public:
  static Result<std::unique_ptr<Decoder>> make(std::unique_ptr<DecodeTarget> target, const ModelConfig& config,
                                               const ModelWeights& weights, const DecodeOptions& options) {
    std::unique_ptr<SessionDecoder> made(new SessionDecoder(config, options));
    made->target_ = std::move(target);
    STRATA_TRY(made->session_, DecodeSession::make(*made->target_, config, weights, options));
    return made;
  }
  ~SessionDecoder() override {
    // To free its memory a device waits for what runs, and that does not end.
    if (session_ == nullptr || !session_->hangs()) return;
    static_cast<void>(session_.release());
    static_cast<void>(target_.release());
  }

  std::string description() const override {
    const bool graph = session_->form() == StepForm::Graph;
    const std::string form = graph ? "a kernel for each operator, in a CUDA graph" : "one persistent kernel";
    const std::optional<FormTimes>& times = session_->measured();
    if (!times) return form;
    if (!times->no_graph.empty()) return fmt::format("{}; no graph: {}", form, times->no_graph);
    return fmt::format("{}; mega-kernel {:.4f} ms a step, graph {:.4f} ms", form, times->megakernel * 1e3,
                       times->graph * 1e3);
  }
  StartTimes start_times() const override { return session_->start_times(); }
  Result<void> step(const CallerStep& step) override { return session_->step(step); }

 private:
  using Decoder::Decoder;
  Result<Tokens> decode(const Tokens& prompts, const GenerateOptions& options,
                        const DecodeSession::OnToken& on_token) override {
    if (!session_->hangs()) session_->set_position(0);
    return session_->generate(prompts, options, on_token);
  }

  std::unique_ptr<DecodeTarget> target_;
  std::unique_ptr<DecodeSession> session_;
};

/// Another decoder's, with a GPU's context current on whichever thread it is called.
class InContext : public Decoder {
 public:
  static Result<std::unique_ptr<Decoder>> make(const GpuDevice& device, const Target& machine,
                                               const ModelConfig& config, const ModelWeights& weights,
                                               const DecodeOptions& options, ResultCache* cache) {
    STRATA_TRY(const CudaStreams streams, open_cuda_streams());
    std::unique_ptr<InContext> made(new InContext(config, options));
    made->device_ = &device;
    made->streams_ = streams;
    STRATA_TRY(const ContextScope scope, made->enter());
    STRATA_TRY(made->inner_, SessionDecoder::make(std::make_unique<CudaDecodeTarget>(device, machine, cache), config,
                                                  weights, options));
    return made;
  }
  ~InContext() override {
    if (inner_ == nullptr) return;
    const auto scope = enter();
    inner_.reset();
  }
  std::string description() const override { return inner_->description(); }
  StartTimes start_times() const override { return inner_->start_times(); }
  Result<void> step(const CallerStep& step) override {
    STRATA_TRY(const ContextScope scope, enter());
    return inner_->step(step);
  }

 private:
  using Decoder::Decoder;
  Result<ContextScope> enter() const { return ContextScope::enter(device_->driver(), streams_, device_->context()); }
  Result<Tokens> decode(const Tokens& prompts, const GenerateOptions& options,
                        const DecodeSession::OnToken& on_token) override {
    STRATA_TRY(const ContextScope scope, enter());
    return inner_->generate(prompts, options, on_token);
  }

  const GpuDevice* device_ = nullptr;
  CudaStreams streams_{};
  std::unique_ptr<Decoder> inner_;
};

class InterpretedDecoder : public Decoder {
 public:
  static Result<std::unique_ptr<Decoder>> make(const ModelConfig& config, const ModelWeights& weights,
                                               const DecodeOptions& options) {
    STRATA_TRY(auto reference, ReferenceDecoder<float>::create(config, weights,
                                                               {.batch = options.batch, .capacity = options.capacity}));
    return std::unique_ptr<Decoder>(new InterpretedDecoder(config, options, std::move(reference)));
  }
  std::string description() const override { return "the interpreter, in float32"; }
  Result<void> step(const CallerStep& step) override {
    STRATA_CHECK(check_caller_step(config_, batch_, capacity_, step));
    const auto rows_of = [&](uint64_t address) {
      return CallerRowsView{reinterpret_cast<uint16_t*>(address), step.positions};
    };
    for (size_t layer = 0; layer < step.caches.size(); ++layer) {
      if (step.takes_caches)
        reference_.take_rows(layer, step.position, rows_of(step.caches[layer].keys),
                             rows_of(step.caches[layer].values));
    }
    reference_.continue_at(step.position);
    STRATA_TRY(const Tensor<float> logits,
               reference_.step(std::vector<int64_t>(step.tokens.begin(), step.tokens.end())));
    for (size_t layer = 0; layer < step.caches.size(); ++layer)
      reference_.give_row(layer, step.position, rows_of(step.caches[layer].keys), rows_of(step.caches[layer].values));
    std::ranges::transform(logits.data, reinterpret_cast<uint16_t*>(step.logits), float_to_bf16);
    return {};
  }

 private:
  InterpretedDecoder(const ModelConfig& config, const DecodeOptions& options, ReferenceDecoder<float> reference)
      : Decoder(config, options), reference_(std::move(reference)) {}

  Result<Tokens> decode(const Tokens& prompts, const GenerateOptions& options,
                        const DecodeSession::OnToken& on_token) override {
    for (int64_t s = 0; s < batch_; ++s) STRATA_CHECK(reference_.restart(s));
    Tokens made(prompts.size());
    std::vector<int64_t> next;
    for (const std::vector<int>& prompt : prompts) next.push_back(prompt[0]);
    const auto goes_on = [&](const std::vector<int>& one) {
      const std::vector<int>& stop = options.stop_tokens;
      return static_cast<int64_t>(one.size()) < options.tokens &&
             (one.empty() || std::find(stop.begin(), stop.end(), one.back()) == stop.end());
    };
    for (size_t fed = 0; std::any_of(made.begin(), made.end(), goes_on); ++fed) {
      if (options.stop.stop_requested()) break;
      STRATA_TRY(const auto logits, reference_.step(next));
      const auto row = static_cast<size_t>(config_.vocab_size);
      for (size_t s = 0; s < prompts.size(); ++s) {
        const auto token = sample(std::span<const float>(logits.data.data() + s * row, row), sampling_of(options, s),
                                  fed + 1, static_cast<uint32_t>(s));
        const bool in_prompt = fed + 1 < prompts[s].size();
        next[s] = in_prompt ? prompts[s][fed + 1] : token;
        if (in_prompt || !goes_on(made[s])) continue;
        made[s].push_back(static_cast<int>(token));
        if (on_token) on_token(static_cast<int64_t>(s), made[s].back());
      }
    }
    return made;
  }

  ReferenceDecoder<float> reference_;
};

}  // namespace

Result<std::unique_ptr<Decoder>> Decoder::on_gpu(const GpuDevice& device, const Target& machine,
                                                 const ModelConfig& config, const ModelWeights& weights,
                                                 const DecodeOptions& options, ResultCache* cache) {
  return InContext::make(device, machine, config, weights, options, cache);
}

Result<std::unique_ptr<Decoder>> Decoder::by_host_kernel(const ModelConfig& config, const ModelWeights& weights,
                                                         const DecodeOptions& options) {
  STRATA_TRY(std::unique_ptr<FiberDecodeTarget> target, FiberDecodeTarget::open());
  return SessionDecoder::make(std::move(target), config, weights, options);
}

Result<std::unique_ptr<Decoder>> Decoder::interpreted(const ModelConfig& config, const ModelWeights& weights,
                                                      const DecodeOptions& options) {
  return InterpretedDecoder::make(config, weights, options);
}

Result<void> Decoder::check(const Tokens& prompts, const GenerateOptions& options) const {
  STRATA_CHECK(check_generate(config_, batch_, prompts, options));
  size_t longest = 0;
  for (const std::vector<int>& prompt : prompts) longest = std::max(longest, prompt.size());
  const int64_t most = static_cast<int64_t>(longest) + options.tokens - 1;
  if (most > config_.max_position_embeddings)
    return with_remedy(invalid("{} positions; the model was trained for {}", most, config_.max_position_embeddings),
                       "ask for fewer tokens");
  if (most > capacity_)
    return with_remedy(invalid("{} positions do not fit a cache of {}", most, capacity_), "raise the capacity");
  return {};
}

Result<Decoder::Tokens> Decoder::generate(const Tokens& prompts, const GenerateOptions& options,
                                          const DecodeSession::OnToken& on_token) {
  STRATA_CHECK(check(prompts, options));
  return decode(prompts, options, on_token);
}

}  // namespace strata::megakernel
