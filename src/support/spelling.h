// What a misspelt word was meant to be.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace strata {

/// The name that is nearest to `word` in letters inserted, left out, replaced and swapped; empty where none is so near
/// that it is likely meant: more than a third of the letters differ, or two names are equally near.
std::string closest_name(std::string_view word, std::span<const std::string> names);

/// The names, those first that are nearest to `word`.
std::vector<std::string> nearest_first(std::string_view word, std::vector<std::string> names);

/// "; did you mean 'matmul'?", or nothing where no name is near.
std::string did_you_mean(std::string_view word, std::span<const std::string> names);

}  // namespace strata
