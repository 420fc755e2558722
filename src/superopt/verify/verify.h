// Probabilistic equivalence of tensor programs over finite fields (Mirage, OSDI'25, section 5), with a stated error
// bound. docs/verification.md derives the bound and lists what is assumed.
#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace strata {

/// p = 2q + 1, both prime, q ≡ 3 mod 4 (so that (p+1)/4 is a multiplicative square root in both fields).
struct FieldPrimes {
  uint64_t p;
  uint64_t q;
};

struct VerifyOptions {
  double delta = 1e-12;  ///< accept a wrong graph with at most this probability
  uint64_t seed = 1;
  std::optional<FieldPrimes> primes;  ///< default: p near 2^61; small ones only in tests
  std::stop_token stop{};
};

enum class Verdict { Equivalent, Different, Undecided };

/// An entry in which the programs differ, and the seed that draws the inputs again.
struct Counterexample {
  std::string output;
  std::vector<int64_t> index;
  std::string expected;  ///< the field value of the first program, as text
  std::string found;
  uint64_t seed = 0;
};

struct VerifyResult {
  Verdict verdict = Verdict::Undecided;
  int tests = 0;             ///< random tests evaluated
  double error_bound = 1.0;  ///< probability that a different program passes them; meaningful if Equivalent
  std::string argument;      ///< which bound was used, with its numbers, in one line
  std::string reason;        ///< why Different or Undecided
  std::optional<Counterexample> counterexample;
};

/// Compares two kernel graphs whose inputs and outputs agree in name and type (outputs: in order and type). Error where
/// they do not.
Result<VerifyResult> verify(const Graph& reference, const Graph& candidate, const VerifyOptions& options = {});

/// Rounding errors of a candidate against the reference program in float64, on random inputs; relative to the largest
/// magnitude of an output.
struct FloatErrors {
  double reference_own = 0;  ///< the reference executed with storage rounded to the program's own types
  double candidate_f32 = 0;
  double candidate_own = 0;
  double candidate_f64 = 0;
  bool acceptable = false;  ///< all finite, f32 error ≤ 1e-4, own error within a small factor of the reference's own
};
Result<FloatErrors> float_errors(const Graph& reference, const Graph& candidate, uint64_t seed,
                                 const std::stop_token& stop = {});

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
