#include "megakernel/decode/cuda_decode.h"

#include <fmt/format.h>

#include "runtime/device_probe.h"
#include "runtime/result_cache.h"

namespace strata::megakernel {
namespace {

constexpr unsigned kPackingThreads = 256;
constexpr const char* kChoices = "decode-choice";  ///< in the cache of results
/// What lives from one task to the next is in memory while a function runs that needs all registers. Loops spill
/// nothing.
constexpr int kMostSpilledBytes = 2048;

class CudaDecodeMemory : public DecodeMemory {
 public:
  explicit CudaDecodeMemory(GpuMemory memory) : memory_(std::move(memory)) {}
  uint64_t address() const override { return memory_.pointer(); }
  Result<void> upload(std::string_view bytes) override { return memory_.upload(bytes); }
  Result<std::string> download() const override { return memory_.download(); }
  Result<void> clear() override { return memory_.clear(); }

 private:
  GpuMemory memory_;
};

}  // namespace

const Target& target_of(const GpuDevice& device) {
  const Result<int> major = device.attribute(CudaDriver::kCapabilityMajor, "compute capability");
  const Result<int> minor = device.attribute(CudaDriver::kCapabilityMinor, "compute capability");
  const Target* const found = major && minor ? target_of_capability(*major, *minor) : nullptr;
  return found != nullptr ? *found : default_target();
}

CudaDecodeTarget::~CudaDecodeTarget() {
  if (packing_ != nullptr) device_->driver().unload_module(packing_);
}

Result<void> CudaDecodeTarget::compile(const std::string& functions, int count,
                                       std::span<const std::string> /*kernels*/, StepForm form, bool profile) {
  const bool graph = form == StepForm::Graph;
  CudaCode& code = graph ? graph_ : code_;
  STRATA_TRY(code, compile_cuda_code(functions, machine(), profile, kMostSpilledBytes, cache_, graph ? count : 0));
  const CudaDriver& driver = device_->driver();
  if (packing_ != nullptr) driver.unload_module(std::exchange(packing_, nullptr));
  return driver.check(driver.load_module(&packing_, code.cubin.data()), "loading the packing kernels");
}

Result<void> CudaDecodeTarget::check_room(int64_t bytes) const {
  STRATA_TRY(const int64_t free, device_->free_bytes());
  if (bytes <= free) return {};
  return with_remedy(environment("weights, caches and activations take {:.2f} GB; the GPU has {:.2f} GB free",
                                 static_cast<double>(bytes) * 1e-9, static_cast<double>(free) * 1e-9),
                     "take a smaller model, fewer sequences or a smaller cache, or end what else uses the GPU");
}

Result<std::unique_ptr<DecodeMemory>> CudaDecodeTarget::allocate(int64_t bytes) {
  STRATA_TRY(GpuMemory memory, GpuMemory::allocate(*device_, bytes));
  return std::make_unique<CudaDecodeMemory>(std::move(memory));
}

Result<void> CudaDecodeTarget::pack(const std::string& kernel, const std::vector<int64_t>& grid,
                                    std::span<const uint64_t> arguments, bool waits) {
  const CudaDriver& driver = device_->driver();
  CudaFunction function = nullptr;
  STRATA_CHECK(driver.check(driver.get_function(&function, packing_, kernel.c_str()), kernel));
  std::vector<CudaPointer> pointers(arguments.begin(), arguments.end());
  std::vector<void*> places;
  for (CudaPointer& one : pointers) places.push_back(&one);
  CudaLaunchConfig config;
  for (size_t d = 0; d < grid.size(); ++d) config.grid[d] = static_cast<unsigned>(grid[d]);
  config.block = {kPackingThreads, 1, 1};
  config.stream = device_->stream();
  STRATA_CHECK(driver.check(driver.launch(&config, function, places.data(), nullptr), kernel));
  return waits ? device_->synchronize() : Result<void>();
}

Result<std::unique_ptr<StepKernel>> CudaDecodeTarget::step_kernel(const Plan& plan, const KernelOptions& options,
                                                                  StepForm form) {
  if (form == StepForm::Graph) return CudaGraphKernel::make(*device_, plan, graph_, options);
  return CudaKernel::make(*device_, plan, code_, options);
}

std::string CudaDecodeTarget::key_here(const std::string& key) const {
  return fmt::format("{}\n{}\n{}", build_identity(), device_->name(), key);
}

std::optional<std::string> CudaDecodeTarget::recall(const std::string& key) {
  if (cache_ == nullptr) return std::nullopt;
  const std::optional<ResultCache::Entry> found = cache_->find(kChoices, key_here(key));
  return found ? std::optional(found->value) : std::nullopt;
}

void CudaDecodeTarget::remember(const std::string& key, const std::string& text) {
  if (cache_ != nullptr) cache_->store(kChoices, key_here(key), text);
}

}  // namespace strata::megakernel
