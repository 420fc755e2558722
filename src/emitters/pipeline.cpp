// The stages from an HLO module to a program of kernels, top to bottom (docs/pipeline.md). Each decides one thing, by
// the estimates that it names; what it decided is in the module that the next one gets, or in CutEntry.
#include <algorithm>
#include <utility>

#include "emitters/element_loops.h"
#include "emitters/flatten_module.h"
#include "emitters/fusion/convolution_sums.h"
#include "emitters/fusion/cut_entry.h"
#include "emitters/lax/associative.h"
#include "emitters/library/complex_products.h"
#include "emitters/library/solvers.h"
#include "emitters/program_builder.h"
#include "emitters/program_image.h"
#include "hlo/associative_scans.h"
#include "hlo/carry_conditions.h"
#include "hlo/expand_batch_norms.h"
#include "hlo/expand_bitcast_converts.h"
#include "hlo/expand_conditionals.h"
#include "hlo/expand_linear_algebra.h"
#include "hlo/expand_ragged_dots.h"
#include "hlo/expand_random_bits.h"
#include "hlo/expand_row_scatters.h"
#include "hlo/expand_scans.h"
#include "hlo/expand_select_and_scatter.h"
#include "hlo/expand_solver_calls.h"
#include "hlo/expand_window_scatters.h"
#include "hlo/inline_calls.h"
#include "hlo/iota_indices.h"
#include "hlo/linear_recurrences.h"
#include "hlo/unroll_loops.h"

