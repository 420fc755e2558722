// What `strata decode --plan` does.
#pragma once

#include "decode_options.h"

namespace strata::cli {

/// What all forms of tasks are made with, for so many sequences and positions of their caches.
Result<megakernel::DecodeOptions> session_options_of(const DecodeCommand& command, int64_t batch, int64_t capacity);

/// A file that cannot be written is told before the work, not after it. `option` names it, `example` is such a file.
Result<void> check_output_file(const std::string& path, const char* option, const char* example);

/// Plans the step of a model for 1, 2, 4, 8 and 16 sequences and writes them as one file, without weights or a GPU.
Result<int> write_plans(const DecodeCommand& command);

}  // namespace strata::cli
