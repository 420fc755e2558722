// A program of an HLO module on the GPU: its literals to and from what the launcher runs (runtime/gpu_program.h).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "emitters/program_image.h"
#include "runtime/gpu_function.h"
#include "runtime/result_cache.h"

namespace strata::emitters {

class GpuRunner {
 public:
  using StepTime = GpuProgram::PartTime;

  /// Loads kernels, prepares libraries, takes memory. A library that is missing or refuses its work, and a µGraph whose
  /// code the driver does not take, is replaced by a kernel; notes() says so. The device must outlive it. Errors:
  /// Environment where what is needed is missing or there is too little memory; those of the emitters.
  static Result<std::unique_ptr<GpuRunner>> load(const GpuDevice& device, EmittedProgram program,
                                                 const EmitOptions& options, const KernelLoader& loader = {},
                                                 ResultMemory results = ResultMemory::Shared,
                                                 const LoopLoader& loops = {});

  const EmittedProgram& program() const { return program_; }
  /// What it runs, and on which memory.
  const GpuProgram& gpu() const { return *gpu_; }
  const GpuBuffers& buffers() const { return *buffers_; }
  const std::vector<std::string>& notes() const { return notes_; }

  /// Takes for each product and convolution the algorithm that is fastest on this GPU, by measurement once
  /// (library/fastest.h), and lets kernels start early only where that makes the whole faster: among libraries' kernels
  /// it may not (seen on an H200). Called after load, before all else.
  Result<void> choose_algorithms(ResultCache* cache);

  /// The program as a function of arrays in the caller's memory: `inputs` are parameters' buffers of program(), in the
  /// order of the function's arguments. Of a runner that was loaded with ResultMemory::Own; it can do nothing else
  /// afterwards, and its memory is free.
  Result<std::unique_ptr<GpuFunction>> into_function(const std::vector<int>& inputs);

  /// Copies the arguments, runs all steps, and copies the results back. Arguments are checked against the parameters.
  Result<hlo::Literal> run(std::span<const hlo::Literal> arguments);
  /// Times of all steps and of the whole: medians over `repetitions` runs after the first, with the arguments of the
  /// last run(), over which a program that updates a parameter in place has written. Those of steps that the
  /// interpreter runs contain copies to the host and back.
  Result<std::vector<StepTime>> profile(int repetitions) const { return gpu_->profile(*buffers_, repetitions); }
  /// Of the whole, as a CUDA graph that is replayed (runtime/replay.h), on what memory holds. Error (Unsupported) where
  /// the host takes part.
  Result<double> microseconds() const { return gpu_->microseconds(std::span(&*buffers_, 1)); }

 private:
  GpuRunner(const GpuDevice& device, EmittedProgram program) : device_(device), program_(std::move(program)) {}
  Result<void> settle(EmittedProgram& program, const EmitOptions& options);
  Result<void> settle(ProgramStep& step, const EmitOptions& options);
  void replace(ProgramStep& step, const EmitOptions& options, const Error& why);
  Result<hlo::Literal> download(const std::string& buffer, const hlo::Shape& shape) const;

  const GpuDevice& device_;
  EmittedProgram program_;
  std::vector<std::string> notes_;
  std::map<std::string, std::shared_ptr<PreparedWork>> prepared_;  ///< by identity_of
  std::vector<std::string> names_;                                 ///< EmittedImage::buffers
  std::unique_ptr<GpuProgram> gpu_;
  std::optional<GpuBuffers> buffers_;
};

}  // namespace strata::emitters
