// Modules for this folder's tests, from text.
#pragma once

#include <llvm/AsmParser/Parser.h>
#include <llvm/Bitcode/BitcodeWriter.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/SourceMgr.h>
#include <llvm/Support/raw_ostream.h>

#include <memory>
#include <span>
#include <stdexcept>
#include <string>

#include "emitters/backend/sanitizer_fibers.h"
#ifdef STRATA_FIBERS_ASAN
#include <sanitizer/lsan_interface.h>
#endif

namespace strata::emitters {

/// While it lives, leaks are not reported: LLVM's where it gives up.
#ifdef STRATA_FIBERS_ASAN
using LeaksOfLlvm = __lsan::ScopedDisabler;
#else
struct LeaksOfLlvm {
  ~LeaksOfLlvm() {}
};
#endif

/// A module and what it lives in.
struct TestModule {
  explicit TestModule(const std::string& text) : context(std::make_unique<llvm::LLVMContext>()) {
    llvm::SMDiagnostic error;
    module = llvm::parseAssemblyString(text, error, *context);
    std::string message;
    llvm::raw_string_ostream out(message);
    if (!module) error.print("test", out);
    if (!module) throw std::runtime_error(message);
  }

  /// Its bitcode.
  llvm::SmallVector<char, 0> bitcode() const {
    llvm::SmallVector<char, 0> bytes;
    llvm::raw_svector_ostream out(bytes);
    llvm::WriteBitcodeToFile(*module, out);
    return bytes;
  }

  std::unique_ptr<llvm::LLVMContext> context;
  std::unique_ptr<llvm::Module> module;
};

inline std::span<const std::byte> bytes_of(const llvm::SmallVector<char, 0>& bytes) {
  return std::as_bytes(std::span(bytes.data(), bytes.size()));
}

}  // namespace strata::emitters
