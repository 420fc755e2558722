// The safetensors format of Hugging Face: named tensors in one file, which is mapped and not copied.
//
//     8 bytes    N, the length of the header, little-endian
//     N bytes    {"__metadata__": {"format": "pt"}, "w": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]}}
//     the rest   the tensors' bytes, row-major and little-endian; data_offsets count from here
//
// Knows nothing of models.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/error.h"
#include "support/mapped_file.h"

namespace strata::megakernel {

/// A tensor of a file or for one; whoever owns the bytes outlives it.
struct SafeTensor {
  std::string name;
  std::string dtype;           ///< as the format names it: "BF16", "F32", "I64", …
  std::vector<int64_t> shape;  ///< outermost dimension first; sizes may be 0, and a scalar has none
  std::span<const std::byte> bytes;
};

/// A file whose header has been checked as the format demands: it lies inside the file and is JSON without duplicate
/// keys; each tensor has a known dtype and as many bytes as its shape says; tensors lie one after the other, neither
/// overlap nor leave a gap, and end where the file does.
class SafetensorsFile {
 public:
  /// Errors name file and tensor: Environment where the file cannot be read, InvalidInput where the header is damaged,
  /// Unsupported for dtypes of less than a byte.
  static Result<SafetensorsFile> open(const std::string& path);

  const std::string& path() const { return path_; }
  /// By name.
  const std::map<std::string, SafeTensor, std::less<>>& tensors() const { return tensors_; }
  /// Null where there is none.
  const SafeTensor* find(std::string_view name) const;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  SafetensorsFile(std::string path, MappedFile file) : path_(std::move(path)), file_(std::move(file)) {}
  Result<void> read_header();

  std::string path_;
  MappedFile file_;
  std::map<std::string, SafeTensor, std::less<>> tensors_;
  std::map<std::string, std::string> metadata_;
};

/// The bytes of a file with these tensors, in the order in which they are given; data begin at a multiple of 8. Error
/// (InvalidInput) where a name comes twice or is "__metadata__", or bytes do not fit dtype and shape.
Result<std::string> safetensors_bytes(const std::vector<SafeTensor>& tensors,
                                      const std::map<std::string, std::string>& metadata = {});

/// The same, written by write_file.
Result<void> write_safetensors(const std::string& path, const std::vector<SafeTensor>& tensors,
                               const std::map<std::string, std::string>& metadata = {});

}  // namespace strata::megakernel
