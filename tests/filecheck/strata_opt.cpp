// mlir-opt with the dialect and the passes of the emitters, for tests.
#include <mlir/Tools/mlir-opt/MlirOptMain.h>
#include <mlir/Transforms/Passes.h>

#include "emitters/transforms/passes.h"

int main(int argc, char** argv) {
  mlir::DialectRegistry registry;
  strata::emitters::register_dialects(registry);
  strata::emitters::register_passes();
  mlir::registerCanonicalizerPass();
  mlir::registerCSEPass();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "Passes of the emitters\n", registry));
}
