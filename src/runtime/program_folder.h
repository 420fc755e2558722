// A program for the launcher in a folder: what `strata optimize -o` and `strata emit --output` write, and `strata run`
// takes without the text that it was made of.
#pragma once

#include <string>

#include "runtime/gpu_program.h"

namespace strata {

/// The manifest that lies in a folder: program.json, else best.launch.json. Nothing where there is neither.
std::optional<std::string> manifest_in(const std::string& folder);

/// The µGraph that strata optimize wrote beside its code: best.strata. Nothing where there is none.
std::optional<std::string> graph_in(const std::string& folder);

/// The same as manifest_in. Error (Environment) where there is neither.
Result<std::string> check_manifest_in(const std::string& folder);

/// program.json, the modules (MODULE.cubin; MODULE.ptx where the image is PTX) and constants.bin. Error (Unsupported)
/// where a step is the host's, (Environment) where a file cannot be written. The folder is made where it is missing.
Result<void> write_program(const ProgramImage& image, const std::string& folder);

/// What such a folder holds, of the cubins the one for `arch` ("sm_90a"). Error (Environment) where a file is missing,
/// (InvalidInput) where the manifest is none or modules are for another architecture.
Result<ProgramImage> read_program(const std::string& folder, const std::string& arch);

}  // namespace strata
