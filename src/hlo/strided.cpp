#include "hlo/strided.h"

#include <algorithm>
#include <cstring>

namespace strata::hlo {
namespace {

template <size_t kWidth>
void copy_row(int64_t count, std::byte* to, int64_t to_stride, const std::byte* from, int64_t from_stride) {
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(to + i * to_stride * static_cast<int64_t>(kWidth),
                from + i * from_stride * static_cast<int64_t>(kWidth), kWidth);
  }
}

void copy_row_of(size_t width, int64_t count, std::byte* to, int64_t to_stride, const std::byte* from,
                 int64_t from_stride) {
  if (to_stride == 1 && from_stride == 1) {
    std::memcpy(to, from, static_cast<size_t>(count) * width);
    return;
  }
  switch (width) {
    case 1:
      return copy_row<1>(count, to, to_stride, from, from_stride);
    case 2:
      return copy_row<2>(count, to, to_stride, from, from_stride);
    case 4:
      return copy_row<4>(count, to, to_stride, from, from_stride);
    case 8:
      return copy_row<8>(count, to, to_stride, from, from_stride);
    default:
      return copy_row<16>(count, to, to_stride, from, from_stride);
  }
}

}  // namespace

bool next_index(std::vector<int64_t>& index, const std::vector<int64_t>& dims) {
  for (size_t d = dims.size(); d-- > 0;) {
    if (++index[d] < dims[d]) return true;
    index[d] = 0;
  }
  return false;
}

int64_t dot_product(const std::vector<int64_t>& index, const std::vector<int64_t>& strides) {
  int64_t sum = 0;
  for (size_t d = 0; d < index.size(); ++d) sum += index[d] * strides[d];
  return sum;
}

bool is_empty(const std::vector<int64_t>& dims) { return std::find(dims.begin(), dims.end(), 0) != dims.end(); }

void copy_strided(const std::vector<int64_t>& dims, std::byte* to, const Strided& to_place, const std::byte* from,
                  const Strided& from_place, size_t width) {
  if (is_empty(dims)) return;
  const int64_t bytes = static_cast<int64_t>(width);
  if (dims.empty()) {
    std::memcpy(to + to_place.offset * bytes, from + from_place.offset * bytes, width);
    return;
  }
  const std::vector<int64_t> outer(dims.begin(), dims.end() - 1);
  std::vector<int64_t> index(outer.size());
  do {
    const int64_t to_start = to_place.offset + dot_product(index, to_place.strides);
    const int64_t from_start = from_place.offset + dot_product(index, from_place.strides);
    copy_row_of(width, dims.back(), to + to_start * bytes, to_place.strides.back(), from + from_start * bytes,
                from_place.strides.back());
  } while (next_index(index, outer));
}

}  // namespace strata::hlo
