// A module's entry, cut into parts, as a program: its buffers and steps, and the kernels of each. Folder-internal.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "emitters/fusion/recompute.h"
#include "emitters/program.h"

namespace strata::emitters {

/// What a program is of: a module, a loop's body or its condition.
struct ProgramSetting {
  Parameters parameters = Parameters::Kept;        ///< what becomes of the arrays that it is given
  const hlo::InputOutputAliases* given = nullptr;  ///< of a module: those that the caller gives away
  std::string prefix{};                            ///< of kernels' names
  const LoopStep* repeated = nullptr;  ///< the loop whose body it is, where its iterations may have steps in common
  std::vector<bool>* invariant_steps = nullptr;  ///< of a body: by step, whether it gives the same in each iteration
};

/// What is decided before kernels are made: the parts of an entry, and of its calls who computes them. All maps are by
/// instructions' names.
struct CutEntry {
  hlo::Module module;
  std::vector<ProgramPart> parts;
  std::map<std::string, LibraryCall> calls;
  std::map<std::string, std::string> kept;  ///< of products and convolutions that stay kernels, why
  std::map<std::string, LaxStep> lax;
};

/// A step for each part. Of loops, the body and the condition are compiled by compile_program(). Errors: those of
/// emit_program().
Result<EmittedProgram> build_program(const CutEntry& entry, const EmitOptions& options, LibraryUse libraries,
                                     const ProgramSetting& setting);

/// The whole entry as the kernels of one fusion, where an emitter takes it; not where several fusions would be much
/// faster, unless `options` name the emitter.
std::optional<EmittedProgram> build_whole(const hlo::Module& module, const EmitOptions& options,
                                          const ProgramSetting& setting);

/// All stages (pipeline.cpp), of a module or of a computation of its loops.
Result<EmittedProgram> compile_program(const hlo::Module& module, const EmitOptions& options, LibraryUse libraries,
                                       const LaxOptions& lax, const ProgramSetting& setting);

}  // namespace strata::emitters
