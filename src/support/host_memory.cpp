#include "support/host_memory.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include "support/read_file.h"

namespace strata {
namespace {

/// "max", or no file, where there is no limit.
int64_t limit_in(const std::string& path) {
  constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  const auto text = read_file(path);
  int64_t bytes = kNone;
  if (text && std::from_chars(text->data(), text->data() + text->size(), bytes).ec != std::errc()) return kNone;
  return bytes;
}

}  // namespace

int64_t host_memory_bytes() {
  const int64_t all = int64_t{sysconf(_SC_PHYS_PAGES)} * int64_t{sysconf(_SC_PAGESIZE)};
  return std::min(
      {all, limit_in("/sys/fs/cgroup/memory.max"), limit_in("/sys/fs/cgroup/memory/memory.limit_in_bytes")});
}

Result<void> check_host_memory(double bytes, const std::string& what, std::string remedy) {
  constexpr double kGiB = 0x1p30;
  const auto there = static_cast<double>(host_memory_bytes());
  if (bytes <= there) return {};
  return tl::unexpected(Error{
      ErrorCode::Environment,
      fmt::format("{} takes {:.1f} GiB of memory and this machine has {:.1f} GiB", what, bytes / kGiB, there / kGiB),
      std::move(remedy),
      {}});
}

}  // namespace strata
