// The report of a module, where the command line asks for one.
#pragma once

#include <optional>
#include <string>

#include "emitters/program_report.h"
#include "support/error.h"

namespace strata::cli {

/// A page, or where the file's name ends in .json what it is made of, which `strata explain` takes too.
Result<void> write_module_report(const std::string& path, const std::string& json);

}  // namespace strata::cli
