#pragma once

#include <string>
#include <string_view>

#include "support/error.h"

namespace strata {

/// What may stand before a text in UTF-8; it means nothing.
inline constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

/// The path that means the standard input, which can be read once.
inline constexpr const char* kStandardInput = "-";

/// The bytes of a file, a pipe or the standard input. Error (Environment) with the reason where it is missing, a folder
/// or cannot be read.
Result<std::string> read_file(const std::string& path);

/// What messages call a path: itself, or "<stdin>".
std::string shown_path(const std::string& path);

}  // namespace strata
