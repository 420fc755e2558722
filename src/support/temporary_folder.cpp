#include "support/temporary_folder.h"

#include <cstdlib>

namespace strata {

namespace fs = std::filesystem;

TemporaryFolder::TemporaryFolder(const std::string& prefix) {
  std::error_code failed;
  const fs::path below = fs::temp_directory_path(failed);
  std::string name = (below / (prefix + "-XXXXXX")).string();
  if (!failed && mkdtemp(name.data()) != nullptr) path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

}  // namespace strata
