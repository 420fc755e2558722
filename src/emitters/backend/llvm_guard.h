// What LLVM would print, exit or abort for becomes an Error. Folder-internal.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "support/error.h"

namespace llvm {
class Error;
class LLVMContext;
}  // namespace llvm

namespace strata::emitters {

/// What LLVM said while it worked.
struct LlvmRemarks {
  std::string errors;
  std::map<std::string, uint64_t> stack_bytes;  ///< of functions with the attribute warn-stack-size="0"
};

/// Runs `work`, in which LLVM uses `context`. Error (Unsupported) where LLVM reports an error or gives up: it then has
/// left memory behind, and the context is good for nothing but being destroyed.
Result<LlvmRemarks> guard_llvm(llvm::LLVMContext& context, const std::function<Result<void>()>& work);

std::string message_of(llvm::Error error);

}  // namespace strata::emitters
