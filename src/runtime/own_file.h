// The file that Strata's code was loaded from: an executable, or the extension of a Python package.
#pragma once

#include <link.h>

#include <filesystem>

namespace strata {

/// Whether a loaded object holds this code.
bool is_own(const dl_phdr_info& object);

/// Of an executable what /proc/self/exe leads to.
std::filesystem::path own_file();

}  // namespace strata
