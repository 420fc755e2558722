// What is wrong with a command line, in words that name what is wrong and what was meant.
#pragma once

#include <CLI/CLI.hpp>

#include "support/error.h"

namespace strata::cli {

/// The error of a command line that `app` did not take. A word that nothing expects comes before everything else that
/// is wrong: it is often why something else is missing.
Error usage_error(const CLI::App& app, const CLI::ParseError& error, int count, const char* const* words);

}  // namespace strata::cli
