// An HLO module as a sequence of kernels.
#pragma once

#include <optional>

#include "emitters/emit.h"
#include "emitters/lax/search.h"
#include "emitters/library/calls.h"
#include "hlo/counted_loop.h"
#include "hlo/input_output_alias.h"

namespace strata::emitters {

/// An array that kernels read and write.
struct ProgramBuffer {
  hlo::Shape shape;
  int parameter = -1;                      ///< the entry's parameter that it holds, or none
  int element = -1;                        ///< of a parameter that is a tuple: the leaf (hlo::leaf_of)
  std::optional<hlo::Literal> constant{};  ///< what it holds from the beginning, and is never written
  std::string name{};                      ///< of a parameter: what the module calls it, and its leaf
};

/// What a library computes on the GPU.
struct LibraryLaunch {
  LibraryWork work;
  std::vector<int> arguments;  ///< buffers, the result's last
  std::string reason;
};

struct EmittedProgram;

/// A while loop: programs of its body and, where its iterations are not counted, its condition. Both have one
/// parameter, the state; arrays are its leaves (hlo::leaf_of).
struct LoopStep {
  /// An array of the state.
  struct Leaf {
    int initial = 0;      ///< buffer that holds its first value: `result`, where it has none that anything reads
    int result = -1;      ///< buffer of the last one; -1 where nothing reads it
    bool changes = true;  ///< from iteration to iteration
  };
  std::shared_ptr<const EmittedProgram> body;
  std::shared_ptr<const EmittedProgram> condition;  ///< null where `counted`
  std::vector<Leaf> leaves;
  hlo::Shape state;
  std::optional<hlo::CountedLoop> counted;  ///< the body leaves its counters as they are
  bool once = false;                        ///< it runs once at most; the body leaves what is asked for as it is
  std::string why_not_elements{};           ///< for --explain: why no thread goes through all iterations
};

/// A fusion, or an instruction that has no kernel and that the interpreter runs; and which buffers it reads and writes.
struct ProgramStep {
  std::optional<EmittedFusion> fusion;
  std::optional<LibraryLaunch> library;
  std::optional<LaxStep> lax;
  std::shared_ptr<const LoopStep> loop;
  hlo::ModulePtr interpreted;  ///< without a kernel: what the step computes; of a library's step on the CPU
  std::string why_interpreted;
  std::vector<std::string> notes;  ///< for --explain
  /// By the models, of fusions and libraries' work: other steps are not estimated here.
  std::optional<double> microseconds;
  std::vector<int> inputs, outputs, temporaries;
  /// Of inputs, whether the step reads them only to write over a copy (Preparation): that may be the input itself.
  std::vector<bool> only_copied;
};

/// A result that may, or must, lie in the array of a parameter, which the caller has given away.
struct ResultAlias {
  size_t result = 0;  ///< in EmittedProgram::results
  int parameter = 0;  ///< its buffer
  bool must = false;
};

struct EmittedProgram {
  std::vector<ProgramBuffer> buffers;
  std::vector<ProgramStep> steps;
  std::vector<int> results;  ///< the buffers of the entry's root: one, or those of its tuple
  hlo::Shape result_shape;
  std::vector<std::string> notes;     ///< for --explain
  std::string name{}, result_name{};  ///< of the module, and of its entry's root
  std::vector<ResultAlias> aliases{};
};

/// Whether results share memory with what is between steps, or the caller has memory for each.
enum class ResultMemory : uint8_t { Shared, Own };

/// Cuts the entry into fusions (fusion/pass.h) and emits each; a module whose text has no ENTRY is one fusion, if an
/// emitter takes it whole and several kernels would not be much faster. Before that, parts are given to the
/// superoptimizer (lax/search.h), then products and convolutions to libraries. While loops become steps with programs
/// of their own. Instructions without a kernel become steps of the interpreter's. Error (Unsupported) where that has no
/// meaning for them either. `aliases` (verified) are parameters that the caller gives away to results.
Result<EmittedProgram> emit_program(const hlo::Module& module, const EmitOptions& options = {},
                                    LibraryUse libraries = LibraryUse::WhereFaster, const LaxOptions& lax = {},
                                    const hlo::InputOutputAliases& aliases = {},
                                    ResultMemory results = ResultMemory::Shared);

/// The sum over the steps; none where a step is not estimated.
std::optional<double> estimated_microseconds(const EmittedProgram& program);

/// Runs all kernels on this machine's processor: work of libraries by HLO's interpreter, µGraphs by the reference
/// executor. Arguments are checked against the parameters.
Result<hlo::Literal> run_on_cpu(const EmittedProgram& program, std::span<const hlo::Literal> arguments);

/// The same on arrays in memory. `given`, by buffer of the program: the caller's memory of each parameter, constant and
/// result, in the layout of its shape and aligned to kHostAlignment; null where the program takes memory of its own,
/// which it has to of all others. May be called by several threads at once.
Result<void> run_on_cpu(const EmittedProgram& program, std::span<std::byte* const> given);
constexpr size_t kHostAlignment = 16;

/// A counter before an iteration, or after the last.
hlo::Literal counter_value(const LoopStep& loop, const hlo::CountedLoop::Counter& counter, int64_t iteration);

/// The program's result of the arrays of its `results`.
hlo::Literal assemble_results(const EmittedProgram& program, const std::vector<hlo::Literal>& arrays);

/// The decision of each fusion and what it reads and writes: `strata emit --explain`.
std::string explain(const EmittedProgram& program);

}  // namespace strata::emitters
