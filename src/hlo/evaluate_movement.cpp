#include <algorithm>

#include "hlo/compute.h"
#include "hlo/evaluate_parts.h"
#include "hlo/strided.h"

namespace strata::hlo {
namespace {

using Integers = std::vector<int64_t>;

size_t width_of(const Literal& literal) { return static_cast<size_t>(byte_width(literal.type())); }

/// A result whose every element is one of the operand's.
Literal read_strided(const Shape& shape, const Literal& operand, const Strided& place) {
  Literal result(shape);
  copy_strided(shape.dims, result.mutable_bytes(), {0, row_major_strides(shape.dims)}, operand.bytes(), place,
               width_of(operand));
  return result;
}

Literal broadcast(const Instruction& instruction, const Literal& operand) {
  Strided place{0, Integers(instruction.shape.dims.size(), 0)};
  const Integers strides = row_major_strides(operand.shape().dims);
  for (size_t d = 0; d < strides.size(); ++d) {
    place.strides[static_cast<size_t>(instruction.dimensions()[d])] = strides[d];
  }
  return read_strided(instruction.shape, operand, place);
}

Literal transpose(const Shape& shape, const Literal& operand, const Integers& permutation) {
  Strided place;
  const Integers strides = row_major_strides(operand.shape().dims);
  for (int64_t d : permutation) place.strides.push_back(strides[static_cast<size_t>(d)]);
  return read_strided(shape, operand, place);
}

Literal slice(const Instruction& instruction, const Literal& operand) {
  const auto& a = instruction.as<SliceAttributes>();
  Strided place{0, row_major_strides(operand.shape().dims)};
  place.offset = dot_product(a.starts, place.strides);
  for (size_t d = 0; d < a.strides.size(); ++d) place.strides[d] *= a.strides[d];
  return read_strided(instruction.shape, operand, place);
}

Literal reverse(const Instruction& instruction, const Literal& operand) {
  Strided place{0, row_major_strides(operand.shape().dims)};
  for (int64_t dimension : instruction.dimensions()) {
    const size_t d = static_cast<size_t>(dimension);
    place.offset += (operand.shape().dims[d] - 1) * place.strides[d];
    place.strides[d] = -place.strides[d];
  }
  return read_strided(instruction.shape, operand, place);
}

Literal concatenate(const Instruction& instruction, const std::vector<Literal>& operands) {
  Literal result(instruction.shape);
  std::byte* bytes = result.mutable_bytes();
  const size_t d = static_cast<size_t>(instruction.dimensions()[0]);
  Strided place{0, row_major_strides(instruction.shape.dims)};
  for (const Literal& operand : operands) {
    copy_strided(operand.shape().dims, bytes, place, operand.bytes(), {0, row_major_strides(operand.shape().dims)},
                 width_of(operand));
    place.offset += operand.shape().dims[d] * place.strides[d];
  }
  return result;
}

Literal pad(const Instruction& instruction, const Literal& operand, const Literal& value) {
  const auto& a = instruction.as<PadAttributes>();
  const Shape& shape = instruction.shape;
  Literal result = read_strided(shape, value, {0, Integers(shape.dims.size(), 0)});
  Strided to{0, row_major_strides(shape.dims)};
  Strided from{0, row_major_strides(operand.shape().dims)};
  Integers dims = operand.shape().dims;
  for (size_t d = 0; d < dims.size(); ++d) {
    // Element k stands at low + k · step; those with low + k · step in 0 … size - 1 stay.
    const int64_t step = a.interior[d] + 1;
    const int64_t first = a.low[d] >= 0 ? 0 : (-a.low[d] + step - 1) / step;
    const int64_t room = shape.dims[d] - 1 - a.low[d];
    const int64_t last = room < 0 ? -1 : std::min(room / step, dims[d] - 1);
    dims[d] = std::max<int64_t>(last - first + 1, 0);
    from.offset += first * from.strides[d];
    to.offset += (a.low[d] + first * step) * to.strides[d];
    to.strides[d] *= step;
  }
  copy_strided(dims, result.mutable_bytes(), to, operand.bytes(), from, width_of(operand));
  return result;
}

/// Start indices, clamped so that a slice of `sizes` is inside `dims`.
Integers clamped_starts(const std::vector<Literal>& operands, size_t first, const Integers& dims,
                        const Integers& sizes) {
  Integers starts;
  for (size_t d = 0; d < dims.size(); ++d) {
    const Literal& index = operands[first + d];
    const int64_t room = dims[d] - sizes[d];
    const bool huge = is_unsigned(index.type()) && index.get<uint64_t>(0) > static_cast<uint64_t>(room);
    starts.push_back(huge ? room : std::clamp<int64_t>(index.get_integer(0), 0, room));
  }
  return starts;
}

Literal dynamic_slice(const Instruction& instruction, const std::vector<Literal>& operands) {
  const Integers& dims = operands[0].shape().dims;
  Strided place{0, row_major_strides(dims)};
  place.offset = dot_product(clamped_starts(operands, 1, dims, instruction.shape.dims), place.strides);
  return read_strided(instruction.shape, operands[0], place);
}

Literal dynamic_update_slice(std::vector<Literal>& operands) {
  const Literal& update = operands[1];
  const Integers dims = operands[0].shape().dims;
  Strided place{0, row_major_strides(dims)};
  place.offset = dot_product(clamped_starts(operands, 2, dims, update.shape().dims), place.strides);
  Literal result = std::move(operands[0]);
  copy_strided(update.shape().dims, result.mutable_bytes(), place, update.bytes(),
               {0, row_major_strides(update.shape().dims)}, width_of(update));
  return result;
}

bool contains(const Integers& list, int64_t value) { return std::find(list.begin(), list.end(), value) != list.end(); }

Literal gather(const Instruction& instruction, const Literal& operand, const Literal& indices) {
  const auto& a = instruction.as<GatherAttributes>();
  const Shape& shape = instruction.shape;
  Literal result(shape);
  std::byte* bytes = result.mutable_bytes();
  const Integers& dims = operand.shape().dims;
  const Integers index_strides = row_major_strides(indices.shape().dims);
  const Integers result_strides = row_major_strides(shape.dims);
  Strided from{0, row_major_strides(dims)};
  // A slice is written along offset_dims; collapsed dimensions have size 1 and any stride.
  Strided to{0, Integers(dims.size(), 0)};
  size_t window = 0;
  for (size_t d = 0; d < dims.size(); ++d) {
    const int64_t dimension = static_cast<int64_t>(d);
    if (contains(a.collapsed_slice_dims, dimension) || contains(a.operand_batching_dims, dimension)) continue;
    to.strides[d] = result_strides[static_cast<size_t>(a.offset_dims[window++])];
  }
  Integers batch_dims, batch_to, batch_index_strides, batch_index_dims;
  for (int64_t d = 0; d < shape.rank(); ++d) {
    if (contains(a.offset_dims, d)) continue;
    batch_dims.push_back(shape.dim(d));
    batch_to.push_back(result_strides[static_cast<size_t>(d)]);
  }
  for (int64_t d = 0; d < indices.shape().rank(); ++d) {
    if (d == a.index_vector_dim) continue;
    batch_index_strides.push_back(index_strides[static_cast<size_t>(d)]);
    batch_index_dims.push_back(d);
  }
  const int64_t vector_stride =
      a.index_vector_dim < indices.shape().rank() ? index_strides[static_cast<size_t>(a.index_vector_dim)] : 0;
  if (is_empty(shape.dims)) return result;
  Integers batch(batch_dims.size());
  do {
    const int64_t at = dot_product(batch, batch_index_strides);
    from.offset = 0;
    for (size_t i = 0; i < a.start_index_map.size(); ++i) {
      const size_t d = static_cast<size_t>(a.start_index_map[i]);
      const int64_t place = at + static_cast<int64_t>(i) * vector_stride;
      const int64_t room = dims[d] - a.slice_sizes[d];
      const bool huge = is_unsigned(indices.type()) && indices.get<uint64_t>(place) > static_cast<uint64_t>(room);
      from.offset += (huge ? room : std::clamp<int64_t>(indices.get_integer(place), 0, room)) * from.strides[d];
    }
    for (size_t i = 0; i < a.operand_batching_dims.size(); ++i) {
      const auto batch_dim =
          std::find(batch_index_dims.begin(), batch_index_dims.end(), a.start_indices_batching_dims[i]);
      from.offset += batch[static_cast<size_t>(batch_dim - batch_index_dims.begin())] *
                     from.strides[static_cast<size_t>(a.operand_batching_dims[i])];
    }
    to.offset = dot_product(batch, batch_to);
    copy_strided(a.slice_sizes, bytes, to, operand.bytes(), from, width_of(operand));
  } while (next_index(batch, batch_dims));
  return result;
}

/// The dimensions from the outermost in memory.
Integers major_to_minor(const Shape& shape) { return {shape.minor_to_major.rbegin(), shape.minor_to_major.rend()}; }

/// The operand's memory, in its layout, seen as the result's.
Literal bitcast(const Shape& shape, const Literal& operand) {
  const auto in_memory_order = [](const Shape& s) {
    Integers dims;
    for (int64_t d : major_to_minor(s)) dims.push_back(s.dim(d));
    return array_shape(s.type, dims);
  };
  const Literal memory = transpose(in_memory_order(operand.shape()), operand, major_to_minor(operand.shape()));
  const Literal seen = reinterpret_bits(memory, in_memory_order(shape));
  Integers inverse(shape.dims.size());
  const Integers order = major_to_minor(shape);
  for (size_t i = 0; i < order.size(); ++i) inverse[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  return transpose(shape, seen, inverse);
}

}  // namespace

Literal pick(const Literal& literal, const Integers& indices) {
  Literal result(array_shape(literal.type(), {static_cast<int64_t>(indices.size())}));
  std::byte* bytes = result.mutable_bytes();
  const size_t width = width_of(literal);
  for (size_t i = 0; i < indices.size(); ++i) {
    std::memcpy(bytes + i * width, literal.bytes() + static_cast<size_t>(indices[i]) * width, width);
  }
  return result;
}

void put(Literal& result, const Integers& indices, const Literal& values) {
  std::byte* bytes = result.mutable_bytes();
  const size_t width = width_of(result);
  for (size_t i = 0; i < indices.size(); ++i) {
    std::memcpy(bytes + static_cast<size_t>(indices[i]) * width, values.bytes() + i * width, width);
  }
}

Literal one_or_tuple(std::vector<Literal> literals) {
  return literals.size() == 1 ? std::move(literals.front()) : Literal::tuple(std::move(literals));
}

std::vector<Shape> result_shapes(const Shape& shape) {
  return shape.is_tuple() ? shape.elements.list() : std::vector<Shape>{shape};
}

Literal evaluate_movement(const Instruction& instruction, std::vector<Literal>& operands) {
  const Shape& shape = instruction.shape;
  switch (instruction.opcode) {
    case Opcode::Bitcast:
      return bitcast(shape, operands[0]);
    case Opcode::Broadcast:
      return broadcast(instruction, operands[0]);
    case Opcode::Concatenate:
      return concatenate(instruction, operands);
    case Opcode::DynamicSlice:
      return dynamic_slice(instruction, operands);
    case Opcode::DynamicUpdateSlice:
      return dynamic_update_slice(operands);
    case Opcode::Gather:
      return gather(instruction, operands[0], operands[1]);
    case Opcode::GetDimensionSize: {
      Literal result(shape);
      result.set<int64_t>(0, operands[0].shape().dim(instruction.dimensions()[0]));
      return result;
    }
    case Opcode::Pad:
      return pad(instruction, operands[0], operands[1]);
    case Opcode::Reverse:
      return reverse(instruction, operands[0]);
    case Opcode::Slice:
      return slice(instruction, operands[0]);
    case Opcode::Transpose:
      return transpose(shape, operands[0], instruction.dimensions());
    default:
      return operands[0].with_shape(shape);  // copy, reshape
  }
}

}  // namespace strata::hlo
