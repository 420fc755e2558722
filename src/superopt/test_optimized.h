// What must hold of the result for any program: for the tests and for tests/random_programs by hand.
#pragma once

#include "ir/validate.h"
#include "runtime/launch_accesses.h"
#include "superopt/codegen/launcher.h"
#include "superopt/superoptimize.h"
#include "superopt/test_random_programs.h"

namespace strata {

/// Little work for a program: results are not the best, but must be right all the same.
inline SuperoptimizeOptions hasty_options(double time_limit) {
  SuperoptimizeOptions options;
  options.search.target = &targets().back();
  options.search.threads = 1;
  options.search.time_limit = time_limit;
  options.search.max_kernel_ops = 3;
  options.search.max_block_ops = 6;
  options.candidates = 2;
  options.solver_time_limit = time_limit;
  options.compile = false;
  return options;
}

/// "" or how two lists of tensors differ by more than the rounding of float64 explains.
inline std::string difference(const std::vector<Tensor<double>>& expected, const std::vector<Tensor<double>>& found) {
  if (expected.size() != found.size()) return fmt::format("{} outputs, not {}", found.size(), expected.size());
  for (size_t n = 0; n < expected.size(); ++n) {
    if (expected[n].shape != found[n].shape) return fmt::format("output {} has another shape", n);
    double largest = 1;
    for (double value : expected[n].data) largest = std::max(largest, std::abs(value));
    for (size_t i = 0; i < expected[n].data.size(); ++i) {
      const double off = std::abs(expected[n].data[i] - found[n].data[i]);
      if (off <= 1e-7 * largest) continue;  // false of NaN
      return fmt::format("element {} of output {} is {}, not {}", i, n, found[n].data[i], expected[n].data[i]);
    }
  }
  return {};
}

/// What is wrong with a result; empty where nothing is.
inline std::string mistake(const RandomProgram& program, const Superoptimized& result) {
  if (result.candidates.empty()) return "no candidate";
  const Candidate& best = result.candidates.front();
  if (best.cost.seconds > result.program_cost.seconds * (1 + 1e-12)) {
    return fmt::format("slower than the program as given: {} after {} µs", best.cost.seconds * 1e6,
                       result.program_cost.seconds * 1e6);
  }
  if (result.whole_check.starts_with("DIFFERENT")) return result.whole_check;
  if (result.code.source.empty()) return "no code";
  const LaunchManifest manifest = manifest_of(result.code);
  for (const GpuStep& step : manifest.steps) {
    if (!step.launch()->library && step.launch()->accesses.empty()) return "a launch that says nothing";
  }
  if (auto told = check_accesses(manifest); !told) return told.error().to_string();
  const bool has_program = std::any_of(result.candidates.begin(), result.candidates.end(),
                                       [&](const Candidate& candidate) { return candidate.graph == program.graph; });
  if (!has_program) return "the program as given is no candidate";
  const auto inputs = program.draw_inputs(7);
  Float64Arithmetic exact;
  const auto expected = execute(*program.graph, exact, inputs);
  if (!expected) return expected.error().to_string();
  for (const Candidate& candidate : result.candidates) {
    const VerifyResult& proof = candidate.verification;
    if (proof.verdict != Verdict::Equivalent || proof.argument.empty()) return "a candidate without a proof";
    const bool tested = proof.method == ProofMethod::Solver || proof.tests > 0;
    if (candidate.graph != program.graph && !tested) return "a proof without a test: " + proof.argument;
    if (proof.method == ProofMethod::FiniteFields && !(proof.error_bound >= 0 && proof.error_bound <= 1e-9)) {
      return fmt::format("a proof with the error bound {}", proof.error_bound);
    }
    if (auto legal = validate(*candidate.graph, targets().back()); !legal) return legal.error().to_string();
    const auto again = parse_graph(print(*candidate.graph));
    if (!again) return "the result is not read back: " + again.error().to_string();
    if (!same_structure(**again, *candidate.graph)) return "the result is read back as another";
    for (size_t n = 0; n < program.graph->outputs().size(); ++n) {
      const std::string& name = program.graph->tensor(program.graph->outputs()[n]).name;
      if (candidate.graph->tensor(candidate.graph->outputs()[n]).name != name) {
        return "output " + name + " is renamed\n" + print(*candidate.graph);
      }
    }
    const auto found = execute(*candidate.graph, exact, inputs);
    if (!found) return found.error().to_string();
    if (auto text = difference(*expected, *found); !text.empty()) return text + "\n" + print(*candidate.graph);
  }
  return {};
}

}  // namespace strata
