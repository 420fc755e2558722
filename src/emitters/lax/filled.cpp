#include "emitters/lax/filled.h"

#include <algorithm>
#include <limits>
#include <set>

#include "emitters/lax/dimension_classes.h"
#include "emitters/lax/fillings.h"
#include "hlo/compute.h"
#include "hlo/entry_rewriter.h"
#include "indexing/interval.h"

namespace strata::emitters {
namespace {

using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;
using hlo::Shape;
using indexing::ceil_div;

constexpr int64_t kSmallestMultiple = 16, kLargestMultiple = 128;  ///< of rows of tensor cores; of tiles
constexpr int64_t kGoodMultiple = 64;                              ///< what no filling would make much better
constexpr int64_t kMostAdded = 6;                                  ///< one in so many

bool is_maximum(const hlo::Module& module, const Instruction& reduce) {
  return module[reduce.called[0]].root_instruction().opcode == Opcode::Maximum;
}

bool contains(const std::vector<int64_t>& of, int64_t d) { return std::find(of.begin(), of.end(), d) != of.end(); }

/// Writes a part's entry with longer dimensions.
class Filler : hlo::EntryRewriter {
 public:
  Filler(const hlo::Module& module, const DimensionClasses& classes, const std::set<int>& longer)
      : EntryRewriter(module),
        classes_(classes),
        longer_(longer),
        fillings_(from_.instructions.size()),
        constants_(from_.instructions.size()) {
    for (const Instruction& it : from_.instructions) {
      if (it.opcode == Opcode::Reduce)
        for (const int64_t d : it.dimensions()) (is_maximum(module, it) ? maxima_ : sums_).insert({it.operands[0], d});
    }
  }

  hlo::Module run() {
    return rewrite([&](const Instruction& it, const Instruction& copy) -> std::optional<InstructionId> {
      Instruction longer = copy;
      longer.shape = long_shape(it);
      if (it.opcode == Opcode::Dot) take_terms(it, longer);
      InstructionId made = append(std::move(longer));
      const InstructionId id = id_of(it);
      note_constant(id, it);
      for (int64_t d = 0; d < it.shape.rank(); ++d) {
        Filling& here = fillings_[static_cast<size_t>(id)].emplace_back(filling(id, it, d));
        if (!is_longer(id, d)) continue;
        if (maxima_.contains({id, d}) && here != Filling::Masked) {
          if (here == Filling::Any) refuse(id, d);
          made = masked(made, d, it.shape.dim(d), -std::numeric_limits<double>::infinity());
          here = Filling::Masked;
        }
        if (sums_.contains({id, d}) && here != Filling::Zeros) {
          if (here != Filling::Numbers && here != Filling::Same) refuse(id, d);
          made = masked(made, d, it.shape.dim(d), 0);
          here = Filling::Zeros;
        }
      }
      return made;
    });
  }

  /// A class that must stay as it is, where there is one: what it would add makes a difference.
  std::optional<int> refused() const { return refused_; }

 private:
  InstructionId id_of(const Instruction& it) const {
    return static_cast<InstructionId>(&it - from_.instructions.data());
  }
  bool is_longer(InstructionId id, int64_t d) const { return longer_.contains(classes_.of(id, d)); }
  void refuse(InstructionId id, int64_t d) { refused_ = classes_.of(id, d); }

  Shape long_shape(const Instruction& it) {
    std::vector<int64_t> dims = it.shape.dims;
    for (int64_t d = 0; d < it.shape.rank(); ++d)
      if (is_longer(id_of(it), d)) dims[static_cast<size_t>(d)] = filled_size(it.shape.dim(d));
    return hlo::array_shape(it.shape.type, dims);
  }

  void note_constant(InstructionId id, const Instruction& it) {
    std::optional<double>& value = constants_[static_cast<size_t>(id)];
    if (it.opcode == Opcode::Constant && it.shape.element_count() == 1 && hlo::is_float(it.shape.type))
      value = hlo::load_all<double>(it.as<hlo::ConstantAttributes>().value)[0];
    if (it.opcode == Opcode::Broadcast || it.opcode == Opcode::Convert)
      value = constants_[static_cast<size_t>(it.operands[0])];
  }

  Filling operand(const Instruction& it, size_t i, int64_t d) const {
    return fillings_[static_cast<size_t>(it.operands[i])][static_cast<size_t>(d)];
  }

