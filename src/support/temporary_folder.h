// A folder below the system's temporary one that disappears with its owner.
#pragma once

#include <filesystem>
#include <string>

namespace strata {

class TemporaryFolder {
 public:
  /// `path()` is empty where none can be made.
  explicit TemporaryFolder(const std::string& prefix);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace strata
