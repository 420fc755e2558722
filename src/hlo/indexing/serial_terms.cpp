#include "hlo/indexing/serial_terms.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "hlo/scan_window.h"
#include "hlo/terms.h"

namespace strata::indexing {
namespace {

using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;

/// Without overflow: of more than 2³¹ each nobody asks how many.
int64_t product(int64_t a, int64_t b) {
  constexpr int64_t kMost = int64_t{1} << 31;
  return std::min(a, kMost) * std::min(b, kMost);
}

/// A reduction, or a window that grows with the index: emitters compute both by several threads together.
bool is_combined(const hlo::Computation& computation, const Instruction& it) {
  return it.opcode == Opcode::Reduce || hlo::scan_window(computation, it).has_value();
}

void take_longer(SerialTerms& longest, const SerialTerms& other) {
  longest.all = std::max(longest.all, other.all);
  longest.combined = std::max(longest.combined, other.combined);
}

/// Dimensions of an array, one bit each.
using Dimensions = uint64_t;

Dimensions one(int64_t dimension) { return Dimensions{1} << std::min<int64_t>(dimension, 63); }

/// The dimensions along which an array has several elements.
Dimensions all_of(const hlo::Shape& shape) {
  const hlo::Shape& array = shape.is_tuple() && !shape.elements.empty() ? shape.elements[0] : shape;
  Dimensions dimensions = 0;
  for (int64_t d = 0; d < array.rank(); ++d) dimensions |= array.dim(d) > 1 ? one(d) : 0;
  return dimensions;
}

/// The longest chains by the dimensions along which what they compute differs: where a loop goes along none of these,
/// it is computed in front of the loop (emitters/transforms/hoist_loops.cpp).
using Chains = std::map<Dimensions, SerialTerms>;

void take(Chains& chains, Dimensions dimensions, const SerialTerms& terms) {
  if (const auto [known, is_new] = chains.try_emplace(dimensions, terms); !is_new) take_longer(known->second, terms);
}

/// Dimensions of an instruction's result along which it differs where its first operand does along `of`.
Dimensions passed_on(const hlo::Computation& computation, const Instruction& it, Dimensions of) {
  if (of == 0) return 0;
  Dimensions result = 0;
  switch (it.opcode) {
    case Opcode::Broadcast:
    case Opcode::Transpose:
      for (int64_t d = 0; d < std::ssize(it.dimensions()); ++d) {
        const int64_t to = it.opcode == Opcode::Broadcast ? it.dimensions()[static_cast<size_t>(d)] : d;
        const int64_t from = it.opcode == Opcode::Broadcast ? d : it.dimensions()[static_cast<size_t>(d)];
        if ((of & one(from)) != 0) result |= one(to);
      }
      return result;
    case Opcode::Reduce: {
      int64_t to = 0;
      for (int64_t d = 0; d < computation.operand_shape(it, 0).rank(); ++d) {
        if (std::ranges::count(it.dimensions(), d) != 0) continue;
        if ((of & one(d)) != 0) result |= one(to);
        ++to;
      }
      return result;
    }
    case Opcode::ReduceWindow:
    case Opcode::Tuple:
    case Opcode::GetTupleElement:
    case Opcode::Slice:
    case Opcode::Pad:
      return of;
    default:
      return hlo::is_elementwise(it.opcode) ? of : all_of(it.shape);
  }
}

/// The dimensions of its operands along which a reduction or window has its terms.
Dimensions of_terms(const Instruction& it) {
  Dimensions dimensions = 0;
  if (it.opcode == Opcode::Reduce) {
    for (const int64_t d : it.dimensions()) dimensions |= one(d);
  } else if (it.opcode == Opcode::ReduceWindow) {
    const auto& window = it.as<hlo::WindowAttributes>().window;
    for (size_t d = 0; d < window.size(); ++d) dimensions |= window[d].size > 1 ? one(static_cast<int64_t>(d)) : 0;
  } else {
    dimensions = ~Dimensions{0};
  }
  return dimensions;
}

/// The chains of an instruction; `of` has those of its operands.
template <class Of>
Chains chains_of(const hlo::Computation& computation, const Instruction& it, const Of& of) {
  Chains its;
  const bool reduces = it.opcode == Opcode::Reduce || it.opcode == Opcode::ReduceWindow;
  const int64_t terms = hlo::terms_of(computation, it);
  const bool combined = is_combined(computation, it);
  if (terms > 1) take(its, all_of(it.shape), {terms, combined ? terms : 0});
  for (size_t k = 0; k < it.operands.size(); ++k) {
    const Chains* operand = of(it.operands[k]);
    if (operand == nullptr) continue;
    const bool initial = reduces && k >= it.operands.size() / 2;
    for (const auto& [dimensions, of_operand] : *operand) {
      SerialTerms longer = of_operand;
      const bool in_loop = terms > 1 && !initial && (dimensions & of_terms(it)) != 0;
      if (in_loop) {
        longer.all = product(longer.all, terms);
        longer.combined = combined ? longer.all : product(longer.combined, terms);
      }
      // Together they differ along all dimensions of the result.
      take(its, in_loop ? all_of(it.shape) : passed_on(computation, it, initial ? 0 : dimensions), longer);
    }
  }
  return its;
}

}  // namespace

std::vector<SerialTerms> serial_terms(const hlo::Computation& computation, const std::vector<InstructionId>& once) {
  std::vector<SerialTerms> result(static_cast<size_t>(computation.root) + 1);
  std::vector<Chains> chains(result.size());
  for (InstructionId id = 0; id <= computation.root; ++id) {
    if (std::find(once.begin(), once.end(), id) != once.end()) continue;
    const auto i = static_cast<size_t>(id);
    chains[i] = chains_of(computation, computation[id],
                          [&](InstructionId operand) { return &chains[static_cast<size_t>(operand)]; });
    for (const auto& [dimensions, of_chain] : chains[i]) take_longer(result[i], of_chain);
  }
  return result;
}

SerialTerms longest_serial_terms(const hlo::Computation& computation, std::span<const InstructionId> instructions) {
  SerialTerms longest;
  std::unordered_map<InstructionId, Chains> chains;
  for (const InstructionId id : instructions) {
    const Chains its = chains_of(computation, computation[id], [&](InstructionId operand) {
      const auto known = chains.find(operand);
      return known == chains.end() ? nullptr : &known->second;
    });
    for (const auto& [dimensions, of_chain] : its) take_longer(longest, of_chain);
    if (!its.empty()) chains.emplace(id, its);
  }
  return longest;
}

}  // namespace strata::indexing
