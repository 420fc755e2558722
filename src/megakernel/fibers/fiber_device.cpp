#include "megakernel/fibers/fiber_device.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "support/host_memory.h"

namespace strata::megakernel {
namespace {

constexpr uint64_t kUnit = 4096;  // a page, so that what is freed is a number of pages

}  // namespace

Result<std::unique_ptr<FiberDevice>> FiberDevice::open() {
  OpenFile file(memfd_create("device", 0));  // launches inherit it
  const auto failed = [] {
    const char* const remedy = errno == ENOMEM ? "raise the limit of addresses (ulimit -v unlimited); of memory, only "
                                                 "what a model needs is taken"
                                               : "let this process make files in memory (memfd_create)";
    return with_remedy(
        environment("{} GB of addresses for memory that processes share: {}", kBytes >> 30, std::strerror(errno)),
        remedy);
  };
  if (file.number() < 0 || ftruncate(file.number(), static_cast<off_t>(kBytes)) != 0) return failed();
  void* const base = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file.number(), 0);
  if (base == MAP_FAILED) return failed();
  return std::unique_ptr<FiberDevice>(new FiberDevice(std::move(file), static_cast<unsigned char*>(base)));
}

FiberDevice::~FiberDevice() { munmap(base_, kBytes); }

Result<FiberMemory> FiberDevice::allocate(int64_t bytes) {
  const uint64_t taken = (static_cast<uint64_t>(std::max<int64_t>(bytes, 1)) + kUnit - 1) / kUnit * kUnit;
  STRATA_CHECK(check_host_memory(static_cast<double>(used_ + taken), "the mega-kernel's memory on the host"));
  if (taken > kBytes - next_) return environment("{} bytes after {} of device memory on the host", bytes, next_);
  const uint64_t address = kPlace + next_;
  next_ += taken;
  used_ += taken;
  return FiberMemory(this, address, static_cast<uint64_t>(bytes));
}

void FiberDevice::free(uint64_t address, uint64_t bytes) {
  const uint64_t taken = (std::max<uint64_t>(bytes, 1) + kUnit - 1) / kUnit * kUnit;
  madvise(here(address), taken, MADV_REMOVE);
  used_ -= taken;
}

Result<Process> FiberDevice::start(const FiberCode& code, const std::string& kernel, std::array<int64_t, 3> grid,
                                   int64_t threads, int64_t shared_bytes, std::span<const uint64_t> arguments) const {
  std::vector<std::string> command{code.program(), kernel};
  const auto add = [&](auto number) { command.push_back(fmt::format("{}", number)); };
  add(file_.number());
  add(kPlace);
  add(next_);
  add(shared_bytes);
  add(threads);
  for (const int64_t blocks : grid) add(blocks);
  for (const uint64_t argument : arguments) add(argument);
  return Process::start(command, {"STRATA_HOST_ORDER=" + order_}, Process::Interrupts::Wait);
}

}  // namespace strata::megakernel
