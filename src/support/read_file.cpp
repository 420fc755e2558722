#include "support/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace strata {
namespace {

/// Closes what it was given, but not the standard input.
class Descriptor {
 public:
  explicit Descriptor(const std::string& path)
      : borrowed_(path == kStandardInput),
        number_(borrowed_ ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~Descriptor() {
    if (!borrowed_ && number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int number() const { return number_; }

 private:
  bool borrowed_;
  int number_;
};

}  // namespace

std::string shown_path(const std::string& path) { return path == kStandardInput ? "<stdin>" : path; }

// No stream of the standard library: those of pipes and folders throw where a read fails, and do not say why.
Result<std::string> read_file(const std::string& path) {
  const auto failed = [&] {
    return with_remedy(environment("cannot read '{}': {}", shown_path(path), std::strerror(errno)),
                       "name a file that exists and that you may read");
  };
  const Descriptor file(path);
  if (file.number() < 0) return failed();
  struct stat about {};
  if (::fstat(file.number(), &about) != 0) return failed();
  if (S_ISDIR(about.st_mode))
    return with_remedy(environment("cannot read '{}': it is a folder", shown_path(path)), "name a file in it");
  constexpr size_t kBlock = 1 << 20;
  std::string bytes;
  for (size_t size = 0;;) {
    // One byte more than is expected, so that the end shows without another block.
    const size_t expected = S_ISREG(about.st_mode) ? static_cast<size_t>(about.st_size) + 1 : 0;
    bytes.resize(std::max(expected, size + (size < expected ? 1 : kBlock)));
    const ssize_t got = ::read(file.number(), bytes.data() + size, bytes.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed();
    size += static_cast<size_t>(got);
    if (got > 0) continue;
    bytes.resize(size);
    return bytes;
  }
}

}  // namespace strata
