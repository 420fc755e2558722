#include <algorithm>

#include "hlo/shape_rules.h"

namespace strata::hlo {
namespace {

bool contains(const std::vector<int64_t>& list, int64_t value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

Result<void> same_dims_from(const RuleContext& context, size_t begin, size_t end) {
  for (size_t i = begin + 1; i < end; ++i) {
    if (!same_dims(context.operand(i), context.operand(begin))) {
      return invalid("operands {} and {} have different sizes", begin, i);
    }
  }
  return {};
}

/// Inputs and as many scalars to begin with; the computation takes and returns one of each.
Result<std::vector<ElementType>> check_folding(const RuleContext& context) {
  const size_t count = context.operand_count() / 2;
  if (count == 0 || context.operand_count() % 2 != 0) return invalid("it takes arrays and as many initial values");
  STRATA_CHECK(same_dims_from(context, 0, count));
  std::vector<ElementType> types;
  for (size_t i = 0; i < count; ++i) {
    types.push_back(context.operand(i).type);
    if (!same_shape(context.operand(count + i), array_shape(types[i], {}))) {
      return invalid("the initial value {} is {}, not {}[]", i, to_string_without_layout(context.operand(count + i)),
                     name(types[i]));
    }
  }
  std::vector<ElementType> twice = types;
  twice.insert(twice.end(), types.begin(), types.end());
  STRATA_CHECK(check_scalar_computation(context.called(), twice, types));
  return types;
}

Shape arrays_of(const std::vector<ElementType>& types, const std::vector<int64_t>& dims) {
  std::vector<Shape> shapes;
  for (ElementType type : types) shapes.push_back(array_shape(type, dims));
  return one_or_tuple(std::move(shapes));
}

Result<Shape> infer_reduce(const RuleContext& context) {
  STRATA_TRY(const std::vector<ElementType> types, check_folding(context));
  const Shape& operand = context.operand(0);
  const std::vector<int64_t>& reduced = context.instruction.dimensions();
  STRATA_CHECK(check_dimensions(reduced, operand.rank(), "the dimension"));
  std::vector<int64_t> dims;
  for (int64_t d = 0; d < operand.rank(); ++d) {
    if (!contains(reduced, d)) dims.push_back(operand.dim(d));
  }
  return arrays_of(types, dims);
}

Result<std::vector<int64_t>> window_dims(const Shape& operand, const std::vector<WindowDimension>& window) {
  STRATA_CHECK(check_window(window, operand.dims));
  std::vector<int64_t> dims;
  for (size_t d = 0; d < window.size(); ++d) {
    if (window[d].reversed) return unsupported("reversed windows have no meaning here");
    dims.push_back(window_output_size(operand.dims[d], window[d]));
  }
  return dims;
}

Result<Shape> infer_reduce_window(const RuleContext& context) {
  STRATA_TRY(const std::vector<ElementType> types, check_folding(context));
  STRATA_TRY(const auto dims, window_dims(context.operand(0), context.instruction.as<WindowAttributes>().window));
  return arrays_of(types, dims);
}

Result<Shape> infer_select_and_scatter(const RuleContext& context) {
  const Shape& operand = context.operand(0);
  const auto& window = context.instruction.as<WindowAttributes>().window;
  STRATA_TRY(const auto dims, window_dims(operand, window));
  for (const WindowDimension& w : window) {
    if (w.lhs_dilate != 1 || w.rhs_dilate != 1) return unsupported("its window cannot be dilated");
  }
  if (!same_shape(context.operand(1), array_shape(operand.type, dims))) {
    return invalid("the source is {}; the window makes it {}", to_string_without_layout(context.operand(1)),
                   to_string_without_layout(array_shape(operand.type, dims)));
  }
  if (!same_shape(context.operand(2), array_shape(operand.type, {})))
    return invalid("the initial value is no scalar of the type");
  STRATA_CHECK(check_scalar_computation(context.called(0), {operand.type, operand.type}, {ElementType::Pred}));
  STRATA_CHECK(check_scalar_computation(context.called(1), {operand.type, operand.type}, {operand.type}));
  return operand;
}

Result<Shape> infer_scatter(const RuleContext& context) {
  const auto& a = context.instruction.as<ScatterAttributes>();
  if (context.operand_count() < 3 || context.operand_count() % 2 == 0) {
    return invalid("it takes arrays, indices and as many updates");
  }
  const size_t count = context.operand_count() / 2;
  STRATA_CHECK(same_dims_from(context, 0, count));
  STRATA_CHECK(same_dims_from(context, count + 1, context.operand_count()));
  std::vector<ElementType> types;
  for (size_t i = 0; i < count; ++i) {
    types.push_back(context.operand(i).type);
    if (context.operand(count + 1 + i).type != types[i]) return invalid("update {} is of another type", i);
  }
  const Shape& operand = context.operand(0);
  const Shape& indices = context.operand(count);
  const Shape& updates = context.operand(count + 1);
  if (!is_integer(indices.type)) return invalid("indices are {}", name(indices.type));
  if (a.index_vector_dim < 0 || a.index_vector_dim > indices.rank()) return invalid("index_vector_dim is outside");
  const int64_t vector_size = a.index_vector_dim == indices.rank() ? 1 : indices.dim(a.index_vector_dim);
  if (vector_size != static_cast<int64_t>(a.scatter_dims_to_operand_dims.size())) {
    return invalid("index vectors have {} entries, and scatter_dims_to_operand_dims {}", vector_size,
                   a.scatter_dims_to_operand_dims.size());
  }
  STRATA_CHECK(check_dimensions(a.scatter_dims_to_operand_dims, operand.rank(), "scatter_dims_to_operand_dims"));
  std::vector<int64_t> dropped = a.inserted_window_dims;
  dropped.insert(dropped.end(), a.input_batching_dims.begin(), a.input_batching_dims.end());
  STRATA_CHECK(check_dimensions(dropped, operand.rank(), "the inserted or batching dimension"));
  STRATA_CHECK(check_dimensions(a.scatter_indices_batching_dims, indices.rank(), "scatter_indices_batching_dims"));
  if (a.input_batching_dims.size() != a.scatter_indices_batching_dims.size()) {
    return invalid("input_batching_dims and scatter_indices_batching_dims have different lengths");
  }
  for (size_t i = 0; i < a.input_batching_dims.size(); ++i) {
    const int64_t d = a.scatter_indices_batching_dims[i];
    if (d == a.index_vector_dim || indices.dim(d) != operand.dim(a.input_batching_dims[i]) ||
        contains(a.scatter_dims_to_operand_dims, a.input_batching_dims[i])) {
      return invalid("batching dimension {} does not fit the indices", a.input_batching_dims[i]);
    }
  }
  STRATA_CHECK(check_dimensions(a.update_window_dims, updates.rank(), "update_window_dims"));
  if (!std::is_sorted(a.update_window_dims.begin(), a.update_window_dims.end())) {
    return invalid("update_window_dims is not sorted");
  }
  if (a.update_window_dims.size() + dropped.size() != operand.dims.size()) {
    return invalid("update_window_dims and the dropped dimensions are not the {} of the operand", operand.rank());
  }
  size_t next_window = 0;
  for (int64_t d = 0; d < operand.rank(); ++d) {
    if (contains(dropped, d)) continue;
    if (updates.dim(a.update_window_dims[next_window++]) > operand.dim(d)) {
      return invalid("the updates' window is larger than dimension {}", d);
    }
  }
  std::vector<int64_t> batch;
  for (int64_t d = 0; d < indices.rank(); ++d) {
    if (d != a.index_vector_dim) batch.push_back(indices.dim(d));
  }
  std::vector<int64_t> update_batch;
  for (int64_t d = 0; d < updates.rank(); ++d) {
    if (!contains(a.update_window_dims, d)) update_batch.push_back(updates.dim(d));
  }
  if (batch != update_batch) return invalid("the updates' scatter dimensions are not those of the indices");
  std::vector<ElementType> twice = types;
  twice.insert(twice.end(), types.begin(), types.end());
  STRATA_CHECK(check_scalar_computation(context.called(), twice, types));
  return arrays_of(types, operand.dims);
}

Result<Shape> infer_map(const RuleContext& context) {
  if (context.operand_count() == 0) return invalid("it needs an operand");
  STRATA_CHECK(same_dims_from(context, 0, context.operand_count()));
  std::vector<ElementType> types;
  for (size_t i = 0; i < context.operand_count(); ++i) types.push_back(context.operand(i).type);
  const Shape& root = context.called().root_instruction().shape;
  STRATA_CHECK(check_scalar_computation(context.called(), types, {root.type}));
  const std::vector<int64_t>& dims = context.instruction.dimensions();
  bool all = dims.size() == context.operand(0).dims.size();
  for (size_t d = 0; all && d < dims.size(); ++d) all = dims[d] == static_cast<int64_t>(d);
  if (!all) return invalid("dimensions= has to list all dimensions in order");
  return array_shape(root.type, context.operand(0).dims);
}

Result<Shape> infer_sort(const RuleContext& context) {
  if (context.operand_count() == 0) return invalid("it needs an operand");
  STRATA_CHECK(same_dims_from(context, 0, context.operand_count()));
  const int64_t rank = context.operand(0).rank();
  // A scalar is sorted along dimension 0.
  STRATA_CHECK(check_dimensions({context.instruction.as<SortAttributes>().dimension}, std::max<int64_t>(rank, 1),
                                "the dimension"));
  std::vector<ElementType> twice;
  std::vector<Shape> shapes;
  for (size_t i = 0; i < context.operand_count(); ++i) {
    twice.insert(twice.end(), 2, context.operand(i).type);
    shapes.push_back(context.operand(i));
  }
  STRATA_CHECK(check_scalar_computation(context.called(), twice, {ElementType::Pred}));
  return one_or_tuple(std::move(shapes));
}

Result<Shape> infer_top_k(const RuleContext& context) {
  const Shape& operand = context.operand(0);
  const int64_t k = context.instruction.as<TopKAttributes>().k;
  if (operand.rank() == 0 || k < 0 || k > operand.dims.back()) return invalid("k={} does not fit the operand", k);
  if (is_complex(operand.type)) return invalid("complex numbers have no order");
  std::vector<int64_t> dims = operand.dims;
  dims.back() = k;
  return tuple_shape({array_shape(operand.type, dims), array_shape(ElementType::S32, dims)});
}

}  // namespace

Result<Shape> infer_computing(const RuleContext& context) {
  switch (context.instruction.opcode) {
    case Opcode::Map:
      return infer_map(context);
    case Opcode::Reduce:
      return infer_reduce(context);
    case Opcode::ReduceWindow:
      return infer_reduce_window(context);
    case Opcode::Scatter:
      return infer_scatter(context);
    case Opcode::SelectAndScatter:
      return infer_select_and_scatter(context);
    case Opcode::Sort:
      return infer_sort(context);
    default:
      return infer_top_k(context);
  }
}

}  // namespace strata::hlo
