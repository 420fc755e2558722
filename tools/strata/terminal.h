// How text looks on a terminal: only there, and not where the user wants no colour.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace strata::cli {

/// Sequences that begin and end emphasis; all empty where there is none.
struct Style {
  std::string_view strong, wrong, plain;
};

/// Empty where the stream is no terminal, NO_COLOR is set to anything (https://no-color.org), or TERM is "dumb".
inline Style style_of(std::FILE* stream) {
  const char* const without = std::getenv("NO_COLOR");
  const char* const terminal = std::getenv("TERM");
  const bool dumb = terminal == nullptr || std::string_view(terminal) == "dumb";
  if (isatty(fileno(stream)) == 0 || dumb || (without != nullptr && *without != '\0')) return {};
  return {"\x1b[1m", "\x1b[1;31m", "\x1b[0m"};
}

}  // namespace strata::cli
