#pragma once

#include <string>

#include "support/error.h"

namespace strata {

/// The bytes of a file. Error (Environment) where it is missing, a folder or cannot be read.
Result<std::string> read_file(const std::string& path);

}  // namespace strata
