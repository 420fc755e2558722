// A model that decodes as one persistent kernel, or by the same tasks as a graph of kernels, on a GPU or on the host
// (decode_target.h): its weights packed in the target's memory, its caches, and the mega-kernel of its step. One
// session serves a batch of sequences, which advance together.
#pragma once

#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>

#include "megakernel/decode/caller_step.h"
#include "megakernel/decode/decode_image.h"
#include "megakernel/decode/decode_target.h"
#include "megakernel/decode/prompt_step.h"
#include "megakernel/models/sampling.h"

namespace strata_device {
struct CallerRows;
}

namespace strata::megakernel {

/// In which form a session's steps run.
enum class DecodeMode : uint8_t {
  Megakernel,
  Graph,
  Auto,  ///< the faster one, measured when the session begins
};

/// What Auto has measured, now or at an earlier start, in seconds a step.
struct FormTimes {
  double megakernel = 0;
  double graph = 0;      ///< 0: there is no graph
  std::string no_graph;  ///< why
};

/// How long the parts of a start took, in seconds.
struct StartTimes {
  double step = 0;     ///< the step planned, and compiled or read from the cache
  double weights = 0;  ///< opened or drawn, by their source
  double memory = 0;   ///< allocated, uploaded and packed
  double choice = 0;   ///< of loads and form, by timing them, or as an earlier start has measured
  double prompts = 0;  ///< the step of prompts compiled or read from the cache, and what its plan takes longer than
                       ///< weights, memory and choice
  double all() const { return step + weights + memory + choice + prompts; }
};

/// What a step does without, to measure what it brings. (Mirage Persistent Kernel, section 6, has such figures.)
struct DecodeAblation {
  bool operator==(const DecodeAblation&) const = default;

  bool tasks_ahead = false;        ///< a worker's roles are in one task at a time
  bool descriptors_ahead = false;  ///< a task's descriptor is fetched when the loads before it are issued
  bool constants_ahead = false;    ///< a task's weights are loaded when its events are active; without tagged words
  bool events_of_tasks = false;    ///< operators wait for whole operators
  bool tagged_words = false;       ///< counters hand over all activations, though these lie in tagged words
  std::vector<std::string> ahead_of_time;  ///< functions whose tasks schedulers launch; "all": those of all functions
};

struct DecodeOptions {
  int64_t batch = 1;
  int64_t capacity = 1024;  ///< positions of a sequence's cache, at least (cache_positions)
  /// Workers and window; of 0 workers as many as the target has multiprocessors, without those of schedulers. Ring and
  /// scratch are what the functions leave of shared memory, rates the target's (plan_step).
  Machine machine{.workers = 0};
  std::chrono::milliseconds limit{2000};  ///< of each wait within a step
  bool profile = false;                   ///< record begin and end of tasks; not with DecodeMode::Auto
  DecodeMode mode = DecodeMode::Megakernel;
  DecodeAblation without;
  /// WorkerShape::ahead_bytes. Else cuda_shape()'s or, where windows are measured and it is faster so, 0.
  std::optional<int64_t> ahead_bytes;
  /// Prompts of at least so many tokens are taken several positions at once, up to `prompt_rows` of all sequences
  /// together, by a step of its own (prompt_step.h), which is planned and compiled at the start: that takes seconds.
  /// prompt_rows 1, or a capacity below least_prompt: token by token, without such a step.
  int64_t prompt_rows = 1;
  int64_t least_prompt = 2;
  std::vector<int64_t> windows;  ///< bytes; the fastest is measured when the session begins. None: the machine's
};

struct GenerateOptions {
  int64_t tokens = 16;                    ///< of each sequence, at most
  std::vector<SamplingOptions> sampling;  ///< of each sequence; one for all; or none: argmax
  std::vector<int> stop_tokens;           ///< with which a sequence ends; it has them as its last
  std::stop_token stop;                   ///< asks for an early end, with the tokens so far
};

/// Errors (InvalidInput): as many prompts as the batch has sequences, none empty; tokens, of prompts and to stop at, of
/// the vocabulary; positions below max_position_embeddings; sampling options as sampling.h and this file say.
Result<void> check_generate(const ModelConfig& config, int64_t batch, const std::vector<std::vector<int>>& prompts,
                            const GenerateOptions& options);
/// Those of a sequence.
SamplingOptions sampling_of(const GenerateOptions& options, size_t sequence);

class DecodeSession {
 public:
  /// The weights, when all has been refused that configuration and options do not allow. They must outlive make.
  using WeightSource = std::function<Result<const ModelWeights*>()>;
  /// Compiles the step, uploads and packs the weights. The target must outlive the session, and serves no other.
  /// Errors: those of decode_image, compile, the target and the source; InvalidInput where tasks shall be
  /// recorded and the form chosen; Environment where the step does not fit the target's memory.
  static Result<std::unique_ptr<DecodeSession>> make(DecodeTarget& target, const ModelConfig& config,
                                                     const WeightSource& weights, const DecodeOptions& options);
  static Result<std::unique_ptr<DecodeSession>> make(DecodeTarget& target, const ModelConfig& config,
                                                     const ModelWeights& weights, const DecodeOptions& options);

  ~DecodeSession();
  DecodeSession(const DecodeSession&) = delete;
  DecodeSession& operator=(const DecodeSession&) = delete;

