// Arguments that look like a network's: what programs are executed on where the user gives none.
#pragma once

#include <vector>

#include "hlo/hlo.h"
#include "support/random.h"

namespace strata::hlo {

/// Floats and complex numbers are standard normal; integers small, from -4 to 15 (0 to 15 if unsigned) as far as the
/// type goes; pred either, as often.
Literal typical_literal(const Shape& shape, Random& random);
/// One for each parameter of the computation, in order.
std::vector<Literal> typical_arguments(const Computation& computation, uint64_t seed);
/// For the module's entry, with indices as its scatters and gathers promise them: unique, or sorted, and inside the
/// operand where there is room. Of indices that are computed of something else than a parameter's elements, one by
/// one, nothing is known: see scatter_facts().
std::vector<Literal> typical_arguments(const Module& module, uint64_t seed);

/// What scatters do with given arguments.
struct ScatterFacts {
  /// The most updates that are added, one by one and each rounded, to an element of 16 bits or fewer; 0 without such.
  int64_t most_narrow_updates = 0;
  /// For each scatter or gather whose indices are not what it promises: what is wrong, with its place.
  std::vector<Error> broken_promises;
};
/// Computes the indices by the interpreter; error where it cannot. Scatters within called computations are left out.
Result<ScatterFacts> scatter_facts(const Module& module, const std::vector<Literal>& arguments);

}  // namespace strata::hlo
