#include "emitters/backend/cpu_kernel.h"

#include <cassert>
#include <cstring>
#include <limits>

#include "emitters/backend/cpu_block.h"
#include "emitters/backend/cpu_code.h"
#include "machine/target.h"

namespace strata::emitters {
namespace {

constexpr size_t kMaxSharedBytes = size_t{1} << 20;  // more than any GPU has
constexpr size_t kSharedAlignment = 1024;
constexpr int kPoison = 0xff;

struct FreeShared {
  void operator()(std::byte* memory) const { ::operator delete[](memory, std::align_val_t{kSharedAlignment}); }
};

std::unique_ptr<std::byte[], FreeShared> allocate_shared(size_t bytes) {
  return std::unique_ptr<std::byte[], FreeShared>(
      static_cast<std::byte*>(::operator new[](bytes, std::align_val_t{kSharedAlignment})));
}

Result<void> check_launch(const KernelCode& kernel, std::span<void* const> buffers, int64_t blocks, int threads,
                          size_t shared_bytes) {
  if (buffers.size() != kernel.alignments.size())
    return invalid("kernel {} takes {} buffers, not {}", kernel.name, kernel.alignments.size(), buffers.size());
  for (size_t i = 0; i < buffers.size(); ++i)
    if (reinterpret_cast<uintptr_t>(buffers[i]) % kernel.alignments[i] != 0)
      return invalid("kernel {}: buffer {} is not aligned to {} bytes", kernel.name, i, kernel.alignments[i]);
  if (blocks < 0 || blocks > std::numeric_limits<int32_t>::max())
    return invalid("kernel {}: {} blocks; expected at most 2^31-1", kernel.name, blocks);
  if (threads < 1 || threads > kMostBlockThreads)
    return invalid("kernel {}: {} threads in a block; expected 1 to {}", kernel.name, threads, kMostBlockThreads);
  if (shared_bytes > kMaxSharedBytes)
    return invalid("kernel {}: {} bytes of shared memory; expected at most {}", kernel.name, shared_bytes,
                   kMaxSharedBytes);
  return {};
}

}  // namespace

struct CpuKernel::Code : KernelCode {};

bool CpuKernel::uses_fibers() const { return code_->waits; }
size_t CpuKernel::stack_bytes() const { return code_->stack_bytes; }

Result<void> CpuKernel::run(std::span<void* const> buffers, int64_t blocks, int threads, size_t shared_bytes,
                            const RunOptions& options) const {
  assert(code_ && "a kernel comes from compile_for_cpu");
  STRATA_CHECK(check_launch(*code_, buffers, blocks, threads, shared_bytes));
  const auto shared = allocate_shared(shared_bytes);
  for (int64_t block = 0; block < blocks; ++block) {
    if (options.stop.stop_requested())
      return tl::unexpected(Error{ErrorCode::Interrupted, fmt::format("kernel {} was stopped", code_->name), {}, {}});
    std::memset(shared.get(), kPoison, shared_bytes);
    const auto index = static_cast<int32_t>(block);
    if (!code_->waits) {
      code_->entry(buffers.data(), index, threads, shared.get());
    } else if (auto ran = run_fibers(code_->entry, buffers.data(), index, threads, shared.get(), options.order); !ran) {
      return tl::unexpected(ran.error().within("kernel " + code_->name));
    }
  }
  return {};
}

/// The one that may make kernels.
class CpuCompiler {
 public:
  static CpuKernel make(KernelCode code) {
    CpuKernel kernel;
    kernel.code_ = std::make_shared<const CpuKernel::Code>(CpuKernel::Code{std::move(code)});
    return kernel;
  }
};

Result<std::vector<CpuKernel>> compile_for_cpu(llvm::Module& module, std::span<const std::string> names,
                                               const OptimizeOptions& options) {
  STRATA_TRY(std::vector<KernelCode> codes, make_cpu_code(module, names, options));
  std::vector<CpuKernel> kernels;
  for (KernelCode& code : codes) kernels.push_back(CpuCompiler::make(std::move(code)));
  return kernels;
}

}  // namespace strata::emitters
