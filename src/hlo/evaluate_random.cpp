#include <algorithm>
#include <array>
#include <cstring>

#include "hlo/compute.h"
#include "hlo/evaluate_parts.h"

namespace strata::hlo {

std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  // Salmon et al., Parallel random numbers: as easy as 1, 2, 3 (SC'11): philox4x32-10.
  constexpr uint64_t kMultipliers[] = {0xD2511F53, 0xCD9E8D57};
  constexpr uint32_t kWeyl[] = {0x9E3779B9, 0xBB67AE85};
  for (int round = 0; round < 10; ++round) {
    const uint64_t first = kMultipliers[0] * counter[0];
    const uint64_t second = kMultipliers[1] * counter[2];
    counter = {static_cast<uint32_t>(second >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(second),
               static_cast<uint32_t>(first >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(first)};
    key = {key[0] + kWeyl[0], key[1] + kWeyl[1]};
  }
  return counter;
}

Literal evaluate_random_bits(const Instruction& instruction, const Literal& state) {
  Literal bits(instruction.shape.elements[1]);
  const auto low = [](uint64_t value) { return static_cast<uint32_t>(value); };
  const auto high = [](uint64_t value) { return static_cast<uint32_t>(value >> 32); };
  const std::vector<uint64_t> words = load_all<uint64_t>(state);
  uint64_t counter = words[1];
  std::byte* bytes = bits.mutable_bytes();
  for (size_t at = 0; at < bits.byte_size(); at += 16, ++counter) {
    const uint64_t outer = words.size() > 2 ? words[2] : 0;
    const std::array<uint32_t, 4> block =
        philox({low(counter), high(counter), low(outer), high(outer)}, {low(words[0]), high(words[0])});
    std::memcpy(bytes + at, block.data(), std::min<size_t>(16, bits.byte_size() - at));
  }
  Literal next = state;
  next.set<uint64_t>(1, counter);
  return Literal::tuple({next, bits});
}

}  // namespace strata::hlo
