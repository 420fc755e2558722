// How the operands of a block graph lie in device memory.
#pragma once

#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "ir/views.h"

namespace strata {

/// What comes before an index along a dimension lies in other memory, which a block function gets as an argument of its
/// own, after its outputs. The operand's own strides are then those of what is left, from that index on.
struct Front {
  size_t dim = 0;
  int64_t size = 0;              ///< indices along `dim`, a multiple of every tile that is read
  std::vector<int64_t> strides;  ///< in elements
  bool operator==(const Front&) const = default;
};

/// As strides in elements where that is all. Converts from and to them.
struct OperandPlace {
  OperandPlace() = default;
  OperandPlace(std::vector<int64_t> of) : strides(std::move(of)) {}  // NOLINT(google-explicit-constructor)
  OperandPlace(std::initializer_list<int64_t> of) : strides(of) {}   // NOLINT(google-explicit-constructor)
  operator const std::vector<int64_t>&() const { return strides; }   // NOLINT(google-explicit-constructor)
  bool operator==(const OperandPlace&) const = default;

  std::vector<int64_t> strides;
  std::vector<Fold> folds = {};  ///< none where there is a front
  std::optional<Front> front = {};
};

/// By operand.
using OperandPlaces = std::vector<OperandPlace>;

}  // namespace strata
