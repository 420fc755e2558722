// The only way in which files are written.
#pragma once

#include <string>
#include <string_view>

#include "support/error.h"

namespace strata {

enum class Sync : uint8_t {
  Disk,  ///< a power failure leaves the old file or the new one, whole
  None   ///< of files that do not outlive the process
};

/// Makes a file of a new, unpredictable name in the same folder and renames it: no reader ever sees half of it, what
/// was there before stays until the end, writers at the same time do not disturb each other, and no symbolic link is
/// followed: one at `path` is replaced. Devices, pipes and what lies below /dev and /proc are written in place. Error
/// (Environment), naming the file and the reason.
Result<void> write_file(const std::string& path, std::string_view contents, Sync sync = Sync::Disk);

/// All of it to an open file, pipe or socket; an interrupted or partial write goes on. 0, or the error's number.
int write_all(int file, std::string_view contents);

}  // namespace strata
