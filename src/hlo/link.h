// Computations of a text, which call each other by name, as a module.
#pragma once

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "hlo/cursor.h"
#include "hlo/hlo.h"

namespace strata::hlo {

/// A computation as it stands in the text, with its calls by name.
struct ParsedComputation {
  Computation computation;
  std::vector<std::vector<std::pair<std::string, size_t>>> called;  ///< of each instruction
  size_t offset = 0;                                                ///< of its name
};

/// Puts called computations before their callers, and ids in the place of names. `places` has each computation's number
/// by its name. Error where one is missing, calls itself, or calls are nested too deeply. The module is not verified.
Result<std::shared_ptr<Module>> link(const Cursor& cursor, const std::string& name,
                                     std::vector<ParsedComputation> parsed,
                                     const std::unordered_map<std::string, size_t>& places, size_t entry);

}  // namespace strata::hlo
