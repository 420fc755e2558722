// An HLO module as a function of arrays in memory, for the languages that call Strata: on the machine's GPU or on its
// processor.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "emitters/buffers.h"
#include "emitters/gpu_run.h"
#include "emitters/program.h"

namespace strata::compiler {

struct HloOptions {
  /// Seconds to superoptimize each different product with what is around it (emitters/lax/search.h); 0: not at all.
  double search_seconds = 0;
  ResultCache* cache = nullptr;  ///< of results, cubins and measurements; none where null. Not owned.
  std::string file = "<hlo>";    ///< what errors call the text
};

class HloFunction {
 public:
  /// Compiles the text for the GPU, or for this machine's processor where `device` is null; the device must outlive the
  /// function. Errors: of the text, with its place; Unsupported where something has no meaning; Environment where
  /// memory or a library without a substitute is missing.
  static Result<std::unique_ptr<HloFunction>> compile(std::string_view text, const GpuDevice* device,
                                                      const HloOptions& options = {});

  /// The arrays of the entry's parameters and of its result, those of tuples in order. Each lies in memory as its
  /// shape's layout says (hlo::memory_strides).
  const std::vector<hlo::Shape>& inputs() const { return inputs_; }
  const std::vector<hlo::Shape>& results() const { return results_; }
  const std::vector<std::string>& input_names() const { return input_names_; }
  bool on_gpu() const { return gpu_ != nullptr; }
  /// Where arrays have to begin.
  size_t alignment() const { return on_gpu() ? GpuFunction::kAlignment : emitters::kHostAlignment; }
  /// What was done otherwise than planned, one line each.
  const std::vector<std::string>& notes() const { return notes_; }
  /// What each step is and which emitter or library does it, as `strata emit --explain` says it.
  const std::string& explanation() const { return explanation_; }
  /// Bytes of device memory that the function holds.
  int64_t held_bytes() const { return on_gpu() ? gpu_->held_bytes() : 0; }

  /// Runs it: on the GPU as GpuFunction::call, on the processor at once (`stream` is nothing then). May be called by
  /// several threads at once. Error (InvalidInput) for addresses that are too few, null or not aligned.
  Result<void> call(std::span<const uintptr_t> inputs, std::span<const uintptr_t> results, CudaStream stream);

 private:
  HloFunction() = default;
  void list_arrays(const hlo::Computation& entry);
  Result<void> load_on_gpu(const GpuDevice& device, const hlo::Module& module, const HloOptions& options);
  Result<void> load_on_cpu(const hlo::Module& module, const HloOptions& options);
  Result<void> call_on_cpu(std::span<const uintptr_t> inputs, std::span<const uintptr_t> results) const;
  Result<std::vector<int>> input_buffers(const emitters::EmittedProgram& program) const;

  std::vector<hlo::Shape> inputs_, results_;
  std::vector<std::string> input_names_;
  std::vector<std::pair<int, int>> input_places_;  ///< the parameter, and its leaf where it is a tuple (else −1)
  std::vector<std::string> notes_;
  std::string explanation_;
  std::unique_ptr<GpuFunction> gpu_;
  // On the processor:
  std::optional<emitters::EmittedProgram> program_;
  std::vector<int> input_buffers_;           ///< of program_
  std::vector<emitters::Buffer> constants_;  ///< by buffer of program_
};

}  // namespace strata::compiler
