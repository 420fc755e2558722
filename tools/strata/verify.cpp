#include "superopt/verify/verify.h"

#include "commands.h"
#include "ir/text.h"

namespace strata::cli {
namespace {

struct Options {
  std::string reference, candidate;
  double delta = 1e-12;
  uint64_t seed = 1;
};

Result<int> run(const Options& options) {
  STRATA_TRY(const GraphPtr reference, load_graph(options.reference));
  STRATA_TRY(const GraphPtr candidate, load_graph(options.candidate));
  VerifyOptions verification;
  verification.delta = options.delta;
  verification.seed = options.seed;
  STRATA_TRY(const VerifyResult result, verify(*reference, *candidate, verification));
  switch (result.verdict) {
    case Verdict::Equivalent:
      fmt::print("equivalent: {} random tests over finite fields, error bound {:.3g}\n  {}\n", result.tests,
                 result.error_bound, result.argument);
      return kSuccess;
    case Verdict::Different:
      fmt::print("different: {}\n", result.reason);
      if (const auto& entry = result.counterexample) {
        fmt::print("  {}[{}] is {} in {} and {} in {} (field elements; inputs of seed {})\n", entry->output,
                   fmt::join(entry->index, ", "), entry->expected, options.reference, entry->found, options.candidate,
                   entry->seed);
      }
      return kDifferent;
    case Verdict::Undecided:
      fmt::print("cannot be decided: {}\n", result.reason);
      return kBadInput;
  }
  return kBadInput;
}

}  // namespace

void add_verify(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand(
      "verify",
      "Whether B computes what A does wherever A is defined: exit code 0 equivalent, 1 different, 2 cannot be decided");
  command->add_option("A", options->reference, "a .strata file")->required();
  command->add_option("B", options->candidate, "a .strata file with the same inputs and outputs")->required();
  command->add_option("--delta", options->delta, "accept different programs with at most this probability")
      ->check(probability())
      ->capture_default_str();
  command->add_option("--seed", options->seed, "of the random inputs")->check(unsigned_number())->capture_default_str();
  command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace strata::cli
