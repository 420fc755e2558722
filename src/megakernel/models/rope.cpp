#include "megakernel/models/rope.h"

#include <cmath>
#include <numbers>

namespace strata::megakernel {

std::vector<float> rope_frequencies(const ModelConfig& config) {
  if (!config.frequencies.empty()) return config.frequencies;
  std::vector<float> frequencies;
  for (int64_t i = 0; i < config.head_dim; i += 2) {
    const float exponent = static_cast<float>(i) / static_cast<float>(config.head_dim);
    const auto base = static_cast<float>(config.rope_theta);
    float frequency = 1.0F / static_cast<float>(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
    if (config.rope_scaling) {
      const RopeScaling& scaling = *config.rope_scaling;
      const auto context = static_cast<double>(scaling.original_max_position_embeddings);
      const auto longest = static_cast<float>(context / scaling.low_freq_factor);
      const auto shortest = static_cast<float>(context / scaling.high_freq_factor);
      const auto factor = static_cast<float>(scaling.factor);
      const auto low = static_cast<float>(scaling.low_freq_factor);
      const auto span = static_cast<float>(scaling.high_freq_factor - scaling.low_freq_factor);
      const float wavelength = static_cast<float>(2 * std::numbers::pi) / frequency;
      if (wavelength > longest) {
        frequency = frequency / factor;
      } else if (wavelength >= shortest) {
        const float smooth = (static_cast<float>(context) / wavelength - low) / span;
        const float slow = (1.0F - smooth) * frequency / factor;
        frequency = slow + smooth * frequency;
      }
    }
    frequencies.push_back(frequency);
  }
  return frequencies;
}

RopeRow rope_row(std::span<const float> frequencies, int64_t position) {
  RopeRow row;
  for (int half = 0; half < 2; ++half) {
    for (const float frequency : frequencies) {
      const float angle = frequency * static_cast<float>(position);
      row.cos.push_back(static_cast<float>(std::cos(static_cast<double>(angle))));
      row.sin.push_back(static_cast<float>(std::sin(static_cast<double>(angle))));
    }
  }
  return row;
}

}  // namespace strata::megakernel