  Filling of_constant(double value) const {
    return value == 0                                          ? Filling::Zeros
           : value == -std::numeric_limits<double>::infinity() ? Filling::Masked
                                                               : Filling::Same;
  }

  /// The operand's dimension that is the result's, where the operator keeps it: −1 where it repeats the operand.
  std::optional<int64_t> source(InstructionId id, const Instruction& it, int64_t d) const {
    switch (it.opcode) {
      case Opcode::Broadcast: {
        const auto& to = it.dimensions();
        const auto at = std::find(to.begin(), to.end(), d);
        return at == to.end() ? -1 : at - to.begin();
      }
      case Opcode::Transpose:
        return it.dimensions()[static_cast<size_t>(d)];
      case Opcode::Reduce: {
        int64_t next = 0;
        for (int64_t o = 0; o < from_.operand_shape(it, 0).rank(); ++o)
          if (!contains(it.dimensions(), o) && next++ == d) return o;
        return std::nullopt;
      }
      case Opcode::Bitcast:
      case Opcode::Reshape: {
        // Dimensions of one class keep their order.
        const auto before = [&](InstructionId of, int64_t end) {
          int64_t count = 0;
          for (int64_t i = 0; i < end; ++i) count += classes_.of(of, i) == classes_.of(id, d) ? 1 : 0;
          return count;
        };
        const int64_t rank = from_.operand_shape(it, 0).rank();
        for (int64_t o = 0; o < rank; ++o)
          if (classes_.of(it.operands[0], o) == classes_.of(id, d) && before(it.operands[0], o) == before(id, d))
            return o;
        return std::nullopt;
      }
      default:
        return d;
    }
  }

  Filling filling(InstructionId id, const Instruction& it, int64_t d) const {
    if (!is_longer(id, d)) return Filling::Same;
    if (it.opcode == Opcode::Parameter) return Filling::Zeros;
    if (it.opcode == Opcode::Dot) return filling_of_dot(it, d);
    const std::optional<int64_t> from = source(id, it, d);
    if (!from) return Filling::Any;
    if (*from < 0) {
      const auto value = constants_[static_cast<size_t>(it.operands[0])];
      return value ? of_constant(*value) : Filling::Same;
    }
    if (it.opcode == Opcode::Reduce) {
      const Filling of = operand(it, 0, *from);
      return is_maximum(result_, it) || of == Filling::Zeros || of == Filling::Same || of == Filling::Numbers
                 ? of
                 : Filling::Any;
    }
    std::vector<Filling> operands;
    std::vector<std::optional<double>> constants;
    for (size_t i = 0; i < it.operands.size(); ++i) {
      constants.push_back(constants_[static_cast<size_t>(it.operands[i])]);
      operands.push_back(from_.operand_shape(it, i).rank() == 0 ? Filling::Same : operand(it, i, *from));
    }
    return filling_of(it.opcode, operands, constants);
  }

  Filling filling_of_dot(const Instruction& it, int64_t d) const {
    const auto& a = it.as<hlo::DotAttributes>();
    if (d < std::ssize(a.lhs_batch)) {
      const auto b = static_cast<size_t>(d);
      return filling_of_product(operand(it, 0, a.lhs_batch[b]), operand(it, 1, a.rhs_batch[b]));
    }
    int64_t next = std::ssize(a.lhs_batch);
    for (size_t i = 0; i < 2; ++i) {
      const auto& batch = i == 0 ? a.lhs_batch : a.rhs_batch;
      const auto& terms = i == 0 ? a.lhs_contracting : a.rhs_contracting;
      for (int64_t o = 0; o < from_.operand_shape(it, i).rank(); ++o) {
        if (contains(batch, o) || contains(terms, o)) continue;
        if (next++ == d) return filling_of_product(operand(it, i, o), Filling::Same);
      }
    }
    return Filling::Any;
  }

