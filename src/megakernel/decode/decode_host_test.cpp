#include <gtest/gtest.h>

#include "megakernel/decode/decode_session.h"
#include "megakernel/decode/fiber_decode.h"
#include "megakernel/models/test_models.h"
#include "test_paths.h"

namespace strata::megakernel {
namespace {
TEST(Scratch, Runs) {
  ModelConfig config = tiny_config(ModelFamily::Qwen3);
  config.hidden_size = 128;
  config.num_attention_heads = 4;
  config.head_dim = 32;
  config.intermediate_size = 128;
  config.vocab_size = 256;
  auto weights = ModelWeights::random(config, 1);
  ASSERT_TRUE(weights);
  auto target = FiberDecodeTarget::open({.options = {"-O1", "-include", STRATA_BINARY_DIR "/generated/tests/generated_headers.h"}});
  ASSERT_TRUE(target);
  DecodeOptions options;
  options.capacity = 128;
  options.machine.workers = 4;
  auto session = DecodeSession::make(**target, config, *weights, options);
  ASSERT_TRUE(session) << session.error().to_string();
  auto made = (*session)->generate({{3, 17, 200, 5}}, 8);
  ASSERT_TRUE(made) << made.error().to_string();
  for (int t : made->front()) printf("%d ", t);
  printf("\n");
}
}
}
