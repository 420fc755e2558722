#include "support/read_file.h"

#include <filesystem>
#include <fstream>
#include <iterator>

namespace strata {

Result<std::string> read_file(const std::string& path) {
  std::error_code unknown;
  if (std::filesystem::is_directory(path, unknown)) return environment("cannot read '{}': it is a folder", path);
  std::ifstream file(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  if (!file.is_open() || file.bad()) return environment("cannot read '{}'", path);
  return bytes;
}

}  // namespace strata
