// A program on the GPU: kernels and libraries' work in order on one stream.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "emitters/program.h"
#include "runtime/gpu_program.h"
#include "runtime/result_cache.h"

namespace strata::emitters {

/// What the driver loads for a fusion: a cubin.
using KernelLoader = std::function<Result<std::string>(const EmittedFusion&)>;

/// Links the fusion's PTX by nvJitLink.
Result<std::string> cubin_of(const EmittedFusion& fusion, const std::string& arch);

/// Where a program's arrays lie in device memory.
struct MemoryLayout {
  std::vector<int64_t> offsets;  ///< of each buffer from the start of its region, in bytes
  int64_t constant_bytes = 0;    ///< the region of parameters and constants, which is not written by kernels
  int64_t working_bytes = 0;     ///< the region of all others; those that live at different steps share bytes
  int64_t separate_bytes = 0;    ///< what the others take without sharing
};
/// Without the buffers that lie `elsewhere`.
MemoryLayout lay_out(const EmittedProgram& program, const std::vector<bool>& elsewhere = {});

/// The architecture of the GPU as emitters and libraries are asked for it: "sm_90a". Error (Unsupported) where no
/// target is as old.
Result<std::string> architecture_of(const GpuDevice& device);

class GpuLoop;

/// What was put on the stream last. A kernel of ours may start while it runs, where that is one too: each lets the next
/// one start and waits for the one before (PtxOptions::overlap; generated code does it as well).
struct StreamOrder {
  bool behind_kernel = false;
  bool overlaps = true;  ///< whether kernels may; those of fusions do on targets with overlapping kernels
};

class GpuRunner {
 public:
  ~GpuRunner();

  struct StepTime {
    std::string name;
    std::string what;  ///< the emitter or library
    double microseconds = 0;
  };

  /// Loads kernels, prepares libraries, takes memory. A library that is missing or refuses its work, and a µGraph whose
  /// code the driver does not take, is replaced by a kernel; notes() says so. The device must outlive it. Errors:
  /// Environment where what is needed is missing or there is too little memory; those of the emitters.
  static Result<std::unique_ptr<GpuRunner>> load(const GpuDevice& device, EmittedProgram program,
                                                 const EmitOptions& options, const KernelLoader& loader = {});

  const EmittedProgram& program() const { return program_; }
  const MemoryLayout& memory() const { return layout_; }
  const std::vector<std::string>& notes() const { return notes_; }

  /// Takes for each product and convolution the algorithm that is fastest on this GPU, by measurement once
  /// (library/fastest.h), and lets kernels start early only where that makes the whole faster: among libraries' kernels
  /// it may not (seen on an H200). Called after load, before all else.
  Result<void> choose_algorithms(ResultCache* cache);

  /// Copies the arguments, runs all steps, and copies the results back. Arguments are checked against the parameters.
  Result<hlo::Literal> run(std::span<const hlo::Literal> arguments);
  /// Times of all steps and of the whole: medians over `repetitions` runs after the first, with the arguments of the
  /// last run(). Those of steps that the interpreter runs contain copies to the host and back.
  Result<std::vector<StepTime>> profile(int repetitions);
  /// Of the whole, as a CUDA graph that is replayed (runtime/replay.h), on what memory holds. Error (Unsupported) where
  /// the interpreter runs a step.
  Result<double> microseconds() const;

  // --- as the body of a loop (gpu_loop.h) ---
  /// Parameters and results have no memory of their own: they are where bind() says. Its steps come behind others.
  static Result<std::unique_ptr<GpuRunner>> load_body(const GpuDevice& device, EmittedProgram program,
                                                      const EmitOptions& options, const KernelLoader& loader,
                                                      std::shared_ptr<StreamOrder> order);
  void bind(int buffer, CudaPointer pointer) { bound_[static_cast<size_t>(buffer)] = pointer; }
  /// Of a parameter, a result, or a constant.
  CudaPointer pointer(int buffer) const;
  /// choose_algorithms, but for the order of kernels, which is chosen for the whole.
  Result<void> choose_algorithms_of_steps(ResultCache* cache);
  /// Puts all steps on the stream.
  Result<void> run_steps() const;
  /// The first step that the interpreter runs, or a loop whose iterations the host counts: none in a CUDA graph.
  std::optional<std::string> step_on_host() const;
  Result<hlo::Literal> download(int buffer) const;

 private:
  struct Loaded {
    CudaModule module = nullptr;
    std::vector<CudaFunction> functions;
    std::unique_ptr<PreparedWork> work;
    std::unique_ptr<GpuProgram> program;  ///< of a µGraph
    GpuBuffers counters;                  ///< of it: 0 before each run and after
    std::unique_ptr<GpuLoop> loop;
  };
  class Modules;

  GpuRunner(const GpuDevice& device, EmittedProgram program);
  Result<void> load_step(ProgramStep& step, const EmitOptions& options, const KernelLoader& loader, Loaded& loaded);
  Result<void> allocate();
  Result<void> allocate_workspace();
  Result<void> run_step(size_t step) const;
  Result<void> prepare_outputs(const ProgramStep& step) const;
  Result<void> launch(const ProgramStep& step, const Loaded& loaded) const;
  Result<void> launch_lax(const ProgramStep& step, const Loaded& loaded) const;
  Result<void> load_lax(const LaxStep& step, Loaded& loaded) const;
  void replace(ProgramStep& step, const EmitOptions& options, const Error& why);
  Result<void> interpret(const ProgramStep& step) const;
  Result<void> upload(int buffer, const hlo::Literal& value) const;
  static Result<std::unique_ptr<GpuRunner>> load(const GpuDevice& device, EmittedProgram program,
                                                 const EmitOptions& options, const KernelLoader& loader,
                                                 std::shared_ptr<StreamOrder> order, bool is_body);
  const hlo::Shape& shape_of(int buffer) const { return program_.buffers[static_cast<size_t>(buffer)].shape; }

  const GpuDevice& device_;
  EmittedProgram program_;
  MemoryLayout layout_;
  std::shared_ptr<Modules> modules_;  ///< unloads them
  std::vector<Loaded> loaded_;        ///< by step
  std::vector<std::string> notes_;
  bool is_body_ = false;
  bool overlaps_ = false;  ///< Target::overlapping_kernels
  std::shared_ptr<StreamOrder> order_;
  std::vector<CudaPointer> bound_;  ///< by buffer; 0: in this program's own memory
  std::optional<GpuMemory> constants_, working_, workspace_;
};

}  // namespace strata::emitters
