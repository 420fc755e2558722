#include "runtime/launch_graphs.h"

#include <algorithm>

namespace strata {

RecordedGraph::~RecordedGraph() {
  if (exec_ != nullptr) driver_.destroy_graph_exec(exec_);
  if (graph_ != nullptr) driver_.destroy_graph(graph_);
}

LaunchGraphs::~LaunchGraphs() {
  if (recording_ != nullptr) driver_.destroy_stream(recording_);
}

LaunchGraphs::Set& LaunchGraphs::set_of(const std::vector<CudaPointer>& addresses) {
  const auto found =
      std::find_if(sets_.begin(), sets_.end(), [&](const Set& set) { return set.addresses == addresses; });
  if (found != sets_.end()) {
    sets_.splice(sets_.begin(), sets_, found);
  } else {
    sets_.push_front({addresses});
    if (sets_.size() > kMostSets) sets_.pop_back();  // a graph that still runs is kept by the driver until it has ended
  }
  return sets_.front();
}

Result<std::unique_ptr<RecordedGraph>> LaunchGraphs::record(const Launch& launch) {
  if (recording_ == nullptr)
    STRATA_CHECK(driver_.check(driver_.create_stream(&recording_, CudaDriver::kNonBlocking), "making a stream"));
  auto graph = std::make_unique<RecordedGraph>(driver_);
  STRATA_CHECK(graph->record(recording_, [&] { return launch(recording_); }));
  return graph;
}

Result<void> LaunchGraphs::run(const std::vector<CudaPointer>& addresses, CudaStream stream, const Launch& launch) {
  Set& set = set_of(addresses);
  if (set.graph) return set.graph->launch(stream);
  if (++set.calls < kRecordedCall || made_ >= kMostGraphs) return launch(stream);
  ++made_;
  if (auto graph = record(launch)) {
    set.graph = *std::move(graph);
    return set.graph->launch(stream);
  }
  made_ = kMostGraphs;  // no more are tried
  return launch(stream);
}

}  // namespace strata
