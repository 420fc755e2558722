// The text format of µGraphs: input programs, results, test cases and cache keys are written in it.
// docs/text-format.md has the grammar. A printed graph parses to an equal graph and prints to the same bytes.
#pragma once

#include <string>
#include <string_view>

#include "ir/graph.h"

namespace strata {

/// One kernel graph. Errors carry `file`, line and column, and what was expected.
Result<GraphPtr> parse_graph(std::string_view text, const std::string& file = "<input>");

/// Reads and parses a file. Error (Environment) where it cannot be read.
Result<GraphPtr> load_graph(const std::string& path);

/// The canonical text, ending in a newline: two spaces a level, types after every statement, comments kept.
std::string print(const Graph& graph);

}  // namespace strata
