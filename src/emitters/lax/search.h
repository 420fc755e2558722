// Parts of a module given to the superoptimizer.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "emitters/lax/parts.h"
#include "emitters/lax/steps.h"
#include "emitters/library/calls.h"
#include "machine/target.h"
#include "runtime/result_cache.h"

namespace strata::emitters {

struct LaxOptions {
  double seconds = 0;            ///< to search each different part; 0: no module has parts
  int threads = 1;               ///< of searches and proofs
  ResultCache* cache = nullptr;  ///< of results and cubins; none where null. Not owned.
  /// Where above 0, candidates of each different part are measured on the machine's GPU for so many seconds, and the
  /// fastest is taken (superopt/tune.h).
  double measure_seconds = 0;
  /// Microseconds of a part on the machine's GPU: as a step, or, where that is null, as kernels and libraries' work.
  /// Where set, it decides in place of the models which of the two is taken.
  std::function<Result<double>(const hlo::Module& part, const LaxStep* step)> microseconds;
};

struct LaxSearch {
  hlo::Module module;                    ///< with a call for each part that is taken
  std::map<std::string, LaxStep> steps;  ///< by the calls' names
  std::vector<std::string> notes;        ///< of each part that is not taken, why
};

/// Why a µGraph that computes the program must not take its place; empty where it may:
///   - of programs with values in f32 (LaxProgram::wide_values), one with values between kernels in fewer bits;
///   - of programs that exponentiate what they read without a product before, one that rescales sums from one maximum
///   to
///     another: such a program may read −∞ where nothing counts (masks), and a tile of that alone has no maximum.
std::string objection(const Graph& graph, const LaxProgram& program);

/// Searches each different part of the entry (parts.h) once. One is taken where its best proved µGraph without
/// objections is faster than what the emitters and libraries would do.
LaxSearch search_lax_parts(const hlo::Module& module, const Target& target, const LaxOptions& options,
                           LibraryUse libraries);

}  // namespace strata::emitters
