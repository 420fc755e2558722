// Comparing what two programs computed over Z_p × Z_q. Outputs have a residue modulo p only.
#pragma once

#include <optional>

#include "superopt/verify/sample.h"
#include "superopt/verify/verify.h"

namespace strata {

/// The first entry in which the outputs differ.
std::optional<Counterexample> first_difference(const Graph& reference, const std::vector<FieldTensor>& expected,
                                               const std::vector<FieldTensor>& found, const PrimeField& field);

}  // namespace strata
