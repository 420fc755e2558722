#include "megakernel/decode/decode_session.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "megakernel/decode/decode_sizes.h"
#include "megakernel/decode/step_parts.h"
#include "megakernel/decode/step_plan.h"
#include "megakernel/models/bf16.h"
#include "megakernel/models/rope.h"
#include "megakernel/runtime/cuda/words.h"
#include "megakernel/tasks/device/strata_sequence.h"

namespace strata::megakernel {
namespace {

constexpr int64_t kWordBytes = 16;

constexpr std::chrono::milliseconds kBetweenLooks{20};  // at whether a launch goes on for good reason

using Clock = std::chrono::steady_clock;

/// Seconds since the last call, or since it was made.
class Lap {
 public:
  double seconds() {
    const auto now = Clock::now();
    return std::chrono::duration<double>(now - std::exchange(begin_, now)).count();
  }

 private:
  Clock::time_point begin_ = Clock::now();
};

int tensor_index(const std::vector<DecodeBuffer>& buffers, DecodeBuffer::Kind kind) {
  const auto at = std::find_if(buffers.begin(), buffers.end(), [&](const auto& one) { return one.kind == kind; });
  return static_cast<int>(at - buffers.begin());
}

std::string_view bytes_of(std::span<const uint16_t> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

}  // namespace

Result<std::unique_ptr<DecodeSession>> DecodeSession::make(DecodeTarget& target, const ModelConfig& config,
                                                           const ModelWeights& weights, const DecodeOptions& options) {
  return make(
      target, config, [&]() -> Result<const ModelWeights*> { return &weights; }, options);
}

Result<std::unique_ptr<DecodeSession>> DecodeSession::make(DecodeTarget& target, const ModelConfig& config,
                                                           const WeightSource& source, const DecodeOptions& options) {
  std::unique_ptr<DecodeSession> session(new DecodeSession(target, config, options));
  Lap lap;
  STRATA_CHECK(session->compile_step());
  STRATA_CHECK(target.check_room(session->image_.bytes()));
  std::future<Result<PromptPlan>> prompt_plan = session->start_prompt_plan();
  session->start_.step = lap.seconds();
  STRATA_TRY(const ModelWeights* const weights, source());
  session->start_.weights = lap.seconds();
  STRATA_CHECK(session->fill_memory(*weights));
  STRATA_CHECK(session->pack(*weights));
  session->start_.memory = lap.seconds();
  STRATA_CHECK(session->choose_form());
  session->start_.choice = lap.seconds();
  session->make_prompt_step(std::move(prompt_plan));
  session->start_.prompts = lap.seconds();
  return session;
}

DecodeSession::~DecodeSession() {
  if (kernel_ == nullptr || !hangs()) return;
  // To free memory a device waits for what runs.
  for (std::unique_ptr<DecodeMemory>& buffer : buffers_) static_cast<void>(buffer.release());
  if (prompt_step_ != nullptr && prompt_step_->hangs()) static_cast<void>(prompt_step_.release());
}

Result<void> DecodeSession::compile_step() {
  if (options_.profile && options_.mode == DecodeMode::Auto)
    return with_remedy(invalid("recording tasks takes time, so no form is chosen by time"), "choose a form");
  STRATA_TRY(StepPlan step, plan_step(config_, options_, target_->machine()));
  options_.machine = step.machine;
  options_.capacity = step.capacity;
  image_ = std::move(step.image);
  plan_ = std::move(step.compiled.plan);
  const Machine& machine = options_.machine;
  const auto compile_form = [&](StepForm form) {
    return compile_step_code(*target_, image_, plan_, form, options_.profile);
  };
  if (options_.mode == DecodeMode::Auto) {
    measured_.emplace();
    if (const auto graph = compile_form(StepForm::Graph); !graph) {
      if (graph.error().code != ErrorCode::Unsupported) return graph;
      measured_->no_graph = graph.error().message;
    }
  }
  form_ = options_.mode == DecodeMode::Graph ? StepForm::Graph : StepForm::Megakernel;
  STRATA_CHECK(compile_form(form_));
  shape_ = cuda_shape();
  shape_.multiprocessor_bytes = target_->machine().multiprocessor_shared_memory;
  shape_.reserved_bytes = target_->machine().reserved_shared_memory;
  shape_.ring_bytes = machine.ring_bytes;
  shape_.window_bytes = machine.window_bytes;
  if (options_.ahead_bytes) shape_.ahead_bytes = *options_.ahead_bytes;
  shape_.scratch_bytes = machine.scratch_bytes;
  if (options_.without.tasks_ahead) shape_.listed = 1;
  if (options_.without.constants_ahead) shape_.ahead_bytes = 0;
  return {};
}

Result<void> DecodeSession::fill_memory(const ModelWeights& weights) {
  for (const DecodeBuffer& buffer : image_.buffers) {
    STRATA_TRY(std::unique_ptr<DecodeMemory> memory, target_->allocate(buffer.bytes));
    switch (buffer.kind) {
      case DecodeBuffer::Kind::Weight: {
        STRATA_TRY(const WeightView view, weights.at(buffer.weight));
        STRATA_CHECK(memory->upload(bytes_of(view.values)));
        break;
      }
      case DecodeBuffer::Kind::Cosines:
      case DecodeBuffer::Kind::Sines: {
        const std::vector<float> frequencies = rope_frequencies(config_);
        std::vector<uint16_t> table;
        for (int64_t position = 0; position < options_.capacity; ++position) {
          const RopeRow row = rope_row(frequencies, position);
          for (const float x : buffer.kind == DecodeBuffer::Kind::Cosines ? row.cos : row.sin)
            table.push_back(float_to_bf16(x));
        }
        STRATA_CHECK(memory->upload(bytes_of(table)));
        break;
      }
      case DecodeBuffer::Kind::Packed:
        break;  // see pack
      default:
        STRATA_CHECK(memory->clear());
    }
    buffers_.push_back(std::move(memory));
  }
  return {};
}

Result<void> DecodeSession::pack(const ModelWeights& weights) {
  for (const PackJob& job : image_.packing) {
    std::vector<std::unique_ptr<DecodeMemory>> raw;  // for as long as it is packed
    std::vector<uint64_t> arguments;
    for (const WeightSpec& weight : job.weights) {
      if (weight.name.empty()) {
        arguments.push_back(0);
        continue;
      }
      STRATA_TRY(const WeightView view, weights.at(weight.name));
      STRATA_TRY(std::unique_ptr<DecodeMemory> memory,
                 target_->allocate(weight.elements() * static_cast<int64_t>(sizeof(uint16_t))));
      if (view.shape == weight.shape) {
        STRATA_CHECK(memory->upload(bytes_of(view.values)));
      } else {
        STRATA_TRY(const std::vector<uint16_t> filled, filled_up(view, weight));
        STRATA_CHECK(memory->upload(bytes_of(filled)));
      }
      arguments.push_back(memory->address());
      raw.push_back(std::move(memory));
    }
    arguments.push_back(buffers_[static_cast<size_t>(job.buffer)]->address());
    STRATA_CHECK(target_->pack(job.kernel, job.grid, arguments));
  }
  return {};
}

/// At the middle of the cache, where nothing is read that was not written before it: what lies there then, later steps
/// write again.
Result<double> DecodeSession::measured_step() {
  constexpr int kLaunches = 4;  // of which the first one is slower
  const auto steps = static_cast<uint32_t>(std::min<int64_t>(16, options_.capacity));
  double least = HUGE_VAL;
  for (int n = 0; n < kLaunches; ++n) {
    set_position(std::min(options_.capacity / 2, options_.capacity - steps));
    const Result<double> seconds = run(steps);
    if (!seconds) return tl::unexpected(seconds.error().within("timing the step in the middle of the cache"));
    least = std::min(least, *seconds / steps);
  }
  set_position(0);
  return least;
}

/// Seconds of a step in the fastest of the windows, with and without loads ahead of the ring; 0 where none is to be
/// measured.
Result<double> DecodeSession::choose_loads() {
  std::vector<int64_t> windows = options_.windows;
  if (windows.empty() && options_.mode == DecodeMode::Auto) windows.push_back(shape_.window_bytes);
  std::vector<int64_t> aheads{shape_.ahead_bytes};  // none of which is measured where it is named, or left out
  if (!options_.ahead_bytes && shape_.ahead_bytes != 0) aheads.push_back(0);
  if (windows.empty()) return 0;
  const auto use = [&](const Loads& loads) {
    shape_.window_bytes = loads.window;
    shape_.ahead_bytes = loads.ahead;
  };
  STRATA_TRY(const auto fastest, fastest_loads(windows, aheads, [&](const Loads& loads) {
               use(loads);
               return make_kernel(form_).and_then([&] { return measured_step(); });
             }));
  use(fastest.first);
  return fastest.second;
}

/// Of the fastest loads and form, which an earlier start of the same step on such a device may have measured.
Result<void> DecodeSession::choose_form() {
  if (options_.windows.empty() && !measured_) return make_kernel(form_);  // all is said
  const bool whole = options_.without == DecodeAblation{};  // what a part brings is measured anew each time
  const std::string key = choice_key();
  if (const std::optional<std::string> known = whole ? target_->recall(key) : std::nullopt) {
    const auto before = std::tuple(shape_, form_, measured_);
    if (take_choice(*known) && make_kernel(form_)) return {};
    std::tie(shape_, form_, measured_) = before;  // it is none, or cannot be made now
  }
  STRATA_CHECK(measure_choice());
  // What failed now may not fail the next time.
  if (whole && (!measured_ || measured_->no_graph.empty())) target_->remember(key, choice_text());
  return {};
}

/// What the choice depends on beside build and device.
std::string DecodeSession::choice_key() const {
  const Machine& machine = options_.machine;
  return fmt::format(
      "batch {} capacity {} workers {} tasks {} events {} mode {} ring {} scratch {} tagged {} window {} ahead {} "
      "windows {} named {}\n{}",
      options_.batch, options_.capacity, machine.workers, plan_.tasks.size(), plan_.events.size(),
      static_cast<int>(options_.mode), shape_.ring_bytes, shape_.scratch_bytes, machine.tagged_bytes,
      shape_.window_bytes, shape_.ahead_bytes, fmt::join(options_.windows, ","), options_.ahead_bytes.value_or(-1),
      image_.functions);
}

std::string DecodeSession::choice_text() const {
  return nlohmann::json{{"window", shape_.window_bytes},
                        {"ahead", shape_.ahead_bytes},
                        {"graph", form_ == StepForm::Graph},
                        {"seconds", {measured_ ? measured_->megakernel : 0, measured_ ? measured_->graph : 0}}}
      .dump();
}

/// Whether the text, as a cache has it, is such a choice.
bool DecodeSession::take_choice(const std::string& text) {
  const nlohmann::json choice = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto is = [&](const char* name, auto has) { return choice.contains(name) && (choice[name].*has)(); };
  if (!is("window", &nlohmann::json::is_number_integer) || !is("ahead", &nlohmann::json::is_number_integer) ||
      !is("graph", &nlohmann::json::is_boolean) || !is("seconds", &nlohmann::json::is_array))
    return false;
  const nlohmann::json& seconds = choice["seconds"];
  if (seconds.size() != 2 || !seconds[0].is_number() || !seconds[1].is_number()) return false;
  const auto window = choice["window"].get<int64_t>(), ahead = choice["ahead"].get<int64_t>();
  if (std::ranges::find(options_.windows, window) == options_.windows.end() && window != shape_.window_bytes)
    return false;
  if (ahead != 0 && ahead != shape_.ahead_bytes) return false;
  const StepForm form = choice["graph"].get<bool>() ? StepForm::Graph : StepForm::Megakernel;
  if (measured_ ? form == StepForm::Graph && !measured_->no_graph.empty() : form != form_) return false;
  shape_.window_bytes = window;
  shape_.ahead_bytes = ahead;
  form_ = form;
  if (measured_) {
    measured_->megakernel = seconds[0].get<double>();
    measured_->graph = seconds[1].get<double>();
  }
  return true;
}

Result<void> DecodeSession::measure_choice() {
  STRATA_TRY(const double first, choose_loads());
  if (measured_) measured_->megakernel = first;
  if (!measured_ || !measured_->no_graph.empty()) return make_kernel(form_);
  // What fails in the graph does not take the other form from the user, who reads why.
  const auto step = make_kernel(StepForm::Graph).and_then([&] { return measured_step(); });
  if (!step) {
    if (kernel_ != nullptr && hangs()) return tl::unexpected(step.error());
    const std::string& why = step.error().message;
    measured_->no_graph = why.substr(0, why.find('\n'));  // an abort's report has a line for each worker
    position_ = 0;                                        // the kernel that comes next begins there
  } else {
    measured_->graph = *step;
  }
  const bool graph = measured_->no_graph.empty() && measured_->graph < measured_->megakernel;
  return make_kernel(graph ? StepForm::Graph : StepForm::Megakernel);
}

Result<void> DecodeSession::make_kernel(StepForm form) {
  for (size_t n = 0; n < buffers_.size(); ++n)
    if (image_.buffers[n].kind == DecodeBuffer::Kind::Words) STRATA_CHECK(buffers_[n]->clear());
  kernel_.reset();
  std::vector<uint64_t> addresses;
  for (const std::unique_ptr<DecodeMemory>& buffer : buffers_) addresses.push_back(buffer->address());
  KernelOptions options;
  options.shape = shape_;
  options.limit = options_.limit;
  if (options_.without.descriptors_ahead) options.without |= kDescriptorsAhead;
  if (options_.without.constants_ahead) options.without |= kConstantsAhead;
  options.tokens_per_step = static_cast<int>(options_.batch);
  options.lengths.assign(static_cast<size_t>(options_.batch), static_cast<int>(position_));
  STRATA_TRY(options.operators, operator_records(image_, plan_, addresses));
  STRATA_TRY(kernel_, target_->step_kernel(plan_, options, form));
  form_ = form;
  return {};
}

template <class Record>
Result<void> DecodeSession::put(DecodeBuffer::Kind kind, std::span<const Record> records) {
  const int at = tensor_index(image_.buffers, kind);
  return buffers_[static_cast<size_t>(at)]->upload(
      {reinterpret_cast<const char*>(records.data()), records.size_bytes()});
}

/// What the next step is fed.
Result<void> DecodeSession::put_tokens(std::span<const int> tokens) { return put(DecodeBuffer::Kind::Tokens, tokens); }

Result<void> DecodeSession::put_sequences(const GenerateOptions& options, const std::vector<bool>& ended) {
  constexpr auto low = [](uint64_t word) { return static_cast<unsigned>(word); };
  std::vector<strata_device::SequenceOptions> sequences(static_cast<size_t>(options_.batch));
  for (size_t s = 0; s < sequences.size(); ++s) {
    const SamplingOptions of = sampling_of(options, s);
    sequences[s].inverse_temperature = inverse_temperature(of);
    sequences[s].top_k = low(static_cast<uint64_t>(std::min(of.top_k, config_.vocab_size)));
    sequences[s].share = static_cast<unsigned>(of.top_p * 0x1p24F);
    sequences[s].seed[0] = low(of.seed);
    sequences[s].seed[1] = low(of.seed >> 32);
    sequences[s].ended = ended[s] ? 1 : 0;
  }
  strata_device::StopTokens stop;
  for (const int token : options.stop_tokens) stop.tokens[stop.count++] = token;
  has_requests_ = true;
  STRATA_CHECK(put<strata_device::SequenceOptions>(DecodeBuffer::Kind::Sequences, sequences));
  return put<strata_device::StopTokens>(DecodeBuffer::Kind::Stop, {&stop, 1});
}

SamplingOptions sampling_of(const GenerateOptions& options, size_t sequence) {
  if (options.sampling.empty()) return {};
  return options.sampling[options.sampling.size() == 1 ? 0 : sequence];
}

Result<void> check_generate(const ModelConfig& config, int64_t batch, const std::vector<std::vector<int>>& prompts,
                            const GenerateOptions& options) {
  if (static_cast<int64_t>(prompts.size()) != batch)
    return with_remedy(invalid("{} prompts for a batch of {}", prompts.size(), batch), "give one for each sequence");
  if (options.tokens < 1) return with_remedy(invalid("{} tokens to decode", options.tokens), "ask for one at least");
  constexpr const char* kTokens = "use the ids of the model's own tokenizer";
  const auto is_token = [&](int token) { return token >= 0 && token < config.vocab_size; };
  size_t longest = 0;
  for (size_t n = 0; n < prompts.size(); ++n) {
    const std::vector<int>& prompt = prompts[n];
    const std::string name = prompts.size() == 1 ? "the prompt" : fmt::format("prompt {} of {}", n + 1, prompts.size());
    if (prompt.empty()) return with_remedy(invalid("{} is empty", name), "give it one token at least");
    longest = std::max(longest, prompt.size());
    for (const int token : prompt) {
      if (!is_token(token))
        return with_remedy(invalid("token {} of {} is not in the vocabulary of {}", token, name, config.vocab_size),
                           kTokens);
    }
  }
  // The last token is not fed.
  if (static_cast<int64_t>(longest) > config.max_position_embeddings - options.tokens + 1) {
    return with_remedy(invalid("{} tokens after a prompt of {}, and the model's max_position_embeddings is {}",
                               options.tokens, longest, config.max_position_embeddings),
                       "decode fewer tokens, or shorten the prompt");
  }
  if (options.stop_tokens.size() > strata_device::kMostStopTokens)
    return with_remedy(
        invalid("{} tokens to stop at; there may be {}", options.stop_tokens.size(), strata_device::kMostStopTokens),
        "give fewer");
  for (const int token : options.stop_tokens) {
    if (!is_token(token))
      return with_remedy(invalid("token {}, to stop at, is not in the vocabulary of {}", token, config.vocab_size),
                         kTokens);
  }
  if (options.sampling.size() > 1 && static_cast<int64_t>(options.sampling.size()) != batch)
    return with_remedy(invalid("sampling options of {} sequences for a batch of {}", options.sampling.size(), batch),
                       "give those of each sequence, or one for all");
  for (const SamplingOptions& one : options.sampling) STRATA_CHECK(check_sampling(one));
  return {};
}

/// Positions that a launch fills lie in the cache and among the model's.
Result<void> DecodeSession::check_positions(int64_t more) const {
  const int64_t most = std::min(options_.capacity, config_.max_position_embeddings);
  if (position_ + more <= most) return {};
  return with_remedy(invalid("{} positions after {}: the cache has {}, the model's max_position_embeddings is {}", more,
                             position_, options_.capacity, config_.max_position_embeddings),
                     most == options_.capacity ? "make the session with a larger capacity, or decode fewer tokens"
                                               : "decode fewer tokens");
}

/// Planned in a thread of its own, while weights come to the device; none, where prompts go token by token.
std::future<Result<PromptPlan>> DecodeSession::start_prompt_plan() const {
  if (options_.prompt_rows <= options_.batch || options_.least_prompt > options_.capacity) return {};
  return std::async(std::launch::async, [this] {
    return plan_prompt_step(target_->machine(), config_, image_,
                            {.batch = options_.batch,
                             .capacity = options_.capacity,
                             .rows = options_.prompt_rows,
                             .machine = options_.machine});
  });
}

/// At the start, so that nothing is compiled for a request. Where it cannot be, prompts go token by token, and who asks
/// reads why.
void DecodeSession::make_prompt_step(std::future<Result<PromptPlan>> plan) {
  if (!plan.valid()) return;
  auto made = plan.get().and_then([&](PromptPlan&& planned) {
    return PromptStep::make(*target_, std::move(planned), image_, buffers_,
                            {.shape = shape_, .form = form_, .limit = options_.limit});
  });
  if (made) {
    prompt_step_ = std::move(*made);
  } else {
    no_prompt_step_ = made.error().message;
  }
}

/// Whether the prompts, of which the shortest has so many tokens, go several positions at a time.
bool DecodeSession::takes_prompts(size_t shortest) const {
  return prompt_step_ != nullptr && static_cast<int64_t>(shortest) >= options_.least_prompt &&
         position_ % prompt_step_->each() == 0;
}

/// Feeds what all prompts have before their last tokens, of which a token follows; less of it where a stop is asked
/// for.
Result<void> DecodeSession::feed_prompts(const std::vector<std::vector<int>>& prompts, size_t count,
                                         const std::stop_token& stop) {
  size_t fed = 0;
  for (; fed < count && !stop.stop_requested(); fed += static_cast<size_t>(prompt_step_->each())) {
    std::vector<std::span<const int>> tokens;
    for (const std::vector<int>& prompt : prompts) tokens.push_back(std::span(prompt).subspan(fed, count - fed));
    STRATA_CHECK(prompt_step_->run(tokens, position_ + static_cast<int64_t>(fed)));
  }
  set_position(position_ + static_cast<int64_t>(std::min(fed, count)));
  return {};
}

Result<void> DecodeSession::check_free() const {
  if (!hangs()) return {};
  return environment(
      "the launch before has not ended: a block function does not return; end the process, to free the "
      "device");
}

Result<std::vector<std::vector<int>>> DecodeSession::generate(const std::vector<std::vector<int>>& prompts,
                                                              const GenerateOptions& options, const OnToken& on_token) {
  STRATA_CHECK(check_generate(config_, options_.batch, prompts, options));
  STRATA_CHECK(check_free());
  const size_t batch = prompts.size();
  size_t longest = 0;
  for (const std::vector<int>& prompt : prompts) longest = std::max(longest, prompt.size());
  STRATA_CHECK(check_positions(static_cast<int64_t>(longest) + options.tokens - 1));
  std::vector<std::vector<int>> made(batch);
  std::vector<bool> ended(batch);
  const auto take = [&](std::span<const int> found, size_t fed) {
    for (size_t s = 0; s < batch; ++s) {
      if (fed + 1 < prompts[s].size() || ended[s]) continue;
      made[s].push_back(found[s]);
      ended[s] =
          static_cast<int64_t>(made[s].size()) == options.tokens ||
          std::find(options.stop_tokens.begin(), options.stop_tokens.end(), found[s]) != options.stop_tokens.end();
      if (on_token) on_token(static_cast<int64_t>(s), found[s]);
    }
  };
  const auto shorter = [](const auto& a, const auto& b) { return a.size() < b.size(); };
  const size_t shortest = std::min_element(prompts.begin(), prompts.end(), shorter)->size();
  size_t fed = takes_prompts(shortest) ? shortest - 1 : 0;
  const auto begin = Clock::now();
  decode_seconds_ = 0;
  decode_steps_ = 0;
  prompt_seconds_ = 0;
  if (fed > 0) STRATA_CHECK(feed_prompts(prompts, fed, options.stop));
  if (options.stop.stop_requested()) return made;
  // While a sequence is in its prompt, the host says what comes next.
  std::vector<int> next(batch);
  for (size_t s = 0; s < batch; ++s) next[s] = prompts[s][fed];
  STRATA_CHECK(put_sequences(options, ended));
  for (; fed + 1 < longest; ++fed) {
    if (options.stop.stop_requested()) return made;
    STRATA_CHECK(put_tokens(next));
    STRATA_CHECK(steps(1));
    const std::span<const int> found = kernel_->tokens(0);
    take(found, fed);
    for (size_t s = 0; s < batch; ++s) next[s] = fed + 1 < prompts[s].size() ? prompts[s][fed + 1] : found[s];
  }
  if (options.stop.stop_requested()) return made;
  const auto decoding = Clock::now();
  prompt_seconds_ = std::chrono::duration<double>(decoding - begin).count();
  // What was found within a prompt has ended nothing.
  STRATA_CHECK(put_sequences(options, ended));
  STRATA_CHECK(put_tokens(next));
  STRATA_CHECK(kernel_->launch(static_cast<uint32_t>(options.tokens)));
  uint32_t told = 0;
  const auto tell = [&] {
    for (const uint32_t done = kernel_->steps_done(); told < done; ++told)
      take(kernel_->tokens(told), longest - 1 + told);
  };
  // After an abort a block function may never return, so running() alone would not end this; nor is a step that no
  // sequence needs worth waiting for.
  auto looked = Clock::now();
  while (kernel_->running()) {
    tell();
    if (Clock::now() - looked < kBetweenLooks) continue;
    looked = Clock::now();
    if (options.stop.stop_requested() || std::find(ended.begin(), ended.end(), false) == ended.end())
      kernel_->request_stop();
    STRATA_TRY(const bool aborted, kernel_->aborted());
    if (aborted) break;
  }
  STRATA_TRY(const uint32_t done, end_launch());
  decode_seconds_ = std::chrono::duration<double>(Clock::now() - decoding).count();
  decode_steps_ = done;
  tell();
  position_ += done;
  return made;
}

Result<void> DecodeSession::steps(uint32_t count) {
  STRATA_CHECK(kernel_->launch(count));
  STRATA_TRY(const uint32_t done, end_launch());
  position_ += done;
  return {};
}

Result<uint32_t> DecodeSession::end_launch() {
  Result<uint32_t> done = kernel_->wait();
  if (done) return done;
  const Result<AbortReport> report = kernel_->report();
  if (!report || report->cause.activity != Activity::NotFinite) return done;
  return not_finite_logits(position_ + kernel_->steps_done(), report->cause.have);
}

Result<double> DecodeSession::run(uint32_t count) {
  STRATA_CHECK(check_free());
  if (position_ + count > options_.capacity)
    return with_remedy(invalid("{} positions after {} do not fit a cache of {}", count, position_, options_.capacity),
                       "make the session with a larger capacity, or run fewer steps");
  STRATA_CHECK(put_sequences({}, std::vector<bool>(static_cast<size_t>(options_.batch))));
  const auto begin = Clock::now();
  STRATA_CHECK(steps(count));
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

const DecodeMemory& DecodeSession::logits_words() const {
  const auto at = std::find_if(image_.buffers.begin(), image_.buffers.end(),
                               [](const DecodeBuffer& one) { return one.name == "Logits"; });
  return *buffers_[static_cast<size_t>(at - image_.buffers.begin())];
}

Result<std::vector<float>> DecodeSession::logits(int64_t sequence) const {
  STRATA_TRY(const std::string words, logits_words().download());
  std::vector<float> found;
  const int64_t row = image_.sizes.vocab_size / 4;
  for (int64_t n = 0; n < config_.vocab_size; ++n) {
    uint16_t value = 0;
    std::memcpy(&value, words.data() + (sequence * row + n / 4) * kWordBytes + n % 4 * 2, sizeof value);
    found.push_back(bf16_to_float(value));
  }
  return found;
}

void DecodeSession::set_position(int64_t position) {
  position_ = position;
  kernel_->set_lengths(std::vector<int>(static_cast<size_t>(options_.batch), static_cast<int>(position)));
}

int64_t DecodeSession::floor_bytes(int64_t position) const {
  return image_.floor_bytes + options_.batch * config_.num_hidden_layers * 2 * config_.key_columns() * position * 2;
}

}  // namespace strata::megakernel
