// An HLO module as a sequence of kernels.
#pragma once

#include <optional>

#include "emitters/emit.h"
#include "emitters/lax/search.h"
#include "emitters/library/calls.h"

namespace strata::emitters {

/// An array that kernels read and write.
struct ProgramBuffer {
  hlo::Shape shape;
  int parameter = -1;                      ///< the entry's parameter that it holds, or none
  int element = -1;                        ///< of a parameter that is a tuple: the leaf (hlo::leaf_of)
  std::optional<hlo::Literal> constant{};  ///< what it holds from the beginning, and is never written
};

/// What a library computes on the GPU.
struct LibraryLaunch {
  LibraryWork work;
  std::vector<int> arguments;  ///< buffers, the result's last
  std::string reason;
};

/// A fusion, or an instruction that has no kernel and that the interpreter runs; and which buffers it reads and writes.
struct ProgramStep {
  std::optional<EmittedFusion> fusion;
  std::optional<LibraryLaunch> library;
  std::optional<LaxStep> lax;
  hlo::ModulePtr interpreted;  ///< without a kernel: what the step computes; of a library's step on the CPU
  std::string why_interpreted;
  std::vector<std::string> notes;  ///< for --explain
  std::vector<int> inputs, outputs, temporaries;
};

struct EmittedProgram {
  std::vector<ProgramBuffer> buffers;
  std::vector<ProgramStep> steps;
  std::vector<int> results;  ///< the buffers of the entry's root: one, or those of its tuple
  hlo::Shape result_shape;
  std::vector<std::string> notes;  ///< for --explain
};

/// Cuts the entry into fusions (fusion/pass.h) and emits each; a module whose text has no ENTRY is one fusion, if an
/// emitter takes it whole and several kernels would not be much faster. Before that, parts are given to the
/// superoptimizer (lax/search.h), then products and convolutions to libraries. Instructions without a kernel (sort,
/// while, …) become steps of the interpreter's. Error (Unsupported) where that has no meaning for them either.
Result<EmittedProgram> emit_program(const hlo::Module& module, const EmitOptions& options = {},
                                    LibraryUse libraries = LibraryUse::WhereFaster, const LaxOptions& lax = {});

/// Runs all kernels on this machine's processor: work of libraries by HLO's interpreter, µGraphs by the reference
/// executor. Arguments are checked against the parameters.
Result<hlo::Literal> run_on_cpu(const EmittedProgram& program, std::span<const hlo::Literal> arguments);

/// The program's result of the arrays of its `results`.
hlo::Literal assemble_results(const EmittedProgram& program, const std::vector<hlo::Literal>& arrays);

/// The decision of each fusion and what it reads and writes: `strata emit --explain`.
std::string explain(const EmittedProgram& program);

}  // namespace strata::emitters
