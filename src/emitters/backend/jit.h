// Object code of this process: LLVM's linker of JIT compilers. Folder-internal.
#pragma once

#include <memory>
#include <string>

#include "support/error.h"

namespace llvm {
class MemoryBuffer;
}

namespace strata::emitters {

/// Object code that has been linked into the process; it goes with the last owner.
class LinkedCode {
 public:
  virtual ~LinkedCode() = default;
  /// Error (Environment) for a name that the code does not define, or where it needs functions that do not exist.
  virtual Result<void*> address(const std::string& name) = 0;
};

Result<std::shared_ptr<LinkedCode>> link_object(std::unique_ptr<llvm::MemoryBuffer> object);

}  // namespace strata::emitters
