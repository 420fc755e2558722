// Who can change what a path leads to.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

namespace strata {

/// Why a file must not be trusted for where it lies; empty where it may be: every folder and symbolic link on the way
/// to it, and the file itself, belongs to root, to the caller or to `owner`, and nobody else can write it. Folders with
/// the sticky bit may be written by all, since what lies in them is checked in turn. A group may write where it is the
/// owner's own, of the same number.
std::string why_not_trusted(const std::filesystem::path& path, uid_t owner);

/// The owner of a file; root where there is none.
uid_t owner_of(const std::filesystem::path& path);

}  // namespace strata
