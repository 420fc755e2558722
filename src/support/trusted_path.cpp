#include "support/trusted_path.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <deque>

namespace strata {
namespace {

namespace fs = std::filesystem;

/// As the kernel has it.
constexpr int kMostLinks = 40;

bool writable_by_others(const struct stat& status) {
  if ((status.st_mode & S_IWOTH) != 0) return true;
  return (status.st_mode & S_IWGRP) != 0 && status.st_gid != status.st_uid;
}

}  // namespace

uid_t owner_of(const fs::path& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 ? status.st_uid : 0;
}

std::string why_not_trusted(const fs::path& path, uid_t owner) {
  std::error_code failed;
  const fs::path whole = fs::absolute(path, failed);
  std::deque<fs::path> pending(whole.begin(), whole.end());
  fs::path at = "/";
  int links = 0;
  while (!pending.empty()) {
    const fs::path step = pending.front();
    pending.pop_front();
    if (step.empty() || step == ".") continue;
    if (step == "..") {
      at = at.parent_path();
      continue;
    }
    const fs::path next = at / step;  // the root folder where `step` is it
    struct stat status {};
    if (lstat(next.c_str(), &status) != 0) return fmt::format("'{}' does not exist", next.string());
    if (status.st_uid != 0 && status.st_uid != geteuid() && status.st_uid != owner)
      return fmt::format("'{}' belongs to another user", next.string());
    if (S_ISLNK(status.st_mode)) {
      if (++links > kMostLinks) return fmt::format("'{}' is a link without end", next.string());
      const fs::path target = fs::read_symlink(next, failed);
      if (failed) return fmt::format("'{}' cannot be read", next.string());
      pending.insert(pending.begin(), target.begin(), target.end());
      continue;
    }
    const bool sticky = S_ISDIR(status.st_mode) && (status.st_mode & S_ISVTX) != 0;
    if (!sticky && writable_by_others(status)) return fmt::format("others can write '{}'", next.string());
    at = next;
  }
  return {};
}

}  // namespace strata
