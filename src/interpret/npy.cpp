#include "interpret/npy.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "support/half.h"
#include "support/npy_format.h"

namespace strata {

Result<Tensor<double>> read_npy(const std::string& path) {
  STRATA_TRY(const NpyFile file, read_npy_file(path));
  const std::string& descr = file.descr;
  const Shape& shape = file.shape;
  const size_t width = descr == "'<f2'" ? 2 : descr == "'<f4'" ? 4 : descr == "'<f8'" ? 8 : 0;
  if (width == 0) {
    return tl::unexpected(Error{ErrorCode::InvalidInput,
                                fmt::format("'{}' holds elements of type {}; expected '<f2', '<f4' or '<f8'", path,
                                            descr.empty() ? "unknown" : descr),
                                "convert it with astype(numpy.float32)",
                                {}});
  }
  const char* data = file.data.data();
  const size_t available = file.data.size() / width;
  const int64_t count = element_count(shape);
  if (static_cast<uint64_t>(count) != available || shape.size() > kMaxRank) {
    return damaged_npy(path, fmt::format("its shape has {} elements and the file {}", count, available));
  }
  Tensor<double> tensor;
  tensor.shape = shape;
  tensor.data.resize(static_cast<size_t>(count));
  const auto value = [&](size_t i) -> double {
    const auto get = [&](auto zero) {
      std::memcpy(&zero, data + i * width, sizeof zero);
      return zero;
    };
    return width == 2 ? half_to_double(get(uint16_t{})) : width == 4 ? static_cast<double>(get(0.0F)) : get(0.0);
  };
  if (!file.fortran_order) {
    for (size_t i = 0; i < tensor.data.size(); ++i) tensor.data[i] = value(i);
    return tensor;
  }
  // Fortran order: the first dimension is the innermost in the file.
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t d = 1; d < shape.size(); ++d) strides[d] = strides[d - 1] * shape[d - 1];
  for_each_index<1>(shape, {strides}, [&](int64_t i, const std::array<int64_t, 1>& at) {
    tensor[i] = value(static_cast<size_t>(at[0]));
  });
  return tensor;
}

std::string npy_bytes(const Tensor<double>& tensor) {
  static_assert(std::endian::native == std::endian::little);
  std::string bytes = npy_header("<f8", tensor.shape);
  bytes.append(reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size() * sizeof(double));
  return bytes;
}

}  // namespace strata
