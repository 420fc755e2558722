#include "megakernel/decode/fiber_decode.h"

#include <algorithm>

#include "support/host_memory.h"

namespace strata::megakernel {
namespace {

constexpr int64_t kPackingThreads = 256;

class FiberDecodeMemory : public DecodeMemory {
 public:
  explicit FiberDecodeMemory(FiberMemory memory) : memory_(std::move(memory)) {}
  uint64_t address() const override { return memory_.address(); }
  Result<void> upload(std::string_view bytes) override {
    const std::span<unsigned char> to = memory_.bytes();
    if (bytes.size() != to.size()) return invalid("{} bytes for memory of {}", bytes.size(), to.size());
    std::copy(bytes.begin(), bytes.end(), to.begin());
    return {};
  }
  Result<std::string> download() const override {
    const std::span<unsigned char> bytes = memory_.bytes();
    return std::string(bytes.begin(), bytes.end());
  }
  Result<void> clear() override {
    std::ranges::fill(memory_.bytes(), static_cast<unsigned char>(0));
    return {};
  }

 private:
  FiberMemory memory_;
};

}  // namespace

Result<std::unique_ptr<FiberDecodeTarget>> FiberDecodeTarget::open(const HostCompiler& compiler,
                                                                   const Target& machine) {
  STRATA_TRY(std::unique_ptr<FiberDevice> device, FiberDevice::open());
  return std::unique_ptr<FiberDecodeTarget>(new FiberDecodeTarget(std::move(device), compiler, machine));
}

Result<void> FiberDecodeTarget::compile(const std::string& functions, int count, std::span<const std::string> kernels,
                                        StepForm form, bool profile) {
  const bool graph = form == StepForm::Graph;
  STRATA_TRY(std::unique_ptr<FiberCode> code,
             FiberCode::compile(functions, kernels, profile, compiler_, graph ? count : 0));
  (graph ? graph_ : code_) = std::move(code);
  return {};
}

Result<void> FiberDecodeTarget::check_room(int64_t bytes) const {
  return check_host_memory(static_cast<double>(bytes), "the mega-kernel on the host",
                           "take a smaller model, fewer sequences or a smaller cache, or decode on a GPU");
}

Result<std::unique_ptr<DecodeMemory>> FiberDecodeTarget::allocate(int64_t bytes) {
  STRATA_TRY(FiberMemory memory, device_->allocate(bytes));
  return std::make_unique<FiberDecodeMemory>(std::move(memory));
}

Result<void> FiberDecodeTarget::pack(const std::string& kernel, const std::vector<int64_t>& grid,
                                     std::span<const uint64_t> arguments, bool /*waits*/) {
  std::array<int64_t, 3> blocks{1, 1, 1};
  std::copy(grid.begin(), grid.end(), blocks.begin());
  STRATA_TRY(Process process,
             device_->start(code_ != nullptr ? *code_ : *graph_, kernel, blocks, kPackingThreads, 0, arguments));
  STRATA_TRY(const Process::End end, process.wait());
  if (!end.succeeded()) return environment("{} on the host: {}", kernel, end.text);
  return {};
}

Result<std::unique_ptr<StepKernel>> FiberDecodeTarget::step_kernel(const Plan& plan, const KernelOptions& options,
                                                                   StepForm form) {
  if (form == StepForm::Graph) return FiberGraphKernel::make(*device_, plan, *graph_, options);
  return FiberKernel::make(*device_, plan, *code_, options);
}

}  // namespace strata::megakernel
