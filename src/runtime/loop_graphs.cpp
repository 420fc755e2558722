#include "runtime/loop_graphs.h"

#include <cassert>

namespace strata {
namespace {

/// Sets of buffers with which loops are kept.
constexpr size_t kMostGraphs = 64;

/// A pred counts by its low bit. The driver has the function that is called.
constexpr const char* kTell = R"(.version 7.0
.target sm_80
.address_size 64
.extern .func cudaGraphSetConditional(.param .b64 condition, .param .b32 value);
.func strata_tell_condition(.param .b64 condition, .param .b32 value)
{
  .reg .pred %p<2>;
  .reg .b32 %r<2>;
  .reg .b64 %rd<2>;
  ld.param.b64 %rd1, [condition];
  ld.param.b32 %r1, [value];
  setp.eq.u64 %p1, %rd1, 0;
  @%p1 bra $none;
  {
    .param .b64 param0;
    st.param.b64 [param0], %rd1;
    .param .b32 param1;
    st.param.b32 [param1], %r1;
    call.uni cudaGraphSetConditional, (param0, param1);
  }
$none:
  ret;
}
.visible .entry strata_tell_conditions(.param .u64 answer, .param .u64 more, .param .u64 back, .param .u64 odd,
                                       .param .u64 is_odd)
{
  .reg .b32 %r<4>;
  .reg .b64 %rd<6>;
  ld.param.u64 %rd1, [answer];
  cvta.to.global.u64 %rd2, %rd1;
  ld.global.u8 %r1, [%rd2];
  and.b32 %r2, %r1, 1;
  ld.param.u32 %r3, [is_odd];
  ld.param.u64 %rd3, [more];
  ld.param.u64 %rd4, [back];
  ld.param.u64 %rd5, [odd];
  call.uni strata_tell_condition, (%rd3, %r2);
  call.uni strata_tell_condition, (%rd4, %r2);
  call.uni strata_tell_condition, (%rd5, %r3);
  ret;
}
)";

}  // namespace

Result<std::unique_ptr<LoopGraphs>> LoopGraphs::open(const GpuDevice& device, int depth) {
  std::unique_ptr<LoopGraphs> made(new LoopGraphs(device));
  STRATA_CHECK(made->start(depth));
  return made;
}

Result<void> LoopGraphs::start(int depth) {
  const CudaDriver& driver = device_.driver();
  if (device_.driver_version() < CudaGraphNodes::kLeastVersion)
    return unsupported("a driver for CUDA {}.{} has no loops in graphs", device_.driver_version() / 1000,
                       device_.driver_version() / 10 % 100);
  STRATA_TRY(nodes_, open_graph_nodes());
  STRATA_CHECK(driver.check(nodes_.current_context(&context_), "the context"));
  STRATA_CHECK(driver.check(driver.load_module(&module_, kTell), "loading the kernel of conditions"));
  STRATA_CHECK(
      driver.check(driver.get_function(&tell_, module_, "strata_tell_conditions"), "finding the kernel of conditions"));
  constexpr int kOfALoop = 2;  // its body, and the way back
  for (int i = 0; i < kOfALoop * depth; ++i) {
    CudaStream stream = nullptr;
    STRATA_CHECK(driver.check(driver.create_stream(&stream, CudaDriver::kNonBlocking), "making a stream"));
    streams_.push_back(stream);
  }
  return {};
}

LoopGraphs::~LoopGraphs() {
  forget();
  for (CudaStream stream : streams_) device_.driver().destroy_stream(stream);
  if (module_ != nullptr) device_.driver().unload_module(module_);
}

void LoopGraphs::forget() {
  if (!graphs_.empty()) device_.driver().synchronize();  // none is running
  for (const auto& [key, graph] : graphs_) device_.driver().destroy_graph_exec(graph);
  graphs_.clear();
}

Result<LoopGraphs::Recording> LoopGraphs::recording(CudaStream stream) const {
  Recording made;
  uint64_t number = 0;
  STRATA_CHECK(device_.driver().check(
      nodes_.stream_state(stream, &made.state, &number, &made.graph, &made.dependencies, &made.kinds, &made.count),
      "the state of a stream"));
  return made;
}

Result<bool> LoopGraphs::is_recorded(CudaStream stream) const {
  STRATA_TRY(const Recording made, recording(stream));
  return made.state == CudaGraphNodes::kRecorded;
}

Result<void> LoopGraphs::tell(CudaStream stream, CudaPointer answer, Told told) const {
  CudaLaunchConfig config;
  config.stream = stream;
  std::array<void*, 5> arguments{&answer, &told.more, &told.back, &told.odd, &told.is_odd};
  return device_.driver().check(device_.driver().launch(&config, tell_, arguments.data(), nullptr),
                                "launching the kernel of conditions");
}

