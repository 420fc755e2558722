#include "interpret/npy.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "support/half.h"
#include "support/npy_format.h"
#include "support/parallel.h"

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
  STRATA_CHECK(check_npy_size(path, file, width));
  if (shape.size() > kMaxRank)
    return with_remedy(invalid("'{}' has {} dimensions; at most {} are supported", path, shape.size(), kMaxRank),
                       "reshape it to the input's shape");
  const int64_t count = element_count(shape);
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
    for_pieces(tensor.data.size(), [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) tensor.data[i] = value(i);
    });
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

std::string npy_bytes(const Tensor<double>& tensor, DType type) {
  static_assert(std::endian::native == std::endian::little);
  const size_t width = type == DType::F16 ? 2 : type == DType::F64 ? 8 : 4;
  std::string bytes = npy_header(fmt::format("<f{}", width), tensor.shape);
  const size_t start = bytes.size();
  bytes.resize(start + tensor.data.size() * width);
  for_pieces(tensor.data.size(), [&](size_t begin, size_t end) {
    char* to = bytes.data() + start + begin * width;
    const auto put = [&](auto value) {
      std::memcpy(to, &value, sizeof value);
      to += sizeof value;
    };
    for (size_t i = begin; i < end; ++i) {
      if (width == 2) {
        put(double_to_half(tensor.data[i]));
      } else if (width == 4) {
        put(static_cast<float>(tensor.data[i]));
      } else {
        put(tensor.data[i]);
      }
    }
  });
  return bytes;
}

}  // namespace strata
