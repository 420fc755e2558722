// Random inputs of a program over Z_p × Z_q, such that the square roots of the program are true roots.
#pragma once

#include "interpret/interpret.h"
#include "superopt/verify/axes.h"
#include "support/random.h"

namespace strata {

using FieldTensor = Tensor<FieldArithmetic::Value>;

struct FieldSample {
  FieldArithmetic arithmetic;
  std::vector<FieldTensor> inputs;  ///< in the order of the program's inputs
};

/// Draws samples for one reference program. Thread-safe.
class Sampler {
 public:
  Sampler(const Graph& reference, const FieldPrimes& primes);

  /// Uniform and independent residues and a uniform nontrivial q-th root of unity, all from `seed`; where the program
  /// takes roots, conditioned on their arguments being quadratic residues as far as that succeeds.
  FieldSample draw(uint64_t seed) const;

 private:
  /// One square root of the program, and the slices of one input that are drawn again where its argument is no residue.
  struct Root {
    GraphPtr argument;  ///< computes the argument alone from all inputs of the program
    uint8_t residues;   ///< those of the root that are read
    size_t input;
    std::vector<int> dims;  ///< for each dimension of the input, that of the argument which walks with it, or −1
  };

  void fill(FieldTensor& tensor, Random& random) const;
  bool condition(const Root& root, FieldSample& sample, Random& random) const;

  const Graph& reference_;
  FieldPrimes primes_;
  PrimeField fp_;
  PrimeField fq_;
  std::vector<Root> roots_;
};

}  // namespace strata
