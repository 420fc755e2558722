// What the generators of random bits are made of, and in which order elements take their bits: as XLA does.
#pragma once

#include <array>
#include <cstdint>

#include "hlo/hlo.h"

namespace strata::hlo {

// Salmon et al., Parallel random numbers: as easy as 1, 2, 3 (SC'11): philox4x32-10 and threefry2x32-20.
constexpr int kPhiloxRounds = 10;
constexpr std::array<uint32_t, 2> kPhiloxMultipliers{0xD2511F53, 0xCD9E8D57}, kPhiloxWeyl{0x9E3779B9, 0xBB67AE85};
constexpr uint32_t kThreefryParity = 0x1BD11BDA;
constexpr size_t kThreefryGroups = 5;  ///< of rounds, one for each rotation
constexpr std::array<std::array<int64_t, 4>, 2> kThreefryRotations{{{13, 15, 26, 6}, {17, 29, 16, 24}}};

/// Threefry gives two words a count. Elements of 64 bits take both. Others take them in turn along one dimension: the
/// first of even size, else the longest. Of an odd one the last word is left out.
struct ThreefryOrder {
  int64_t outer = 1, split = 1, inner = 1;  ///< sizes before that dimension, its own, and after it
  int64_t pairs = 1;                        ///< counts along it
  int64_t blocks() const { return outer * pairs * inner; }
};
ThreefryOrder threefry_order(const Shape& bits);

}  // namespace strata::hlo
