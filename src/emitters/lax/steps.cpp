#include "emitters/lax/steps.h"

#include "hlo/compute.h"
#include "interpret/interpret.h"

namespace strata::emitters {
namespace {

template <class Value>
Result<hlo::Literal> execute_in(const Graph& graph, const std::vector<int>& inputs,
                                std::span<const hlo::Literal> arguments, const hlo::Shape& shape) {
  RealArithmetic<Value> arithmetic{true};
  std::vector<Tensor<Value>> tensors;
  const std::vector<TensorId> given = graph.arguments();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::vector<double> values = hlo::load_all<double>(arguments[static_cast<size_t>(inputs[i])]);
    tensors.emplace_back(graph.type(given[i]).shape, std::vector<Value>(values.begin(), values.end()));
  }
  STRATA_TRY(const auto results, execute(graph, arithmetic, tensors));
  const std::vector<double> values(results[0].data.begin(), results[0].data.end());
  return hlo::literal_of<double>(shape, values);
}

}  // namespace

std::vector<hlo::Shape> intermediates(const LaunchManifest& manifest) {
  std::vector<hlo::Shape> shapes;
  for (const GpuBuffer& buffer : manifest.buffers) {
    if (buffer.role == BufferRole::Intermediate)
      shapes.push_back(hlo::array_shape(hlo::ElementType::U8, {buffer.type.bytes()}));
  }
  return shapes;
}

Result<hlo::Literal> run_on_host(const Graph& graph, const std::vector<int>& inputs,
                                 std::span<const hlo::Literal> arguments, const hlo::Shape& shape) {
  const bool is_double = graph.type(graph.outputs()[0]).dtype == DType::F64;
  return is_double ? execute_in<double>(graph, inputs, arguments, shape)
                   : execute_in<float>(graph, inputs, arguments, shape);
}

}  // namespace strata::emitters
