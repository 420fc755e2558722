// Decode steps on the host: the device code of the mega-kernel, run as fibers, beside the interpreter.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "megakernel/decode/decode_session.h"
#include "megakernel/decode/fiber_decode.h"
#include "megakernel/models/reference_decode.h"
#include "megakernel/models/sampling.h"
#include "megakernel/models/test_models.h"
#include "superopt/codegen/test_host.h"

namespace strata::megakernel {
namespace {

struct HostDecode {
  ModelFamily family;
  int64_t batch;
  int64_t capacity;
  int64_t workers;

  std::string name() const {
    return fmt::format("{}_batch{}_capacity{}_workers{}", family == ModelFamily::Qwen3 ? "qwen3" : "llama", batch,
                       capacity, workers);
  }
  friend std::ostream& operator<<(std::ostream& out, const HostDecode& one) { return out << one.name(); }
};

class HostDecodes : public testing::TestWithParam<HostDecode> {};

TEST_P(HostDecodes, Measure) {
  const auto& [family, batch, capacity, workers] = GetParam();
  ModelConfig config;
  if (std::getenv("CONF"))
    config = *load_config(std::getenv("CONF"));
  else {
    config = tiny_config(family);
    config.hidden_size = 256;
    config.num_attention_heads = 8;
    config.head_dim = family == ModelFamily::Qwen3 ? 64 : 32;
    config.intermediate_size = 512;
    config.vocab_size = 512;
  }
  const auto weights = ModelWeights::random(config, 1);
  ASSERT_TRUE(weights);
  auto target = FiberDecodeTarget::open(kPlainHost);
  ASSERT_TRUE(target);
  DecodeOptions options;
  options.batch = batch;
  options.capacity = capacity;
  options.machine.workers = static_cast<int>(workers);
  auto session = DecodeSession::make(**target, config, *weights, options);
  ASSERT_TRUE(session) << session.error().to_string();
  if (std::getenv("ORD")) (*target)->set_order(std::getenv("ORD"));
  auto exact = ReferenceDecoder<double>::create(config, *weights, {.batch = batch, .capacity = capacity});
  auto rounded =
      ReferenceDecoder<double>::create(config, *weights, {.batch = batch, .capacity = capacity, .round_storage = true});
  std::vector<int> prompt{3, 17, 200, 5};
  std::vector<int64_t> next(batch, prompt[0]);
  for (size_t b = 0; b < next.size(); ++b) next[b] = prompt[b];
  for (int step = 0; step < 27; ++step) {
    std::vector<std::vector<int>> prompts;
    for (auto t : next) prompts.push_back({static_cast<int>(t)});
    const auto made = (*session)->generate(prompts, {.tokens = 1});
    ASSERT_TRUE(made) << made.error().to_string();
    auto a = exact->step(next), b = rounded->step(next);
    ASSERT_TRUE(a && b);
    for (int64_t s = 0; s < batch; ++s) {
      const auto logits = *(*session)->logits(s);
      double err = 0, rerr = 0, big = 0, sq = 0, rsq = 0;
      std::vector<double> row(a->data.begin() + s * config.vocab_size, a->data.begin() + (s + 1) * config.vocab_size);
      for (int64_t n = 0; n < config.vocab_size; ++n) {
        err = std::max(err, std::fabs(logits[n] - row[n]));
        rerr = std::max(rerr, std::fabs(b->data[s * config.vocab_size + n] - row[n]));
        sq += std::pow(logits[n] - row[n], 2);
        rsq += std::pow(b->data[s * config.vocab_size + n] - row[n], 2);
        big = std::max(big, std::fabs(row[n]));
      }
      auto sorted = row;
      std::sort(sorted.rbegin(), sorted.rend());
      const int best = static_cast<int>(std::max_element(row.begin(), row.end()) - row.begin());
      fmt::print(
          "step {} seq {}: error {:.5f} rms {:.5f} rounded {:.5f} rms {:.5f} largest {:.4f} gap {:.5f} ref {} kernel "
          "{}\n",
          step, s, err, std::sqrt(sq / 512), rerr, std::sqrt(rsq / 512), big, sorted[0] - sorted[1], best,
          (*made)[s][0]);
      next[s] = step + 1 < static_cast<int>(prompt.size()) ? prompt[(step + 1 + s) % 4] : best;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, HostDecodes,
                         testing::Values(HostDecode{ModelFamily::Qwen3, 1, 512, 4},
                                         HostDecode{ModelFamily::Llama, 2, 512, 4},
                                         HostDecode{ModelFamily::Qwen3, 2, 64, 4},
                                         HostDecode{ModelFamily::Qwen3, 1, 512, 128}),
                         [](const auto& test) { return test.param.name(); });

}  // namespace
}  // namespace strata::megakernel
