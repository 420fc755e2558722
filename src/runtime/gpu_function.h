// A compiled program as a function that other people's code calls: arguments and results lie in the caller's device
// memory, and the work is put on the caller's stream. The host waits for nothing.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/cuda_streams.h"
#include "runtime/gpu_program.h"
#include "runtime/launch_graphs.h"
#include "runtime/memory_layout.h"

namespace strata {

class GpuFunction {
 public:
  /// Arrays of the caller begin at multiples of so many bytes, which is what libraries and TMA were promised.
  static constexpr CudaPointer kAlignment = kBufferAlignment;

  /// `inputs`: the names of the input buffers in the order of the arguments. Takes memory for what is neither input nor
  /// result, in the device's context, which is current. The device must outlive it. Errors: Environment where there is
  /// too little memory; InvalidInput where an input is no buffer of that role.
  static Result<std::unique_ptr<GpuFunction>> make(std::unique_ptr<GpuProgram> program,
                                                   const std::vector<std::string>& inputs);
  ~GpuFunction();
  GpuFunction(const GpuFunction&) = delete;
  GpuFunction& operator=(const GpuFunction&) = delete;

  /// Puts all steps on `stream`. `inputs` and `results` are multiples of kAlignment, and no result overlaps an input or
  /// another result, but for a result that the program keeps in an input's memory, which may be that input. Calls from
  /// several threads and on several streams are done one after the other on the device, because they share memory;
  /// while the stream is being recorded to a graph, it is the caller's to see that the graph does not run beside other
  /// calls. Calls that come back with the same addresses are one launch of a CUDA graph (LaunchGraphs). Errors:
  /// InvalidInput for wrong pointers; Unsupported where the stream is being recorded and a step is the host's; the
  /// driver's.
  Result<void> call(std::span<const CudaPointer> inputs, std::span<const CudaPointer> results, CudaStream stream);

  /// Whether a stream that others made is of this function's GPU. Error (InvalidInput) where it is another one's.
  Result<void> check_stream(CudaStream stream) const;
  /// Puts a copy of bytes of the GPU's memory on such a stream.
  Result<void> copy(CudaPointer to, CudaPointer from, size_t bytes, CudaStream stream) const;

  const GpuProgram& program() const { return *program_; }
  /// Bytes of device memory that it holds, libraries' workspace not counted.
  int64_t held_bytes() const { return held_bytes_; }

 private:
  /// An argument or a result: its buffer, and those that lie in it.
  struct Array {
    size_t buffer = 0;
    std::vector<size_t> lying_in;
    int64_t bytes = 0;
    bool copied = false;  ///< lies in memory of the program's own, from or to where it is copied
  };

  explicit GpuFunction(std::unique_ptr<GpuProgram> program) : program_(std::move(program)) {}
  Result<void> prepare(const std::vector<std::string>& inputs);
  Result<Array> array_of(const std::string& name) const;
  Result<void> check(std::span<const CudaPointer> given, const std::vector<Array>& arrays, const char* what) const;
  Result<void> launch(std::span<const CudaPointer> inputs, std::span<const CudaPointer> results, CudaStream stream,
                      bool recorded);
  Result<void> order(CudaStream stream, bool recorded);

  std::unique_ptr<GpuProgram> program_;
  CudaStreams streams_{};
  std::optional<GpuBuffers> buffers_;
  std::optional<LaunchGraphs> graphs_;  ///< none where the program has few steps, or one that no graph holds
  std::vector<Array> inputs_, results_;
  int64_t held_bytes_ = 0;
  std::mutex calling_;
  std::optional<CudaStream> last_stream_;
  CudaEvent last_call_ = nullptr;  ///< behind the last call that was not recorded
};

}  // namespace strata
