#include "gpu_times.h"

#include "runtime/memory_layout.h"

namespace strata::cli {

Result<void> print_profile(const GpuProgram& program, const GpuBuffers& buffers) {
  STRATA_TRY(const auto times, program.profile(buffers, kProfileRuns));
  for (const auto& [name, what, microseconds] : times) fmt::print("{:>10.2f} µs  {}  {}\n", microseconds, name, what);
  if (const auto replayed = program.microseconds(std::span(&buffers, 1)))
    fmt::print("{:>10.2f} µs  all, as a CUDA graph\n", *replayed);
  const MemoryLayout memory = layout_of(program.manifest());
  fmt::print("{} bytes of parameters and constants, {}\n", memory.input_bytes + memory.constant_bytes,
             describe(memory));
  return {};
}

}  // namespace strata::cli
