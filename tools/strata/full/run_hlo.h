// HLO text, as commands take it.
#pragma once

#include <string>
#include <vector>

#include "../source.h"
#include "hlo/input_output_alias.h"
#include "support/error.h"

namespace strata::cli {

/// The module, with what its header says.
Result<hlo::ModuleText> parse(const Source& source);

/// A line for each array, and NAME.npy in the folder `output`, if it is not empty.
Result<void> report(const std::string& name, const hlo::Literal& literal, const std::string& output);

/// To standard error, as warnings.
void print_warnings(const std::vector<Error>& warnings);

}  // namespace strata::cli
