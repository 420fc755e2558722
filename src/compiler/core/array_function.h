// A compiled program as a function of arrays in memory, for the languages that call Strata.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "hlo/shape.h"
#include "runtime/gpu_function.h"

namespace strata::compiler {

class ArrayFunction {
 public:
  virtual ~ArrayFunction() = default;
  ArrayFunction(const ArrayFunction&) = delete;
  ArrayFunction& operator=(const ArrayFunction&) = delete;

  /// The arrays that it takes and gives. Each lies in memory as its shape's layout says (hlo::memory_strides).
  const std::vector<hlo::Shape>& inputs() const { return inputs_; }
  const std::vector<hlo::Shape>& results() const { return results_; }
  const std::vector<std::string>& input_names() const { return input_names_; }
  bool on_gpu() const { return gpu_ != nullptr; }
  /// Arrays begin at multiples of so many bytes: on the processor of those that code there is made for.
  size_t alignment() const { return on_gpu() ? GpuFunction::kAlignment : kHostAlignment; }
  /// What was done otherwise than planned, one line each.
  const std::vector<std::string>& notes() const { return notes_; }
  /// What it does, step by step; may be empty.
  const std::string& explanation() const { return explanation_; }
  /// Bytes of device memory that it holds.
  int64_t held_bytes() const { return on_gpu() ? gpu_->held_bytes() : 0; }

  /// Runs it: on the GPU as GpuFunction::call, on the processor at once (`stream` is nothing then). May be called by
  /// several threads at once. Error (InvalidInput) for addresses that are too few, null or not aligned.
  Result<void> call(std::span<const uintptr_t> inputs, std::span<const uintptr_t> results, CudaStream stream);
  /// As GpuFunction; null on the processor. What it is called with is call()'s to check.
  const GpuFunction* on_device() const { return gpu_.get(); }

 protected:
  ArrayFunction() = default;
  virtual Result<void> call_on_cpu(std::span<std::byte* const> inputs, std::span<std::byte* const> results) const = 0;

  static constexpr size_t kHostAlignment = 16;  ///< of emitters/program.h
  std::vector<hlo::Shape> inputs_, results_;
  std::vector<std::string> input_names_;
  std::vector<std::string> notes_;
  std::string explanation_;
  std::unique_ptr<GpuFunction> gpu_;
};

}  // namespace strata::compiler
