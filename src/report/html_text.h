// The prose of report.html that is the same for every program.
#pragma once

#include <string_view>

namespace strata {

/// <dl> of the terms that the report uses.
std::string_view glossary();

/// How to read a drawing, as a paragraph.
std::string_view drawing_legend();

}  // namespace strata
