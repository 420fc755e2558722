// Copies of arrays between strides, and walks over indices: what data movement is made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace strata::hlo {

/// Where the elements of an array lie: element (i, j, …) at offset + i · strides[0] + ….
struct Strided {
  int64_t offset = 0;
  std::vector<int64_t> strides;
};

/// Copies elements of `width` bytes of an array of sizes `dims`.
void copy_strided(const std::vector<int64_t>& dims, std::byte* to, const Strided& to_place, const std::byte* from,
                  const Strided& from_place, size_t width);

/// Steps to the next index in row-major order; false after the last one.
bool next_index(std::vector<int64_t>& index, const std::vector<int64_t>& dims);
/// Σ index · strides.
int64_t dot_product(const std::vector<int64_t>& index, const std::vector<int64_t>& strides);
/// Whether an array of these sizes has no elements.
bool is_empty(const std::vector<int64_t>& dims);

}  // namespace strata::hlo
