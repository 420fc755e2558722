// A µGraph as a function of arrays in memory: its kernels on the machine's GPU, or the reference executor on its
// processor.
#pragma once

#include <memory>
#include <string>

#include "compiler/core/array_function.h"
#include "ir/graph.h"

namespace strata::compiler {

class GraphFunction : public ArrayFunction {
 public:
  /// Loads what the superoptimizer has made of a graph: a cubin (may be empty where libraries do all) and the text of
  /// best.launch.json. The device must outlive the function. Errors: InvalidInput where these do not fit the graph or
  /// each other; the driver's and libraries'.
  static Result<std::unique_ptr<GraphFunction>> load(const GraphPtr& graph, const GpuDevice& device,
                                                     const std::string& cubin, const std::string& manifest);
  /// Executes the graph block by block in single precision, storage rounded to the tensors' types. Slow: for trying
  /// out.
  static std::unique_ptr<GraphFunction> interpret(const GraphPtr& graph);

 private:
  explicit GraphFunction(GraphPtr graph);
  Result<void> call_on_cpu(std::span<std::byte* const> inputs, std::span<std::byte* const> results) const override;

  GraphPtr graph_;
};

}  // namespace strata::compiler
