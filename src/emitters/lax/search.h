// Parts of a module given to the superoptimizer.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "emitters/lax/parts.h"
#include "emitters/lax/steps.h"
#include "emitters/library/calls.h"
#include "machine/target.h"
#include "runtime/result_cache.h"
#include "support/deadline.h"

namespace strata::emitters {

struct LaxOptions {
  /// To search, prove, compile and measure all parts of a module, loops' bodies included; 0: no module has parts. Code
  /// of the last part may end a second or two later.
  double seconds = 0;
  int threads = 1;               ///< of searches and proofs
  ResultCache* cache = nullptr;  ///< of decisions, results and cubins; none where null. Not owned.
  /// Whether candidates of each different part are measured on the machine's GPU, and the fastest is taken
  /// (superopt/tune.h), in half of its time.
  bool measures = false;
  /// Microseconds of a part on the machine's GPU: as a step, or, where that is null, as kernels and libraries' work.
  /// Where set, it decides in place of the models which of the two is taken.
  std::function<Result<double>(const hlo::Module& part, const LaxStep* step)> microseconds;
  std::string device;         ///< what `microseconds` measures, name and driver; part of the cache's keys
  std::stop_token stop = {};  ///< the user's request to end the search at once
  /// The end of `seconds`. Made at the first part where it is empty.
  std::optional<Deadline> deadline = {};
  /// Told in a line what is searched and how far it is, now and then, nothing of what the cache knows; an empty
  /// line when a search ends. One call at a time, from any thread.
  std::function<void(const std::string& line)> progress = {};
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

/// Searches each different part of the entry (parts.h) once: first those that take longest, all their copies together,
/// each with its share of the time that is left. One is taken where its best proved µGraph without objections is faster
/// than what the emitters and libraries would do, with what it costs around it (surroundings.h). What was decided in as
/// much time before comes from the cache, and only its graph is proved anew.
LaxSearch search_lax_parts(const hlo::Module& module, const Target& target, const LaxOptions& options,
                           LibraryUse libraries);

}  // namespace strata::emitters
