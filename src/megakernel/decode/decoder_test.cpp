// Generations of a decoder, one after the other, by the interpreter. tests/python/test_decoder.py compares tokens with
// references.
#include "megakernel/decode/decoder.h"

#include <gtest/gtest.h>

#include "megakernel/models/test_models.h"

namespace strata::megakernel {
namespace {

TEST(Decoder, BeginsAnewAndEndsWhereItIsAskedTo) {
  const ModelConfig config = tiny_config(ModelFamily::Qwen3);
  const auto weights = ModelWeights::random(config, 7);
  ASSERT_TRUE(weights);
  const auto decoder = Decoder::interpreted(config, *weights, {.batch = 2, .capacity = 16});
  ASSERT_TRUE(decoder) << decoder.error().to_string();
  const Decoder::Tokens prompts{{3, 4, 5}, {6}};
  const auto all = (*decoder)->generate(prompts, {.tokens = 8}, {});
  ASSERT_TRUE(all) << all.error().to_string();
  for (const auto& sequence : *all) EXPECT_EQ(sequence.size(), 8U);

  std::stop_source stop;
  Decoder::Tokens told(2);
  const auto some = (*decoder)->generate(prompts, {.tokens = 8, .stop = stop.get_token()}, [&](int64_t s, int token) {
    told[static_cast<size_t>(s)].push_back(token);
    if (told[1].size() == 5) stop.request_stop();
  });
  ASSERT_TRUE(some) << some.error().to_string();
  EXPECT_EQ(*some, told);
  EXPECT_EQ(told[1], std::vector<int>((*all)[1].begin(), (*all)[1].begin() + 5));
  EXPECT_EQ(told[0], std::vector<int>((*all)[0].begin(), (*all)[0].begin() + 3)) << "its prompt is longer by two";
  EXPECT_EQ((*decoder)->generate(prompts, {.tokens = 8}, {}).value(), *all);

  const auto beyond = (*decoder)->generate(prompts, {.tokens = 15}, {});
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.error().message, "17 positions do not fit a cache of 16");
  EXPECT_FALSE((*decoder)->check({{1}}, {})) << "one prompt for two sequences";
}

}  // namespace
}  // namespace strata::megakernel
