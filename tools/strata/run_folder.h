// `strata run` for a folder that holds code.
#pragma once

#include "run_hlo.h"

namespace strata::cli {

/// Runs the program in a folder (runtime/program_folder.h) on the GPU, without what it was made of: prints a line for
/// each result and writes it as NAME.npy. Inputs are named as the manifest names them; others are drawn by their types
/// alone. Of `options`, the module means nothing. Error (Environment) where there is no GPU.
Result<int> run_folder(const std::string& folder, const HloRunOptions& options);

}  // namespace strata::cli
