// What a user launches generated kernels with: a C++ program beside best.cu, and the comment that begins best.cu.
#pragma once

#include <string>

#include "superopt/codegen/generate.h"

namespace strata {

/// What a runner needs beside the cubin. Buffers are listed once: an output that is an input is listed as an input.
LaunchManifest manifest_of(const GeneratedProgram& program, ManifestAccesses accesses = ManifestAccesses::Said);

/// A C++17 source that loads a cubin of the program and launches its kernels, by the CUDA driver's interface alone: the
/// functions load() and launch() to take over, and a main() that runs them on files. Error (Unsupported) where a launch
/// is a library's, which the driver's interface has not.
Result<std::string> launcher_program(const GeneratedProgram& program);

/// The source with a comment before it: what to call, with what, and in which lines the kernels are.
std::string annotated_source(const GeneratedProgram& program, const Graph& graph, const Target& target);

}  // namespace strata
