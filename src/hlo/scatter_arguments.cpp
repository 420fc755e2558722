// Indices that keep what scatters and gathers promise of them, and a look at whether given ones do.
#include <algorithm>
#include <limits>
#include <set>

#include "hlo/compute.h"
#include "hlo/evaluate.h"
#include "hlo/inline_calls.h"
#include "hlo/scatter_places.h"
#include "hlo/strided.h"
#include "hlo/typical_arguments.h"

namespace strata::hlo {
namespace {

using Integers = std::vector<int64_t>;

/// A scatter or gather: its indices, what it says of them, and what they point into.
struct Indexing {
  InstructionId indices = 0;
  int64_t index_vector_dim = 0;
  Integers operand_dims;   ///< of each entry of an index vector
  Integers dims, extents;  ///< of the operand, and of the window in it
  bool sorted = false, unique = false;
};

std::optional<Indexing> indexing_of(const Computation& computation, const Instruction& it) {
  if (it.opcode == Opcode::Gather) {
    const auto& how = it.as<GatherAttributes>();
    return Indexing{it.operands[1],
                    how.index_vector_dim,
                    how.start_index_map,
                    computation.operand_shape(it, 0).dims,
                    how.slice_sizes,
                    how.indices_are_sorted,
                    false};
  }
  if (it.opcode != Opcode::Scatter) return std::nullopt;
  const auto& how = it.as<ScatterAttributes>();
  const size_t count = it.operands.size() / 2;
  const Integers& dims = computation.operand_shape(it, 0).dims;
  return Indexing{it.operands[count],
                  how.index_vector_dim,
                  how.scatter_dims_to_operand_dims,
                  dims,
                  scatter_extents(how, dims.size(), computation.operand_shape(it, count + 1).dims),
                  how.indices_are_sorted,
                  how.unique_indices};
}

/// The parameter whose elements, one by one and in order, the indices are computed of.
std::optional<InstructionId> index_parameter(const Computation& computation, InstructionId id) {
  const int64_t count = computation[id].shape.element_count();
  std::vector<InstructionId> left{id};
  std::set<InstructionId> seen;
  while (!left.empty()) {
    const InstructionId next = left.back();
    left.pop_back();
    const Instruction& it = computation[next];
    const bool fits = it.shape.is_array() && it.shape.element_count() == count && seen.insert(next).second;
    if (!fits) continue;
    if (it.opcode == Opcode::Parameter) {
      if (is_integer(it.shape.type)) return next;
      continue;
    }
    const bool moves = it.opcode == Opcode::Reshape || it.opcode == Opcode::Bitcast || it.opcode == Opcode::Copy;
    if (moves || is_elementwise(it.opcode)) left.insert(left.end(), it.operands.begin(), it.operands.end());
  }
  return std::nullopt;
}

/// Numbers that are spread over 0 … count - 1, each at most once where unique; those that find no room any more are
/// count and above.
Integers draw_slots(int64_t wanted, int64_t count, bool unique, Random& random) {
  Integers slots;
  std::set<int64_t> taken;
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random.below(static_cast<uint64_t>(n))); };
  if (unique && count / 4 < wanted) {
    for (int64_t i = 0; i < count; ++i) slots.push_back(i);
    for (int64_t i = count; i-- > 1;)
      std::swap(slots[static_cast<size_t>(i)], slots[static_cast<size_t>(below(i + 1))]);
    for (int64_t i = count; i < wanted; ++i) slots.push_back(i);
    slots.resize(static_cast<size_t>(wanted));
    return slots;
  }
  while (static_cast<int64_t>(slots.size()) < wanted) {
    const int64_t slot = count > 0 ? below(count) : static_cast<int64_t>(slots.size());
    if (!unique || taken.insert(slot).second) slots.push_back(slot);
  }
  return slots;
}

/// Indices as they are promised, of the shape that the instruction takes them in; nothing where the type cannot hold
/// them.
std::optional<Literal> promised_indices(const Indexing& it, const Shape& shape, const Shape& parameter,
                                        Random& random) {
  // The entries of an index vector by the operand's dimension: sorted vectors are so in this order.
  std::vector<std::pair<int64_t, size_t>> entries;
  for (size_t i = 0; i < it.operand_dims.size(); ++i) entries.emplace_back(it.operand_dims[i], i);
  std::sort(entries.begin(), entries.end());
  Integers steps(entries.size(), 1), rooms(entries.size(), 0);
  int64_t room = 1;
  for (const auto& [d, i] : entries) {
    const int64_t size = it.dims[static_cast<size_t>(d)];
    const int64_t extent = std::max<int64_t>(it.extents[static_cast<size_t>(d)], 1);
    // Windows of unique indices do not overlap.
    steps[i] = it.unique ? extent : 1;
    rooms[i] = it.unique ? size / extent : std::max<int64_t>(size - extent + 1, 0);
    if (__builtin_mul_overflow(room, rooms[i], &room)) room = std::numeric_limits<int64_t>::max();
  }
  const auto vector_size = static_cast<int64_t>(entries.size());
  if (vector_size == 0 || shape.element_count() == 0) return std::nullopt;
  Integers slots = draw_slots(shape.element_count() / vector_size, room, it.unique, random);
  if (it.sorted) std::sort(slots.begin(), slots.end());
  const int64_t most = parameter.type == ElementType::S64 || parameter.type == ElementType::U64
                           ? std::numeric_limits<int64_t>::max()
                           : (int64_t{1} << (bit_width(parameter.type) - (is_signed(parameter.type) ? 1 : 0))) - 1;
  Literal literal(parameter);
  const bool has_vector = it.index_vector_dim < shape.rank();
  Integers batch = shape.dims;
  if (has_vector) batch[static_cast<size_t>(it.index_vector_dim)] = 1;
  const Integers strides = row_major_strides(shape.dims);
  const int64_t stride = has_vector ? strides[static_cast<size_t>(it.index_vector_dim)] : 0;
  Integers index(batch.size());
  size_t next = 0;
  do {
    int64_t slot = slots[next++];
    const int64_t at = dot_product(index, strides);
    // The first entry takes what is left, and so lies outside where there is no room.
    for (size_t k = entries.size(); k-- > 0;) {
      const size_t i = entries[k].second;
      const int64_t place = k == 0 || rooms[i] == 0 ? slot : slot % rooms[i];
      if (rooms[i] > 0) slot /= rooms[i];
      const int64_t value = room > 0 ? place * steps[i] : it.dims[static_cast<size_t>(entries[k].first)] + place;
      if (value > most) return std::nullopt;
      if (is_signed(parameter.type)) {
        literal.set<int64_t>(at + static_cast<int64_t>(i) * stride, value);
      } else {
        literal.set<uint64_t>(at + static_cast<int64_t>(i) * stride, static_cast<uint64_t>(value));
      }
    }
  } while (next_index(index, batch));
  return literal;
}

