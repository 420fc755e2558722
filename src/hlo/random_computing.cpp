#include <algorithm>

#include "hlo/compute.h"
#include "hlo/fusion_builder.h"
#include "hlo/shape_rules.h"

namespace strata::hlo {
namespace {

using Id = FusionBuilder::Id;
using Ids = FusionBuilder::Ids;
using Integers = std::vector<int64_t>;

Id pick_ranked(FusionBuilder& builder) {
  if (const auto found = builder.pick([](const Shape& shape) { return shape.rank() > 0; })) return *found;
  return builder.parameter(builder.any_shape(1));
}

/// A computation that folds values of the type, and the value to begin with.
std::pair<ComputationId, Id> random_combiner(FusionBuilder& builder, ElementType type) {
  const bool number = type != ElementType::Pred;
  if (number && builder.chance(0.2)) return {builder.composed_combiner(type), builder.scalar(type, 0)};
  std::vector<Opcode> opcodes{Opcode::Add, Opcode::Multiply};
  if (!is_complex(type)) opcodes.insert(opcodes.end(), {Opcode::Maximum, Opcode::Minimum});
  if (!is_float(type) && !is_complex(type)) opcodes.insert(opcodes.end(), {Opcode::And, Opcode::Or, Opcode::Xor});
  const Opcode opcode = opcodes[builder.random.below(opcodes.size())];
  const int64_t start = opcode == Opcode::Multiply || opcode == Opcode::And ? 1 : 0;
  return {builder.combiner(opcode, type), builder.scalar(type, start)};
}

Integers random_subset(FusionBuilder& builder, int64_t rank) {
  Integers dims;
  for (int64_t d = 0; d < rank; ++d) {
    if (builder.chance(0.5)) dims.push_back(d);
  }
  if (dims.empty() && rank > 0) dims.push_back(builder.between(0, rank - 1));
  return dims;
}

void add_reduce(FusionBuilder& builder) {
  const Id operand = pick_ranked(builder);
  const Shape shape = builder.shape(operand);
  const DimensionsAttributes dims{random_subset(builder, shape.rank())};
  if (!is_complex(shape.type) && shape.type != ElementType::Pred && builder.chance(0.25)) {
    const Id indices = builder.add(Opcode::Iota, {}, DimensionsAttributes{{dims.dimensions[0]}}, {},
                                   array_shape(ElementType::S32, shape.dims));
    const Id value = builder.scalar(shape.type, 0);
    const Id index = builder.scalar(ElementType::S32, 1000);
    builder.add(Opcode::Reduce, {builder.without_nan(operand), indices, value, index}, dims,
                {builder.larger_with_index(shape.type)});
    return;
  }
  const auto [computation, init] = random_combiner(builder, shape.type);
  builder.add(Opcode::Reduce, {operand, init}, dims, {computation});
}

std::vector<WindowDimension> random_window(FusionBuilder& builder, const Integers& dims, bool dilated) {
  std::vector<WindowDimension> window;
  for (size_t d = 0; d < dims.size(); ++d) {
    WindowDimension w;
    w.size = builder.between(1, 3);
    w.stride = builder.between(1, 2);
    w.pad_low = builder.between(0, w.size - 1);
    w.pad_high = builder.between(0, w.size - 1);
    if (dilated && builder.chance(0.3)) w.lhs_dilate = 2;
    if (dilated && builder.chance(0.3)) w.rhs_dilate = 2;
    window.push_back(w);
  }
  return window;
}

bool small_window(FusionBuilder& builder, const Integers& dims, const std::vector<WindowDimension>& window) {
  Integers result;
  for (size_t d = 0; d < dims.size(); ++d) result.push_back(window_output_size(dims[d], window[d]));
  return builder.small(result);
}

void add_reduce_window(FusionBuilder& builder) {
  const Id operand = pick_ranked(builder);
  const Shape shape = builder.shape(operand);
  const auto window = random_window(builder, shape.dims, true);
  if (!small_window(builder, shape.dims, window)) return;
  const auto [computation, init] = random_combiner(builder, shape.type);
  builder.add(Opcode::ReduceWindow, {operand, init}, WindowAttributes{window}, {computation});
}

void add_select_and_scatter(FusionBuilder& builder) {
  const Id operand = pick_ranked(builder);
  const Shape shape = builder.shape(operand);
  if (is_complex(shape.type)) return;
  const auto window = random_window(builder, shape.dims, false);
  if (!small_window(builder, shape.dims, window)) return;
  Integers source;
  for (size_t d = 0; d < window.size(); ++d) source.push_back(window_output_size(shape.dims[d], window[d]));
  using Direction = CompareAttributes::Direction;
  // Of equals the first: back ends differ where the computation would take the later one.
  const ComputationId select = builder.comparator({shape.type}, builder.chance(0.5) ? Direction::GE : Direction::LE);
  builder.add(
      Opcode::SelectAndScatter,
      {builder.without_nan(operand), builder.like(array_shape(shape.type, source)), builder.scalar(shape.type, 0)},
      WindowAttributes{window}, {select, builder.combiner(Opcode::Add, shape.type)});
}

void add_scatter(FusionBuilder& builder) {
  const Id operand = pick_ranked(builder);
  const Shape shape = builder.shape(operand);
  ScatterAttributes a;
  const int64_t d = builder.between(0, shape.rank() - 1);
  a.scatter_dims_to_operand_dims = {d};
  const bool inserted = builder.chance(0.6);
  if (inserted) a.inserted_window_dims = {d};
  int64_t rows = builder.between(0, 6);
  const bool unique = builder.chance(0.4);
  if (unique) rows = std::min(rows, shape.dim(d));
  Integers update_dims{rows};
  for (int64_t i = 0; i < shape.rank(); ++i) {
    if (i == d && inserted) continue;
    a.update_window_dims.push_back(static_cast<int64_t>(update_dims.size()));
    update_dims.push_back(i == d || builder.chance(0.3) ? builder.between(std::min<int64_t>(shape.dim(i), 1), 1)
                                                        : shape.dim(i));
    if (update_dims.back() > shape.dim(i)) return;
  }
  a.index_vector_dim = 1;
  const Shape index_shape = array_shape(ElementType::S32, builder.chance(0.5) ? Integers{rows, 1} : Integers{rows});
  Id indices = 0;
  if (unique) {
    Integers order = builder.permutation(shape.dim(d));
    order.resize(static_cast<size_t>(rows));
    a.unique_indices = true;
    a.indices_are_sorted = builder.chance(0.5);
    if (a.indices_are_sorted) std::sort(order.begin(), order.end());
    indices = builder.constant(literal_of(index_shape, order));
  } else {
    indices = builder.like(index_shape);
  }
  const Id updates = builder.like(array_shape(shape.type, update_dims));
  const bool overwrites = unique && builder.chance(0.5);
  const ComputationId computation =
      overwrites ? builder.second(shape.type) : random_combiner(builder, shape.type).first;
  builder.add(Opcode::Scatter, {operand, indices, updates}, a, {computation});
}

void add_sort(FusionBuilder& builder) {
  const auto found = builder.pick([](const Shape& s) { return s.rank() > 0 && !is_complex(s.type); });
  if (!found) return;
  const Shape shape = builder.shape(*found);
  Ids operands{builder.without_nan(*found)};
  std::vector<ElementType> types{shape.type};
  if (builder.chance(0.5)) {
    types.push_back(builder.any_type());
    operands.push_back(builder.like(array_shape(types.back(), shape.dims)));
  }
  using Direction = CompareAttributes::Direction;
  const ComputationId less = builder.comparator(types, builder.chance(0.5) ? Direction::LT : Direction::GT);
  builder.add(Opcode::Sort, operands, SortAttributes{builder.between(0, shape.rank() - 1), true}, {less});
}

void add_dot(FusionBuilder& builder) {
  const Id lhs = builder.pick_any();
  const Shape shape = builder.shape(lhs);
  if (shape.rank() > 4) return;
  DotAttributes a;
  Integers rhs_dims;
  // Each dimension of the left side is a batch dimension, is summed over, or is kept.
  for (int64_t d = 0; d < shape.rank(); ++d) {
    const int64_t role = builder.between(0, 2);
    if (role == 2) continue;
    (role == 0 ? a.lhs_batch : a.lhs_contracting).push_back(d);
    (role == 0 ? a.rhs_batch : a.rhs_contracting).push_back(static_cast<int64_t>(rhs_dims.size()));
    rhs_dims.push_back(shape.dim(d));
  }
  if (builder.chance(0.7)) rhs_dims.push_back(builder.between(1, 4));
  if (!builder.small(rhs_dims) || shape.element_count() * 4 > builder.options.max_elements) return;
  Shape stated;
  stated.type = shape.type;
  if (is_float(shape.type) && builder.chance(0.3)) stated.type = ElementType::F32;
  builder.add(Opcode::Dot, {lhs, builder.like(array_shape(shape.type, rhs_dims))}, a, {}, stated);
}

void add_convolution(FusionBuilder& builder) {
  const int64_t spatial = builder.between(0, 2);
  const ElementType type = builder.any_type();
  ConvolutionAttributes a;
  const int64_t groups = builder.between(1, 2);
  a.feature_group_count = builder.chance(0.3) ? groups : 1;
  if (a.feature_group_count == 1 && builder.chance(0.3)) a.batch_group_count = groups;
  const int64_t rank = spatial + 2;
  const auto places = [&](int64_t& first, int64_t& second, Integers& others) {
    const Integers order = builder.permutation(rank);
    first = order[0];
    second = order[1];
    others.assign(order.begin() + 2, order.end());
  };
  places(a.input_batch, a.input_feature, a.input_spatial);
  places(a.kernel_input_feature, a.kernel_output_feature, a.kernel_spatial);
  places(a.output_batch, a.output_feature, a.output_spatial);
  Integers input(static_cast<size_t>(rank));
  Integers kernel(static_cast<size_t>(rank));
  const int64_t inner = builder.between(1, 3);
  input[static_cast<size_t>(a.input_batch)] = a.batch_group_count * builder.between(1, 2);
  input[static_cast<size_t>(a.input_feature)] = inner * a.feature_group_count;
  kernel[static_cast<size_t>(a.kernel_input_feature)] = inner;
  kernel[static_cast<size_t>(a.kernel_output_feature)] =
      a.feature_group_count * a.batch_group_count * builder.between(1, 2);
  Integers sizes;
  for (int64_t d = 0; d < spatial; ++d) sizes.push_back(builder.between(1, 5));
  a.window = random_window(builder, sizes, true);
  for (size_t d = 0; d < sizes.size(); ++d) {
    a.window[d].reversed = builder.chance(0.2);
    input[static_cast<size_t>(a.input_spatial[d])] = sizes[d];
    kernel[static_cast<size_t>(a.kernel_spatial[d])] = a.window[d].size;
  }
  Shape stated;
  stated.type = type;
  const Id lhs = builder.like(array_shape(type, input));
  const Id rhs = builder.like(array_shape(type, kernel));
  builder.add(Opcode::Convolution, {lhs, rhs}, a, {}, stated);
}

/// A loop of a few rounds: the state is a counter and an array.
void add_while(FusionBuilder& builder) {
  const Id operand = builder.pick_any();
  const Shape value = array_shape(builder.shape(operand).type, builder.shape(operand).dims);
  const Shape counter = array_shape(ElementType::S32, {});
  const Shape state = tuple_shape({counter, value});
  const ComputationId function = builder.function_of(value);
  const auto make = [](std::string text, Opcode opcode, Shape shape, Ids operands, Attributes attributes) {
    return Instruction{std::move(text), opcode, std::move(shape), std::move(operands), {}, std::move(attributes), {}};
  };
  const auto number = [&](std::string text, int64_t n) {
    return make(std::move(text), Opcode::Constant, counter, {},
                ConstantAttributes{literal_of<int64_t>(counter, {n}), false});
  };
  const std::string suffix = std::to_string(builder.module.computations.size());
  const auto element = [&](std::string text, int64_t i) {
    return make(std::move(text), Opcode::GetTupleElement, state.elements[static_cast<size_t>(i)], {0},
                TupleIndexAttributes{i});
  };
  Computation condition{"condition" + suffix, {}, {0}, 3};
  condition.instructions = {make("s", Opcode::Parameter, state, {}, ParameterAttributes{0}), element("i", 0),
                            number("n", builder.between(0, 3)),
                            make("r", Opcode::Compare, array_shape(ElementType::Pred, {}), {1, 2},
                                 CompareAttributes{CompareAttributes::Direction::LT})};
  Computation body{"body" + suffix, {}, {0}, 6};
  body.instructions = {make("s", Opcode::Parameter, state, {}, ParameterAttributes{0}),
                       element("i", 0),
                       number("one", 1),
                       make("next", Opcode::Add, counter, {1, 2}, NoAttributes{}),
                       element("x", 1),
                       make("y", Opcode::Call, value, {4}, NoAttributes{}),
                       make("r", Opcode::Tuple, state, {3, 5}, NoAttributes{})};
  body.instructions[5].called = {function};
  builder.module.computations.push_back(std::move(condition));
  builder.module.computations.push_back(std::move(body));
  const auto last = static_cast<ComputationId>(builder.module.computations.size()) - 1;
  const Id start = builder.scalar(ElementType::S32, 0);
  builder.fusion.instructions.push_back(
      make(fmt::format("state.{}", builder.fusion.instructions.size()), Opcode::Tuple, state, {start, operand}, {}));
  const auto tuple = static_cast<Id>(builder.fusion.instructions.size()) - 1;
  builder.fusion.instructions.back().shape = tuple_shape({state.elements[0], builder.shape(operand)});
  builder.add(Opcode::While, {tuple}, NoAttributes{}, {last - 1, last});
}

}  // namespace

void add_random_computing(FusionBuilder& builder, Opcode opcode) {
  switch (opcode) {
    case Opcode::Convolution:
      return add_convolution(builder);
    case Opcode::Dot:
      return add_dot(builder);
    case Opcode::Reduce:
      return add_reduce(builder);
    case Opcode::ReduceWindow:
      return add_reduce_window(builder);
    case Opcode::Scatter:
      return add_scatter(builder);
    case Opcode::SelectAndScatter:
      return add_select_and_scatter(builder);
    case Opcode::Sort:
      return add_sort(builder);
    case Opcode::Map: {
      const Id operand = builder.pick_any();
      const Shape shape = builder.shape(operand);
      Integers dims;
      for (int64_t d = 0; d < shape.rank(); ++d) dims.push_back(d);
      const Id other = builder.like(shape);
      builder.add(opcode, {operand, other}, DimensionsAttributes{dims}, {random_combiner(builder, shape.type).first});
      return;
    }
    default: {  // top-k
      const auto found = builder.pick([](const Shape& s) { return s.rank() > 0 && !is_complex(s.type); });
      if (!found) return;
      builder.add(opcode, {builder.without_nan(*found)},
                  TopKAttributes{builder.between(0, builder.shape(*found).dims.back()), builder.chance(0.7)});
    }
  }
}

void add_random_control(FusionBuilder& builder, Opcode opcode) {
  switch (opcode) {
    case Opcode::Call:
    case Opcode::Fusion: {
      const Id operand = builder.pick_any();
      Attributes attributes = NoAttributes{};
      if (opcode == Opcode::Fusion) attributes = FusionAttributes{};
      builder.add(opcode, {operand}, attributes, {builder.function_of(builder.shape(operand))});
      return;
    }
    case Opcode::Conditional: {
      const Id operand = builder.pick_any();
      const Id other = builder.like(builder.shape(operand));
      const bool two = builder.chance(0.5);
      const Id selector = builder.like(array_shape(two ? ElementType::Pred : ElementType::S32, {}));
      const ComputationId first = builder.function_of(builder.shape(operand));
      const ComputationId second = builder.function_of(builder.shape(operand));
      builder.add(opcode, {selector, operand, other}, NoAttributes{}, {first, second});
      return;
    }
    case Opcode::OptimizationBarrier:
      builder.add(opcode, {builder.pick_any()});
      return;
    case Opcode::While:
      return add_while(builder);
    default:
      return;  // tuples come with what makes them; tokens have no values
  }
}

}  // namespace strata::hlo
