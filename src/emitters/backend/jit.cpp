#include "emitters/backend/jit.h"

#include <llvm/ExecutionEngine/Orc/ExecutionUtils.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/Support/MemoryBuffer.h>

#include <atomic>
#include <mutex>

#include "emitters/backend/cpu_block.h"
#include "emitters/backend/cpu_conversions.h"
#include "emitters/backend/llvm_guard.h"
#include "emitters/backend/target_machines.h"

namespace strata::emitters {
namespace {

namespace orc = llvm::orc;

/// The session of the process: what is linked hangs on it, and it may be used by several threads.
class Session {
 public:
  static Result<std::shared_ptr<Session>> open() {
    // Kept by the code that was linked as well, which may be destroyed later than this.
    static const Result<std::shared_ptr<Session>> session = create();
    return session;
  }

  Result<orc::JITDylib*> link(std::unique_ptr<llvm::MemoryBuffer> object) {
    orc::JITDylib& code = jit_->getExecutionSession().createBareJITDylib(fmt::format("kernel{}", ++count_));
    code.addToLinkOrder(*library_);
    if (llvm::Error error = jit_->addObjectFile(code, std::move(object)))
      return environment("the kernel is not linked: {}", message_of(std::move(error)));
    return &code;
  }

  Result<void*> find(orc::JITDylib& code, const std::string& name) {
    auto address = jit_->lookup(code, name);
    if (address) return address->toPtr<void*>();
    const std::string message = message_of(address.takeError());
    const std::lock_guard lock(mutex_);
    const std::string more = std::exchange(errors_, {});
    return environment("the kernel is not linked: {}{}{}", message, more.empty() ? "" : "\n", more);
  }

  void remove(orc::JITDylib& code) {
    if (llvm::Error error = jit_->getExecutionSession().removeJITDylib(code)) llvm::consumeError(std::move(error));
  }

 private:
  static Result<std::shared_ptr<Session>> create() {
    auto session = std::make_shared<Session>();
    STRATA_CHECK(session->start());
    return session;
  }

  Result<void> start() {
    STRATA_CHECK(host_machine(1));  // registers the target
    orc::LLJITBuilder builder;
    builder.setLinkProcessSymbolsByDefault(false).setPlatformSetUp(orc::setUpInactivePlatform);
    auto jit = builder.create();
    if (!jit) return environment("LLVM's JIT does not start: {}", message_of(jit.takeError()));
    jit_ = std::move(*jit);
    orc::ExecutionSession& session = jit_->getExecutionSession();
    session.setErrorReporter([this](llvm::Error error) {
      const std::lock_guard lock(mutex_);
      errors_ += message_of(std::move(error));
    });
    library_ = &session.createBareJITDylib("library");
    orc::SymbolMap symbols;
    const auto define = [&](const char* name, auto* function) {
      symbols[jit_->mangleAndIntern(name)] = {orc::ExecutorAddr::fromPtr(function), llvm::JITSymbolFlags::Exported};
    };
    define("strata_barrier", &strata_cpu_barrier);
    define("strata_part_barrier", &strata_cpu_part_barrier);
    define("strata_shuffle_down", &strata_cpu_shuffle_down);
    define("strata_shuffle_xor", &strata_cpu_shuffle_xor);
    define("strata_shuffle_index", &strata_cpu_shuffle_index);
    define("__truncsfbf2", &strata_cpu_float_to_bf16);
    define("__truncdfbf2", &strata_cpu_double_to_bf16);
    if (llvm::Error error = library_->define(orc::absoluteSymbols(std::move(symbols))))
      return environment("LLVM's JIT takes no symbols: {}", message_of(std::move(error)));
    // memcpy, functions of libm and of the compiler's library.
    auto process = orc::DynamicLibrarySearchGenerator::GetForCurrentProcess(jit_->getDataLayout().getGlobalPrefix());
    if (!process) return environment("LLVM's JIT does not see the process: {}", message_of(process.takeError()));
    library_->addGenerator(std::move(*process));
    return {};
  }

  std::unique_ptr<orc::LLJIT> jit_;
  orc::JITDylib* library_ = nullptr;
  std::atomic<uint64_t> count_ = 0;
  std::mutex mutex_;
  std::string errors_;
};

class Code : public LinkedCode {
 public:
  Code(std::shared_ptr<Session> session, orc::JITDylib& code) : session_(std::move(session)), code_(&code) {}
  ~Code() override { session_->remove(*code_); }
  Result<void*> address(const std::string& name) override { return session_->find(*code_, name); }

 private:
  std::shared_ptr<Session> session_;
  orc::JITDylib* code_;
};

}  // namespace

Result<std::shared_ptr<LinkedCode>> link_object(std::unique_ptr<llvm::MemoryBuffer> object) {
  STRATA_TRY(const std::shared_ptr<Session> session, Session::open());
  STRATA_TRY(orc::JITDylib* const code, session->link(std::move(object)));
  return std::make_shared<Code>(session, *code);
}

}  // namespace strata::emitters
