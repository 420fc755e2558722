#include "compiler/core/graph_function.h"

#include <cstring>

#include "interpret/interpret.h"
#include "runtime/storage.h"

namespace strata::compiler {
namespace {

hlo::Shape shape_of(const TensorType& type) {
  const auto element = hlo::element_type_named(name_of(type.dtype));
  return hlo::array_shape(*element, type.shape);  // HLO has all types of the IR, by the same names
}

}  // namespace

GraphFunction::GraphFunction(GraphPtr graph) : graph_(std::move(graph)) {
  for (const TensorId id : graph_->arguments()) {
    inputs_.push_back(shape_of(graph_->type(id)));
    input_names_.push_back(graph_->tensor(id).name);
  }
  for (const TensorId id : graph_->outputs()) results_.push_back(shape_of(graph_->type(id)));
}

Result<std::unique_ptr<GraphFunction>> GraphFunction::load(const GraphPtr& graph, const GpuDevice& device,
                                                           const std::string& cubin, const std::string& manifest) {
  std::unique_ptr<GraphFunction> made(new GraphFunction(graph));
  STRATA_TRY(LaunchManifest launches, parse_launch_manifest(manifest));
  launches.results.clear();
  for (const TensorId id : graph->outputs()) {
    const std::string& name = graph->tensor(id).name;
    launches.results.emplace_back(name, name);
  }
  STRATA_TRY(const CudaStreams streams, open_cuda_streams());
  STRATA_TRY(const ContextScope scope, ContextScope::enter(device.driver(), streams, device.context()));
  STRATA_TRY(std::unique_ptr<GpuProgram> program, GpuProgram::load(device, cubin, std::move(launches)));
  STRATA_TRY(made->gpu_, GpuFunction::make(std::move(program), made->input_names_));
  return made;
}

std::unique_ptr<GraphFunction> GraphFunction::interpret(const GraphPtr& graph) {
  return std::unique_ptr<GraphFunction>(new GraphFunction(graph));
}

namespace {

template <class Real>
Result<void> run_on_host(const Graph& graph, std::span<std::byte* const> inputs, std::span<std::byte* const> results) {
  std::vector<Tensor<Real>> values;
  const std::vector<TensorId> given = graph.arguments();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorType& type = graph.type(given[i]);
    const std::string bytes(reinterpret_cast<const char*>(inputs[i]), static_cast<size_t>(type.bytes()));
    const Tensor<double> read = decode(bytes, type);
    values.emplace_back(read.shape, std::vector<Real>(read.data.begin(), read.data.end()));
  }
  RealArithmetic<Real> arithmetic{true};
  STRATA_TRY(const std::vector<Tensor<Real>> found, execute(graph, arithmetic, values));
  for (size_t i = 0; i < results.size(); ++i) {
    const Tensor<double> wide(found[i].shape, std::vector<double>(found[i].data.begin(), found[i].data.end()));
    const std::string bytes = encode(wide, graph.type(graph.outputs()[i]).dtype);
    std::memcpy(results[i], bytes.data(), bytes.size());
  }
  return {};
}

}  // namespace

/// In float32, as kernels compute; in float64 where a tensor of the program has that type.
Result<void> GraphFunction::call_on_cpu(std::span<std::byte* const> inputs, std::span<std::byte* const> results) const {
  const auto is_double = [&](const TensorInfo& info) { return info.type.dtype == DType::F64; };
  const auto& tensors = graph_->tensors();
  if (std::any_of(tensors.begin(), tensors.end(), is_double)) return run_on_host<double>(*graph_, inputs, results);
  return run_on_host<float>(*graph_, inputs, results);
}

}  // namespace strata::compiler
