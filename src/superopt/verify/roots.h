// Whether the square roots of a program may be conjugated freely, so that an identity which holds for one choice of
// their signs holds for all: docs/verification.md, "Square roots".
#pragma once

#include <stop_token>

#include "superopt/verify/sample.h"

namespace strata {

/// True only if the square roots of a kernel graph, all entries of all of them, are independent: no product of their
/// arguments is a square. Shown where every root is of the kernel graph, its argument takes no other root, and there is
/// an input of which each entry of the argument reads a slice of its own and no earlier root reads anything; two
/// samples that differ in this slice alone and of which one makes the argument a residue show that it is no square.
/// Error (Interrupted) when stopped.
Result<bool> roots_independent(const Graph& graph, const FieldPrimes& primes, uint64_t seed,
                               const std::stop_token& stop = {});

/// How many different square roots an output entry of a kernel graph depends on, at most; infinity where a graph inside
/// it takes roots.
double roots_in_entry(const Graph& graph);

/// Compares the arguments of the square roots of two programs, executed on one sample.
class RootMatch {
 public:
  /// `known`: the arguments of one program's roots, both residues.
  RootMatch(const std::vector<FieldArithmetic::Value>& known, const FieldArithmetic& arithmetic,
            std::stop_token stop = {});

  /// Whether a root's argument is a positive rational number times a product of at most two known ones or their
  /// quotient, so that it is positive where they are. False as well where looking for it takes too
  /// long or is stopped.
  bool matches(const FieldArithmetic::Value& argument);

 private:
  /// value = factor · a known product, factor a fraction of small positive integers.
  struct Known {
    const PrimeField& field;
    std::vector<uint64_t> values{};    ///< sorted, without repetition
    std::vector<uint64_t> inverses{};  ///< of each
    std::vector<uint64_t> factors{};   ///< inverses of the factors that were found
  };
  bool matches_in(Known& known, uint64_t value);

  Known p_, q_;
  int64_t scans_;  ///< how often one may still go through all that is known
  std::stop_token stop_;
};

}  // namespace strata
