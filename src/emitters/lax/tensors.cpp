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

LaxValue LaxValue::renamed(const std::vector<int>& old_ones) const {
  LaxValue value = *this;
  value.places.clear();
  for (const int d : old_ones) value.places.push_back(d < 0 ? -1 : places[static_cast<size_t>(d)]);
  return value;
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

Result<TensorId> LaxTensors::iota(const Shape& shape, const Iota& values) {
  const TensorType type{type_, shape, values};
  for (const TensorId id : builder_.peek().inputs())
    if (builder_.type(id) == type) return id;
  STRATA_TRY(const TensorId made, builder_.input("x" + std::to_string(inputs_.size()), type));
  inputs_.push_back(-1);
  return made;
}

bool LaxTensors::is_known(TensorId tensor) const {
  const Graph& graph = builder_.peek();
  const int producer = graph.tensor(tensor).producer;
  if (producer < 0) return graph.type(tensor).iota.has_value();
  const Operation& op = graph.operations()[static_cast<size_t>(producer)];
  return op_def(op.kind).traits.elementwise &&
         std::all_of(op.operands.begin(), op.operands.end(), [&](TensorId operand) { return is_known(operand); });
}

Result<TensorId> LaxTensors::relaid(TensorId tensor, const std::vector<int>& to, size_t rank) {
  const TensorInfo info = builder_.peek().tensor(tensor);
  if (info.producer < 0) {
    Shape shape(rank, 1);
    Iota values = *info.type.iota;
    values.dim = 0;
    for (size_t d = 0; d < to.size(); ++d) {
      if (to[d] < 0) continue;
      shape[static_cast<size_t>(to[d])] = info.type.shape[d];
      if (static_cast<int64_t>(d) == info.type.iota->dim) values.dim = to[d];
    }
    return iota(shape, values);
  }
  const Operation op = builder_.peek().operations()[static_cast<size_t>(info.producer)];
  std::vector<TensorId> operands;
  for (const TensorId operand : op.operands) {
    const auto missing = static_cast<std::ptrdiff_t>(to.size() - builder_.type(operand).shape.size());
    STRATA_TRY(const TensorId moved, relaid(operand, std::vector<int>(to.begin() + missing, to.end()), rank));
    operands.push_back(moved);
  }
  return builder_.add(op.kind, std::move(operands), op.attributes);
}

Result<TensorId> LaxTensors::transpose(TensorId tensor, const std::vector<int64_t>& permutation) {
  if (std::is_sorted(permutation.begin(), permutation.end())) return tensor;
  if (is_known(tensor)) {
    std::vector<int> to(permutation.size());
    for (size_t d = 0; d < permutation.size(); ++d) to[static_cast<size_t>(permutation[d])] = static_cast<int>(d);
    return relaid(tensor, to, permutation.size());
  }
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
  if (is_known(tensor)) {
    // The same dimensions among others of one element: what is known is never regrouped.
    const Shape from = graph.type(tensor).shape;
    std::vector<int> to(from.size(), -1);
    size_t next = 0;
    for (size_t d = 0; d < from.size(); ++d) {
      if (from[d] == 1) continue;
      while (next < shape.size() && shape[next] == 1) ++next;
      if (next == shape.size() || shape[next] != from[d]) return unsupported("it regroups what is made of iotas");
      to[d] = static_cast<int>(next++);
    }
    return relaid(tensor, to, shape.size());
  }
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
  int number = 0;
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    const auto id = static_cast<size_t>(graph.inputs()[i]);
    if (!needed[id]) continue;
    STRATA_TRY(moved[id], builder.input("x" + std::to_string(number++), graph.type(graph.inputs()[i])));
    if (inputs[i] >= 0) kept.push_back(inputs[i]);
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
