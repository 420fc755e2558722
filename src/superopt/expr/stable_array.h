// An append-only array that many threads read while others append: elements never move.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <utility>

namespace strata {

/// Elements lie in chunks of doubling size, so that a reference stays valid for the array's life and an
/// access is two loads. An element is published by whatever carries its index to the other thread.
template <class T>
class StableArray {
 public:
  /// Indices stay below this, so that a pair of them fits 62 bits.
  static constexpr uint32_t kMaxSize = uint32_t{1} << 31;

  StableArray() = default;
  StableArray(const StableArray&) = delete;
  StableArray& operator=(const StableArray&) = delete;
  ~StableArray() {
    for (auto& chunk : chunks_) delete[] chunk.load(std::memory_order_relaxed);
  }

  /// An element that some push() or slot() made.
  const T& operator[](uint32_t index) const {
    const Place place = locate(index);
    return chunks_[place.chunk].load(std::memory_order_acquire)[place.offset];
  }

  /// The element at `index`, default-constructed where nobody asked for it before.
  T& slot(uint32_t index) {
    const Place place = locate(index);
    T* chunk = chunks_[place.chunk].load(std::memory_order_acquire);
    return (chunk != nullptr ? chunk : grow(place.chunk))[place.offset];
  }

  /// Appends and returns the index.
  uint32_t push(T value) {
    const uint32_t index = size_.fetch_add(1, std::memory_order_relaxed);
    if (index >= kMaxSize) throw std::length_error("StableArray: out of indices");
    slot(index) = std::move(value);
    return index;
  }

  uint32_t size() const { return size_.load(std::memory_order_relaxed); }

 private:
  static constexpr uint32_t kFirst = 256;
  struct Place {
    uint32_t chunk;
    uint32_t offset;
  };
  static Place locate(uint32_t index) {
    const auto chunk = static_cast<uint32_t>(std::bit_width(index / kFirst + 1) - 1);
    return {chunk, index - ((uint32_t{1} << chunk) - 1) * kFirst};
  }
  T* grow(uint32_t chunk) {
    const std::lock_guard lock(growth_);
    if (T* present = chunks_[chunk].load(std::memory_order_relaxed)) return present;
    T* fresh = new T[size_t{kFirst} << chunk]();
    chunks_[chunk].store(fresh, std::memory_order_release);
    return fresh;
  }

  std::array<std::atomic<T*>, 24> chunks_{};
  std::atomic<uint32_t> size_{0};
  std::mutex growth_;
};

}  // namespace strata
