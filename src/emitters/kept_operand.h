// Updates of arrays that are needed afterwards as they were.
#pragma once

#include <map>

#include "emitters/emit.h"
#include "emitters/fusion/pass.h"

namespace strata::emitters {

/// By array of a module's entry: the last part that reads it; the number of parts, where it is a result.
std::map<ArrayValue, size_t> last_reads(const hlo::Module& module, const std::vector<ProgramPart>& parts);

/// The inputs of a part that its root updates and that it reads for nothing else: of a scatter, and of
/// dynamic-update-slices, of which there may be several. None of other parts.
std::vector<size_t> updated_inputs(const ProgramPart& part);

/// The kernels of such a part, whose inputs stay as they are: updates in place would begin with copies of them. So
/// kernels that read them and write all of the results are chosen where they take less time than both. Errors as
/// emit_fusion's.
Result<EmittedFusion> emit_keeping(const hlo::Module& module, const std::string& name, const EmitOptions& options);

}  // namespace strata::emitters
