// Reports in words: short sentences on what was done, what it came to and why, what is known for certain, and what was
// left undone. `strata explain` prints them and pages begin with them.
#pragma once

#include <string>
#include <vector>

#include "report/json_access.h"

namespace strata {

struct Paragraph {
  std::string title;
  std::vector<std::string> sentences;
};

struct Explanation {
  std::string kind;      ///< "search", "module", "benchmark"
  std::string title;     ///< what it is of
  std::string headline;  ///< what it comes to
  std::vector<Paragraph> paragraphs;
};

/// Of report.json of `strata optimize`.
Explanation explain_search(const Json& report);
/// Of report.json of `strata emit` and `strata run --report`.
Explanation explain_module(const Json& report);
/// Of a file of bench/results.
Explanation explain_bench(const Json& report);

std::string to_text(const Explanation& explanation);
Json to_json(const Explanation& explanation);
/// The paragraphs as markup.
std::string to_html(const Explanation& explanation);

/// "1 kernel", "7 kernels".
std::string counted(int64_t number, std::string_view what);

}  // namespace strata
