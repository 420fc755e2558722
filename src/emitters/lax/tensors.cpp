#include "emitters/lax/tensors.h"

#include <algorithm>

namespace strata::emitters {
namespace {

Arrangement without_leading_ones(Arrangement of) {
  of.erase(of.begin(), std::find_if(of.begin(), of.end(), [](int d) { return d >= 0; }));
  return of;
}

Arrangement dimensions_of(const Arrangement& of) {
  Arrangement result;
  std::copy_if(of.begin(), of.end(), std::back_inserter(result), [](int d) { return d >= 0; });
  return result;
}

}  // namespace

int LaxValue::placed() const {
  return static_cast<int>(std::count_if(places.begin(), places.end(), [](int place) { return place >= 0; }));
}

Arrangement LaxTensors::arrangement(const LaxValue& value) const {
  const size_t rank = value.has_memory() ? value.memory.size() : builder_.peek().type(value.tensor).shape.size();
  Arrangement result(rank, -1);
  for (size_t d = 0; d < value.places.size(); ++d) {
    if (value.places[d] >= 0) result[static_cast<size_t>(value.places[d])] = static_cast<int>(d);
  }
  return without_leading_ones(result);
}

Arrangement LaxTensors::wanted_of(const LaxValue& value, const Arrangement& wanted) const {
  Arrangement result = wanted;
  for (int& d : result) {
    if (d >= 0 && value.places[static_cast<size_t>(d)] < 0) d = -1;
  }
  return without_leading_ones(result);
}

bool LaxTensors::lies_as(const LaxValue& value, const Arrangement& wanted) const {
  return value.kind == LaxValue::Kind::Parameter || arrangement(value) == wanted_of(value, wanted);
}

Result<TensorId> LaxTensors::input(int parameter, const Shape& shape) {
  const auto known = known_.find({parameter, shape});
  if (known != known_.end()) return known->second;
  STRATA_TRY(const TensorId made, builder_.input("x" + std::to_string(inputs_.size()), {type_, shape}));
  inputs_.push_back(parameter);
  return known_[{parameter, shape}] = made;
}

Result<TensorId> LaxTensors::transpose(TensorId tensor, const std::vector<int64_t>& permutation) {
  if (std::is_sorted(permutation.begin(), permutation.end())) return tensor;
  Attributes attributes;
  attributes.set("perm", permutation);
  return builder_.add(OpKind::Transpose, {tensor}, attributes);
}

bool LaxTensors::is_elementwise_of_inputs(TensorId tensor) const {
  const Graph& graph = builder_.peek();
  const int producer = graph.tensor(tensor).producer;
  if (producer < 0) return true;
  const Operation& op = graph.operations()[static_cast<size_t>(producer)];
  return op_def(op.kind).traits.elementwise &&
         std::all_of(op.operands.begin(), op.operands.end(), [&](TensorId operand) {
           return graph.type(operand).shape == graph.type(tensor).shape && is_elementwise_of_inputs(operand);
         });
}

Result<TensorId> LaxTensors::reshape(TensorId tensor, const Shape& shape) {
  const Graph& graph = builder_.peek();
  if (graph.type(tensor).shape == shape) return tensor;
  const auto number = std::find(graph.inputs().begin(), graph.inputs().end(), tensor) - graph.inputs().begin();
  if (number < std::ssize(graph.inputs())) return input(inputs_[static_cast<size_t>(number)], shape);
  if (is_elementwise_of_inputs(tensor)) {
    const Operation op = graph.operations()[static_cast<size_t>(graph.tensor(tensor).producer)];
    std::vector<TensorId> operands;
    for (const TensorId operand : op.operands) {
      STRATA_TRY(const TensorId moved, reshape(operand, shape));
      operands.push_back(moved);
    }
    return builder_.add(op.kind, std::move(operands), op.attributes);
  }
  Attributes attributes;
  attributes.set("shape", shape);
  return builder_.add(OpKind::Reshape, {tensor}, attributes);
}

Result<TensorId> LaxTensors::arranged(const LaxValue& value, const Arrangement& wanted_here,
                                      const std::vector<int64_t>& sizes, size_t least_rank) {
  if (value.kind == LaxValue::Kind::Regrouped) {
    LaxValue made = value;
    made.kind = LaxValue::Kind::Tensor;
    STRATA_TRY(made.tensor, reshape(value.tensor, value.memory.empty() ? Shape{1} : value.memory));
    return arranged(made, wanted_here, sizes, least_rank);
  }
  Arrangement wanted = wanted_of(value, wanted_here);
  const Arrangement current = arrangement(value);
  const bool as_it_is = value.kind == LaxValue::Kind::Tensor && current == wanted &&
                        builder_.peek().type(value.tensor).shape.size() >= least_rank;
  if (as_it_is) return value.tensor;
  if (wanted.size() < least_rank) wanted.insert(wanted.begin(), least_rank - wanted.size(), -1);
  Shape shape;
  for (const int d : wanted) shape.push_back(d < 0 ? 1 : sizes[static_cast<size_t>(d)]);
  const Arrangement from = dimensions_of(current), to = dimensions_of(wanted);
  if (from.size() != to.size()) return unsupported("a value has dimensions that have no place in an operator of it");
  const auto ones = static_cast<int64_t>(shape.size() - to.size());
  const auto place = [&](int d) { return std::find(from.begin(), from.end(), d) - from.begin(); };
  if (value.kind == LaxValue::Kind::Parameter) {
    if (from == to) return input(value.parameter, shape);
    // A transpose of an input moves its ones too.
    Shape given(static_cast<size_t>(ones), 1);
    given.insert(given.end(), value.memory.begin(), value.memory.end());
    STRATA_TRY(const TensorId made, input(value.parameter, given));
    std::vector<int64_t> moved;
    int64_t next_one = 0;
    for (const int d : wanted) moved.push_back(d < 0 ? next_one++ : ones + place(d));
    return transpose(made, moved);
  }
  if (from == to) return reshape(value.tensor, shape);
  Shape bare;
  std::vector<int64_t> permutation;
  for (const int d : from) bare.push_back(sizes[static_cast<size_t>(d)]);
  for (const int d : to) permutation.push_back(place(d));
  STRATA_TRY(const TensorId flat, reshape(value.tensor, bare));
  STRATA_TRY(const TensorId moved, transpose(flat, permutation));
  return reshape(moved, shape);
}

LaxValue LaxTensors::made(TensorId tensor, const Arrangement& arrangement, size_t dimensions) const {
  LaxValue value;
  value.tensor = tensor;
  value.places.assign(dimensions, -1);
  const Shape& shape = builder_.peek().type(tensor).shape;
  for (size_t i = 0; i < arrangement.size() && i < shape.size(); ++i) {
    const int d = arrangement[arrangement.size() - 1 - i];
    const size_t place = shape.size() - 1 - i;
    if (d >= 0 && shape[place] > 1) value.places[static_cast<size_t>(d)] = static_cast<int>(place);
  }
  return value;
}

Result<GraphPtr> without_unused(const Graph& graph, std::vector<int>& inputs) {
  std::vector<bool> needed(graph.tensors().size(), false);
  for (const TensorId id : graph.outputs()) needed[static_cast<size_t>(id)] = true;
  for (size_t i = graph.operations().size(); i-- > 0;) {
    const Operation& op = graph.operations()[i];
    if (!needed[static_cast<size_t>(op.results[0])]) continue;
    for (const TensorId id : op.operands) needed[static_cast<size_t>(id)] = true;
  }
  GraphBuilder builder(Level::Kernel, graph.name());
  std::vector<TensorId> moved(graph.tensors().size(), -1);
  std::vector<int> kept;
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    const auto id = static_cast<size_t>(graph.inputs()[i]);
    if (!needed[id]) continue;
    STRATA_TRY(moved[id], builder.input("x" + std::to_string(kept.size()), graph.type(graph.inputs()[i])));
    kept.push_back(inputs[i]);
  }
  int next = 0;
  for (const Operation& op : graph.operations()) {
    const auto result = static_cast<size_t>(op.results[0]);
    if (!needed[result]) continue;
    std::vector<TensorId> operands;
    for (const TensorId id : op.operands) operands.push_back(moved[static_cast<size_t>(id)]);
    STRATA_TRY(moved[result], builder.add(op.kind, std::move(operands), op.attributes, "y" + std::to_string(next++)));
  }
  for (const TensorId id : graph.outputs()) STRATA_CHECK(builder.output(moved[static_cast<size_t>(id)]));
  inputs = std::move(kept);
  return builder.finish();
}

}  // namespace strata::emitters
