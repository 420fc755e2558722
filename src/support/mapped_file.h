// A file's bytes without a copy of them.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "support/error.h"

namespace strata {

/// A file that is mapped for reading as long as the object lives: pages come from the disk when they are touched. Who
/// shortens the file meanwhile ends the process (SIGBUS). Movable; bytes stay where they are.
class MappedFile {
 public:
  /// Error (Environment) with the reason where it is missing, no regular file or cannot be mapped.
  static Result<MappedFile> open(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  /// Aligned to a page.
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::span<const std::byte> bytes_;
};

}  // namespace strata
