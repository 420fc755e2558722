#include "interpret/interpret.h"

#include "interpret/liveness.h"
#include "interpret/pieces.h"
#include "ops/one_dimension.h"

namespace strata {
namespace {

template <class A>
constexpr bool kRounds = requires(A arithmetic) {
  arithmetic.round_storage;
};

template <class A>
class Executor {
 public:
  using T = Tensor<typename A::Value>;

  /// The tensors of one graph: made here, or lent by the caller. Whole operands are never copied.
  struct Frame {
    explicit Frame(const Graph& graph) : own(graph.tensors().size()), at(graph.tensors().size(), nullptr) {}
    std::vector<T> own;
    std::vector<const T*> at;
    std::vector<T> states;  ///< of accumulators, by result; made when the first is met

    const T& operator[](TensorId id) const { return *at[static_cast<size_t>(id)]; }
    void lend(TensorId id, const T& tensor) { at[static_cast<size_t>(id)] = &tensor; }
    T& make(const Graph& graph, TensorId id) {
      T& result = own[static_cast<size_t>(id)];
      if (result.shape != graph.type(id).shape || result.data.empty()) result = T(graph.type(id).shape);
      at[static_cast<size_t>(id)] = &result;
      return result;
    }
  };

  Executor(const Graph& graph, A& arithmetic, const std::stop_token& stop) : arithmetic_(arithmetic), stop_(stop) {
    if constexpr (std::same_as<A, FieldArithmetic>) {
      liveness_ = residue_liveness(graph, arithmetic.wanted, arithmetic.free_operators);
    }
  }

  /// Runs `graph` once; the frame holds its inputs.
  void run_straight(const Graph& graph, Frame& frame) {
    const OpScope scope = graph.scope();
    const uint8_t* live = liveness(graph);
    for (size_t i = 0; i < graph.operations().size(); ++i) {
      // Not in thread graphs, whose block would go on with results that are not there.
      if (graph.level() == Level::Kernel && stop_.stop_requested()) return;
      run(graph, scope, live, i, {}, frame);
      if (graph.level() != Level::Kernel) continue;
      for (TensorId id : graph.operations()[i].results) round(graph.type(id), frame.own[static_cast<size_t>(id)]);
    }
  }

  void round(const TensorType& type, T& tensor) {
    if constexpr (kRounds<A>) {
      if (!arithmetic_.round_storage) return;
      for (auto& value : tensor.data) value = arithmetic_.round(value, type.dtype);
    }
  }

 private:
  const uint8_t* liveness(const Graph& graph) const {
    if constexpr (std::same_as<A, FieldArithmetic>) return liveness_.at(&graph).data();
    return nullptr;
  }

  void run(const Graph& graph, const OpScope& scope, const uint8_t* live, size_t index, const GridPoint& point,
           Frame& frame) {
    const Operation& op = graph.operations()[index];
    if (op.body) return run_body(graph, op, frame);
    operands_.clear();
    for (TensorId id : op.operands) operands_.push_back(frame.at[static_cast<size_t>(id)]);
    if constexpr (std::same_as<A, FieldArithmetic>) {
      arithmetic_.live = live[op.results[0]];
      arithmetic_.free = arithmetic_.free_operators != nullptr && arithmetic_.free_operators->at(&graph)[index];
    }
    T& result = frame.make(graph, op.results[0]);
    const OpDef& def = op_def(op.kind);
    T* state = nullptr;
    if (def.traits.accumulates) {
      frame.states.resize(graph.tensors().size());
      state = &frame.states[static_cast<size_t>(op.results[0])];
    }
    // An operator of a large tensor takes seconds; who can stop the execution need not wait for its end.
    if (graph.level() == Level::Kernel && stop_.stop_possible()) {
      if (const auto pieces = pieces_of(graph, op)) return run_pieces(def, *pieces, scope, op, result);
    }
    def.run(EvalArgs<A>{arithmetic_, scope, point, op.attributes, operands_, result, state});
  }

  /// The operands are `operands_`.
  void run_pieces(const OpDef& def, const Pieces& pieces, const OpScope& scope, const Operation& op, T& result) {
    const std::vector<const T*> whole = operands_;
    std::vector<T> slices(whole.size());
    const int64_t extent = result.shape[pieces.dim];
    for (int64_t first = 0; first < extent && !stop_.stop_requested(); first += pieces.size) {
      const int64_t size = std::min(pieces.size, extent - first);
      for (size_t n = 0; n < whole.size(); ++n) {
        if (pieces.operands[n] == Pieces::kWhole) continue;
        slices[n] = slice_of(*whole[n], static_cast<size_t>(pieces.operands[n]), first, size);
        operands_[n] = &slices[n];
      }
      Shape shape = result.shape;
      shape[pieces.dim] = size;
      T part(std::move(shape));
      def.run(EvalArgs<A>{arithmetic_, scope, {}, op.attributes, operands_, part, nullptr});
      put_slice(result, pieces.dim, first, part);
    }
  }

  void run_body(const Graph& outer, const Operation& op, Frame& frame) {
    const Graph& body = *op.body;
    Frame inner(body);
    for (size_t i = 0; i < op.operands.size(); ++i) inner.lend(body.inputs()[i], frame[op.operands[i]]);
    if (body.level() == Level::Block) {
      run_grid(body, inner);
    } else {
      run_straight(body, inner);
    }
    for (size_t i = 0; i < op.results.size(); ++i) {
      frame.make(outer, op.results[i]) = std::move(inner.own[static_cast<size_t>(body.outputs()[i])]);
    }
  }

