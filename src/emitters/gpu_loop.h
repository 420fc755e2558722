// A while loop on the GPU: its iterations are put on the stream one after the other.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "emitters/gpu_run.h"
#include "emitters/loop_buffers.h"

namespace strata::emitters {

/// Where the number of iterations is known, the host only puts their work on the stream: they can be part of a CUDA
/// graph. Else it reads the condition after each.
class GpuLoop {
 public:
  using Pointers = std::function<CudaPointer(int buffer)>;

  /// Errors as GpuRunner::load.
  static Result<std::unique_ptr<GpuLoop>> load(const GpuDevice& device, std::shared_ptr<const LoopStep> step,
                                               const EmitOptions& options, const KernelLoader& loader,
                                               std::shared_ptr<StreamOrder> order);

  /// `pointers`: of the loop's initial values and results.
  Result<void> run(const Pointers& pointers) const;
  Result<void> choose_algorithms_of_steps(ResultCache* cache) { return body_->choose_algorithms_of_steps(cache); }
  /// "loop of 10 iterations, 3 steps each".
  std::string description() const;
  std::optional<std::string> step_on_host() const;
  const std::vector<std::string>& notes() const { return body_->notes(); }

 private:
  GpuLoop(const GpuDevice& device, std::shared_ptr<const LoopStep> loop, std::shared_ptr<StreamOrder> order)
      : device_(device), loop_(std::move(loop)), order_(std::move(order)) {}
  Result<void> plan_counted();
  Result<void> plan_open();
  Result<void> run_counted(const Pointers& pointers) const;
  Result<void> run_open(const Pointers& pointers) const;
  Result<void> copy(CudaPointer to, CudaPointer from, size_t leaf) const;
  /// Of a value of leaf `of`.
  CudaPointer place(const LoopPlace& place, size_t of, const Pointers& pointers) const;
  int64_t bytes_of_leaf(size_t leaf) const;
  /// The body's buffer of a leaf's next value.
  int next_of(size_t leaf) const { return loop_->body->results[leaf]; }
  const ProgramBuffer& body_buffer(int buffer) const { return loop_->body->buffers[static_cast<size_t>(buffer)]; }

  const GpuDevice& device_;
  std::shared_ptr<const LoopStep> loop_;
  std::shared_ptr<StreamOrder> order_;
  std::unique_ptr<GpuRunner> body_, condition_;
  std::vector<std::vector<int>> body_parameters_, condition_parameters_;  ///< by leaf: the buffers that hold it
  LoopBuffers buffers_;                                                   ///< of a counted loop
  std::vector<GpuMemory> scratch_;
  std::map<size_t, GpuMemory> counters_;  ///< by leaf: all values
  // Of others: where the state lies that has no result, and where the next one does.
  std::map<size_t, GpuMemory> states_, nexts_;
  std::optional<GpuMemory> answer_;  ///< of the condition, where a kernel writes it
};

}  // namespace strata::emitters
