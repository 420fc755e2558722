#pragma once

#include <string>
#include <string_view>

#include "support/error.h"

namespace strata {

/// What may stand before a text in UTF-8; it means nothing.
inline constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

/// The bytes of a file. Error (Environment) where it is missing, a folder or cannot be read.
Result<std::string> read_file(const std::string& path);

}  // namespace strata