/// Whether index vectors rise, by the operand's dimensions in order.
bool are_sorted(const Indexing& it, const Literal& indices) {
  std::vector<std::pair<int64_t, size_t>> entries;
  for (size_t i = 0; i < it.operand_dims.size(); ++i) entries.emplace_back(it.operand_dims[i], i);
  std::sort(entries.begin(), entries.end());
  const Shape& shape = indices.shape();
  const bool has_vector = it.index_vector_dim < shape.rank();
  Integers batch = shape.dims;
  if (has_vector) batch[static_cast<size_t>(it.index_vector_dim)] = 1;
  const Integers strides = row_major_strides(shape.dims);
  const int64_t stride = has_vector ? strides[static_cast<size_t>(it.index_vector_dim)] : 0;
  if (is_empty(batch)) return true;
  Integers index(batch.size()), last;
  do {
    Integers vector;
    for (const auto& [d, i] : entries)
      vector.push_back(indices.get_integer(dot_product(index, strides) + static_cast<int64_t>(i) * stride));
    if (!last.empty() && vector < last) return false;
    last = std::move(vector);
  } while (next_index(index, batch));
  return true;
}

Result<Literal> value_of(const Module& module, InstructionId id, const std::vector<Literal>& arguments) {
  Computation computation = module.entry_computation();
  computation.root = id;
  const Module part = extract_module(module, computation);
  return evaluate(part, arguments);
}

Error broken(const Instruction& it, std::string_view what, std::string_view promise) {
  return {ErrorCode::InvalidInput,
          fmt::format("the indices of {} are not {}, as {}=true promises: the result may be another one", it.name, what,
                      promise),
          "give indices that are by --input NAME=FILE.npy", it.location};
}

}  // namespace

std::vector<Literal> typical_arguments(const Module& module, uint64_t seed) {
  std::vector<Literal> arguments = typical_arguments(module.entry_computation(), seed);
  if (!check_calls(module)) return arguments;
  const Module flat = inline_calls(module);
  const Computation& entry = flat.entry_computation();
  Random random(seed + 1);
  // Of several promises for one parameter the first that asks for unique indices is kept.
  std::set<InstructionId> done;
  for (const bool unique : {true, false}) {
    for (const Instruction& it : entry.instructions) {
      const std::optional<Indexing> indexing = indexing_of(entry, it);
      if (!indexing || indexing->unique != unique || !(indexing->unique || indexing->sorted)) continue;
      const auto parameter = index_parameter(entry, indexing->indices);
      if (!parameter || !done.insert(*parameter).second) continue;
      const auto number = static_cast<size_t>(entry[*parameter].as<ParameterAttributes>().number);
      const auto indices = promised_indices(*indexing, entry[indexing->indices].shape, entry[*parameter].shape, random);
      if (indices) arguments[number] = *indices;
    }
  }
  return arguments;
}

Result<ScatterFacts> scatter_facts(const Module& module, const std::vector<Literal>& arguments) {
  STRATA_CHECK(check_calls(module));
  const Module flat = inline_calls(module);
  const Computation& entry = flat.entry_computation();
  ScatterFacts facts;
  for (const Instruction& it : entry.instructions) {
    const std::optional<Indexing> indexing = indexing_of(entry, it);
    const bool scatters = it.opcode == Opcode::Scatter;
    if (!indexing || !(scatters || indexing->sorted)) continue;
    STRATA_TRY(const Literal indices, value_of(flat, indexing->indices, arguments));
    if (indexing->sorted && !are_sorted(*indexing, indices))
      facts.broken_promises.push_back(broken(it, "sorted", "indices_are_sorted"));
    if (!scatters) continue;
    const size_t count = it.operands.size() / 2;
    std::vector<int64_t> to = scatter_places(it.as<ScatterAttributes>(), indices, entry.operand_shape(it, 0).dims,
                                             entry.operand_shape(it, count + 1).dims)
                                  .to;
    std::sort(to.begin(), to.end());
    int64_t most = 0, run = 0;
    for (size_t i = 0; i < to.size(); ++i) {
      run = i > 0 && to[i] == to[i - 1] ? run + 1 : 1;
      most = std::max(most, run);
    }
    if (indexing->unique && most > 1) facts.broken_promises.push_back(broken(it, "unique", "unique_indices"));
    bool narrow = false;
    for (size_t i = 0; i < count; ++i) {
      const ElementType type = entry.operand_shape(it, i).type;
      narrow |= is_float(type) && bit_width(type) <= 16;
    }
    if (narrow) facts.most_narrow_updates = std::max(facts.most_narrow_updates, most);
  }
  return facts;
}

}  // namespace strata::hlo
