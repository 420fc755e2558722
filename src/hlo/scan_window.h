// Windows that grow with the index: the form in which JAX writes cumsum, cumprod, cummax, cummin and cumlogsumexp.
#pragma once

#include <optional>

#include "hlo/hlo.h"

namespace strata::hlo {

/// A reduce-window whose element i combines the operand's elements 0 … i of one dimension, or i … n - 1.
struct ScanWindow {
  int64_t dimension = 0;  ///< of the operand
  int64_t length = 0;     ///< n: the dimension's elements, which are the window's size
  bool reverse = false;   ///< i … n - 1
};

/// The scan that a reduce-window is: along one dimension the window has the dimension's size n > 1 and is padded by
/// n - 1 before (or after, if reverse), and has one element along all others; no strides, no dilation. Nothing for
/// every other instruction.
std::optional<ScanWindow> scan_window(const Computation& computation, const Instruction& it);

}  // namespace strata::hlo
