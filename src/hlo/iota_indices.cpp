#include "hlo/iota_indices.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "hlo/evaluate.h"
#include "hlo/inline_calls.h"
#include "hlo/replace_instructions.h"
#include "hlo/text.h"

namespace strata::hlo {
namespace {

constexpr int64_t kMostElements = 1 << 20;  ///< of an array that the interpreter computes
constexpr size_t kMostInstructions = 32;    ///< that a piece may be computed by

/// What gathers and scatters say about their indices, by the same names.
struct Indexing {
  std::vector<int64_t> of_one;    ///< operand dimensions of which one index is taken, and that the window lacks
  std::vector<int64_t> of_index;  ///< the operand dimension of each index
  std::vector<int64_t> batching, indices_batching;
  int64_t vector_dim = 0;
};

Indexing indexing_of(const Instruction& it) {
  if (it.opcode == Opcode::Gather) {
    const auto& how = it.as<GatherAttributes>();
    return {how.collapsed_slice_dims, how.start_index_map, how.operand_batching_dims, how.start_indices_batching_dims,
            how.index_vector_dim};
  }
  const auto& how = it.as<ScatterAttributes>();
  return {how.inserted_window_dims, how.scatter_dims_to_operand_dims, how.input_batching_dims,
          how.scatter_indices_batching_dims, how.index_vector_dim};
}

bool has(const std::vector<int64_t>& dims, int64_t d) { return std::find(dims.begin(), dims.end(), d) != dims.end(); }

bool is_computed(const Instruction& it) {
  switch (it.opcode) {
    case Opcode::Broadcast:
    case Opcode::Concatenate:
    case Opcode::Copy:
    case Opcode::Iota:
    case Opcode::Reshape:
    case Opcode::Reverse:
    case Opcode::Slice:
    case Opcode::Transpose:
      return true;
    case Opcode::Constant:
      return !it.as<ConstantAttributes>().elided;
    default:
      return is_elementwise(it.opcode);
  }
}

/// Copies `id`, and what it is computed of, to `to`; its number there, or nothing where it is not iotas and constants.
/// `budget` is how many more instructions may be looked at.
std::optional<InstructionId> copy_known(const Computation& from, InstructionId id, Computation& to,
                                        std::map<InstructionId, InstructionId>& copied, size_t& budget) {
  if (const auto known = copied.find(id); known != copied.end()) return known->second;
  const Instruction& it = from[id];
  const bool counts = it.shape.is_array() && (is_integer(it.shape.type) || it.shape.type == ElementType::Pred);
  if (!counts || !is_computed(it) || it.shape.element_count() > kMostElements || budget == 0) return std::nullopt;
  --budget;
  std::vector<InstructionId> operands;
  for (const InstructionId operand : it.operands) {
    const auto moved = copy_known(from, operand, to, copied, budget);
    if (!moved) return std::nullopt;
    operands.push_back(*moved);
  }
  to.instructions.push_back(it);
  to.instructions.back().operands = std::move(operands);
  return copied[id] = static_cast<InstructionId>(to.instructions.size()) - 1;
}

/// The dimension along which an array of iotas and constants counts from 0, the same in all others.
std::optional<int64_t> counted_dimension(const Computation& computation, InstructionId id) {
  Module alone;
  Computation& known = alone.computations.emplace_back();
  alone.name = known.name = "indices";
  alone.entry = 0;
  std::map<InstructionId, InstructionId> copied;
  size_t budget = kMostInstructions;
  const auto root = copy_known(computation, id, known, copied, budget);
  if (!root) return std::nullopt;
  known.root = *root;
  const Result<Literal> value = evaluate(alone, {});
  if (!value) return std::nullopt;
  const Shape& shape = computation[id].shape;
  int64_t after = shape.element_count();
  for (int64_t d = 0; d < shape.rank() && after > 0; ++d) {
    after /= shape.dim(d);
    bool counts = shape.dim(d) > 1;
    for (int64_t i = 0; counts && i < value->size(); ++i) counts = value->get_integer(i) == i / after % shape.dim(d);
    if (counts) return d;
  }
  return std::nullopt;
}

/// A piece of indices that becomes a batching dimension: the operand's dimension, and that of the indices.
using Counting = std::map<size_t, std::pair<int64_t, int64_t>>;

/// Finds pieces that count, each array of which is computed once.
class CountingPieces {
 public:
  explicit CountingPieces(const Computation& computation) : computation_(computation) {}

