// The next token of a sequence, chosen from its logits on the host. A kernel that does the same has the same result,
// bit for bit: floating-point operations act on single logits and are named one by one, and sums are of integers, so
// that their order is free.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <span>

#include "support/error.h"

namespace strata::megakernel {

/// The index of the largest logit; of equal ones the lowest. NaN counts as −∞, and 0 and −0 are equal. There is at
/// least one logit.
template <std::floating_point T>
int64_t argmax(std::span<const T> logits) {
  size_t best = 0;
  for (size_t i = 1; i < logits.size(); ++i)
    if (logits[i] > logits[best] || (std::isnan(logits[best]) && logits[i] > -INFINITY)) best = i;
  return std::isnan(logits[best]) ? 0 : static_cast<int64_t>(best);
}

/// Philox-4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3; SC'11): four random words
/// of a counter and a key.
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

struct SamplingOptions {
  float temperature = 0;  ///< 0: argmax; at most 2^20
  int64_t top_k = 0;      ///< of the largest logits so many are kept; 0: all
  float top_p = 1;        ///< of these, the largest that together have this probability, one at least; 0 to 1
  uint64_t seed = 0;
};

/// The error (Unsupported) of logits among which are NaN or infinities, so that no choice would mean anything: of the
/// step after so many positions.
tl::unexpected<Error> not_finite_logits(int64_t positions, int64_t sequence);

/// Error (InvalidInput) that names the option.
Result<void> check_sampling(const SamplingOptions& options);

/// 1 / temperature, at most the largest float, or 0 where the temperature is 0.
float inverse_temperature(const SamplingOptions& options);

constexpr int kWeightBits = 32;

/// ⌊2^32 · e^x⌋ to within 4e-7 of itself and 1, in float32 for x ≤ 0 or −∞:
///
///     y = x · 0x1.715476p+0                  log2(e)
///     0 unless y ≥ −33
///     n = floor(y)
///     f = fma(x, 0x1.715476p+0, −n)
///     p = fma(f, c5, c4); p = fma(f, p, c3); … c2, c1; p = fma(f, p, 1)
///     the integer part of p · 2^(32 + n), a product without rounding
///
/// c1 … c5 are 0x1.62e4bap-1, 0x1.ebdb56p-3, 0x1.c91ce6p-5, 0x1.277854p-7, 0x1.e974fcp-10.
uint64_t exponential_weight(float x);

/// The token of one sequence. `options` have passed check_sampling; there are 1 to 2^20 logits. `step` and `sequence`
/// number the draw: the position of the token and the row of the batch.
///
/// In this order; NaN counts as −∞, and logit i comes before j where it is larger, or equal and i < j:
///
///  1. m is the largest logit. With a temperature of 0, or where m is not finite: argmax.
///  2. Logit l weighs exponential_weight((l − m) · r) with r = inverse_temperature; each operation rounded to float32.
///  3. top_k: the first top_k in the order are kept.
///  4. top_p: with the sum S of the kept weights, P = ⌊top_p · 2^24⌋ and t = max(1, ⌊S · P / 2^24⌋), those are kept
///     before which the kept weights in the order sum up to less than t.
///  5. With the sum S' of the weights left and the first word w of philox({low and high half of step, sequence, 0},
///     {low and high half of seed}): the token is the first by index at which the running sum of the weights left is
///     above ⌊w · S' / 2^32⌋.
int64_t sample(std::span<const float> logits, const SamplingOptions& options, uint64_t step, uint32_t sequence);

}  // namespace strata::megakernel
