// What work of cuSOLVER and cuBLAS on matrices shares.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

#include "runtime/cuda_driver.h"

namespace strata::matrix_work {

constexpr int64_t kAlignment = 256;

inline int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

/// The libraries count in 32 bits, elements of a matrix too.
inline bool fits(int64_t rows, int64_t columns, int64_t batch) {
  constexpr int64_t kMost = std::numeric_limits<int>::max();
  return rows <= kMost && columns <= kMost && batch <= kMost && rows <= kMost / columns;
}

template <size_t Count>
std::optional<size_t> number_of(const std::array<std::string_view, Count>& names, std::string_view name) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return i;
  }
  return std::nullopt;
}

/// Nothing where both are one array.
inline Result<void> copy(const CudaDriver& driver, CudaPointer to, CudaPointer from, int64_t bytes, CudaStream stream,
                         std::string_view what) {
  if (to == from) return {};
  return driver.check(driver.copy_on_device_later(to, from, static_cast<size_t>(bytes), stream), what);
}

}  // namespace strata::matrix_work
