#include "emitters/backend/llvm_guard.h"

#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/Support/Error.h>
#include <llvm/Support/ErrorHandling.h>
#include <llvm/Support/raw_ostream.h>

#include <cstdio>

namespace strata::emitters {
namespace {

/// Thrown out of LLVM's fatal errors, which end the process where their handler returns.
struct FatalError {
  std::string reason;
};

thread_local bool guarded = false;

void handle_fatal_error(void*, const char* reason, bool) {
  if (guarded) throw FatalError{reason};
  std::fprintf(stderr, "LLVM ERROR: %s\n", reason);
}

/// LLVM knows one handler for the process; other users of LLVM in it see no difference.
void install_fatal_error_handler() {
  static const bool installed = [] {
    llvm::install_fatal_error_handler(handle_fatal_error);
    return true;
  }();
  (void)installed;
}

class Collector : public llvm::DiagnosticHandler {
 public:
  explicit Collector(LlvmRemarks& remarks) : remarks_(remarks) {}

  bool handleDiagnostics(const llvm::DiagnosticInfo& info) override {
    if (info.getKind() == llvm::DK_StackSize) {
      const auto& stack = static_cast<const llvm::DiagnosticInfoStackSize&>(info);
      remarks_.stack_bytes[stack.getFunction().getName().str()] = stack.getStackSize();
    } else if (info.getSeverity() == llvm::DS_Error) {
      llvm::raw_string_ostream out(remarks_.errors);
      llvm::DiagnosticPrinterRawOStream printer(out);
      if (!remarks_.errors.empty()) out << '\n';
      info.print(printer);
    }
    return true;
  }

 private:
  LlvmRemarks& remarks_;
};

/// Sets a collector, and what was there before when it goes.
class CollectorScope {
 public:
  CollectorScope(llvm::LLVMContext& context, LlvmRemarks& remarks)
      : context_(context), before_(context.getDiagnosticHandler()), was_guarded_(guarded) {
    context_.setDiagnosticHandler(std::make_unique<Collector>(remarks));
    guarded = true;
  }
  CollectorScope(const CollectorScope&) = delete;
  CollectorScope& operator=(const CollectorScope&) = delete;
  ~CollectorScope() {
    guarded = was_guarded_;
    context_.setDiagnosticHandler(std::move(before_));
  }

 private:
  llvm::LLVMContext& context_;
  std::unique_ptr<llvm::DiagnosticHandler> before_;
  bool was_guarded_;
};

}  // namespace

Result<LlvmRemarks> guard_llvm(llvm::LLVMContext& context, const std::function<Result<void>()>& work) {
  install_fatal_error_handler();
  LlvmRemarks remarks;
  {
    const CollectorScope scope(context, remarks);
    try {
      STRATA_CHECK(work());
    } catch (const FatalError& error) {
      return unsupported("LLVM gives up: {}", error.reason);
    }
  }
  if (!remarks.errors.empty()) return unsupported("LLVM refuses the kernel: {}", remarks.errors);
  return remarks;
}

std::string message_of(llvm::Error error) { return llvm::toString(std::move(error)); }

}  // namespace strata::emitters
