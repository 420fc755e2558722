#include "emitters/backend/nvptx_casts.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Module.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/Vectorize/LoadStoreVectorizer.h>

#include <vector>

#include "emitters/backend/run_passes.h"

namespace strata::emitters {
namespace {

void merge_accesses(llvm::Module& module, llvm::TargetMachine& machine) {
  run_passes(module, machine, [](llvm::PassBuilder&, llvm::ModulePassManager& passes) {
    passes.addPass(llvm::createModuleToFunctionPassAdaptor(llvm::LoadStoreVectorizerPass()));
  });
}

bool is_half_cast(const llvm::BitCastInst& cast) {
  const llvm::Type* from = cast.getSrcTy()->getScalarType();
  const llvm::Type* to = cast.getDestTy()->getScalarType();
  return (from->isHalfTy() && to->isBFloatTy()) || (from->isBFloatTy() && to->isHalfTy());
}

/// A move that LLVM does not look into.
llvm::Value* move(llvm::IRBuilder<>& builder, llvm::Value* bits) {
  const bool word = bits->getType()->isIntegerTy(32);
  auto* type = llvm::FunctionType::get(bits->getType(), {bits->getType()}, false);
  return builder.CreateCall(llvm::InlineAsm::get(type, word ? "mov.b32 $0, $1;" : "mov.b16 $0, $1;",
                                                 word ? "=r,r" : "=h,h", /*hasSideEffects=*/false),
                            {bits});
}

void replace(llvm::BitCastInst& cast) {
  llvm::IRBuilder<> builder(&cast);
  const unsigned bits = cast.getSrcTy()->getPrimitiveSizeInBits().getFixedValue() % 32 == 0 ? 32 : 16;
  const auto count = static_cast<unsigned>(cast.getSrcTy()->getPrimitiveSizeInBits().getFixedValue() / bits);
  auto* type = llvm::FixedVectorType::get(builder.getIntNTy(bits), count);
  llvm::Value* from = builder.CreateBitCast(cast.getOperand(0), type);
  llvm::Value* to = llvm::PoisonValue::get(type);
  for (unsigned i = 0; i < count; ++i)
    to = builder.CreateInsertElement(to, move(builder, builder.CreateExtractElement(from, i)), i);
  cast.replaceAllUsesWith(builder.CreateBitCast(to, cast.getDestTy()));
  cast.eraseFromParent();
}

}  // namespace

void break_half_casts(llvm::Module& module, llvm::TargetMachine& machine) {
  merge_accesses(module, machine);
  std::vector<llvm::BitCastInst*> casts;
  for (llvm::Function& function : module)
    for (llvm::Instruction& instruction : llvm::instructions(function))
      if (auto* cast = llvm::dyn_cast<llvm::BitCastInst>(&instruction); cast && is_half_cast(*cast))
        casts.push_back(cast);
  for (llvm::BitCastInst* cast : casts) replace(*cast);
}

}  // namespace strata::emitters
