// The program or module that a subcommand is given.
#pragma once

#include <span>
#include <string>

#include "ir/sized_program.h"
#include "support/error.h"

namespace strata::cli {

/// A text with the name of where it comes from. It is read once, so that a pipe does as well as a file, and what it is
/// is seen in memory.
struct Source {
  std::string path;  ///< as given: "-" is the standard input
  std::string text;
  bool is_hlo = false;  ///< by its name (.hlo), or by how it begins

  /// Whether it is JSON, as plans of the mega-kernel are, by how it begins: neither a program nor HLO begins so.
  bool is_plan() const {
    const size_t first = text.find_first_not_of(" \t\r\n");
    return first != std::string::npos && text[first] == '{';
  }

  /// At its declared sizes, where these have names.
  Result<GraphPtr> graph() const;
  Result<SizedProgram> program() const;
};

/// Error (Environment) where it cannot be read.
Result<Source> read_source(const std::string& path);

/// Error where the standard input is named more than once: it can be read once.
Result<void> check_standard_input(std::span<const std::string> paths);

}  // namespace strata::cli