namespace strata::emitters {
namespace {

/// Loops of elements stay as they are: their threads need no condition of all.
bool has_conditions_to_carry(const hlo::Module& module) {
  return hlo::has_computed_conditions(module, is_element_loop);
}
Result<hlo::Module> with_carried_conditions(const hlo::Module& module) {
  return hlo::carry_conditions(module, is_element_loop);
}

/// Operators that no emitter has, as others, and recurrences as scans; none where the module has no such operators.
Result<std::optional<hlo::Module>> expand_operators(const hlo::Module& module, const EmitOptions& options,
                                                    LibraryUse libraries, const ProgramSetting& setting) {
  std::optional<hlo::Module> expanded;
  const auto now = [&]() -> const hlo::Module& { return expanded ? *expanded : module; };
  if (hlo::has_conditionals(module)) {
    const hlo::InputOutputAliases none;
    STRATA_TRY(expanded, hlo::expand_conditionals(module, setting.given != nullptr ? *setting.given : none));
  }
  const bool solves = hlo::has_solver_calls(now());
  if (solves || hlo::has_linear_algebra(now())) {
    const Solvers solvers = options.only.empty() ? options.solvers : Solvers::None;
    const hlo::IsOfLibrary is_of_library = solver_choice(solvers, libraries, options.target);
    if (solves) {
      STRATA_TRY(expanded, hlo::expand_solver_calls(now(), is_of_library));
    }
    STRATA_TRY(expanded, hlo::expand_linear_algebra(now(), is_of_library));
  }
  for (const auto& [has, expand] :
       {std::pair(&hlo::has_random_bits, &hlo::expand_random_bits),
        std::pair(&hlo::has_scan_operators, &hlo::expand_scans), std::pair(&hlo::has_short_loops, &hlo::unroll_loops),
        std::pair(&has_conditions_to_carry, &with_carried_conditions),
        std::pair(&hlo::has_uneven_bitcast_converts, &hlo::expand_bitcast_converts),
        std::pair(&hlo::has_ragged_dots, &hlo::expand_ragged_dots),
        std::pair(&hlo::has_batch_norms, &hlo::expand_batch_norms),
        std::pair(&hlo::has_iota_indices, &hlo::batch_iota_indices),
        std::pair(&hlo::has_row_scatters, &hlo::expand_row_scatters),
        std::pair(&hlo::has_window_scatters, &hlo::expand_window_scatters),
        std::pair(&hlo::has_select_and_scatter, &hlo::expand_select_and_scatter)}) {
    const bool taken = has == &hlo::has_window_scatters && !options.only.empty();  // the one emitter takes it as it is
    if (taken || !has(now())) continue;
    STRATA_TRY(expanded, expand(now()));
  }
  if (!now().fusion && hlo::may_have_linear_recurrences(now())) expanded = hlo::fold_linear_recurrences(now());
  if (!now().fusion && hlo::longest_scan_recursion(now()) > 0)
    expanded = hlo::fold_associative_scans(now(), is_associative);
  return expanded;
}

/// With the names and the shape that the module gives its result.
EmittedProgram with_result_of(const hlo::Module& module, EmittedProgram program) {
  const hlo::Instruction& root = module.entry_computation().root_instruction();
  program.name = module.name;
  program.result_name = root.name;
  program.result_shape = root.shape;
  return program;
}

ResultAlias alias_of(const hlo::Module& module, const EmittedProgram& program, const hlo::InputOutputAlias& alias) {
  const hlo::Computation& entry = module.entry_computation();
  const auto number = static_cast<int>(alias.parameter);
  const hlo::Shape& shape = entry[entry.parameters[static_cast<size_t>(number)]].shape;
  const int element = shape.is_tuple() ? static_cast<int>(*hlo::leaf_at(shape, alias.parameter_index)) : -1;
  const auto buffer = std::find_if(program.buffers.begin(), program.buffers.end(), [&](const ProgramBuffer& one) {
    return one.parameter == number && one.element == element;
  });
  // Results are the leaves that are arrays.
  const hlo::Shape& result = entry.root_instruction().shape;
  size_t place = 0;
  for (int64_t leaf = 0; leaf < *hlo::leaf_at(result, alias.output); ++leaf)
    place += hlo::leaf_of(result, leaf).is_array() ? 1 : 0;
  return {place, static_cast<int>(buffer - program.buffers.begin()), alias.must};
}

}  // namespace

Result<EmittedProgram> compile_program(const hlo::Module& module, const EmitOptions& options, LibraryUse libraries,
                                       const LaxOptions& lax, const ProgramSetting& setting) {
  const bool is_free = options.only.empty();  // not bound to one emitter
  STRATA_CHECK(hlo::check_calls(module));

  // Operators without emitters become others; then calls are inlined, known values computed, layouts chosen anew.
  STRATA_TRY(const std::optional<hlo::Module> expanded, expand_operators(module, options, libraries, setting));
  const hlo::Module flat = flatten_module(expanded ? *expanded : module, !is_free);

  // A text that is one fusion, or bound to an emitter: one kernel, unless several are estimated to be much faster.
  std::optional<EmittedProgram> whole;
  if (flat.fusion || !is_free) whole = build_whole(flat, options, setting);
  if (whole) return with_result_of(flat, *std::move(whole));

  // Who computes what: first the superoptimizer has parts (lax/search.h), where µGraphs are measured or estimated to be
  // faster; then libraries have products, convolutions and Fourier transforms (library/calls.h), where they are faster
  // by the models of both; kernels compute the rest.
  CutEntry entry;
  std::vector<std::string> notes;
  entry.module = is_free ? with_convolution_sums(split_complex_products(flat, options.target)) : flat;
  if (is_free && lax.seconds > 0) {
    LaxSearch found = search_lax_parts(entry.module, options.target, lax, libraries);
    entry.module = std::move(found.module);
    entry.lax = std::move(found.steps);
    notes = std::move(found.notes);
  }
  if (is_free && libraries != LibraryUse::Never) {
    LibraryCalls found =
        find_library_calls(prepare_for_libraries(entry.module, options.target, libraries), options.target, libraries);
    entry.module = std::move(found.module);
    entry.calls = std::move(found.calls);
    entry.kept = std::move(found.kept);
  }

  // Which operators share a kernel, by the estimates of kernels (fusion/cut_entry.h).
  FusedModule fused = is_free ? cut_entry(entry.module, options.target, setting.parameters)
                              : fuse_recomputing(entry.module, options.target, setting.parameters);
  entry.module = std::move(fused.module);
  entry.parts = std::move(fused.parts);

  // The emitter of each kernel and its tiling (emit.h), its buffers, and loops, whose bodies come through here again.
  STRATA_TRY(EmittedProgram program, build_program(entry, options, libraries, setting));
  program.notes = std::move(notes);
  return with_result_of(flat, std::move(program));
}

Result<EmittedProgram> emit_program(const hlo::Module& module, const EmitOptions& options, LibraryUse libraries,
                                    const LaxOptions& lax, const hlo::InputOutputAliases& aliases,
                                    ResultMemory results) {
  // Those that are not given away are priced as if they were: an update of one stays a kernel of its own all the same.
  const Parameters parameters = aliases.empty() ? Parameters::Kept : Parameters::MayBeOverwritten;
  LaxOptions searches = lax;
  if (!searches.deadline && searches.seconds > 0) searches.deadline = Deadline(searches.seconds, searches.stop);
  STRATA_TRY(EmittedProgram program, compile_program(module, options, libraries, searches, {parameters, &aliases}));
  for (const hlo::InputOutputAlias& alias : aliases) program.aliases.push_back(alias_of(module, program, alias));
  STRATA_CHECK(write_over_operands(program, results));
  return program;
}

}  // namespace strata::emitters
