// What is wrong with a command line, in words that name what is wrong and what was meant.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>

#include "support/error.h"

namespace strata::cli {

/// A word without contents, which CLI11 takes for no value at all or an option for its default: `--cache ''` and
/// `--time-limit=`, whose value would be the word behind it. Nothing where there is none.
std::optional<Error> empty_word(int count, const char* const* words);

/// The error of a command line that `app` did not take. A word that nothing expects comes before everything else that
/// is wrong: it is often why something else is missing.
Error usage_error(const CLI::App& app, const CLI::ParseError& error, int count, const char* const* words);

}  // namespace strata::cli
