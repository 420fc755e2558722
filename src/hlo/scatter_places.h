// Where a scatter puts its updates, and how.
#pragma once

#include <string>
#include <vector>

#include "hlo/hlo.h"

namespace strata::hlo {

/// Update element from[i] goes to operand element to[i], both in row-major order; in the order of the updates. Windows
/// that are not wholly inside the operand are left out.
struct ScatterPlaces {
  std::vector<int64_t> to, from;
};
ScatterPlaces scatter_places(const ScatterAttributes& how, const Literal& indices, const std::vector<int64_t>& dims,
                             const std::vector<int64_t>& update_dims);

/// The sizes of the window in the operand's dimensions, 1 where it has none.
std::vector<int64_t> scatter_extents(const ScatterAttributes& how, size_t rank,
                                     const std::vector<int64_t>& update_dims);

/// HLO text of the call that combines elements `a` with updates `b` as a scatter's computation does, which the text
/// calls `scatter`.
std::string scatter_combination(const Computation& called);

}  // namespace strata::hlo
