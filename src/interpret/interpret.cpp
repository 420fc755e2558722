#include "interpret/interpret.h"

namespace strata {
namespace {

template <class A>
class Executor {
 public:
  using T = Tensor<typename A::Value>;

  Executor(A& arithmetic, const std::stop_token& stop) : arithmetic_(arithmetic), stop_(stop) {}

  /// Runs `graph` once; `values` is indexed by TensorId and holds the inputs.
  void run_straight(const Graph& graph, std::vector<T>& values) {
    const OpScope scope = graph.scope();
    for (const Operation& op : graph.operations()) {
      if (stop_.stop_requested()) return;
      run(graph, scope, op, {}, values);
      if (graph.level() != Level::Kernel) continue;
      for (TensorId id : op.results) round(graph.type(id), values[static_cast<size_t>(id)]);
    }
  }

  void round(const TensorType& type, T& tensor) {
    for (auto& value : tensor.data) value = arithmetic_.round(value, type.dtype);
  }

 private:
  void run(const Graph& graph, const OpScope& scope, const Operation& op, const GridPoint& point,
           std::vector<T>& values) {
    if (op.body) return run_body(graph, op, values);
    std::vector<const T*> operands;
    for (TensorId id : op.operands) operands.push_back(&values[static_cast<size_t>(id)]);
    T& result = prepare(graph, op.results[0], values);
    op_def(op.kind).run(EvalArgs<A>{arithmetic_, scope, point, op.attributes, operands, result});
  }

  static T& prepare(const Graph& graph, TensorId id, std::vector<T>& values) {
    T& result = values[static_cast<size_t>(id)];
    if (result.shape != graph.type(id).shape || result.data.empty()) result = T(graph.type(id).shape);
    return result;
  }

  void run_body(const Graph& outer, const Operation& op, std::vector<T>& values) {
    const Graph& body = *op.body;
    std::vector<T> inner(body.tensors().size());
    for (size_t i = 0; i < op.operands.size(); ++i) {
      // Copied: an operand may be given twice, and the caller keeps it.
      T& operand = values[static_cast<size_t>(op.operands[i])];
      inner[static_cast<size_t>(body.inputs()[i])] = operand;
    }
    if (body.level() == Level::Block) {
      run_grid(body, inner);
    } else {
      run_straight(body, inner);
    }
    for (size_t i = 0; i < op.results.size(); ++i) {
      prepare(outer, op.results[i], values) = std::move(inner[static_cast<size_t>(body.outputs()[i])]);
    }
  }

  void run_grid(const Graph& body, std::vector<T>& values) {
    const OpScope scope = body.scope();
    const std::vector<LoopStage> stages = loop_stages(body);
    std::array<int64_t, 3> grid{1, 1, 1};
    std::copy(scope.grid.begin(), scope.grid.end(), grid.begin());
    GridPoint point;
    for (point.block[2] = 0; point.block[2] < grid[2]; ++point.block[2]) {
      for (point.block[1] = 0; point.block[1] < grid[1]; ++point.block[1]) {
        for (point.block[0] = 0; point.block[0] < grid[0]; ++point.block[0]) {
          if (stop_.stop_requested()) return;
          for (point.iteration = 0; point.iteration < scope.loop; ++point.iteration) {
            run_stage(body, scope, stages, LoopStage::Body, point, values);
          }
          run_stage(body, scope, stages, LoopStage::After, point, values);
        }
      }
    }
  }

  void run_stage(const Graph& body, const OpScope& scope, const std::vector<LoopStage>& stages, LoopStage stage,
                 const GridPoint& point, std::vector<T>& values) {
    for (size_t i = 0; i < body.operations().size(); ++i) {
      if (stages[i] == stage) run(body, scope, body.operations()[i], point, values);
    }
  }

  A& arithmetic_;
  const std::stop_token& stop_;
};

}  // namespace

template <class A>
Result<std::vector<Tensor<typename A::Value>>> execute_all(const Graph& graph, A& arithmetic,
                                                           const std::vector<Tensor<typename A::Value>>& inputs,
                                                           const std::stop_token& stop) {
  if (graph.level() != Level::Kernel) return invalid("only kernel graphs can be executed on their own");
  if (inputs.size() != graph.inputs().size()) {
    return invalid("'{}' has {} inputs; {} were given", graph.name(), graph.inputs().size(), inputs.size());
  }
  Executor<A> executor(arithmetic, stop);
  std::vector<Tensor<typename A::Value>> values(graph.tensors().size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorInfo& tensor = graph.tensor(graph.inputs()[i]);
    if (inputs[i].shape != tensor.type.shape) {
      return invalid("input '{}' is {}; a tensor of shape {} was given", tensor.name, to_string(tensor.type),
                     to_string(inputs[i].shape));
    }
    auto& value = values[static_cast<size_t>(graph.inputs()[i])];
    value = inputs[i];
    executor.round(tensor.type, value);
  }
  executor.run_straight(graph, values);
  if (stop.stop_requested()) return tl::unexpected(Error{ErrorCode::Interrupted, "execution was stopped", {}, {}});
  return values;
}

template <class A>
Result<std::vector<Tensor<typename A::Value>>> execute(const Graph& graph, A& arithmetic,
                                                       const std::vector<Tensor<typename A::Value>>& inputs,
                                                       const std::stop_token& stop) {
  STRATA_TRY(auto values, execute_all(graph, arithmetic, inputs, stop));
  std::vector<Tensor<typename A::Value>> outputs;
  for (TensorId id : graph.outputs()) outputs.push_back(values[static_cast<size_t>(id)]);
  return outputs;
}

#define STRATA_INSTANTIATE(A)                                                                                        \
  template Result<std::vector<Tensor<A::Value>>> execute_all(const Graph&, A&, const std::vector<Tensor<A::Value>>&, \
                                                             const std::stop_token&);                                \
  template Result<std::vector<Tensor<A::Value>>> execute(const Graph&, A&, const std::vector<Tensor<A::Value>>&,     \
                                                         const std::stop_token&);
STRATA_INSTANTIATE(Float64Arithmetic)
STRATA_INSTANTIATE(Float32Arithmetic)
STRATA_INSTANTIATE(FieldArithmetic)
#undef STRATA_INSTANTIATE

}  // namespace strata
