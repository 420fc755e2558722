#include "interpret/npy.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <fstream>

#include "support/half.h"
#include "support/parallel.h"

namespace strata {
namespace {

constexpr std::string_view kMagic{"\x93NUMPY", 6};

/// The text behind 'key': in the header's dictionary, up to the next comma outside parentheses.
std::string_view field(std::string_view header, std::string_view key) {
  const size_t at = header.find(key);
  if (at == std::string_view::npos) return {};
  size_t begin = header.find(':', at);
  if (begin == std::string_view::npos) return {};
  begin = header.find_first_not_of(' ', begin + 1);
  if (begin == std::string_view::npos) return {};
  const size_t end = header[begin] == '(' ? header.find(')', begin) + 1 : header.find_first_of(",}", begin);
  return end == std::string_view::npos || end <= begin ? std::string_view{} : header.substr(begin, end - begin);
}

}  // namespace

Result<Tensor<double>> read_npy(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes;
  for (std::vector<char> block(1 << 20); file;) {
    file.read(block.data(), static_cast<std::streamsize>(block.size()));
    bytes.append(block.data(), static_cast<size_t>(file.gcount()));
  }
  if (!file.is_open() || file.bad()) return environment("cannot read '{}'", path);
  const auto damaged = [&](std::string_view what) {
    return tl::unexpected(Error{
        ErrorCode::InvalidInput, fmt::format("'{}' is no .npy file: {}", path, what), "write it with numpy.save", {}});
  };
  if (bytes.size() < 12 || bytes.compare(0, kMagic.size(), kMagic) != 0) return damaged("it has no NumPy header");
  const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(bytes[i])); };
  if (byte(6) < 1 || byte(6) > 3) return damaged(fmt::format("version {} of the format is unknown", byte(6)));
  const bool long_header = byte(6) >= 2;
  const size_t start = long_header ? 12 : 10;
  size_t length = byte(8) | byte(9) << 8;
  if (long_header) length |= byte(10) << 16 | byte(11) << 24;
  if (length > bytes.size() - start) return damaged("its header is cut off");
  const std::string_view header(bytes.data() + start, length);
  const std::string_view descr = field(header, "'descr'");
  const std::string_view order = field(header, "'fortran_order'");
  std::string_view sizes = field(header, "'shape'");
  if (sizes.size() < 2 || sizes.front() != '(') return damaged("its header has no shape");
  sizes = sizes.substr(1, sizes.size() - 2);
  Shape shape;
  int64_t count = 1;
  while (!sizes.empty()) {
    const size_t digit = sizes.find_first_not_of(" ,");
    if (digit == std::string_view::npos) break;
    sizes.remove_prefix(digit);
    int64_t size = 0;
    const auto [end, status] = std::from_chars(sizes.data(), sizes.data() + sizes.size(), size);
    if (status != std::errc{} || size < 0 || __builtin_mul_overflow(count, size, &count))
      return damaged("its shape is unreadable");
    shape.push_back(size);
    sizes.remove_prefix(static_cast<size_t>(end - sizes.data()));
  }
  // Guessing the order would transpose the tensor silently.
  if (order != "True" && order != "False") return damaged("its header does not say whether it is in Fortran order");
  const size_t width = descr == "'<f2'" ? 2 : descr == "'<f4'" ? 4 : descr == "'<f8'" ? 8 : 0;
  if (width == 0) {
    return tl::unexpected(Error{ErrorCode::InvalidInput,
                                fmt::format("'{}' holds elements of type {}; expected '<f2', '<f4' or '<f8'", path,
                                            descr.empty() ? "unknown" : descr),
                                "convert it with astype(numpy.float32)",
                                {}});
  }
  const char* data = bytes.data() + start + length;
  const size_t available = (bytes.size() - start - length) / width;
  if (static_cast<uint64_t>(count) != available || shape.size() > kMaxRank) {
    return damaged(fmt::format("its shape has {} elements and the file {}", count, available));
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
  if (order != "True") {
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
  std::string shape;
  for (int64_t size : tensor.shape) shape += fmt::format("{}, ", size);
  std::string header = fmt::format("{{'descr': '<f{}', 'fortran_order': False, 'shape': ({}), }}", width, shape);
  // The data start at a multiple of 64 bytes.
  while ((10 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string bytes(kMagic);
  bytes += {'\x01', '\x00', static_cast<char>(header.size() & 255), static_cast<char>(header.size() >> 8)};
  bytes += header;
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
