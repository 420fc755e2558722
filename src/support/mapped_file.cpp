#include "support/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace strata {

Result<MappedFile> MappedFile::open(const std::string& path) {
  const auto failed = [&](const char* why) {
    return with_remedy(environment("cannot read '{}': {}", path, why), "name a file that exists and that you may read");
  };
  // A pipe without a writer would block.
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return failed(std::strerror(errno));
  struct stat about {};
  const bool known = ::fstat(file, &about) == 0;
  if (!known || !S_ISREG(about.st_mode)) {
    const int error = errno;
    ::close(file);
    return failed(known ? "it is no regular file" : std::strerror(error));
  }
  const auto size = static_cast<size_t>(about.st_size);
  void* const memory = size == 0 ? nullptr : ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
  const int error = errno;
  ::close(file);
  if (memory == MAP_FAILED) return failed(std::strerror(error));
  return MappedFile({static_cast<const std::byte*>(memory), size});
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace strata
