// How sequences go on and end: tokens that the kernel draws beside sampling.h's from its logits, stop tokens, and what
// is refused. The kernel runs on the host.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "megakernel/decode/decode_session.h"
#include "megakernel/decode/fiber_decode.h"
#include "megakernel/models/bf16.h"
#include "megakernel/models/reference_decode.h"
#include "megakernel/models/test_models.h"
#include "superopt/codegen/test_host.h"
#include "support/temporary_folder.h"

namespace strata::megakernel {
namespace {

ModelConfig small_config(int64_t vocabulary = 512) {
  ModelConfig config = tiny_config(ModelFamily::Llama);
  config.hidden_size = 128;
  config.num_attention_heads = 4;
  config.head_dim = 32;
  config.intermediate_size = 256;
  config.vocab_size = vocabulary;
  return config;
}

struct Decode {
  std::unique_ptr<FiberDecodeTarget> target;
  std::unique_ptr<DecodeSession> session;
};

Decode decode_of(int64_t batch, Result<ModelWeights> weights = ModelWeights::random(small_config(), 7),
                 DecodeMode mode = DecodeMode::Megakernel, const ModelConfig& config = small_config(),
                 int64_t prompt_rows = 1) {
  Decode made;
  auto target = FiberDecodeTarget::open(kPlainHost);
  if (!weights || !target) {
    ADD_FAILURE() << (target ? weights.error() : target.error()).to_string();
    return made;
  }
  made.target = std::move(*target);
  auto session = DecodeSession::make(
      *made.target, config, *weights,
      {.batch = batch, .capacity = 64, .machine = {.workers = 3}, .mode = mode, .prompt_rows = prompt_rows});
  if (!session) {
    ADD_FAILURE() << session.error().to_string();
    return made;
  }
  made.session = std::move(*session);
  return made;
}

struct Sizes {
  int64_t batch;
  int64_t vocabulary;
};
class Generates : public testing::TestWithParam<Sizes> {
 protected:
  static Decode decode_sizes() {
    const ModelConfig config = small_config(GetParam().vocabulary);
    return decode_of(GetParam().batch, ModelWeights::random(config, 7), DecodeMode::Megakernel, config);
  }
};

TEST_P(Generates, TokensThatTheHostWouldDraw) {
  const int64_t batch = GetParam().batch;
  const Decode decode = decode_sizes();
  ASSERT_TRUE(decode.session);
  const std::vector<SamplingOptions> all{{.temperature = 0.8F, .top_k = 20, .top_p = 0.9F, .seed = 5},
                                         {.temperature = 2, .seed = uint64_t{1} << 40},
                                         {},
                                         {.temperature = 1, .top_p = 0.4F, .seed = 9},
                                         {.temperature = 0.5F, .top_k = 3, .seed = 1}};
  int drawn = 0;
  std::vector<std::vector<int>> next(static_cast<size_t>(batch), {11});
  for (int64_t step = 0; step < 10; ++step) {
    GenerateOptions options{.tokens = 1};
    for (size_t s = 0; s < next.size(); ++s)
      options.sampling.push_back(all[(s + static_cast<size_t>(step)) % all.size()]);
    const auto made = decode.session->generate(next, options);
    ASSERT_TRUE(made) << made.error().to_string();
    for (size_t s = 0; s < next.size(); ++s) {
      const auto logits = decode.session->logits(static_cast<int64_t>(s));
      ASSERT_TRUE(logits) << logits.error().to_string();
      EXPECT_EQ((*made)[s],
                std::vector<int>{static_cast<int>(
                    sample(*logits, options.sampling[s], static_cast<uint64_t>(step) + 1, static_cast<uint32_t>(s)))})
          << "step " << step << ", sequence " << s;
      drawn += (*made)[s][0] != argmax(std::span<const float>(*logits)) ? 1 : 0;
      next[s] = (*made)[s];
    }
  }
  EXPECT_GT(drawn, 0) << "every token was the likeliest";
}

TEST_P(Generates, SequencesUntilTheyStop) {
  const int64_t batch = GetParam().batch;
  const Decode decode = decode_sizes();
  ASSERT_TRUE(decode.session);
  DecodeSession& session = *decode.session;
  std::vector<std::vector<int>> prompts{{3, 4, 5}, {100}};
  prompts.resize(static_cast<size_t>(batch));
  const int64_t before = static_cast<int64_t>(prompts[0].size()) - 1;
  const std::vector<SamplingOptions> sampling{{.temperature = 3, .seed = 21}};  // so that tokens differ
  constexpr int64_t kTokens = 14;
  const auto all = session.generate(prompts, {.tokens = kTokens, .sampling = sampling});
  ASSERT_TRUE(all) << all.error().to_string();
  EXPECT_EQ(session.position(), before + kTokens);
  for (const auto& sequence : *all) EXPECT_EQ(sequence.size(), static_cast<size_t>(kTokens));

  // The same again, bit for bit, though the cache is not empty.
  const auto logits = session.logits(batch - 1);
  ASSERT_TRUE(logits);
  session.set_position(0);
  EXPECT_EQ(session.generate(prompts, {.tokens = kTokens, .sampling = sampling}).value(), *all);
  EXPECT_EQ(session.logits(batch - 1).value(), *logits);

  // And with a token of each to stop at.
  std::vector<int> stop;
  for (size_t s = 0; s < prompts.size(); ++s) stop.push_back((*all)[s][3 + 2 * s]);
  session.set_position(0);
  std::vector<std::vector<int>> told(prompts.size());
  const auto some = session.generate(prompts, {.tokens = kTokens, .sampling = sampling, .stop_tokens = stop},
                                     [&](int64_t s, int token) { told[static_cast<size_t>(s)].push_back(token); });
  ASSERT_TRUE(some) << some.error().to_string();
  int64_t last = 0;
  for (size_t s = 0; s < prompts.size(); ++s) {
    const auto end = std::find_first_of((*all)[s].begin(), (*all)[s].end(), stop.begin(), stop.end());
    EXPECT_EQ((*some)[s], std::vector<int>((*all)[s].begin(), end + 1)) << "sequence " << s;
    last = std::max(last, static_cast<int64_t>(prompts[s].size() + (*some)[s].size()) - 1);
  }
  EXPECT_EQ(told, *some);
  EXPECT_EQ(session.position(), last) << "the launch did not end with its last sequence";

  // Steps that are measured go on whatever ended before.
  ASSERT_TRUE(session.run(4));
  EXPECT_EQ(session.position(), last + 4);
}

TEST(GeneratesInPart, EndsWhereItIsAskedTo) {
  const Decode decode = decode_of(1);
  ASSERT_TRUE(decode.session);
  std::stop_source stop;
  stop.request_stop();
  const auto none = decode.session->generate({{3, 4, 5}}, {.tokens = 4, .stop = stop.get_token()});
  ASSERT_TRUE(none) << none.error().to_string();
  EXPECT_TRUE(none->front().empty()) << "before the prompt's end";
  EXPECT_EQ(decode.session->position(), 0);
  // Within a launch, the kernel ends it after the step that runs.
  std::stop_source later;
  const auto some = decode.session->generate({{3}}, {.tokens = 60, .stop = later.get_token()},
                                             [&](int64_t, int) { later.request_stop(); });
  ASSERT_TRUE(some) << some.error().to_string();
  EXPECT_GE(some->front().size(), 1U);
  EXPECT_EQ(decode.session->position(), static_cast<int64_t>(some->front().size()));
}

/// A stop that is there when a prompt of several positions a launch begins.
TEST(GeneratesInPart, EndsWithinAPrompt) {
  for (const bool stops : {false, true}) {
    Decode decode = decode_of(1, ModelWeights::random(small_config(), 7), DecodeMode::Megakernel, small_config(), 8);
    ASSERT_TRUE(decode.session);
    std::stop_source stop;
    if (stops) stop.request_stop();
    std::vector<int> prompt(33, 5);
    const auto made = decode.session->generate({prompt}, {.tokens = 2, .stop = stop.get_token()});
    ASSERT_TRUE(made) << made.error().to_string();
    EXPECT_EQ(decode.session->no_prompt_step(), "");
    EXPECT_GT(decode.session->prompt_positions(), 1);
    EXPECT_EQ((*made)[0].size(), stops ? 0U : 2U);
    EXPECT_EQ(decode.session->position(), stops ? 0 : 34);
    EXPECT_EQ(decode.session->decode_steps(), stops ? 0U : 2U);
    EXPECT_EQ(decode.session->decode_seconds() > 0, !stops);
  }
}

/// A target that remembers, and counts the kernels that were made. What it has compiled serves the next start that asks
/// for the same code, since compiling is most of what a start on the host takes.
class Remembering : public DecodeTarget {
 public:
  explicit Remembering(std::unique_ptr<FiberDecodeTarget> inner) : inner_(std::move(inner)) {}
  const Target& machine() const override { return inner_->machine(); }
  Result<void> compile(const std::string& functions, int count, std::span<const std::string> packing, StepForm form,
                       bool profile) override {
    Code code{functions, count, {packing.begin(), packing.end()}, profile};
    const auto at = compiled_.find(form);
    if (at != compiled_.end() && at->second == code) return {};
    compiled_.erase(form);
    if (auto done = inner_->compile(functions, count, packing, form, profile); !done) return done;
    compiled_.emplace(form, std::move(code));
    return {};
  }
  Result<void> check_room(int64_t bytes) const override { return inner_->check_room(bytes); }
  Result<std::unique_ptr<DecodeMemory>> allocate(int64_t bytes) override { return inner_->allocate(bytes); }
  Result<void> pack(const std::string& kernel, const std::vector<int64_t>& grid, std::span<const uint64_t> arguments,
                    bool waits) override {
    return inner_->pack(kernel, grid, arguments, waits);
  }
  std::unique_ptr<DecodeTarget> beside() const override { return inner_->beside(); }
  Result<std::unique_ptr<StepKernel>> step_kernel(const Plan& plan, const KernelOptions& options,
                                                  StepForm form) override {
    ++kernels;
    return inner_->step_kernel(plan, options, form);
  }
  std::optional<std::string> recall(const std::string& key) override {
    const auto at = remembered.find(key);
    return at == remembered.end() ? std::nullopt : std::optional(at->second);
  }
  void remember(const std::string& key, const std::string& text) override { remembered[key] = text; }

