// Loops whose conditions depend on data, as parts of CUDA graphs: the device decides whether they go on, and the host
// reads nothing.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/cuda_graph_nodes.h"
#include "runtime/gpu_device.h"

namespace strata {

class LoopGraphs {
 public:
  /// Puts steps on a stream.
  using Steps = std::function<Result<void>(CudaStream stream)>;
  /// What a recorded loop depends on: the loop, and where all buffers lie.
  using Key = std::pair<const void*, std::vector<CudaPointer>>;

  /// For loops nested up to this depth. Error (Unsupported, Environment) where the driver has no conditional
  /// nodes.
  static Result<std::unique_ptr<LoopGraphs>> open(const GpuDevice& device, int depth);
  ~LoopGraphs();
  LoopGraphs(const LoopGraphs&) = delete;
  LoopGraphs& operator=(const LoopGraphs&) = delete;

  /// Whether what is put on the stream becomes a graph.
  Result<bool> is_recorded(CudaStream stream) const;
  /// A loop: as long as `condition` leaves a true pred at `answer`, which is asked for after each call of it, `body`
  /// is run. Where there is `back`, the two take turns, and `settle` follows if `body` was run last. They are called
  /// with the streams on which their steps are recorded. Of a loop that runs `once` at most, the answer is asked for
  /// before it alone.
  struct Loop {
    bool once = false;
    Steps condition, body, back, settle;
    std::function<CudaPointer()> answer;
  };
  /// Adds a loop to the graph that is recorded on the stream.
  Result<void> add_loop(CudaStream stream, const Loop& loop);

  /// Puts the graph of a loop on the stream. What has no graph yet is recorded by `record`. Error where the driver does
  /// not take it: then, and from then on, the host has to ask.
  Result<void> launch(CudaStream stream, Key key, const Steps& record);
  /// Why the driver did not take a loop; empty if it took all.
  const std::string& refusal() const { return refusal_; }
  /// Whether kernels in loops may start while those before them run.
  bool overlaps() const { return overlaps_; }
  /// What was recorded is not what is to be run any more.
  void forget();

 private:
  struct Recording {
    int state = 0;
    CudaGraph graph = nullptr;
    const CudaGraphNode* dependencies = nullptr;
    const void* kinds = nullptr;
    size_t count = 0;
  };

  explicit LoopGraphs(const GpuDevice& device) : device_(device) {}
  Result<void> start(int depth);
  Result<Recording> recording(CudaStream stream) const;
  Result<CudaGraphExec> record(const Steps& steps) const;
  /// What a kernel tells conditions, by their handles; 0 is none.
  struct Told {
    uint64_t more = 0, back = 0;  ///< the answer
    uint64_t odd = 0;             ///< `is_odd`, 0 or 1
    uint64_t is_odd = 0;
  };
  Result<void> tell(CudaStream stream, CudaPointer answer, Told told) const;
  Result<uint64_t> condition_in(CudaGraph graph) const;
  /// Adds a node to the graph that is recorded on the stream, and to the node's own graph what `steps` records.
  Result<void> add_conditional(CudaStream stream, int kind, uint64_t handle, const Steps& steps);

  const GpuDevice& device_;
  CudaGraphNodes nodes_{};
  CudaContext context_ = nullptr;
  CudaModule module_ = nullptr;
  CudaFunction tell_ = nullptr;
  std::vector<CudaStream> streams_;  ///< by depth: where nodes' graphs are recorded
  size_t depth_ = 0;                 ///< nodes whose graphs are being recorded
  bool overlaps_ = true;
  std::string refusal_;
  std::map<Key, CudaGraphExec> graphs_;
};

}  // namespace strata
