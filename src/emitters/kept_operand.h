// Updates of arrays that are needed afterwards as they were.
#pragma once

#include <functional>
#include <map>

#include "emitters/emit.h"
#include "emitters/fusion/pass.h"

namespace strata::emitters {

/// By array of a module's entry: the last part that reads it; the number of parts, where it is a result.
std::map<ArrayValue, size_t> last_reads(const hlo::Module& module, const std::vector<ProgramPart>& parts);

/// What becomes of the arrays that a part updates.
enum class Updated {
  Unknown,      ///< it updates none, or some that stay and some that do not
  Kept,         ///< all that it writes are updates of arrays that stay as they were
  Overwritten,  ///< by dynamic-update-slices, beside which it may write other arrays
};

/// Of a part: the updates are those of its root, of inputs that it reads for nothing else. `stays`: whether an input
/// (by number) is needed afterwards as it was.
Updated updated_arrays(const ProgramPart& part, const std::function<bool(size_t)>& stays);

/// The kernels of a part. An update in place of an array that stays would begin with a copy of it: kernels that read it
/// and write all of the result are chosen where they take less time than both. Errors as emit_fusion's.
Result<EmittedFusion> emit_updating(const hlo::Module& module, const std::string& name, const EmitOptions& options,
                                    Updated updated);

}  // namespace strata::emitters
