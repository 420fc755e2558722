// Random inputs of a program over Z_p × Z_q, such that the square roots of the program are true roots.
#pragma once

#include <optional>

#include "interpret/interpret.h"
#include "superopt/verify/axes.h"
#include "support/random.h"

namespace strata {

using FieldTensor = Tensor<FieldArithmetic::Value>;

struct FieldSample {
  FieldArithmetic arithmetic;
  std::vector<FieldTensor> inputs;  ///< of the program's arguments, in order
};

/// Uniform and independent residues in all entries of the arguments and a uniform nontrivial q-th root of unity, from
/// `seed`. When stopped, some are left 0: what is executed with the same stop says so.
FieldSample draw_sample(const Graph& program, const FieldPrimes& primes, uint64_t seed,
                        const std::stop_token& stop = {});
/// Draws all entries of a tensor again, as many as come before it is stopped.
void fill_uniformly(FieldTensor& tensor, const FieldArithmetic& field, Random& random,
                    const std::stop_token& stop = {});
/// How many entries of a tensor are worked on between two looks at the stop: some milliseconds.
constexpr size_t kEntriesBetweenStops = 4096;
inline bool stops_at(size_t entry, const std::stop_token& stop) {
  return entry % kEntriesBetweenStops == 0 && stop.stop_requested();
}

/// Draws samples for one reference program. Thread-safe.
class Sampler {
 public:
  /// `free`: operators outside the Lax fragment are random functions (lax.h).
  Sampler(const Graph& reference, const FieldPrimes& primes, bool free = false);

  /// As draw_sample; where the program takes roots, conditioned on their arguments being quadratic residues as far as
  /// that succeeds.
  FieldSample draw(uint64_t seed, const std::stop_token& stop = {}) const;

 private:
  /// One square root of the program, and the slices of one input that are drawn again where its argument is no residue.
  struct Root {
    GraphPtr argument;  ///< computes the argument alone from all inputs of the program
    uint8_t residues;   ///< those of the root that are read
    size_t input;
    std::vector<int> dims;  ///< for each dimension of the input, that of the argument which walks with it, or −1
    std::optional<FreeOperators> free;  ///< of `argument`
  };

  bool condition(const Root& root, FieldSample& sample, Random& random, const std::stop_token& stop) const;

  const Graph& reference_;
  FieldPrimes primes_;
  std::vector<Root> roots_;
};

}  // namespace strata
