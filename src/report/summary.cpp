#include "report/summary.h"

#include <algorithm>
#include <set>

#include "report/report.h"
#include "superopt/codegen/glue_operators.h"
#include "superopt/codegen/libraries.h"

namespace strata {
namespace {

std::string kernels(int count) { return fmt::format("{} kernel{}", count, count == 1 ? "" : "s"); }

/// `itself`: the best is the input's graph, whose operators share kernels; beside it the input has one for each.
std::string compared(bool itself, double best_us, double input_us) {
  const double ratio = input_us / best_us;
  const char* const input =
      itself ? "the same operators in kernels of their own, which take" : "the input, which takes";
  if (ratio >= 1.005) return fmt::format("{:.2f} times as fast as {} {:.2f} µs", ratio, input, input_us);
  if (ratio <= 0.995) return fmt::format("slower than {} {:.2f} µs", input, input_us);
  return fmt::format("as fast as {} {:.2f} µs", input, input_us);
}

}  // namespace

std::string describe_proof(const VerifyResult& proof) {
  if (proof.method == ProofMethod::Solver) return fmt::format("by the solver, {}", proof.argument);
  return fmt::format("{} random tests, error bound {:.3g} ({})", proof.tests, proof.error_bound, proof.argument);
}

std::string name_proof(const VerifyResult& proof) {
  if (proof.method == ProofMethod::Solver) return "proved by the solver";
  if (proof.tests == 0) return proof.argument;
  return fmt::format("error bound {:.3g}", proof.error_bound);
}

std::string describe_input(const Superoptimized& result) {
  if (!uses_library(result.program_schedules)) return "input";
  std::vector<std::string> libraries;
  for (const LibraryCall& call : plan_libraries(*result.program, result.program_schedules).calls) {
    for (const LibraryWork& work : call.work()) libraries.emplace_back(library_of(work));
  }
  std::sort(libraries.begin(), libraries.end());
  libraries.erase(std::unique(libraries.begin(), libraries.end()), libraries.end());
  return fmt::format("input (with {})", fmt::join(libraries, " and "));
}

std::string headline(const Superoptimized& result, const Profile& profile) {
  const Candidate& best = result.candidates.front();
  const bool itself = best.graph == result.program && best.cost.kernels != result.program_cost.kernels;
  if (best.cost.kernels == 0 && result.program_cost.kernels == 0) return "no kernel: every output is an input";
  const std::string counts =
      fmt::format("{} in place of {}", kernels(best.cost.kernels), kernels(result.program_cost.kernels));
  if (profile.tuning) {
    const TunedRow& chosen = profile.tuning->result();
    const TunedRow& given = profile.tuning->program();
    const auto right = [](const TunedRow& row) { return row.measurement.verdict == MeasureVerdict::Right; };
    if (right(chosen) && right(given)) {
      return fmt::format("{}: {:.2f} µs, measured on {} with cold caches; {}", counts, chosen.measurement.cold_us,
                         profile.tuning->device.name,
                         compared(itself, chosen.measurement.cold_us, given.measurement.cold_us));
    }
  }
  return fmt::format("{}: {:.2f} µs, estimated and not measured; {} by the same estimate", counts,
                     best.cost.seconds * 1e6,
                     compared(itself, best.cost.seconds * 1e6, result.program_cost.seconds * 1e6));
}

std::string describe_order(const Superoptimized& result) {
  const auto least =
      std::min_element(result.candidates.begin(), result.candidates.end(),
                       [](const Candidate& a, const Candidate& b) { return a.cost.seconds < b.cost.seconds; });
  const Candidate& best = result.candidates.front();
  if (least->cost.seconds >= best.cost.seconds || cheaper(least->cost, best.cost)) return {};
  return fmt::format(
      "candidate {} is estimated at {:.2f} µs and the best at {:.2f} µs: within 2 %, estimates count as "
      "equal, and the one found first comes first",
      least - result.candidates.begin() + 1, least->cost.seconds * 1e6, best.cost.seconds * 1e6);
}

std::string describe_missing_emitters(const Superoptimized& result, const Passes& passes) {
  if (!passes.emission || passes.emitter) return {};
  const Candidate& best = result.candidates.front();
  std::set<std::string_view> names;
  for (const size_t i : glue_operations(*best.graph, best.schedules)) names.insert(best.graph->operations()[i].name());
  return names.empty() ? "" : fmt::format("this build has no emitters: a kernel for each {}", fmt::join(names, ", "));
}

}  // namespace strata
