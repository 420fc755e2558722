// --dim NAME=N and --sizes NAME=N,N,…: sizes of programs with dims.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "ir/sized_program.h"

namespace strata::cli {

/// --dim, into `dims` as the user wrote it; may be repeated.
void add_dim_option(CLI::App& command, std::vector<std::string>& dims, const std::string& help);

/// "tokens=64" as sizes. Error where one is no NAME=N, or is named twice.
Result<DimSizes> read_dims(const std::vector<std::string>& dims);

/// "tokens=1,2,4" as all combinations of sizes, with `fixed` for the other dims. The declared sizes come first, where
/// they are among them, and those near them before others. Error where one is no list, or names a dim of `fixed`.
Result<std::vector<DimSizes>> read_size_table(const std::vector<std::string>& sizes, const DimSizes& fixed,
                                              const SizedProgram& program);

/// "tokens=16,heads=8": the name of an entry's folder.
std::string folder_of(const DimSizes& sizes);

}  // namespace strata::cli