  /// What a sequence has made so far is told as soon as the host sees it: its number, and the token.
  using OnToken = std::function<void(int64_t sequence, int token)>;
  /// Feeds the prompts (DecodeOptions::prompt_rows) and decodes until each sequence has ended, by a stop token or by
  /// the number of its tokens. Sequences with shorter prompts begin earlier. Tokens are those of sampling.h, of the
  /// token's position and the sequence's number. Errors: those of check_generate; (InvalidInput): positions beyond the
  /// cache; (Unsupported): logits that are not finite, of any sequence; (Environment): the kernel's.
  Result<std::vector<std::vector<int>>> generate(const std::vector<std::vector<int>>& prompts,
                                                 const GenerateOptions& options, const OnToken& on_token = {});
  /// One step, with keys, values and logits of a caller. Errors: those of check_caller_step; (Unsupported): logits that
  /// are not finite; (Environment): the kernel's.
  Result<void> step(const CallerStep& step);
  /// Steps that follow what was decoded, in one launch, greedily; seconds of the whole launch.
  Result<double> run(uint32_t steps);

  /// After an error: a block function did not return, and the launch goes on. Nothing else can be done with the device.
  bool hangs() const { return kernel_->running() || (prompt_step_ != nullptr && prompt_step_->hangs()); }
  /// Error (Environment) where it hangs.
  Result<void> check_free() const;

  /// Of a sequence's last step, [vocab_size].
  Result<std::vector<float>> logits(int64_t sequence) const;
  /// Positions of every sequence's cache that are filled.
  int64_t position() const { return position_; }
  /// Continues as if so many positions were filled, with what lies in the cache: for measurements.
  void set_position(int64_t position);
  /// Bytes that a step at that position must read: weights, and keys and values of earlier positions.
  int64_t floor_bytes(int64_t position) const;
  /// What the last launch recorded, if the session profiles.
  Result<std::vector<TracedTask>> trace() const { return kernel_->trace(); }

  /// Positions of a sequence that the step of prompts takes; 1: there is none. And why, where there should be one.
  int64_t prompt_positions() const { return prompt_step_ == nullptr ? 1 : prompt_step_->each(); }
  const std::string& no_prompt_step() const { return no_prompt_step_; }
  /// That the last prompts took, but for their last tokens.
  double prompt_seconds() const { return prompt_seconds_; }
  /// Of the last launch of generate, which makes the tokens that follow the longest prompt: its steps, each of them a
  /// token of every sequence that has not ended, and how long it took. 0: none was made.
  uint32_t decode_steps() const { return decode_steps_; }
  double decode_seconds() const { return decode_seconds_; }

  StepForm form() const { return form_; }
  const StartTimes& start_times() const { return start_; }
  /// Where the mode is Auto.
  const std::optional<FormTimes>& measured() const { return measured_; }

  const DecodeImage& image() const { return image_; }
  const Plan& plan() const { return plan_; }
  const WorkerShape& shape() const { return shape_; }

 private:
  DecodeSession(DecodeTarget& target, const ModelConfig& config, const DecodeOptions& options)
      : target_(&target), config_(config), options_(options) {}
  Result<void> compile_step();
  Result<void> fill_memory(const ModelWeights& weights);
  Result<void> pack(const ModelWeights& weights);
  /// Continues with steps of that form, from the same position. Epochs begin again, so tagged words are cleared.
  Result<void> make_kernel(StepForm form);
  Result<void> check_positions(int64_t more) const;
  std::future<Result<PromptPlan>> start_prompt_plan() const;
  void make_prompt_step(std::future<Result<PromptPlan>> plan);
  bool takes_prompts(size_t shortest) const;
  Result<void> feed_prompts(const std::vector<std::vector<int>>& prompts, size_t count, const std::stop_token& stop);
  Result<double> choose_loads();
  Result<void> choose_form();
  Result<void> measure_choice();
  std::string choice_key() const;
  std::string choice_text() const;
  bool take_choice(const std::string& text);
  Result<double> measured_step();
  template <class Record>
  Result<void> put(DecodeBuffer::Kind kind, std::span<const Record> records);
  Result<void> put_tokens(std::span<const int> tokens);
  Result<void> put_sequences(const GenerateOptions& options, const std::vector<bool>& ended);
  Result<void> steps(uint32_t count);
  Result<void> exchange_rows(const CallerStep& step, const strata_device::CallerRows& rows);
  const DecodeMemory& logits_words() const;
  /// Until the launch has ended: how many steps it had. Errors: the kernel's; (Unsupported): logits that are not
  /// finite, with step and sequence.
  Result<uint32_t> end_launch();

  DecodeTarget* target_;
  ModelConfig config_;
  DecodeOptions options_;
  DecodeImage image_;
  Plan plan_;
  WorkerShape shape_;
  std::vector<std::unique_ptr<DecodeMemory>> buffers_;  ///< of image_.buffers
  std::unique_ptr<DecodeMemory> caller_;                ///< what a caller's step tells its kernels (strata_caller.h)
  std::unique_ptr<StepKernel> kernel_;
  std::unique_ptr<PromptStep> prompt_step_;
  std::string no_prompt_step_;
  StartTimes start_;
  double prompt_seconds_ = 0;
  double decode_seconds_ = 0;
  uint32_t decode_steps_ = 0;
  StepForm form_ = StepForm::Megakernel;
  std::optional<FormTimes> measured_;
  int64_t position_ = 0;
  bool has_requests_ = true;  ///< options of sequences lie in the memory that are not those of a caller's step
};

}  // namespace strata::megakernel
