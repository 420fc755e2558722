// Strata's C++ interface. See docs/cpp.md.
//
//   const strata::Function twice = strata::compile_hlo(text);             // HLO text to a function of arrays
//   twice(inputs, results);
//   const strata::Kernel kernel = strata::optimize(program);              // a searched and proved program
//   kernel.save("out/rmsnorm");
//
// Everything that fails for the caller's reasons throws strata::Error.
#pragma once

#include "strata/error.h"     // IWYU pragma: export
#include "strata/function.h"  // IWYU pragma: export
#include "strata/kernel.h"    // IWYU pragma: export
