#pragma once

#include <string>

namespace strata::emitters {

/// Of the LLVM that compiles kernels: "19.1.7".
std::string llvm_version();

}  // namespace strata::emitters
