#include "interpret/typical_inputs.h"

#include <cmath>

#include "ops/arithmetic.h"
#include "support/parallel.h"

namespace strata {

Tensor<double> typical_tensor(const TensorType& type, Random& random) {
  Tensor<double> tensor(type.shape);
  const double scale = type.shape.size() >= 2 ? 1 / std::sqrt(static_cast<double>(type.shape.back())) : 1;
  // The same values for any number of threads: two draws an element.
  for_pieces(tensor.data.size(), [&](size_t begin, size_t end) {
    Random own = random;
    own.skip(2 * begin);
    for (size_t i = begin; i < end; ++i) {
      const double radius = std::sqrt(-2 * std::log(1 - own.uniform()));
      tensor.data[i] = round_to(scale * radius * std::cos(2 * M_PI * own.uniform()), type.dtype);
    }
  });
  random.skip(2 * tensor.data.size());
  return tensor;
}

std::vector<Tensor<double>> typical_inputs(const Graph& graph, uint64_t seed) {
  Random random(seed);
  std::vector<Tensor<double>> inputs;
  for (TensorId id : graph.arguments()) inputs.push_back(typical_tensor(graph.type(id), random));
  return inputs;
}

}  // namespace strata
