// What all measurements of one program share: files of its inputs, and of the outputs that are right.
#pragma once

#include <filesystem>
#include <map>
#include <stop_token>
#include <string>

#include "ir/graph.h"

namespace strata {

struct TuneReference {
  std::map<std::string, std::string> inputs;    ///< .npy by name
  std::map<std::string, std::string> expected;  ///< .npy by name; empty where the interpreter would take too long
};

/// Writes random inputs and, where execution_work() is at most `largest_interpreted`, the interpreter's outputs in
/// float64. Error (Environment) where files cannot be written, (Unsupported) where an output is not finite.
Result<TuneReference> make_reference(const Graph& program, uint64_t seed, double largest_interpreted,
                                     const std::filesystem::path& folder, const std::stop_token& stop);

}  // namespace strata
