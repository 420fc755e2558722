#include "support/write_file.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace strata {
namespace {

/// Names that were taken in a row: with 64 random bits not even two are.
constexpr int kMostAttempts = 16;

tl::unexpected<Error> cannot_write(const std::string& path, int error) {
  const char* remedy = error == EISDIR ? "name a file" : "check the folder's permissions and free space";
  return tl::unexpected(
      Error{ErrorCode::Environment, fmt::format("cannot write '{}': {}", path, std::strerror(error)), remedy, {}});
}

/// Renaming would put a file in the place of a device, as root may.
bool written_in_place(const std::string& path) {
  if (path.starts_with("/dev/") || path.starts_with("/proc/")) return true;
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

int write_in_place(const std::string& path, std::string_view contents) {
  const int file = ::open(path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC);
  if (file < 0) return errno;
  const int error = write_all(file, contents);
  return close(file) != 0 && error == 0 ? errno : error;
}

/// Opens a new file beside `path`; its name comes back in `name`. −1, with errno, where that fails.
int open_beside(const std::string& path, std::string& name) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : path.substr(0, slash + 1);
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    uint64_t random = 0;
    if (getrandom(&random, sizeof random, 0) != sizeof random) return -1;
    name = fmt::format("{}.strata-{:016x}", folder, random);
    // 0666 less the user's mask, as for any file. O_EXCL follows no link.
    const int file = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (file >= 0 || errno != EEXIST) return file;
  }
  return -1;
}

}  // namespace

int write_all(int file, std::string_view contents) {
  while (!contents.empty()) {
    const ssize_t written = ::write(file, contents.data(), contents.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    contents.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

Result<void> write_file(const std::string& path, std::string_view contents, Sync sync) {
  if (written_in_place(path)) {
    if (const int error = write_in_place(path, contents); error != 0) return cannot_write(path, error);
    return {};
  }
  std::string temporary;
  const int file = open_beside(path, temporary);
  if (file < 0) return cannot_write(path, errno);
  int error = write_all(file, contents);
  // Some file systems cannot; what they can is then enough.
  if (error == 0 && sync == Sync::Disk && fsync(file) != 0 && errno != EINVAL && errno != ENOSYS) error = errno;
  if (close(file) != 0 && error == 0) error = errno;
  if (error == 0 && std::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return {};
  unlink(temporary.c_str());
  return cannot_write(path, error);
}

}  // namespace strata
