#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "hlo/compute.h"
#include "hlo/evaluate_parts.h"
#include "hlo/random_order.h"

namespace strata::hlo {
namespace {

uint32_t low(uint64_t value) { return static_cast<uint32_t>(value); }
uint32_t high(uint64_t value) { return static_cast<uint32_t>(value >> 32); }
uint64_t joined(uint32_t low_half, uint32_t high_half) { return uint64_t{high_half} << 32 | low_half; }

/// Bits, and what the counter moves on by.
struct Bits {
  std::vector<uint64_t> elements;
  uint64_t counted = 0;
};

Bits philox_bits(const Shape& shape, uint64_t key, uint64_t inner, uint64_t outer) {
  const auto count = static_cast<size_t>(shape.element_count());
  const bool wide = bit_width(shape.type) == 64;
  Bits bits;
  while (bits.elements.size() < count) {
    const uint64_t at = inner + bits.counted++;
    const uint64_t above = outer + (at < inner ? 1 : 0);
    const auto block = philox({low(at), high(at), low(above), high(above)}, {low(key), high(key)});
    for (size_t i = 0; i < 4; i += wide ? 2 : 1)
      bits.elements.push_back(wide ? joined(block[i], block[i + 1]) : block[i]);
  }
  bits.elements.resize(count);
  return bits;
}

Bits threefry_bits(const Shape& shape, uint64_t key, uint64_t counter) {
  const bool wide = bit_width(shape.type) == 64;
  const ThreefryOrder order = threefry_order(shape);
  Bits bits;
  bits.counted = static_cast<uint64_t>(order.blocks());
  bits.elements.resize(static_cast<size_t>(shape.element_count()));
  for (uint64_t block = 0; block < bits.counted; ++block) {
    const uint64_t at = counter + block;
    const auto words = threefry({low(at), high(at)}, {low(key), high(key)});
    if (wide) {
      bits.elements[block] = joined(words[0], words[1]);
      continue;
    }
    const auto inner = static_cast<uint64_t>(order.inner), pairs = static_cast<uint64_t>(order.pairs);
    for (uint64_t half = 0; half < 2; ++half) {
      const uint64_t row = block / inner % pairs * 2 + half;
      if (row >= static_cast<uint64_t>(order.split)) continue;
      bits.elements[(block / inner / pairs * static_cast<uint64_t>(order.split) + row) * inner + block % inner] =
          words[half];
    }
  }
  return bits;
}

}  // namespace

std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const uint64_t first = uint64_t{kPhiloxMultipliers[0]} * counter[0];
    const uint64_t second = uint64_t{kPhiloxMultipliers[1]} * counter[2];
    counter = {high(second) ^ counter[1] ^ key[0], low(second), high(first) ^ counter[3] ^ key[1], low(first)};
    key = {key[0] + kPhiloxWeyl[0], key[1] + kPhiloxWeyl[1]};
  }
  return counter;
}

std::array<uint32_t, 2> threefry(std::array<uint32_t, 2> counter, std::array<uint32_t, 2> key) {
  const std::array<uint32_t, 3> keys{key[0], key[1], key[0] ^ key[1] ^ kThreefryParity};
  auto [a, b] = counter;
  a += keys[0];
  b += keys[1];
  for (size_t group = 0; group < kThreefryGroups; ++group) {
    for (const int64_t by : kThreefryRotations[group % 2]) {
      a += b;
      b = std::rotl(b, static_cast<int>(by)) ^ a;
    }
    a += keys[(group + 1) % 3];
    b += keys[(group + 2) % 3] + static_cast<uint32_t>(group) + 1;
  }
  return {a, b};
}

ThreefryOrder threefry_order(const Shape& bits) {
  ThreefryOrder order;
  if (bit_width(bits.type) == 64) {
    order.inner = bits.element_count();
    return order;
  }
  const auto& dims = bits.dims;
  auto chosen = std::ranges::find_if(dims, [](int64_t size) { return size % 2 == 0; });
  if (chosen == dims.end()) chosen = std::ranges::max_element(dims);
  for (auto d = dims.begin(); d != dims.end(); ++d) (d < chosen ? order.outer : order.inner) *= d == chosen ? 1 : *d;
  order.split = dims.empty() ? 1 : *chosen;
  order.pairs = (order.split + 1) / 2;
  return order;
}

Literal evaluate_random_bits(const Instruction& instruction, const Literal& state) {
  const Shape& shape = instruction.shape.elements[1];
  const std::vector<uint64_t> words = load_all<uint64_t>(state);
  const bool apart = words.size() > 2;
  const Bits bits = instruction.as<RandomAttributes>().algorithm == RandomAttributes::Algorithm::ThreeFry
                        ? threefry_bits(shape, words[0], words[1])
                        : philox_bits(shape, words[0], words[1], apart ? words[2] : words[0]);
  Literal next = state;
  const uint64_t counter = words[1] + bits.counted;
  next.set<uint64_t>(1, counter);
  if (apart && counter < words[1]) next.set<uint64_t>(2, words[2] + 1);
  Literal made(shape);
  const auto width = static_cast<size_t>(byte_width(shape.type));
  for (size_t i = 0; i < bits.elements.size(); ++i)
    std::memcpy(made.mutable_bytes() + i * width, &bits.elements[i], width);  // the lowest, which come first
  return Literal::tuple({next, made});
}

}  // namespace strata::hlo
