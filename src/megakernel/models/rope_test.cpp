#include "megakernel/models/rope.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace strata::megakernel {
namespace {

/// The equations of rope.h in float64.
std::vector<double> expected_frequencies(const ModelConfig& config) {
  std::vector<double> result;
  for (int64_t i = 0; i < config.head_dim / 2; ++i) {
    const double f = std::pow(config.rope_theta, -2.0 * static_cast<double>(i) / static_cast<double>(config.head_dim));
    if (!config.rope_scaling) {
      result.push_back(f);
      continue;
    }
    const RopeScaling& s = *config.rope_scaling;
    const double turns = static_cast<double>(s.original_max_position_embeddings) * f / (2 * std::numbers::pi);
    const double smooth = std::clamp((turns - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor), 0.0, 1.0);
    result.push_back((1 - smooth) * f / s.factor + smooth * f);
  }
  return result;
}

TEST(Rope, FrequenciesFollowTheEquations) {
  for (const std::string& name : preset_names()) {
    const ModelConfig config = *preset_config(name);
    const std::vector<float> found = rope_frequencies(config);
    const std::vector<double> expected = expected_frequencies(config);
    ASSERT_EQ(found.size(), expected.size());
    EXPECT_EQ(found[0], 1.0F);
    for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i] / expected[i], 1, 2e-6) << name << " " << i;
  }
}

TEST(Rope, ScalingHasThreeRanges) {
  ModelConfig config = *preset_config("llama-3.2-1b");
  const std::vector<float> scaled = rope_frequencies(config);
  config.rope_scaling.reset();
  const std::vector<float> plain = rope_frequencies(config);
  int same = 0, divided = 0, between = 0;
  for (size_t i = 0; i < plain.size(); ++i) {
    EXPECT_LE(scaled[i], plain[i]);
    EXPECT_GE(scaled[i], plain[i] / 32);
    same += scaled[i] == plain[i];
    divided += scaled[i] == plain[i] / 32;
    between += scaled[i] < plain[i] && scaled[i] > plain[i] / 32;
  }
  // Wavelengths 2π · 500000^(i/32) below 8192/4, above 8192/1 and between.
  EXPECT_EQ(same, 15);
  EXPECT_EQ(between, 3);
  EXPECT_EQ(divided, 14);
}

TEST(Rope, RowsAreCosinesAndSinesInBothHalves) {
  const std::vector<float> frequencies{1.0F, 0.25F, 0x1p-10F};
  for (const int64_t position : {0, 1, 17, 4096}) {
    const RopeRow row = rope_row(frequencies, position);
    ASSERT_EQ(row.cos.size(), 6u);
    ASSERT_EQ(row.sin.size(), 6u);
    for (size_t i = 0; i < 6; ++i) {
      const double angle = frequencies[i % 3] * static_cast<double>(position);  // exact in float32 here
      EXPECT_EQ(row.cos[i], static_cast<float>(std::cos(angle)));
      EXPECT_EQ(row.sin[i], static_cast<float>(std::sin(angle)));
    }
  }
}

}  // namespace
}  // namespace strata::megakernel
