// While loops whose number of iterations is known beforehand.
#pragma once

#include <optional>
#include <vector>

#include "hlo/hlo.h"

namespace strata::hlo {

/// There are `count` iterations. In iteration k each counter, a scalar integer of the state, is `first` + k · `step`.
struct CountedLoop {
  struct Counter {
    int64_t leaf = 0;  ///< of the state (leaf_of)
    int64_t first = 0;
    int64_t step = 1;
  };
  std::vector<Counter> counters;
  int64_t count = 0;

  /// Of a leaf, if it is one.
  const Counter* counter(int64_t leaf) const;
};

/// Of a `while` of the computation: a loop whose condition compares one scalar of the state, which begins as a constant
/// and to which the body adds a constant, with a constant, or with another scalar that the body leaves as it is.
/// Nothing for other loops, those that do not end, and those whose counter would overflow.
std::optional<CountedLoop> counted_loop(const Module& module, const Computation& computation, InstructionId loop);

/// Whether an integer type has the number.
bool fits(int64_t number, ElementType type);

}  // namespace strata::hlo