  int kernels = 0;
  std::map<std::string, std::string> remembered;

 private:
  using Code = std::tuple<std::string, int, std::vector<std::string>, bool>;
  std::unique_ptr<FiberDecodeTarget> inner_;
  std::map<StepForm, Code> compiled_;
};

/// What one start has timed, the next one takes, also of one form; not what is no choice of its own.
TEST(Choice, IsRememberedForTheSameStep) {
  const auto weights = ModelWeights::random(small_config(), 7);
  ASSERT_TRUE(weights);
  constexpr int64_t kCapacity = 4;  // as many steps are timed, which take long on fibers
  auto inner = FiberDecodeTarget::open(kPlainHost);
  ASSERT_TRUE(inner);
  Remembering target(std::move(*inner));
  std::map<std::string, std::string>& remembered = target.remembered;
  const auto start = [&](DecodeMode mode, int64_t capacity, const DecodeAblation& without = {}) {
    target.kernels = 0;
    const auto session = DecodeSession::make(target, small_config(), *weights,
                                             {.batch = 1,
                                              .capacity = capacity,
                                              .machine = {.workers = 3},
                                              .mode = mode,
                                              .without = without,
                                              .windows = {32'768, 49'152}});
    EXPECT_TRUE(session) << session.error().to_string();
    if (const auto& measured = (*session)->measured()) {
      EXPECT_EQ(measured->no_graph, "");
      EXPECT_GT(measured->megakernel, 0);
      EXPECT_GT(measured->graph, 0);
    }
    return std::tuple((*session)->form(), (*session)->shape().window_bytes, (*session)->shape().ahead_bytes,
                      target.kernels);
  };
  size_t steps = 0;
  for (const DecodeMode mode : {DecodeMode::Graph, DecodeMode::Auto}) {
    const auto first = start(mode, kCapacity);
    EXPECT_GT(std::get<3>(first), 2);  // windows, forms, and what was chosen
    ASSERT_EQ(remembered.size(), ++steps);
    auto again = start(mode, kCapacity);
    EXPECT_EQ(std::get<3>(again), 1);
    std::get<3>(again) = std::get<3>(first);
    EXPECT_EQ(again, first);
  }
  const auto times_anew = [&](const DecodeAblation& without = {}) {
    return std::get<3>(start(DecodeMode::Auto, kCapacity, without)) > 3;
  };
  EXPECT_TRUE(times_anew({.descriptors_ahead = true}));
  EXPECT_EQ(remembered.size(), steps);
  for (auto& [key, value] : remembered) value = R"({"window":32768,"ahead":7,"graph":false,"seconds":[1,1]})";
  EXPECT_TRUE(times_anew());
}

/// A start makes the step of prompts where one of them can come, so that no request waits for a compiler.
TEST(GeneratesInPart, TheStartMakesTheStepOfPrompts) {
  const auto weights = ModelWeights::random(small_config(), 7);
  ASSERT_TRUE(weights);
  for (const int64_t least : {64, 65}) {
    const auto target = FiberDecodeTarget::open(kPlainHost);
    ASSERT_TRUE(target);
    const auto session = DecodeSession::make(
        **target, small_config(), *weights,
        {.batch = 1, .capacity = 64, .machine = {.workers = 3}, .prompt_rows = 8, .least_prompt = least});
    ASSERT_TRUE(session) << session.error().to_string();
    const bool can_come = least <= 64;
    EXPECT_EQ((*session)->prompt_positions() > 1, can_come);
    EXPECT_EQ((*session)->start_times().prompts > 1e-3, can_come);
    EXPECT_EQ((*session)->no_prompt_step(), "");
    EXPECT_GT((*session)->start_times().step, 0);
    EXPECT_GE((*session)->start_times().all(), (*session)->start_times().step + (*session)->start_times().prompts);
  }
}

INSTANTIATE_TEST_SUITE_P(Batches, Generates, testing::Values(Sizes{1, 512}, Sizes{2, 512}, Sizes{2, 509}),
                         [](const auto& test) {
                           return fmt::format("{}_of_{}", test.param.batch, test.param.vocabulary);
                         });

/// Weights whose embedding of a token is NaN, or which have an infinity in the head's row of another.
Result<ModelWeights> wrong_weights(const TemporaryFolder& folder, int nan_token, int infinite_logit) {
  const ModelConfig config = small_config();
  STRATA_TRY(const ModelWeights drawn, ModelWeights::random(config, 7));
  std::map<std::string, std::vector<uint16_t>> changed;
  std::vector<SafeTensor> tensors = drawn.tensors();
  for (SafeTensor& tensor : tensors) {
    const bool embeddings = tensor.name == "model.embed_tokens.weight";
    if (!embeddings && tensor.name != "lm_head.weight") continue;
    const int row = embeddings ? nan_token : infinite_logit;
    if (row < 0) continue;
    STRATA_TRY(const WeightView view, drawn.at(tensor.name));
    std::vector<uint16_t>& values = changed[tensor.name];
    values.assign(view.values.begin(), view.values.end());
    values[static_cast<size_t>(row * config.hidden_size + 7)] = float_to_bf16(embeddings ? NAN : INFINITY);
    tensor.bytes = std::as_bytes(std::span(values));
  }
  const std::string path = (folder.path() / "model.safetensors").string();
  STRATA_CHECK(write_safetensors(path, tensors));
  return ModelWeights::open(path, config);
}

std::string error_of(const auto& made) { return made ? "none" : made.error().message; }

/// In all forms, with the step and the sequence; what is finite goes on before it.
TEST(NotFinite, IsAnErrorOfItsStep) {
  const TemporaryFolder folder("strata-not-finite");
  const auto weights = wrong_weights(folder, 5, -1);
  ASSERT_TRUE(weights) << weights.error().to_string();
  const std::string third = "step 3 of sequence 1 has NaN or infinities among its logits";
  auto decoder = ReferenceDecoder<float>::create(small_config(), *weights, {.batch = 2});
  ASSERT_TRUE(decoder);
  ASSERT_TRUE(decoder->step(std::vector<int64_t>{3, 7}) && decoder->step(std::vector<int64_t>{4, 8}));
  EXPECT_EQ(error_of(decoder->step(std::vector<int64_t>{6, 5})), third);

  const Decode decode = decode_of(2, wrong_weights(folder, 5, -1));
  ASSERT_TRUE(decode.session);
  EXPECT_TRUE(decode.session->generate({{3, 4, 6}, {7, 8, 9}}, {.tokens = 2}));
  decode.session->set_position(0);
  EXPECT_EQ(error_of(decode.session->generate({{3, 4, 6}, {7, 8, 5}}, {.tokens = 2})), third);
  EXPECT_FALSE(decode.session->hangs());
  EXPECT_FALSE(decode.session->generate({{3}, {7}}, {.tokens = 1})) << "a kernel that failed went on";
}

TEST(NotFinite, IsAnErrorOfGraphsAndOfDraws) {
  const TemporaryFolder folder("strata-not-finite");
  const Decode decode = decode_of(1, wrong_weights(folder, -1, 300), DecodeMode::Graph);
  ASSERT_TRUE(decode.session);
  EXPECT_EQ(error_of(decode.session->generate({{3}}, {.tokens = 2, .sampling = {{.temperature = 1, .top_k = 2}}})),
            "step 1 of sequence 0 has NaN or infinities among its logits");
}

TEST(GenerateOptions, AreChecked) {
  const ModelConfig config = small_config();
  const auto why = [&](const std::vector<std::vector<int>>& prompts, const GenerateOptions& options) {
    const auto checked = check_generate(config, 2, prompts, options);
    return checked ? std::string("nothing") : checked.error().message;
  };
  const std::vector<std::vector<int>> good{{1}, {2, 511}};
  EXPECT_EQ(why(good, {.stop_tokens = {0, 511}}), "nothing");
  EXPECT_EQ(why({{1}}, {}), "1 prompts for a batch of 2");
  EXPECT_EQ(why({{1}, {}}, {}), "prompt 2 of 2 is empty");
  EXPECT_EQ(why({{1}, {512}}, {}), "token 512 of prompt 2 of 2 is not in the vocabulary of 512");
  EXPECT_EQ(why(good, {.tokens = 0}), "0 tokens to decode");
  const int64_t most = config.max_position_embeddings;
  EXPECT_EQ(why(good, {.tokens = most - 1}), "nothing");
  EXPECT_EQ(why(good, {.tokens = most}),
            "256 tokens after a prompt of 2, and the model's max_position_embeddings is 256");
  EXPECT_EQ(why(good, {.stop_tokens = {-1}}), "token -1, to stop at, is not in the vocabulary of 512");
  EXPECT_EQ(why(good, {.stop_tokens = std::vector<int>(17, 1)}), "17 tokens to stop at; there may be 16");
  EXPECT_EQ(why(good, {.sampling = std::vector<SamplingOptions>(3)}),
            "sampling options of 3 sequences for a batch of 2");
  EXPECT_EQ(why(good, {.sampling = {{.temperature = -1}}}), "a temperature of -1");
}

}  // namespace
}  // namespace strata::megakernel
