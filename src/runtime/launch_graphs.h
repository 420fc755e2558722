// CUDA graphs of a program's calls. A call from the host costs several microseconds for each launch, a graph as much
// for all of them. Training loops, decode steps and serving call with the same arrays again and again, because
// allocators give the same addresses: so a graph for each set of addresses that comes back pays.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <vector>

#include "runtime/recorded_graph.h"

namespace strata {

class LaunchGraphs {
 public:
  /// The call with the same addresses that is recorded: the work of the first ones is loaded and set up then.
  static constexpr int kRecordedCall = 3;
  /// Sets of addresses that are known at a time, the last ones that were called with.
  static constexpr size_t kMostSets = 4;
  /// Graphs that are ever made: where addresses keep changing, recording costs more than it saves.
  static constexpr int kMostGraphs = 32;

  /// The driver must outlive it.
  explicit LaunchGraphs(const CudaDriver& driver) : driver_(driver) {}
  ~LaunchGraphs();
  LaunchGraphs(const LaunchGraphs&) = delete;
  LaunchGraphs& operator=(const LaunchGraphs&) = delete;

  /// Puts on the stream, which is not being recorded, what `launch` puts on a stream for these addresses: by a graph
  /// where there is one for them. Where the driver takes no graph of it, `launch` does it from then on.
  using Launch = std::function<Result<void>(CudaStream stream)>;
  Result<void> run(const std::vector<CudaPointer>& addresses, CudaStream stream, const Launch& launch);

 private:
  struct Set {
    std::vector<CudaPointer> addresses;
    int calls = 0;
    std::unique_ptr<RecordedGraph> graph{};
  };
  Set& set_of(const std::vector<CudaPointer>& addresses);
  Result<std::unique_ptr<RecordedGraph>> record(const Launch& launch);

  const CudaDriver& driver_;
  CudaStream recording_ = nullptr;  ///< a stream of its own, where nothing runs
  std::list<Set> sets_;             ///< the last one that was called with is first
  int made_ = 0;
};

}  // namespace strata