  /// Those that become batching dimensions, by their number.
  Counting of(const Instruction& it) {
    if ((it.opcode != Opcode::Gather && it.opcode != Opcode::Scatter) || !it.shape.is_array()) return {};
    const Indexing how = indexing_of(it);
    const Instruction& indices = computation_[it.operands[1]];
    if (indices.opcode != Opcode::Concatenate || indices.dimensions()[0] != how.vector_dim ||
        indices.operands.size() != how.of_index.size())
      return {};
    const bool one_each = std::all_of(indices.operands.begin(), indices.operands.end(), [&](InstructionId piece) {
      return computation_[piece].shape.dim(how.vector_dim) == 1;
    });
    if (!one_each) return {};
    Counting found;
    for (size_t piece = 0; piece < indices.operands.size() && found.size() + 1 < indices.operands.size(); ++piece) {
      const int64_t of_operand = how.of_index[piece];
      const int64_t size = computation_.operand_shape(it, 0).dim(of_operand);
      const std::vector<int64_t>& sizes = indices.shape.dims;
      if (!has(how.of_one, of_operand) || !has(sizes, size)) continue;
      const std::optional<int64_t> counted = counted_along(indices.operands[piece]);
      if (!counted || *counted == how.vector_dim || has(how.indices_batching, *counted) ||
          indices.shape.dim(*counted) != size)
        continue;
      const bool taken =
          std::any_of(found.begin(), found.end(), [&](const auto& other) { return other.second.second == *counted; });
      if (!taken) found[piece] = {of_operand, *counted};
    }
    return found;
  }

 private:
  std::optional<int64_t> counted_along(InstructionId piece) {
    const auto [known, is_new] = counted_.try_emplace(piece);
    if (is_new) known->second = counted_dimension(computation_, piece);
    return known->second;
  }

