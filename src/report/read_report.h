// What `strata explain` takes: a folder that optimize or emit wrote, its report.json, or a file of bench/results.
#pragma once

#include <string>

#include "report/words.h"
#include "support/error.h"

namespace strata {

enum class ReportKind { Search, Module, Bench };

struct ReadReport {
  ReportKind kind = ReportKind::Search;
  Json json;
  std::string source;  ///< best.cu, where a folder has one
};

/// Reads a folder, a file or, as "-", the standard input. Error (Environment) where it cannot be read; (InvalidInput)
/// where it is no report.
Result<ReadReport> read_report(const std::string& path);

Explanation explain(const ReadReport& report);
/// The same as a page.
std::string page_of(const ReadReport& report);

}  // namespace strata
