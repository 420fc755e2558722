// Runs what emit_scalar makes, over arrays, for tests: MLIR's own lowering, libm, and C++ in the place of
// emitters/math.
#pragma once

#include <mlir/IR/BuiltinOps.h>
#include <mlir/IR/MLIRContext.h>
#include <mlir/IR/OwningOpRef.h>

#include <memory>
#include <string>

#include "hlo/hlo.h"

namespace llvm::orc {
class LLJIT;
}

namespace strata::emitters {

class ScalarJit {
 public:
  ScalarJit();
  ~ScalarJit();

  /// A function that applies the computation's root to each element of its operands, which are parameters in order.
  Result<void> add(const std::string& name, const hlo::Computation& computation);
  /// A function that writes the elements of the literal.
  void add_constant(const std::string& name, const hlo::Literal& literal);
  /// After all functions were added, before one runs. The text of the module as emitted is returned.
  std::string compile();
  hlo::Literal run(const std::string& name, const std::vector<hlo::Literal>& arguments, const hlo::Shape& shape);

 private:
  mlir::MLIRContext context_;
  mlir::OwningOpRef<mlir::ModuleOp> module_;
  std::unique_ptr<llvm::orc::LLJIT> jit_;
};

}  // namespace strata::emitters
