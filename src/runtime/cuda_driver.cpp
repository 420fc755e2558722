#include "runtime/cuda_driver.h"

#include "runtime/cuda_graph_nodes.h"
#include "runtime/cuda_libraries.h"
#include "runtime/cuda_streams.h"

namespace strata {
namespace {

void bind_all(FunctionBinder& r, CudaDriver& d) {
  r.bind(d.init, {"cuInit"});
  r.bind(d.driver_version, {"cuDriverGetVersion"});
  r.bind(d.error_name, {"cuGetErrorName"});
  r.bind(d.error_text, {"cuGetErrorString"});
  r.bind(d.device_get, {"cuDeviceGet"});
  r.bind(d.device_name, {"cuDeviceGetName"});
  r.bind(d.device_attribute, {"cuDeviceGetAttribute"});
  r.bind(d.context_retain, {"cuDevicePrimaryCtxRetain"});
  r.bind(d.context_release, {"cuDevicePrimaryCtxRelease_v2"});
  r.bind(d.context_use, {"cuCtxSetCurrent"});
  r.bind(d.memory_info, {"cuMemGetInfo_v2"});
  r.bind(d.allocate, {"cuMemAlloc_v2"});
  r.bind(d.release, {"cuMemFree_v2"});
  r.bind(d.copy_to_device, {"cuMemcpyHtoD_v2"});
  r.bind(d.copy_to_host, {"cuMemcpyDtoH_v2"});
  r.bind(d.copy_on_device, {"cuMemcpyDtoD_v2"});
  r.bind(d.allocate_host, {"cuMemHostAlloc"});
  r.bind(d.release_host, {"cuMemFreeHost"});
  r.bind(d.copy_to_device_later, {"cuMemcpyHtoDAsync_v2"});
  r.bind(d.copy_to_host_later, {"cuMemcpyDtoHAsync_v2"});
  r.bind(d.fill, {"cuMemsetD8_v2"});
  r.bind(d.copy_on_device_later, {"cuMemcpyDtoDAsync_v2"});
  r.bind(d.fill_bytes_later, {"cuMemsetD8Async"});
  r.bind(d.fill_halves_later, {"cuMemsetD16Async"});
  r.bind(d.fill_words_later, {"cuMemsetD32Async"});
  r.bind(d.fill_rows_later, {"cuMemsetD2D32Async"});
  r.bind(d.load_module, {"cuModuleLoadData"});
  r.bind(d.unload_module, {"cuModuleUnload"});
  r.bind(d.get_function, {"cuModuleGetFunction"});
  r.bind(d.set_function_attribute, {"cuFuncSetAttribute"});
  r.bind(d.function_attribute, {"cuFuncGetAttribute"});
  r.bind(d.blocks_per_multiprocessor, {"cuOccupancyMaxActiveBlocksPerMultiprocessor"});
  r.bind(d.launch, {"cuLaunchKernelEx"});
  r.bind(d.encode_tensor_map, {"cuTensorMapEncodeTiled"});
  r.bind(d.synchronize, {"cuCtxSynchronize"});
  r.bind(d.create_stream, {"cuStreamCreate"});
  r.bind(d.destroy_stream, {"cuStreamDestroy_v2"});
  r.bind(d.query_stream, {"cuStreamQuery"});
  r.bind(d.synchronize_stream, {"cuStreamSynchronize"});
  r.bind(d.begin_capture, {"cuStreamBeginCapture_v2"});
  r.bind(d.end_capture, {"cuStreamEndCapture"});
  r.bind(d.instantiate_graph, {"cuGraphInstantiateWithFlags"});
  r.bind(d.launch_graph, {"cuGraphLaunch"});
  r.bind(d.destroy_graph, {"cuGraphDestroy"});
  r.bind(d.destroy_graph_exec, {"cuGraphExecDestroy"});
  r.bind(d.create_event, {"cuEventCreate"});
  r.bind(d.destroy_event, {"cuEventDestroy_v2"});
  r.bind(d.record_event, {"cuEventRecord"});
  r.bind(d.synchronize_event, {"cuEventSynchronize"});
  r.bind(d.elapsed, {"cuEventElapsedTime", "cuEventElapsedTime_v2"});
}

const CudaLibraryFiles& driver_files() {
  static const CudaLibraryFiles files{.name = "the CUDA driver",
                                      .variable = "STRATA_CUDA_DRIVER",
                                      .files = {"libcuda.so.1"},
                                      .remedy = "install a driver of NVIDIA's for CUDA 12 or later",
                                      .in_roots = false};
  return files;
}

}  // namespace

Result<void> CudaDriver::check(int status, std::string_view what) const {
  if (status == 0) return {};
  const char* name = nullptr;
  const char* text = nullptr;
  error_name(status, &name);
  error_text(status, &text);
  return environment("{}: {}{}{}", what, name == nullptr ? fmt::format("CUDA error {}", status) : name,
                     text == nullptr ? "" : ": ", text == nullptr ? "" : text);
}

Result<CudaDriver> open_cuda_driver() {
  STRATA_TRY(const CudaLibrary library, open_cuda_library(driver_files()));
  CudaDriver driver{};
  FunctionBinder binder(library.handle);
  bind_all(binder, driver);
  STRATA_CHECK(check_complete(binder, driver_files()));
  return driver;
}

Result<CudaGraphNodes> open_graph_nodes() {
  STRATA_TRY(const CudaLibrary library, open_cuda_library(driver_files()));
  CudaGraphNodes nodes{};
  FunctionBinder binder(library.handle);
  binder.bind(nodes.current_context, {"cuCtxGetCurrent"});
  binder.bind(nodes.create_condition, {"cuGraphConditionalHandleCreate"});
  binder.bind(nodes.add_node, {"cuGraphAddNode_v2"});
  binder.bind(nodes.stream_state, {"cuStreamGetCaptureInfo_v3"});
  binder.bind(nodes.set_dependencies, {"cuStreamUpdateCaptureDependencies_v2"});
  binder.bind(nodes.begin_capture_to_graph, {"cuStreamBeginCaptureToGraph"});
  if (!binder.missing().empty()) return unsupported("the CUDA driver has no function {}", binder.missing());
  return nodes;
}

Result<CudaStreams> open_cuda_streams() {
  STRATA_TRY(const CudaLibrary library, open_cuda_library(driver_files()));
  CudaStreams streams{};
  FunctionBinder binder(library.handle);
  binder.bind(streams.push_context, {"cuCtxPushCurrent_v2"});
  binder.bind(streams.pop_context, {"cuCtxPopCurrent_v2"});
  binder.bind(streams.current_context, {"cuCtxGetCurrent"});
  binder.bind(streams.wait_event, {"cuStreamWaitEvent"});
  binder.bind(streams.recording, {"cuStreamIsCapturing"});
  binder.bind(streams.context_of, {"cuStreamGetCtx"});
  STRATA_CHECK(check_complete(binder, driver_files()));
  return streams;
}

Result<ContextScope> ContextScope::enter(const CudaDriver& driver, const CudaStreams& streams, CudaContext context) {
  STRATA_CHECK(driver.check(streams.push_context(context), "using the context"));
  return ContextScope(streams);
}

ContextScope::~ContextScope() {
  CudaContext left = nullptr;
  if (pop_ != nullptr) pop_(&left);
}

}  // namespace strata
