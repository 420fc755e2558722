#include <algorithm>

#include "hlo/compute.h"
#include "hlo/fusion_builder.h"

namespace strata::hlo {
namespace {

using Id = FusionBuilder::Id;
using Ids = FusionBuilder::Ids;
using Integers = std::vector<int64_t>;

/// An array of at least one dimension.
Id pick_ranked(FusionBuilder& builder) {
  if (const auto found = builder.pick([](const Shape& shape) { return shape.rank() > 0; })) return *found;
  return builder.parameter(builder.any_shape(1));
}

/// A start index: a parameter or a constant, often outside.
Ids start_indices(FusionBuilder& builder, const Shape& shape) {
  const bool is_signed_type = builder.chance(0.8);
  const ElementType type = is_signed_type ? ElementType::S32 : ElementType::U32;
  Ids starts;
  for (int64_t size : shape.dims) {
    const bool given = builder.chance(0.5);
    starts.push_back(given ? builder.parameter(array_shape(type, {}))
                           : builder.scalar(type, builder.between(is_signed_type ? -2 : 0, size + 1)));
  }
  return starts;
}

void add_broadcast(FusionBuilder& builder) {
  const Id operand = builder.pick_any();
  const Shape shape = builder.shape(operand);
  const int64_t rank = std::min<int64_t>(shape.rank() + builder.between(0, 2), 6);
  Integers places = builder.permutation(rank);
  places.resize(shape.dims.size());
  if (builder.chance(0.8)) std::sort(places.begin(), places.end());
  Integers dims(static_cast<size_t>(rank), 0);
  for (int64_t& size : dims) size = builder.between(1, 5);
  for (size_t d = 0; d < places.size(); ++d) dims[static_cast<size_t>(places[d])] = shape.dims[d];
  if (!builder.small(dims)) return;
  builder.add(Opcode::Broadcast, {operand}, DimensionsAttributes{places}, {}, array_shape(shape.type, dims));
}

/// Other sizes with the same product.
Integers regrouped(FusionBuilder& builder, const Shape& shape) {
  if (shape.element_count() == 0) {
    Integers dims = shape.dims;
    dims.insert(dims.begin(), builder.between(1, 3));
    return dims;
  }
  int64_t rest = shape.element_count();
  Integers dims;
  for (int64_t divisor = 2; rest > 1 && divisor <= rest;) {
    if (rest % divisor != 0) {
      ++divisor;
      continue;
    }
    rest /= divisor;
    if (!dims.empty() && builder.chance(0.6)) {
      dims[builder.random.below(dims.size())] *= divisor;
    } else {
      dims.push_back(divisor);
    }
  }
  if (builder.chance(0.3)) dims.insert(dims.begin() + builder.between(0, static_cast<int64_t>(dims.size())), 1);
  if (dims.size() > 6) dims = {shape.element_count()};
  return dims;
}

void add_bitcast(FusionBuilder& builder) {
  const Id operand = builder.pick_any();
  const Shape shape = builder.shape(operand);
  if (builder.chance(0.5)) {
    builder.add(Opcode::Bitcast, {operand}, NoAttributes{}, {}, array_shape(shape.type, regrouped(builder, shape)));
    return;
  }
  // A transposition that leaves memory alone: sizes permuted, and the layout with them.
  const Integers order = builder.permutation(shape.rank());
  Integers dims, layout;
  for (int64_t d : order) dims.push_back(shape.dim(d));
  for (int64_t d : shape.minor_to_major) {
    layout.push_back(std::find(order.begin(), order.end(), d) - order.begin());
  }
  builder.add(Opcode::Bitcast, {operand}, NoAttributes{}, {}, array_shape(shape.type, dims, layout));
}

void add_concatenate(FusionBuilder& builder) {
  const Id first = pick_ranked(builder);
  const Shape shape = builder.shape(first);
  const size_t d = builder.random.below(shape.dims.size());
  Ids operands{first};
  Shape other = array_shape(shape.type, shape.dims);
  Integers dims = shape.dims;
  for (int64_t count = builder.between(0, 3); count > 0; --count) {
    other.dims[d] = builder.chance(0.4) ? shape.dims[d] : builder.between(0, 5);
    dims[d] += other.dims[d];
    operands.push_back(builder.like(other));
  }
  if (!builder.small(dims)) return;
  builder.add(Opcode::Concatenate, operands, DimensionsAttributes{{static_cast<int64_t>(d)}});
}

void add_pad(FusionBuilder& builder) {
  const Id operand = pick_ranked(builder);
  const Shape shape = builder.shape(operand);
  PadAttributes pad;
  Integers dims;
  for (int64_t size : shape.dims) {
    pad.interior.push_back(builder.chance(0.3) ? builder.between(1, 2) : 0);
    const int64_t inside = size == 0 ? 0 : (size - 1) * (pad.interior.back() + 1) + 1;
    pad.low.push_back(builder.between(-std::min<int64_t>(inside, 2), 2));
    pad.high.push_back(builder.between(-std::min<int64_t>(std::max<int64_t>(inside + pad.low.back(), 0), 2), 2));
    dims.push_back(inside + pad.low.back() + pad.high.back());
  }
  const bool negative = std::any_of(dims.begin(), dims.end(), [](int64_t size) { return size < 0; });
  if (negative || !builder.small(dims)) return;
  builder.add(Opcode::Pad, {operand, builder.like(array_shape(shape.type, {}))}, pad);
}

void add_slice(FusionBuilder& builder) {
  const Id operand = pick_ranked(builder);
  SliceAttributes slice;
  for (int64_t size : builder.shape(operand).dims) {
    slice.starts.push_back(builder.between(0, size));
    slice.limits.push_back(builder.chance(0.9) ? std::min(size, slice.starts.back() + builder.between(1, 20))
                                               : slice.starts.back());
    if (builder.chance(0.5)) {
      slice.starts.back() = 0;
      slice.limits.back() = size;
    }
    slice.strides.push_back(builder.chance(0.3) ? builder.between(2, 3) : 1);
  }
  builder.add(Opcode::Slice, {operand}, slice);
}

Integers part_of(FusionBuilder& builder, const Shape& shape) {
  Integers sizes;
  for (int64_t size : shape.dims) sizes.push_back(builder.between(std::min<int64_t>(size, 1), size));
  return sizes;
}

void add_gather(FusionBuilder& builder) {
  const Id operand = pick_ranked(builder);
  const Shape shape = builder.shape(operand);
  if (shape.element_count() == 0) return;  // there is nothing to clamp indices to
  GatherAttributes a;
  // The dimensions that are looked up, their order in an index vector, and which of them are dropped.
  const Integers order = builder.permutation(shape.rank());
  const int64_t looked_up = builder.between(1, std::min<int64_t>(shape.rank(), 2));
  a.start_index_map.assign(order.begin(), order.begin() + looked_up);
  for (int64_t d = 0; d < shape.rank(); ++d) {
    const bool collapsed = builder.chance(0.6) &&
                           std::find(a.start_index_map.begin(), a.start_index_map.end(), d) != a.start_index_map.end();
    a.slice_sizes.push_back(collapsed ? 1 : builder.between(1, shape.dim(d)));
    if (collapsed) a.collapsed_slice_dims.push_back(d);
  }
  Integers index_dims;
  for (int64_t count = builder.between(0, 2); count > 0; --count) index_dims.push_back(builder.between(1, 5));
  const int64_t batch_rank = static_cast<int64_t>(index_dims.size());
  a.index_vector_dim = builder.between(0, batch_rank);
  const bool implicit = looked_up == 1 && a.index_vector_dim == batch_rank && builder.chance(0.5);
  if (!implicit) index_dims.insert(index_dims.begin() + a.index_vector_dim, looked_up);
  const int64_t window = shape.rank() - static_cast<int64_t>(a.collapsed_slice_dims.size());
  const Integers places = builder.permutation(batch_rank + window);
  a.offset_dims.assign(places.begin(), places.begin() + window);
  std::sort(a.offset_dims.begin(), a.offset_dims.end());
  Integers dims = index_dims;
  dims.insert(dims.end(), a.slice_sizes.begin(), a.slice_sizes.end());
  if (!builder.small(dims)) return;
  builder.add(Opcode::Gather, {operand, builder.like(array_shape(ElementType::S32, index_dims))}, a);
}

}  // namespace

void add_random_movement(FusionBuilder& builder, Opcode opcode) {
  switch (opcode) {
    case Opcode::Bitcast:
      return add_bitcast(builder);
    case Opcode::Broadcast:
      return add_broadcast(builder);
    case Opcode::Concatenate:
      return add_concatenate(builder);
    case Opcode::Gather:
      return add_gather(builder);
    case Opcode::Pad:
      return add_pad(builder);
    case Opcode::Slice:
      return add_slice(builder);
    case Opcode::DynamicSlice: {
      const Id operand = pick_ranked(builder);
      const Shape shape = builder.shape(operand);
      const Integers sizes = part_of(builder, shape);
      Ids operands = start_indices(builder, shape);
      operands.insert(operands.begin(), operand);
      builder.add(opcode, operands, DynamicSliceAttributes{sizes});
      return;
    }
    case Opcode::DynamicUpdateSlice: {
      const Id operand = pick_ranked(builder);
      const Shape shape = builder.shape(operand);
      const Id update = builder.like(array_shape(shape.type, part_of(builder, shape)));
      Ids operands = start_indices(builder, shape);
      operands.insert(operands.begin(), {operand, update});
      builder.add(opcode, operands);
      return;
    }
    case Opcode::GetDimensionSize: {
      const Id operand = pick_ranked(builder);
      builder.add(opcode, {operand}, DimensionsAttributes{{builder.between(0, builder.shape(operand).rank() - 1)}});
      return;
    }
    case Opcode::Reshape: {
      const Id operand = builder.pick_any();
      const Shape shape = builder.shape(operand);
      builder.add(opcode, {operand}, NoAttributes{}, {}, array_shape(shape.type, regrouped(builder, shape)));
      return;
    }
    case Opcode::Reverse: {
      const Id operand = pick_ranked(builder);
      Integers dims = builder.permutation(builder.shape(operand).rank());
      dims.resize(static_cast<size_t>(builder.between(1, static_cast<int64_t>(dims.size()))));
      builder.add(opcode, {operand}, DimensionsAttributes{dims});
      return;
    }
    case Opcode::Transpose: {
      const Id operand = builder.pick_any();
      builder.add(opcode, {operand}, DimensionsAttributes{builder.permutation(builder.shape(operand).rank())});
      return;
    }
    default:
      builder.add(opcode, {builder.pick_any()});  // copy
  }
}

}  // namespace strata::hlo
