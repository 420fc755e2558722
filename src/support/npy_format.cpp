#include "support/npy_format.h"

#include <charconv>

#include "support/read_file.h"

namespace strata {
namespace {

constexpr std::string_view kMagic{"\x93NUMPY", 6};

/// The text after 'key': in the header's dictionary, up to the next comma outside parentheses.
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

tl::unexpected<Error> damaged_npy(const std::string& path, std::string_view what) {
  return tl::unexpected(Error{ErrorCode::InvalidInput,
                              fmt::format("'{}' is no .npy file: {}", shown_path(path), what),
                              "write it with numpy.save",
                              {}});
}

Result<NpyFile> read_npy_file(const std::string& path) {
  STRATA_TRY(const std::string bytes, read_file(path));
  const auto damaged = [&](std::string_view what) { return damaged_npy(path, what); };
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
  std::vector<int64_t> shape;
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
  return NpyFile{std::string(descr), order == "True", std::move(shape), bytes.substr(start + length)};
}

Result<void> check_npy_size(const std::string& path, const NpyFile& file, size_t element_bytes) {
  uint64_t wanted = element_bytes;
  for (int64_t size : file.shape) {
    if (__builtin_mul_overflow(wanted, static_cast<uint64_t>(size), &wanted))
      return damaged_npy(path, "its shape is unreadable");
  }
  const std::string array = fmt::format("array of shape [{}]", fmt::join(file.shape, ", "));
  if (file.data.size() < wanted) {
    return tl::unexpected(Error{
        ErrorCode::InvalidInput,
        fmt::format("'{}' is cut off: its {} takes {} bytes, and {} are there", path, array, wanted, file.data.size()),
        "write it again with numpy.save",
        {}});
  }
  if (file.data.size() > wanted) {
    return tl::unexpected(
        Error{ErrorCode::InvalidInput,
              fmt::format("'{}' has {} more bytes after its {}", path, file.data.size() - wanted, array),
              "write one array to a file, with numpy.save",
              {}});
  }
  return {};
}

std::string npy_header(std::string_view descr, const std::vector<int64_t>& shape) {
  std::string sizes;
  for (int64_t size : shape) sizes += fmt::format("{}, ", size);
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, sizes);
  // The data start at a multiple of 64 bytes.
  while ((10 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string bytes(kMagic);
  bytes += {'\x01', '\x00', static_cast<char>(header.size() & 255), static_cast<char>(header.size() >> 8)};
  return bytes + header;
}

}  // namespace strata