  const Computation& computation_;
  std::map<InstructionId, std::optional<int64_t>> counted_;
};

std::string listed(const std::vector<int64_t>& dims) { return fmt::format("{{{}}}", fmt::join(dims, ",")); }

Replacement replacement(const Module& module, const Computation& computation, const Instruction& it,
                        const Counting& counting) {
  Indexing how = indexing_of(it);
  const bool gathers = it.opcode == Opcode::Gather;
  const Instruction& indices = computation[it.operands[1]];
  Replacement made;
  std::string body;
  const auto parameter = [&](InstructionId id) {
    std::string name = fmt::format("p{}", made.operands.size());
    body += fmt::format("  {} = {} parameter({})\n", name, to_string(computation[id].shape), made.operands.size());
    made.operands.push_back(id);
    return name;
  };
  std::vector<std::string> operands = {parameter(it.operands[0])}, pieces;
  std::vector<int64_t> of_index;
  std::map<int64_t, int64_t> batching;  // the dimension of the indices, by the operand's: those lie in order
  for (size_t i = 0; i < how.batching.size(); ++i) batching[how.batching[i]] = how.indices_batching[i];
  for (size_t piece = 0; piece < indices.operands.size(); ++piece) {
    if (const auto found = counting.find(piece); found != counting.end()) {
      batching.insert(found->second);
      std::erase(how.of_one, found->second.first);
      continue;
    }
    of_index.push_back(how.of_index[piece]);
    pieces.push_back(parameter(indices.operands[piece]));
  }
  std::string names = pieces[0];
  if (pieces.size() > 1) {
    Shape shape = indices.shape;
    shape.dims[static_cast<size_t>(how.vector_dim)] = std::ssize(pieces);
    names = "indices";
    body += fmt::format("  indices = {} concatenate({}), dimensions={{{}}}\n", to_string(shape),
                        fmt::join(pieces, ", "), how.vector_dim);
  }
  operands.push_back(names);
  if (!gathers) operands.push_back(parameter(it.operands[2]));
  how.batching.clear();
  how.indices_batching.clear();
  for (const auto& [of_operand, of_indices] : batching) {
    how.batching.push_back(of_operand);
    how.indices_batching.push_back(of_indices);
  }
  body += fmt::format("  ROOT {}.batched = {} {}({}), ", it.name, to_string(it.shape), name(it.opcode),
                      fmt::join(operands, ", "));
  if (gathers) {
    const auto& given = it.as<GatherAttributes>();
    body += fmt::format(
        "offset_dims={}, collapsed_slice_dims={}, start_index_map={}, operand_batching_dims={}, "
        "start_indices_batching_dims={}, index_vector_dim={}, slice_sizes={}\n",
        listed(given.offset_dims), listed(how.of_one), listed(of_index), listed(how.batching),
        listed(how.indices_batching), how.vector_dim, listed(given.slice_sizes));
    made.text = fmt::format("HloModule m\nENTRY batched-gather {{\n{}}}\n", body);
    return made;
  }
  const auto& given = it.as<ScatterAttributes>();
  body += fmt::format(
      "update_window_dims={}, inserted_window_dims={}, scatter_dims_to_operand_dims={}, input_batching_dims={}, "
      "scatter_indices_batching_dims={}, index_vector_dim={}, unique_indices={}, to_apply=scatter\n",
      listed(given.update_window_dims), listed(how.of_one), listed(of_index), listed(how.batching),
      listed(how.indices_batching), how.vector_dim, given.unique_indices);
  // Its computation is the module's: what stands here has its parameters.
  const Computation& called = module[it.called[0]];
  std::string stand_in;
  for (size_t i = 0; i < called.parameters.size(); ++i)
    stand_in += fmt::format("  s{} = {} parameter({})\n", i, to_string(called[called.parameters[i]].shape), i);
  made.text = fmt::format("HloModule m\nscatter {{\n{}  ROOT r = {} copy(s0)\n}}\nENTRY batched-scatter {{\n{}}}\n",
                          stand_in, to_string(called.root_instruction().shape), body);
  made.stand_ins = {{"scatter", it.called[0]}};
  return made;
}

}  // namespace

bool has_iota_indices(const Module& module) {
  const auto takes_indices = [](const Instruction& it) {
    return it.opcode == Opcode::Gather || it.opcode == Opcode::Scatter;
  };
  const bool any = std::any_of(module.computations.begin(), module.computations.end(), [&](const Computation& in) {
    return std::any_of(in.instructions.begin(), in.instructions.end(), takes_indices);
  });
  if (!any) return false;
  const Module flat = inline_calls(module);
  return std::any_of(flat.computations.begin(), flat.computations.end(), [](const Computation& computation) {
    CountingPieces pieces(computation);
    return std::any_of(computation.instructions.begin(), computation.instructions.end(),
                       [&](const Instruction& it) { return !pieces.of(it).empty(); });
  });
}

Result<Module> batch_iota_indices(const Module& module) {
  const Module flat = inline_calls(module);
  std::map<const Computation*, CountingPieces> pieces;
  STRATA_TRY(const Module batched,
             replace_instructions(
                 flat, [&](const Computation& computation, const Instruction& it) -> std::optional<Replacement> {
                   const Counting counting = pieces.try_emplace(&computation, computation).first->second.of(it);
                   if (counting.empty()) return std::nullopt;
                   return replacement(flat, computation, it, counting);
                 }));
  return inline_calls(batched);
}

}  // namespace strata::hlo