Result<uint64_t> LoopGraphs::condition_in(CudaGraph graph) const {
  uint64_t handle = 0;
  STRATA_CHECK(
      device_.driver().check(nodes_.create_condition(&handle, graph, context_, 0, 0), "a condition of a graph"));
  return handle;
}

Result<void> LoopGraphs::add_conditional(CudaStream stream, int kind, uint64_t handle, const Steps& steps) {
  assert(depth_ < streams_.size());
  const CudaDriver& driver = device_.driver();
  CudaConditionalNode made;
  made.context = context_;
  made.handle = handle;
  made.condition = kind;
  STRATA_TRY(const Recording at, recording(stream));
  CudaGraphNode node = nullptr;
  STRATA_CHECK(driver.check(nodes_.add_node(&node, at.graph, at.dependencies, at.kinds, at.count, &made),
                            "adding a condition to a graph"));
  STRATA_CHECK(driver.check(nodes_.set_dependencies(stream, &node, nullptr, 1, CudaGraphNodes::kInPlaceOfOthers),
                            "going on after a condition"));
  CudaStream inner = streams_[depth_];
  STRATA_CHECK(driver.check(
      nodes_.begin_capture_to_graph(inner, made.graphs[0], nullptr, nullptr, 0, CudaDriver::kCaptureThreadLocal),
      "recording what a condition decides on"));
  ++depth_;
  const Result<void> worked = steps(inner);
  --depth_;
  // The stream is left in order even where the work failed.
  CudaGraph same = nullptr;
  const int ended = driver.end_capture(inner, &same);
  STRATA_CHECK(worked);
  return driver.check(ended, "recording what a condition decides on");
}

Result<void> LoopGraphs::add_loop(CudaStream stream, const Loop& loop) {
  STRATA_TRY(const Recording at, recording(stream));
  STRATA_TRY(const uint64_t more, condition_in(at.graph));
  uint64_t odd = 0;
  if (loop.settle) {
    STRATA_TRY(odd, condition_in(at.graph));
  }
  const auto asked = [&](CudaStream on, const Told& told) -> Result<void> {
    STRATA_CHECK(loop.condition(on));
    return tell(on, loop.answer(), told);
  };
  const auto body = [&](CudaStream inner) -> Result<void> {
    STRATA_CHECK(loop.body(inner));
    if (!loop.back) return asked(inner, {.more = more});
    STRATA_TRY(const Recording own, recording(inner));
    STRATA_TRY(const uint64_t back, condition_in(own.graph));
    STRATA_CHECK(asked(inner, {.more = more, .back = back, .odd = odd, .is_odd = 1}));
    const auto again = [&](CudaStream innermost) -> Result<void> {
      STRATA_CHECK(loop.back(innermost));
      return asked(innermost, {.more = more, .odd = odd});
    };
    return add_conditional(inner, CudaConditionalNode::kIf, back, again);
  };
  STRATA_CHECK(asked(stream, {.more = more, .odd = odd}));
  if (loop.once) return add_conditional(stream, CudaConditionalNode::kIf, more, loop.body);
  STRATA_CHECK(add_conditional(stream, CudaConditionalNode::kWhile, more, body));
  return loop.settle ? add_conditional(stream, CudaConditionalNode::kIf, odd, loop.settle) : Result<void>();
}

Result<CudaGraphExec> LoopGraphs::record(const Steps& steps) const {
  const CudaDriver& driver = device_.driver();
  STRATA_CHECK(driver.check(driver.begin_capture(device_.stream(), CudaDriver::kCaptureThreadLocal), "recording"));
  const Result<void> worked = steps(device_.stream());
  CudaGraph graph = nullptr;
  CudaGraphExec exec = nullptr;
  int status = driver.end_capture(device_.stream(), &graph);
  if (worked && status == 0) status = driver.instantiate_graph(&exec, graph, 0);
  if (graph != nullptr) driver.destroy_graph(graph);
  STRATA_CHECK(worked);
  STRATA_CHECK(driver.check(status, "instantiating a loop's graph"));
  return exec;
}

Result<void> LoopGraphs::launch(CudaStream stream, Key key, const Steps& steps) {
  if (!refusal_.empty()) return unsupported("{}", refusal_);
  auto found = graphs_.find(key);
  if (found == graphs_.end()) {
    if (graphs_.size() >= kMostGraphs) forget();
    Result<CudaGraphExec> made = record(steps);
    if (!made && overlaps_) {  // drivers may take loops without overlap alone
      overlaps_ = false;
      made = record(steps);
    }
    if (!made) {
      refusal_ = made.error().message;
      return tl::unexpected(made.error());
    }
    found = graphs_.emplace(std::move(key), *made).first;
  }
  return device_.driver().check(device_.driver().launch_graph(found->second, stream), "launching a loop");
}

}  // namespace strata
