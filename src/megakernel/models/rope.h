// Rotary position embeddings (Su et al., RoFormer, 2021, section 3.2), with the scaling of Llama 3.1, in float32 as
// transformers computes them.
#pragma once

#include <span>
#include <vector>

#include "megakernel/models/config.h"

namespace strata::megakernel {

/// Radians a position of each pair of dimensions (i, i + head_dim / 2): head_dim / 2 numbers,
///
///     f_i = 1 / rope_theta^(2i / head_dim)
///
/// With RopeScaling and the wavelength w_i = 2π / f_i, where L is original_max_position_embeddings:
///
///     f_i                          where w_i < L / high_freq_factor
///     f_i / factor                 where w_i > L / low_freq_factor
///     (1 − s) · f_i / factor + s · f_i   between, s = (L / w_i − low_freq_factor) / (high_freq_factor −
///     low_freq_factor)
///
/// A configuration that has its frequencies itself gives those.
///
/// Each operation is rounded to float32; the power is the float32 nearest to that of the float32 operands.
std::vector<float> rope_frequencies(const ModelConfig& config);

/// What the rotary embedding of one position multiplies with, head_dim numbers each: entry i and entry i + head_dim / 2
/// are the cosine, and the sine, of f_i · position, a product in float32; rounded to float32.
struct RopeRow {
  std::vector<float> cos;
  std::vector<float> sin;
};
RopeRow rope_row(std::span<const float> frequencies, int64_t position);

}  // namespace strata::megakernel
