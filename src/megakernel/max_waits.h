// Of compiler and runtime: freestanding C++17, as device code includes it.
#pragma once

namespace strata::megakernel {

/// Events that a task waits for, at most.
constexpr int kMaxWaits = 4;

}  // namespace strata::megakernel
