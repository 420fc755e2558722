// Work that may not end or may exhaust memory, and that nothing inside it can interrupt: in a process of its own.
#pragma once

#include <functional>
#include <optional>
#include <stop_token>
#include <string>

namespace strata {

/// What `work` returns, computed in a copy of this process (fork) that is killed as soon as `stop` is requested.
/// nullopt where it was killed, threw or crashed. `work` sees memory as it is now and changes only its own copy. In a
/// process with other threads it must not need a lock that these may hold: no libraries that they use, no output; the
/// C library's allocator is safe. Thread-safe.
std::optional<std::string> in_child_process(const std::stop_token& stop, const std::function<std::string()>& work);

}  // namespace strata
