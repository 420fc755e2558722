// Probabilistic equivalence of tensor programs over finite fields (Mirage, OSDI'25, section 5), with a stated error
// bound. docs/verification.md derives the bound and lists what is assumed.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "support/deadline.h"

namespace strata {

struct VerifyOptions {
  double delta = 1e-12;  ///< accept a wrong graph with at most this probability
  uint64_t seed = 1;
  std::optional<FieldPrimes>
      primes{};        ///< of all tests, small ones only in the verifier's own; default: drawn for each
  int max_tests = 64;  ///< Undecided where δ needs more
  double time_limit = Deadline::kNever;  ///< seconds; Undecided where they do not suffice
  std::stop_token stop{};
};

enum class Verdict { Equivalent, Different, Undecided };

/// An entry in which the programs differ, and the seed that draws the inputs again.
struct Counterexample {
  std::string output;
  std::vector<int64_t> index;
  std::string expected;  ///< the first program's value modulo p
  std::string found;
  uint64_t seed = 0;
};

/// What a verdict rests on: random tests over finite fields, or the formulas of superopt/solver at small shapes.
enum class ProofMethod { FiniteFields, Solver };

struct VerifyResult {
  Verdict verdict = Verdict::Undecided;
  ProofMethod method = ProofMethod::FiniteFields;
  int tests = 0;             ///< random tests evaluated
  double error_bound = 1.0;  ///< probability that a different program passes them; meaningful if Equivalent
  std::string argument;      ///< which bound was used, with its numbers, in one line
  std::string reason;        ///< why Different or Undecided
  std::optional<Counterexample> counterexample;
};

/// Compares two kernel graphs whose inputs agree in name and type and whose outputs agree in order and type; Error
/// where they do not, or (Interrupted) when stopped. Different is certain; Equivalent is wrong with probability at most
/// error_bound; Undecided says why.
Result<VerifyResult> verify(const Graph& reference, const Graph& candidate, const VerifyOptions& options = {});

/// Rounding errors of a candidate against the reference program in float64, on random inputs; relative to the largest
/// magnitude of an output.
struct FloatErrors {
  double reference_own = 0;  ///< the reference executed with storage rounded to the program's own types
  double candidate_f32 = 0;
  double candidate_own = 0;
  double candidate_f64 = 0;
  /// All finite, f64 error ≤ 1e-7, f32 error ≤ 1e-4, own error ≤ 4 times the reference's own (or the type's rounding).
  bool acceptable = false;
  /// On inputs of magnitude up to 1e4, with storage rounded to the program's own types, every output entry is finite
  /// that is finite in float64 after rounding to its type.
  bool stable = false;
};

/// float_errors for many candidates of one reference, which is executed once. Thread-safe.
class FloatChecker {
 public:
  /// `exact`: the same function, in a form whose execution in float64 overflows only where the function does; null: the
  /// reference is one.
  FloatChecker(GraphPtr reference, uint64_t seed, GraphPtr exact = nullptr);
  Result<FloatErrors> check(const Graph& candidate, const std::stop_token& stop = {});

 private:
  Result<void> prepare(const std::stop_token& stop);

  GraphPtr reference_;
  GraphPtr exact_;
  uint64_t seed_;
  std::mutex mutex_;
  bool ready_ = false;
  std::vector<Tensor<double>> inputs_;
  std::vector<Tensor<double>> expected_;
  std::vector<Tensor<double>> large_inputs_;
  std::vector<Tensor<double>> large_expected_;
  double reference_own_ = 0;
};

/// `exact` as in FloatChecker.
Result<FloatErrors> float_errors(const Graph& reference, const Graph& candidate, uint64_t seed,
                                 const std::stop_token& stop = {}, GraphPtr exact = nullptr);

/// A screen for the search: verifies candidates against one reference at shrunk shapes, with one test each,
/// remembering answers for structures it has seen. Thread-safe. It may pass a wrong candidate (verify decides) and
/// never refuses an equivalent one.
class Screen {
 public:
  explicit Screen(GraphPtr reference, uint64_t seed);
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  /// False: the candidate is certainly different.
  bool passes(const Graph& candidate);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace strata
