#include "interpret/typical_inputs.h"

#include <cmath>

#include "ops/arithmetic.h"

namespace strata {

Tensor<double> typical_tensor(const TensorType& type, Random& random) {
  Tensor<double> tensor(type.shape);
  const double scale = type.shape.size() >= 2 ? 1 / std::sqrt(static_cast<double>(type.shape.back())) : 1;
  for (double& value : tensor.data) {
    const double radius = std::sqrt(-2 * std::log(1 - random.uniform()));
    value = round_to(scale * radius * std::cos(2 * M_PI * random.uniform()), type.dtype);
  }
  return tensor;
}

std::vector<Tensor<double>> typical_inputs(const Graph& graph, uint64_t seed) {
  Random random(seed);
  std::vector<Tensor<double>> inputs;
  for (TensorId id : graph.inputs()) inputs.push_back(typical_tensor(graph.type(id), random));
  return inputs;
}

}  // namespace strata
