// Structural hashing: 64-bit, stable across runs and machines, so that hashes may name cache entries.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace strata {

/// A strong 64-bit mixer (the finaliser of SplitMix64; Steele, Lea, Flood, OOPSLA 2014).
constexpr uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// Order-dependent accumulation of 64-bit words and texts.
class Hasher {
 public:
  Hasher& add(uint64_t word) {
    state_ = mix(state_ ^ word);
    return *this;
  }
  Hasher& add(std::string_view text) {
    add(text.size());
    for (char c : text) add(static_cast<unsigned char>(c));
    return *this;
  }
  template <class Int>
  Hasher& add_all(const Int& words) {
    add(words.size());
    for (auto w : words) add(static_cast<uint64_t>(w));
    return *this;
  }
  uint64_t value() const { return state_; }

 private:
  uint64_t state_ = 0x5374726174610001ULL;
};

}  // namespace strata
