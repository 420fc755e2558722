// Kernels in text run on this machine, for tests: lowered, compiled by ORC, and called once a block and thread.
#pragma once

#include <gtest/gtest.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/Support/TargetSelect.h>
#include <mlir/Parser/Parser.h>

#include "emitters/transforms/pipeline.h"

namespace strata::emitters {

extern "C" {
/// What kernels call that these tests need: threads run one after the other, so there is nothing to wait for.
inline void strata_test_barrier() {}
/// A lane's own value doubled stands for its neighbour's.
inline int32_t strata_test_shuffle(int32_t value, int32_t distance) { return value + distance; }
inline float strata_test_f16_to_f32(uint16_t bits) { return static_cast<float>(std::bit_cast<_Float16>(bits)); }
inline uint16_t strata_test_f32_to_f16(float value) { return std::bit_cast<uint16_t>(static_cast<_Float16>(value)); }
inline uint16_t strata_test_f32_to_bf16(float value) {
  return static_cast<uint16_t>((std::bit_cast<uint32_t>(value) + 0x8000U) >> 16);
}
}

/// A kernel of a module in text; `ok` says whether it could be built, and failures have been reported if not.
class JitKernel {
 public:
  JitKernel(const std::string& text, const std::string& name) { build(text, name); }

  bool ok() const { return function_ != nullptr; }
  std::vector<std::byte>& shared() { return shared_; }

  /// Calls it for all blocks and threads in order.
  void run(const std::vector<void*>& tensors, int blocks, int threads) {
    for (int block = 0; block < blocks; ++block) {
      for (int thread = 0; thread < threads; ++thread) call(tensors, block, thread);
    }
  }

  void call(const std::vector<void*>& t, int32_t block, int32_t thread) {
    void* shared = shared_.data();
    switch (t.size()) {
      case 1:
        return reinterpret_cast<void (*)(void*, int32_t, int32_t, void*)>(function_)(t[0], block, thread, shared);
      case 2:
        return reinterpret_cast<void (*)(void*, void*, int32_t, int32_t, void*)>(function_)(t[0], t[1], block, thread,
                                                                                            shared);
      case 3:
        return reinterpret_cast<void (*)(void*, void*, void*, int32_t, int32_t, void*)>(function_)(
            t[0], t[1], t[2], block, thread, shared);
      default:
        FAIL() << "no call of " << t.size() << " tensors";
    }
  }

 private:
  void build(const std::string& text, const std::string& name) {
    mlir::DialectRegistry registry;
    register_dialects(registry);
    mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
    auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    ASSERT_TRUE(module) << text;
    const Result<void> lowered = lower_to_llvm(*module, {});
    ASSERT_TRUE(lowered) << lowered.error().to_string();
    for (const LoweredKernel& kernel : lowered_kernels(*module))
      shared_.resize(static_cast<size_t>(kernel.shared_bytes));
    auto llvm_context = std::make_unique<llvm::LLVMContext>();
    auto translated = translate(*module, *llvm_context);
    ASSERT_TRUE(translated) << translated.error().to_string();
    compile({*std::move(translated), std::move(llvm_context)}, name + "_block");
  }

  void compile(llvm::orc::ThreadSafeModule module, const std::string& name) {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    auto jit = llvm::orc::LLJITBuilder().create();
    ASSERT_TRUE(static_cast<bool>(jit)) << llvm::toString(jit.takeError());
    jit_ = std::move(*jit);
    llvm::orc::SymbolMap symbols;
    const auto add = [&](const char* symbol, auto* function) {
      symbols[jit_->mangleAndIntern(symbol)] = {llvm::orc::ExecutorAddr::fromPtr(function),
                                                llvm::JITSymbolFlags::Exported | llvm::JITSymbolFlags::Callable};
    };
    add("strata_barrier", strata_test_barrier);
    add("strata_shuffle_down", strata_test_shuffle);
    add("strata_f16_to_f32", strata_test_f16_to_f32);
    add("strata_f32_to_f16", strata_test_f32_to_f16);
    add("strata_f32_to_bf16", strata_test_f32_to_bf16);
    llvm::cantFail(jit_->getMainJITDylib().define(llvm::orc::absoluteSymbols(std::move(symbols))));
    llvm::cantFail(jit_->addIRModule(std::move(module)));
    auto address = jit_->lookup(name);
    ASSERT_TRUE(static_cast<bool>(address)) << llvm::toString(address.takeError());
    function_ = address->toPtr<void*>();
  }

  std::unique_ptr<llvm::orc::LLJIT> jit_;
  std::vector<std::byte> shared_;
  void* function_ = nullptr;
};

}  // namespace strata::emitters
