// Reductions: which tiles, which code, and whether it verifies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <llvm/Support/raw_ostream.h>
#include <mlir/Dialect/Arith/IR/Arith.h>
#include <mlir/Dialect/Complex/IR/Complex.h>
#include <mlir/Dialect/Func/IR/FuncOps.h>
#include <mlir/Dialect/Math/IR/Math.h>
#include <mlir/Dialect/SCF/IR/SCF.h>
#include <mlir/Dialect/Tensor/IR/Tensor.h>
#include <mlir/IR/MLIRContext.h>
#include <mlir/IR/OwningOpRef.h>
#include <mlir/IR/Verifier.h>

#include "emitters/dialect/dialect.h"
#include "emitters/kinds/plan.h"
#include "hlo/text.h"

namespace strata::emitters {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::string kAdd = R"(
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT sum = f32[] add(a, b)
}
max {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT most = f32[] maximum(a, b)
}
)";

struct Emitted {
  Decision decision;
  std::string text;
};

Result<Emitted> emit(const std::string& body) {
  STRATA_TRY(const hlo::ModulePtr module, hlo::parse_module("HloModule m\n" + kAdd + body));
  const Device device;
  STRATA_TRY(const Plan plan, plan_reduction({*module, module->entry, device}));
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<StrataDialect, mlir::arith::ArithDialect, mlir::complex::ComplexDialect, mlir::func::FuncDialect,
                      mlir::math::MathDialect, mlir::scf::SCFDialect, mlir::tensor::TensorDialect>();
  mlir::OwningOpRef<mlir::ModuleOp> target = mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
  STRATA_CHECK(plan.emit(*target, "kernel"));
  Emitted result{plan.decision, {}};
  llvm::raw_string_ostream out(result.text);
  target->print(out);
  if (mlir::failed(mlir::verify(*target))) return invalid("does not verify:\n{}", result.text);
  return result;
}

std::string detail(const Decision& decision, const std::string& name) {
  for (const auto& [key, text] : decision.details) {
    if (key == name) return text;
  }
  return {};
}

std::string sum(const std::string& operand, const std::string& result, const std::string& dims) {
  return "ENTRY e {\n  x = " + operand + " parameter(0)\n  z = f32[] constant(0)\n  ROOT r = " + result +
         " reduce(x, z), dimensions={" + dims + "}, to_apply=add\n}\n";
}

TEST(Reduction, LongRowsAreReducedByShufflesAndSharedMemory) {
  const auto kernel = emit(sum("f32[16384,8192]", "f32[16384]", "1"));
  ASSERT_TRUE(kernel) << kernel.error().to_string();
  EXPECT_EQ(kernel->decision.emitter, "row reduction");
  EXPECT_EQ(kernel->decision.blocks, 16384);
  EXPECT_EQ(kernel->decision.threads, 256);
  EXPECT_EQ(detail(kernel->decision, "tiling"),
            "16384x8192 threads 1x256 unroll 1x8 vector 1x4, 16384 blocks");
  EXPECT_THAT(kernel->text, HasSubstr("shuffle_reduce"));
  EXPECT_THAT(kernel->text, HasSubstr("allocate_shared : tensor<1x8xf32"));
  std::cout << to_string(kernel->decision) << kernel->text;
}

}  // namespace
}  // namespace strata::emitters
