#include "emitters/backend/block_function.h"

#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>
#include <array>
#include <vector>

namespace strata::emitters {
namespace {

constexpr const char* kShuffleDown = "strata_shuffle_down";
constexpr const char* kShuffleXor = "strata_shuffle_xor";
constexpr const char* kShuffleIndex = "strata_shuffle_index";
constexpr const char* kProductOfBf16 = "strata_warp_product_bf16";
constexpr const char* kProductOfF16 = "strata_warp_product_f16";
constexpr const char* kProductOfS8 = "strata_warp_product_s8";
constexpr std::array kDeviceFunctions = {kBarrier,      kPartBarrier,   kShuffleDown,  kShuffleXor,
                                         kShuffleIndex, kProductOfBf16, kProductOfF16, kProductOfS8};

bool is_barrier(const char* name) { return name == kBarrier || name == kPartBarrier; }
bool is_product(const char* name) { return name == kProductOfBf16 || name == kProductOfF16 || name == kProductOfS8; }

llvm::FunctionType* device_function_type(const char* name, llvm::LLVMContext& context) {
  llvm::Type* i32 = llvm::Type::getInt32Ty(context);
  llvm::Type* f32 = llvm::Type::getFloatTy(context);
  if (name == kBarrier) return llvm::FunctionType::get(llvm::Type::getVoidTy(context), false);
  if (name == kPartBarrier) return llvm::FunctionType::get(llvm::Type::getVoidTy(context), {i32, i32}, false);
  if (is_product(name)) {
    llvm::Type* sum = name == kProductOfS8 ? i32 : f32;
    return llvm::FunctionType::get(llvm::StructType::get(context, {sum, sum, sum, sum}),
                                   {i32, i32, i32, i32, i32, i32, sum, sum, sum, sum}, false);
  }
  return llvm::FunctionType::get(i32, {i32, i32}, false);
}

/// mma.m16n8k16, or of s8 mma.m16n8k32: the words of both matrices, and the sums.
void define_product(llvm::Function& function, llvm::IRBuilder<>& builder, const char* name) {
  llvm::Type* pair = llvm::FixedVectorType::get(builder.getHalfTy(), 2);
  llvm::SmallVector<llvm::Value*> arguments;
  for (llvm::Argument& one : function.args()) {
    const bool of_halves = name == kProductOfF16 && one.getType()->isIntegerTy();
    arguments.push_back(of_halves ? builder.CreateBitCast(&one, pair) : &one);
  }
  const llvm::Intrinsic::ID product = name == kProductOfBf16  ? llvm::Intrinsic::nvvm_mma_m16n8k16_row_col_bf16
                                      : name == kProductOfF16 ? llvm::Intrinsic::nvvm_mma_m16n8k16_row_col_f32_f32
                                                              : llvm::Intrinsic::nvvm_mma_m16n8k32_row_col_s8;
  builder.CreateRet(builder.CreateIntrinsic(product, {}, arguments));
}

std::string text_of(const llvm::Type& type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

/// All that can be called from `function`, itself included.
Result<llvm::SmallPtrSet<const llvm::Function*, 16>> reachable(const llvm::Function& function) {
  llvm::SmallPtrSet<const llvm::Function*, 16> found;
  std::vector<const llvm::Function*> open{&function};
  found.insert(&function);
  while (!open.empty()) {
    const llvm::Function* at = open.back();
    open.pop_back();
    for (const llvm::Instruction& instruction : llvm::instructions(at)) {
      const auto* call = llvm::dyn_cast<llvm::CallBase>(&instruction);
      if (!call || call->isInlineAsm()) continue;
      const llvm::Function* callee = call->getCalledFunction();
      if (!callee) return unsupported("{} calls through a pointer", at->getName().str());
      if (found.insert(callee).second) open.push_back(callee);
    }
  }
  return found;
}

void drop_unsafe_noalias(BlockFunction& block) {
  llvm::Function& function = *block.function;
  for (llvm::Argument& argument : function.args()) {
    const bool shared = argument.getArgNo() + 1 == function.arg_size();
    if (shared || (block.waits && !argument.hasAttribute(llvm::Attribute::ReadOnly)))
      argument.removeAttr(llvm::Attribute::NoAlias);
  }
}

}  // namespace

Result<BlockFunction> prepare_block_function(llvm::Module& module, const std::string& name) {
  llvm::Function* function = module.getFunction(name + "_block");
  if (!function || function->isDeclaration()) return invalid("the module has no function {}_block", name);
  const llvm::FunctionType& type = *function->getFunctionType();
  const unsigned count = type.getNumParams();
  bool fits = type.getReturnType()->isVoidTy() && !type.isVarArg() && count >= 3;
  for (unsigned i = 0; fits && i < count; ++i) {
    const bool index = i + 3 == count || i + 2 == count;
    fits = index ? type.getParamType(i)->isIntegerTy(32) : type.getParamType(i)->isPointerTy();
  }
  if (!fits)
    return invalid("{}_block has the type {}; expected void (ptr buffer..., i32 block, i32 thread, ptr shared)", name,
                   text_of(type));
  BlockFunction block{function, count - 3};
  STRATA_TRY(const auto callees, reachable(*function));
  for (const llvm::Function* callee : callees)
    for (const char* device : kDeviceFunctions)
      if (callee->getName() == device) (is_barrier(device) ? block.waits : block.shuffles) = true;
  block.waits |= block.shuffles;
  drop_unsafe_noalias(block);
  function->setLinkage(llvm::GlobalValue::InternalLinkage);
  function->removeFnAttr(llvm::Attribute::NoInline);
  function->removeFnAttr(llvm::Attribute::OptimizeNone);
  function->addFnAttr(llvm::Attribute::AlwaysInline);
  return block;
}

Result<bool> reaches_barrier(const llvm::Function& function) {
  STRATA_TRY(const auto callees, reachable(function));
  return std::any_of(callees.begin(), callees.end(), [](const llvm::Function* callee) {
    return callee->getName() == kBarrier || callee->getName() == kPartBarrier;
  });
}

Result<void> prepare_device_functions(llvm::Module& module) {
  bool declared = false;
  for (const char* name : kDeviceFunctions) {
    llvm::Function* function = module.getFunction(name);
    if (!function) continue;
    const llvm::FunctionType* expected = device_function_type(name, module.getContext());
    if (function->getFunctionType() != expected || !function->isDeclaration())
      return invalid("{} is not declared as {}", name, text_of(*expected));
    declared = true;
  }
  if (!declared) return {};
  // LLVM takes the attribute away again from what cannot reach a barrier.
  for (llvm::Function& function : module)
    if (!function.isIntrinsic()) function.setConvergent();
  return {};
}

void define_nvptx_device_functions(llvm::Module& module) {
  for (const char* name : kDeviceFunctions) {
    llvm::Function* function = module.getFunction(name);
    if (!function) continue;
    llvm::IRBuilder<> builder(llvm::BasicBlock::Create(module.getContext(), "", function));
    if (name == kBarrier) {
      builder.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier0, {}, {});
      builder.CreateRetVoid();
    } else if (name == kPartBarrier) {
      // The block's own barrier is number 0.
      llvm::Value* number = builder.CreateAdd(function->getArg(0), builder.getInt32(1));
      builder.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier_sync_cnt, {}, {number, function->getArg(1)});
      builder.CreateRetVoid();
    } else if (is_product(name)) {
      define_product(*function, builder, name);
    } else {
      const llvm::Intrinsic::ID shuffle = name == kShuffleDown    ? llvm::Intrinsic::nvvm_shfl_sync_down_i32
                                          : name == kShuffleIndex ? llvm::Intrinsic::nvvm_shfl_sync_idx_i32
                                                                  : llvm::Intrinsic::nvvm_shfl_sync_bfly_i32;
      // Whole warps; a lane beyond the end gets its own value.
      builder.CreateRet(builder.CreateIntrinsic(
          shuffle, {}, {builder.getInt32(~0U), function->getArg(0), function->getArg(1), builder.getInt32(31)}));
    }
    function->setLinkage(llvm::GlobalValue::InternalLinkage);
    function->addFnAttr(llvm::Attribute::AlwaysInline);
  }
}

}  // namespace strata::emitters
