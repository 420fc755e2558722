// Completions of the command line for shells, from the same options that --help lists.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace strata::cli {

/// Scripts to source: of bash, of zsh (or a file `_strata` in its fpath), of fish.
std::string bash_completions(const CLI::App& app);
std::string zsh_completions(const CLI::App& app);
std::string fish_completions(const CLI::App& app);

}  // namespace strata::cli
