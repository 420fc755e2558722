#include <set>

#include "commands.h"
#include "interpret/work.h"
#include "ir/text.h"
#include "options.h"
#include "size_options.h"
#include "source.h"
#include "superopt/decide.h"
#include "support/read_file.h"

namespace strata::cli {
namespace {

struct Options {
  std::string reference, candidate;
  std::vector<std::string> dims;  ///< as the user wrote them
  double delta = 1e-12;
  uint64_t seed = 1;
  double time_limit = 120;
  double solver_time_limit = 10;
};

/// Numbers of a small tensor; of a large one the first.
std::string values_text(const Tensor<double>& tensor) {
  constexpr size_t kShown = 16;
  const std::span<const double> shown(tensor.data.data(), std::min(kShown, tensor.data.size()));
  return fmt::format("{}{}", fmt::join(shown, ", "), tensor.data.size() > kShown ? ", …" : "");
}

/// What the finite fields show.
int report_fields(const VerifyResult& result, const Options& options) {
  if (result.verdict == Verdict::Equivalent) {
    fmt::print("equivalent: {} random tests over finite fields, error bound {:.3g}\n  {}\n", result.tests,
               result.error_bound, result.argument);
    return kSuccess;
  }
  fmt::print("different: {}\n", result.reason);
  if (const auto& entry = result.counterexample) {
    fmt::print("  {}[{}] is {} in {} and {} in {} (field elements; inputs of seed {})\n", entry->output,
               fmt::join(entry->index, ", "), entry->expected, options.reference, entry->found, options.candidate,
               entry->seed);
  }
  return kDifferent;
}

/// What the solver says of what the finite fields leave undecided, for `reason`.
int report_solver(const SolverResult& result, const Options& options, const std::string& reason) {
  const auto tried = [&] {
    fmt::print("  finite fields: {}\n", reason);
    for (const std::string& step : result.steps) fmt::print("  solver: {}\n", step);
  };
  switch (result.verdict) {
    case Verdict::Equivalent:
      fmt::print("equivalent: by the solver, {}\n", result.argument);
      tried();
      return kSuccess;
    case Verdict::Different:
      fmt::print("different: {}\n", result.reason);
      if (const auto& entry = result.counterexample) {
        fmt::print("  {}[{}] is {} in {} and {} in {}{}\n", entry->output, fmt::join(entry->index, ", "),
                   entry->expected, options.reference, entry->found, options.candidate,
                   entry->shrunk ? " (shapes shrunk)" : "");
        for (const auto& [name, tensor] : entry->inputs) {
          fmt::print("  {}: f64{} = {}\n", name, to_string(tensor.shape), values_text(tensor));
        }
      }
      tried();
      return kDifferent;
    case Verdict::Undecided:
      fmt::print("cannot be decided: {}; the solver: {}\n", reason, result.reason);
      tried();
      return kBadInput;
  }
  return kBadInput;
}

/// Error where a size is given to a dim that neither program has.
Result<void> check_dims(const SizedProgram& first, const SizedProgram& second, const DimSizes& sizes,
                        const Options& options) {
  std::set<std::string> known;
  for (const SizedProgram* program : {&first, &second}) {
    for (const SizedProgram::Dim& dim : program->dims) known.insert(dim.name);
  }
  for (const auto& [name, size] : sizes) {
    if (known.contains(name)) continue;
    return with_remedy(invalid("neither '{}' nor '{}' has a dim '{}'", shown_path(options.reference),
                               shown_path(options.candidate), name),
                       known.empty() ? "leave --dim out: their sizes are numbers"
                                     : fmt::format("name one of these: {}", fmt::join(known, ", ")));
  }
  return {};
}

/// A program at those of the sizes that are of its own dims.
Result<GraphPtr> at_own_sizes(const SizedProgram& program, const DimSizes& sizes) {
  DimSizes own;
  for (const auto& [name, size] : sizes) {
    if (program.find_dim(name) != nullptr) own.emplace(name, size);
  }
  return program.at(own);
}

Result<int> run(const Options& options) {
  STRATA_CHECK(check_standard_input(std::array{options.reference, options.candidate}));
  STRATA_TRY(const DimSizes sizes, read_dims(options.dims));
  STRATA_TRY(const Source first_source, read_source(options.reference));
  STRATA_TRY(const SizedProgram first, first_source.program());
  STRATA_TRY(const Source second_source, read_source(options.candidate));
  STRATA_TRY(const SizedProgram second, second_source.program());
  STRATA_CHECK(check_dims(first, second, sizes, options));
  STRATA_TRY(const GraphPtr reference, at_own_sizes(first, sizes));
  STRATA_TRY(const GraphPtr candidate, at_own_sizes(second, sizes));
  STRATA_CHECK(check_execution_memory(*reference));
  STRATA_CHECK(check_execution_memory(*candidate));
  VerifyOptions verification;
  verification.delta = options.delta;
  verification.seed = options.seed;
  verification.time_limit = options.time_limit;
  SolverOptions solving;
  solving.time_limit = options.solver_time_limit;
  solving.seed = options.seed;
  STRATA_TRY(const Decision decision, decide(*reference, *candidate, verification, solving));
  return decision.solver ? report_solver(*decision.solver, options, decision.fields.reason)
                         : report_fields(decision.fields, options);
}

}  // namespace

void add_verify(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand(
      "verify",
      "Whether B computes what A does wherever A is defined: exit code 0 equivalent, 1 different, 2 cannot be decided");
  command->add_option("A", options->reference, "a .strata file; - is the standard input")->required();
  command->add_option("B", options->candidate, "a .strata file with the same inputs and outputs")->required();
  add_dim_option(*command, options->dims,
                 "NAME=N: the size of a dim of A, of B or of both (else as declared); may be repeated");
  add_probability(*command, "--delta", options->delta, "accept different programs with at most this probability");
  add_number<uint64_t>(*command, "--seed", options->seed, {}, "of the random inputs");
  add_seconds(*command, "--time-limit", options->time_limit, 1e6, "seconds for the random tests over finite fields");
  add_seconds(*command, "--solver-time-limit", options->solver_time_limit, 1e6,
              "seconds to prove what the finite fields leave undecided");
  command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace strata::cli
