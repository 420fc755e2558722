// The container of NumPy's .npy files: header and bytes, whatever the elements are. Format: numpy.lib.format, versions
// 1 to 3.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "support/error.h"

namespace strata {

struct NpyFile {
  std::string descr;  ///< of the elements, with its quotes: "'<f4'"
  bool fortran_order = false;
  std::vector<int64_t> shape;
  std::string data;
};

/// Error, naming the file, where it cannot be read or is no .npy file. The size of `data` is not checked.
Result<NpyFile> read_npy_file(const std::string& path);
/// What stands before the data of an array in C order; `descr` without quotes.
std::string npy_header(std::string_view descr, const std::vector<int64_t>& shape);
/// Error unless the file has just the data of its shape, in elements of this many bytes.
Result<void> check_npy_size(const std::string& path, const NpyFile& file, size_t element_bytes);
/// The error of a file that is damaged.
tl::unexpected<Error> damaged_npy(const std::string& path, std::string_view what);

}  // namespace strata
