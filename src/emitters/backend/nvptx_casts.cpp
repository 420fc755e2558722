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

void load_eight_bytes_at_once(llvm::Module& module) {
  constexpr unsigned kBytes = 8;
  std::vector<llvm::LoadInst*> loads;
  for (llvm::Function& function : module) {
    for (llvm::Instruction& instruction : llvm::instructions(function)) {
      auto* load = llvm::dyn_cast<llvm::LoadInst>(&instruction);
      const bool bytes =
          load && load->isSimple() && load->getAlign() >= kBytes &&
          load->getType() == llvm::FixedVectorType::get(llvm::Type::getInt8Ty(module.getContext()), kBytes);
      if (bytes) loads.push_back(load);
    }
  }
  for (llvm::LoadInst* load : loads) {
    llvm::IRBuilder<> builder(load);
    llvm::LoadInst* whole =
        builder.CreateAlignedLoad(builder.getInt64Ty(), load->getPointerOperand(), load->getAlign());
    whole->copyMetadata(*load, {llvm::LLVMContext::MD_invariant_load, llvm::LLVMContext::MD_nontemporal,
                                llvm::LLVMContext::MD_alias_scope, llvm::LLVMContext::MD_noalias});
    load->replaceAllUsesWith(builder.CreateBitCast(whole, load->getType()));
    load->eraseFromParent();
  }
}

}  // namespace strata::emitters
