// What is said beside the result, on the standard error.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>

namespace strata::cli {

/// From now on no notice is printed: --quiet.
void say_nothing();
/// From now on they are, as at the beginning.
void say_notices();
bool is_quiet();

/// Prints a message or progress. Where it cannot be printed, the standard error closed or on a full disk, it is lost,
/// and nothing else is: fmt::print would throw.
template <class... Args>
void notice(fmt::format_string<Args...> text, Args&&... args) {
  if (is_quiet()) return;
  const std::string message = fmt::format(text, std::forward<Args>(args)...);
  std::fwrite(message.data(), 1, message.size(), stderr);
}

}  // namespace strata::cli
