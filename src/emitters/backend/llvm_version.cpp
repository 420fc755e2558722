#include "emitters/backend/llvm_version.h"

#include <llvm/Config/llvm-config.h>

namespace strata::emitters {

std::string llvm_version() { return LLVM_VERSION_STRING; }

}  // namespace strata::emitters