  /// Products add up nothing but zeros beyond the module's terms.
  void take_terms(const Instruction& it, Instruction& longer) {
    const auto& a = it.as<hlo::DotAttributes>();
    for (size_t i = 0; i < a.lhs_contracting.size(); ++i) {
      const int64_t l = a.lhs_contracting[i], r = a.rhs_contracting[i];
      if (!is_longer(it.operands[0], l)) continue;
      const Filling left = operand(it, 0, l), right = operand(it, 1, r);
      if (filling_of_product(left, right) == Filling::Zeros) continue;
      if (filling_of_product(left, right) == Filling::Any) refuse(it.operands[0], l);
      longer.operands[0] = masked(longer.operands[0], l, from_.operand_shape(it, 0).dim(l), 0);
    }
  }

  const DimensionClasses& classes_;
  const std::set<int>& longer_;
  std::vector<std::vector<Filling>> fillings_;                 ///< by instruction and dimension
  std::vector<std::optional<double>> constants_;               ///< by instruction: the one value that it has everywhere
  std::set<std::pair<InstructionId, int64_t>> maxima_, sums_;  ///< along which a value is reduced
  std::optional<int> refused_;
};

/// Rows, columns and terms of products that another size would serve better.
std::set<int> candidates(const hlo::Computation& entry, const DimensionClasses& classes) {
  std::set<int> all;
  for (const Instruction& it : entry.instructions) {
    if (it.opcode != Opcode::Dot) continue;
    const auto& a = it.as<hlo::DotAttributes>();
    for (size_t i = 0; i < 2; ++i) {
      const Shape& shape = entry.operand_shape(it, i);
      for (int64_t d = 0; d < shape.rank(); ++d)
        if (!contains(i == 0 ? a.lhs_batch : a.rhs_batch, d) && filled_size(shape.dim(d)) != shape.dim(d))
          all.insert(classes.of(it.operands[i], d));
    }
  }
  return all;
}

/// A reshape cuts or joins a dimension of another size, or a constant is written out.
std::set<int> fixed(const hlo::Computation& entry, const DimensionClasses& classes) {
  std::set<int> all;
  for (size_t i = 0; i < entry.instructions.size(); ++i) {
    const Instruction& it = entry.instructions[i];
    const auto id = static_cast<InstructionId>(i);
    const auto here = [&](InstructionId of) {
      std::multiset<int> found;
      for (int64_t d = 0; d < entry[of].shape.rank(); ++d)
        if (entry[of].shape.dim(d) != 1) found.insert(classes.of(of, d));
      return found;
    };
    const std::multiset<int> to = here(id);
    if (it.opcode == Opcode::Constant) all.insert(to.begin(), to.end());
    if (it.opcode != Opcode::Reshape && it.opcode != Opcode::Bitcast) continue;
    const std::multiset<int> from = here(it.operands[0]);
    std::set_symmetric_difference(from.begin(), from.end(), to.begin(), to.end(), std::inserter(all, all.end()));
  }
  return all;
}

}  // namespace

int64_t filled_size(int64_t size) {
  if (size % kGoodMultiple == 0) return size;
  for (int64_t multiple = kLargestMultiple; multiple >= kSmallestMultiple; multiple /= 2) {
    const int64_t longer = ceil_div(size, multiple) * multiple;
    if (kMostAdded * (longer - size) <= size) return longer;
  }
  return size;
}

std::optional<LaxPart> filled(const LaxPart& part) {
  const hlo::Computation& entry = part.module.entry_computation();
  const DimensionClasses classes(entry);
  std::set<int> longer = candidates(entry, classes);
  for (const int one : fixed(entry, classes)) longer.erase(one);
  while (!longer.empty()) {
    Filler filler(part.module, classes, longer);
    hlo::Module module = filler.run();
    if (const std::optional<int> refused = filler.refused()) {
      longer.erase(*refused);
      continue;
    }
    Result<LaxProgram> program = lax_program(module, module.entry_computation());
    if (!program || searched_operators(*program) == 0) return std::nullopt;
    LaxPart made = part;
    made.smaller.clear();
    made.program = *std::move(program);
    made.permutation = made.program.permutations[0];
    made.permuted = permuted(module, made.permutation);
    return made;
  }
  return std::nullopt;
}

bool is_filled(const LaxPart& part) {
  const hlo::Computation &own = part.module.entry_computation(), &called = part.permuted.entry_computation();
  for (size_t i = 0; i < own.parameters.size(); ++i)
    if (!hlo::same_dims(own[own.parameters[i]].shape, called[called.parameters[i]].shape)) return true;
  return false;
}

}  // namespace strata::emitters