  void run_grid(const Graph& body, Frame& frame) {
    const OpScope scope = body.scope();
    const std::vector<LoopStage> stages = loop_stages(body);
    for_each_block(scope.grid, [&](GridPoint point) {
      if (stop_.stop_requested()) return;
      for (point.iteration = 0; point.iteration < scope.loop; ++point.iteration) {
        if (stop_.stop_requested()) return;
        run_stage(body, scope, stages, LoopStage::Body, point, frame);
      }
      run_stage(body, scope, stages, LoopStage::After, point, frame);
    });
  }

  void run_stage(const Graph& body, const OpScope& scope, const std::vector<LoopStage>& stages, LoopStage stage,
                 const GridPoint& point, Frame& frame) {
    const uint8_t* live = liveness(body);
    for (size_t i = 0; i < body.operations().size(); ++i) {
      if (stages[i] == stage) run(body, scope, live, i, point, frame);
    }
  }

  A& arithmetic_;
  const std::stop_token& stop_;
  ResidueLiveness liveness_;
  std::vector<const T*> operands_;  ///< scratch
};

/// The elements of an iota.
template <class A>
void count(const TensorType& type, A& arithmetic, Tensor<typename A::Value>& result) {
  const auto dim = static_cast<size_t>(type.iota->dim);
  const int64_t inner = inner_elements(type.shape, dim), size = type.shape[dim];
  for (int64_t n = 0; n < size; ++n) {
    const auto value = arithmetic.constant(type.iota->at(n));
    for (int64_t i = n * inner; i < result.size(); i += size * inner) {
      for (int64_t j = 0; j < inner; ++j) result[i + j] = value;
    }
  }
}

/// Executes `graph` into a frame that may refer to `inputs`.
template <class A>
Result<typename Executor<A>::Frame> run_graph(const Graph& graph, A& arithmetic,
                                              const std::vector<Tensor<typename A::Value>>& inputs,
                                              const std::stop_token& stop) {
  if (graph.level() != Level::Kernel) return invalid("only kernel graphs can be executed on their own");
  const std::vector<TensorId> given = inputs.size() == graph.inputs().size() ? graph.inputs() : graph.arguments();
  if (inputs.size() != given.size()) {
    return invalid("'{}' has {} inputs; {} were given", graph.name(), given.size(), inputs.size());
  }
  Executor<A> executor(graph, arithmetic, stop);
  typename Executor<A>::Frame frame(graph);
  for (TensorId id : graph.inputs()) {
    if (graph.type(id).iota) count(graph.type(id), arithmetic, frame.make(graph, id));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorInfo& tensor = graph.tensor(given[i]);
    if (tensor.type.iota) continue;
    if (inputs[i].shape != tensor.type.shape) {
      return invalid("input '{}' is {}; a tensor of shape {} was given", tensor.name, to_string(tensor.type),
                     to_string(inputs[i].shape));
    }
    frame.lend(given[i], inputs[i]);
    if constexpr (kRounds<A>) {
      if (!arithmetic.round_storage) continue;
      auto& copy = frame.make(graph, given[i]);
      copy = inputs[i];
      executor.round(tensor.type, copy);
    }
  }
  executor.run_straight(graph, frame);
  if (stop.stop_requested()) return tl::unexpected(Error{ErrorCode::Interrupted, "execution was stopped", {}, {}});
  return frame;
}

/// Out of the frame; copied where the tensor is the caller's.
template <class Frame>
auto take(Frame& frame, TensorId id) {
  auto& own = frame.own[static_cast<size_t>(id)];
  return &own == frame.at[static_cast<size_t>(id)] ? std::move(own) : frame[id];
}

}  // namespace

template <class A>
Result<std::vector<Tensor<typename A::Value>>> execute_all(const Graph& graph, A& arithmetic,
                                                           const std::vector<Tensor<typename A::Value>>& inputs,
                                                           const std::stop_token& stop) {
  STRATA_TRY(auto frame, run_graph(graph, arithmetic, inputs, stop));
  std::vector<Tensor<typename A::Value>> values;
  for (size_t id = 0; id < graph.tensors().size(); ++id) values.push_back(take(frame, static_cast<TensorId>(id)));
  return values;
}

template <class A>
Result<std::vector<Tensor<typename A::Value>>> execute(const Graph& graph, A& arithmetic,
                                                       const std::vector<Tensor<typename A::Value>>& inputs,
                                                       const std::stop_token& stop) {
  STRATA_TRY(auto frame, run_graph(graph, arithmetic, inputs, stop));
  std::vector<Tensor<typename A::Value>> outputs;
  for (TensorId id : graph.outputs()) outputs.push_back(take(frame, id));
  return outputs;
}

#define STRATA_INSTANTIATE(A)                                                                                        \
  template Result<std::vector<Tensor<A::Value>>> execute_all(const Graph&, A&, const std::vector<Tensor<A::Value>>&, \
                                                             const std::stop_token&);                                \
  template Result<std::vector<Tensor<A::Value>>> execute(const Graph&, A&, const std::vector<Tensor<A::Value>>&,     \
                                                         const std::stop_token&);
STRATA_INSTANTIATE(Float64Arithmetic)
STRATA_INSTANTIATE(Float32Arithmetic)
STRATA_INSTANTIATE(NoisyArithmetic)
STRATA_INSTANTIATE(FieldArithmetic)
STRATA_INSTANTIATE(SymbolicArithmetic)
#undef STRATA_INSTANTIATE

}  // namespace strata
