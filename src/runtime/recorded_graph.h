// Work on a stream, recorded once as a CUDA graph and launched as a whole.
#pragma once

#include "runtime/gpu_device.h"

namespace strata {

class RecordedGraph {
 public:
  explicit RecordedGraph(const CudaDriver& driver) : driver_(driver) {}
  ~RecordedGraph();
  RecordedGraph(const RecordedGraph&) = delete;
  RecordedGraph& operator=(const RecordedGraph&) = delete;

  /// What `work` puts on the stream is recorded and not run; nothing that it does may wait. Once. Errors: those of
  /// `work`; the driver's, where it does not take the graph.
  template <class Work>
  Result<void> record(CudaStream stream, const Work& work) {
    STRATA_CHECK(driver_.check(driver_.begin_capture(stream, CudaDriver::kCaptureThreadLocal), "recording"));
    const Result<void> worked = work();
    // The stream is left in order even where the work failed.
    const int ended = driver_.end_capture(stream, &graph_);
    STRATA_CHECK(worked);
    STRATA_CHECK(driver_.check(ended, "recording a graph"));
    return driver_.check(driver_.instantiate_graph(&exec_, graph_, 0), "instantiating a graph");
  }

  Result<void> launch(CudaStream stream) const {
    return driver_.check(driver_.launch_graph(exec_, stream), "launching a graph");
  }

 private:
  const CudaDriver& driver_;
  CudaGraph graph_ = nullptr;
  CudaGraphExec exec_ = nullptr;
};

}  // namespace strata
