#include "superopt/search/stabilise.h"

#include <algorithm>

#include "superopt/search/model.h"

namespace strata {
namespace {

/// Kernel-level maxima along these dimensions, one after the other.
Result<TensorId> row_maximum(GraphBuilder& builder, TensorId of, const std::vector<int64_t>& dims) {
  for (int64_t d : dims) {
    Attributes attributes;
    attributes.set("dim", d);
    STRATA_TRY(of, builder.add(OpKind::ReduceMax, {of}, attributes));
  }
  return of;
}

/// Adds the program's operators to `builder`, over tensors that are there already where `ids` has them; before operator
/// `index`, an exponential, the maximum along `dims` is subtracted. With `names`, tensors keep theirs.
Result<void> add_program(GraphBuilder& builder, const Graph& program, size_t index, const std::vector<int64_t>& dims,
                         bool names, std::vector<TensorId>& ids) {
  for (size_t i = 0; i < program.operations().size(); ++i) {
    const Operation& op = program.operations()[i];
    std::vector<TensorId> operands;
    for (TensorId id : op.operands) operands.push_back(ids[static_cast<size_t>(id)]);
    if (i == index) {
      STRATA_TRY(const TensorId largest, row_maximum(builder, operands[0], dims));
      STRATA_TRY(operands[0], builder.add(OpKind::Sub, {operands[0], largest}));
    }
    const TensorId result = op.results[0];
    STRATA_TRY(ids[static_cast<size_t>(result)],
               builder.add(op.kind, operands, op.attributes, names ? program.tensor(result).name : std::string(),
                           op.location));
  }
  return {};
}

Result<std::vector<TensorId>> add_inputs(GraphBuilder& builder, const Graph& program) {
  std::vector<TensorId> ids(program.tensors().size(), -1);
  for (TensorId id : program.inputs()) {
    STRATA_TRY(ids[static_cast<size_t>(id)], builder.input(program.tensor(id).name, program.type(id)));
  }
  return ids;
}

constexpr size_t kNowhere = ~size_t{0};

Result<GraphPtr> with_maximum(const Graph& program, size_t index, const std::vector<int64_t>& dims) {
  GraphBuilder builder(Level::Kernel, program.name());
  STRATA_TRY(std::vector<TensorId> ids, add_inputs(builder, program));
  STRATA_CHECK(add_program(builder, program, index, dims, true, ids));
  for (TensorId id : program.outputs()) STRATA_CHECK(builder.output(ids[static_cast<size_t>(id)]));
  return builder.finish();
}

/// Both programs side by side on the model's random inputs.
Result<bool> unchanged(const Graph& program, size_t index, const std::vector<int64_t>& dims, uint64_t seed,
                       const std::stop_token& stop) {
  GraphBuilder builder(Level::Kernel, program.name());
  STRATA_TRY(std::vector<TensorId> ids, add_inputs(builder, program));
  std::vector<TensorId> changed = ids;
  STRATA_CHECK(add_program(builder, program, kNowhere, {}, true, ids));
  STRATA_CHECK(add_program(builder, program, index, dims, false, changed));
  std::vector<std::pair<TensorId, TensorId>> outputs;
  for (TensorId id : program.outputs()) {
    outputs.emplace_back(ids[static_cast<size_t>(id)], changed[static_cast<size_t>(id)]);
    STRATA_CHECK(builder.output(outputs.back().first));
    STRATA_CHECK(builder.output(outputs.back().second));
  }
  STRATA_TRY(const GraphPtr both, builder.finish());
  NormalForms forms;
  STRATA_TRY(const Model model, Model::build(both, forms, seed, stop));
  for (const auto& [a, b] : outputs) {
    const FieldTensor& x = model.tensor(a).value;
    const FieldTensor& y = model.tensor(b).value;
    const bool same = std::equal(x.data.begin(), x.data.end(), y.data.begin(), y.data.end(),
                                 [](const FieldValue& m, const FieldValue& n) { return m.p == n.p; });
    if (!same) return false;
  }
  return true;
}

/// Sets of dimensions of more than one element: single ones from the innermost out, then pairs.
std::vector<std::vector<int64_t>> dimension_sets(const Shape& shape) {
  std::vector<int64_t> dims;
  for (size_t d = shape.size(); d-- > 0;) {
    if (shape[d] > 1) dims.push_back(static_cast<int64_t>(d));
  }
  std::vector<std::vector<int64_t>> sets;
  for (int64_t d : dims) sets.push_back({d});
  for (size_t i = 0; i < dims.size(); ++i) {
    for (size_t j = i + 1; j < dims.size(); ++j) sets.push_back({dims[i], dims[j]});
  }
  return sets;
}

bool subtracts_maximum(const Graph& program, TensorId id) {
  const auto producer = [&](TensorId of) -> const Operation* {
    const int at = program.tensor(of).producer;
    return at < 0 ? nullptr : &program.operations()[static_cast<size_t>(at)];
  };
  const Operation* sub = producer(id);
  if (sub == nullptr || sub->kind != OpKind::Sub) return false;
  const Operation* largest = producer(sub->operands[1]);
  return largest != nullptr && largest->kind == OpKind::ReduceMax;
}

}  // namespace

GraphPtr stabilised(const GraphPtr& program, uint64_t seed, const std::stop_token& stop) {
  GraphPtr result = program;
  for (size_t i = 0; i < result->operations().size(); ++i) {
    const Operation& op = result->operations()[i];
    if (op.kind != OpKind::Exp || subtracts_maximum(*result, op.operands[0])) continue;
    for (const auto& dims : dimension_sets(result->type(op.operands[0]).shape)) {
      if (stop.stop_requested()) return result == program ? nullptr : result;
      const auto same = unchanged(*result, i, dims, seed, stop);
      if (!same || !*same) continue;
      auto changed = with_maximum(*result, i, dims);
      if (!changed) continue;
      i += dims.size() + 1;  // the operators before the exponential that are new
      result = std::move(*changed);
      break;
    }
  }
  return result == program ? nullptr : result;
}

}  // namespace strata
