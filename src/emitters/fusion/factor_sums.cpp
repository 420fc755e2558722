#include "emitters/fusion/factor_sums.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "hlo/entry_rewriter.h"
#include "hlo/indexing/evaluations.h"

namespace strata::emitters {
namespace {

using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;

/// A sum: what the products of its terms are of, and what stands before it.
struct Factored {
  std::vector<InstructionId> terms;     ///< in order of their numbers
  std::vector<InstructionId> factors;   ///< broadcasts
  std::vector<InstructionId> divisors;  ///< broadcasts
  bool negative = false;

  bool is_plain() const { return factors.empty() && divisors.empty() && !negative; }
};

class Factoring : hlo::EntryRewriter {
 public:
  /// `waiting_too`: also sums that wait for others only because of their factors.
  Factoring(const hlo::Module& module, bool waiting_too) : EntryRewriter(module), waiting_too_(waiting_too) {}

  std::optional<hlo::Module> run() {
    for (InstructionId id = 0; id < std::ssize(from_.instructions); ++id) {
      if (!is_sum(from_[id])) continue;
      Factored factored;
      if (!take(from_[id], from_[id].operands[0], kMostProducts, false, factored) || factored.terms.empty()) continue;
      const auto& lies = from_[factored.terms[0]].shape.minor_to_major;
      if (std::any_of(factored.terms.begin(), factored.terms.end(),
                      [&](InstructionId term) { return from_[term].shape.minor_to_major != lies; }))
        continue;
      std::sort(factored.terms.begin(), factored.terms.end());
      sharing_[key(from_[id], factored)].push_back(id);
      if (waiting_too_ && waits(from_[id], factored)) waiting_.insert(id);
      sums_.emplace(id, std::move(factored));
    }
    const bool any = waiting_too_ ? !waiting_.empty() : std::any_of(sums_.begin(), sums_.end(), [&](const auto& sum) {
      return pays(sum.first, sum.second);
    });
    if (!any) return std::nullopt;
    return rewrite([&](const Instruction& it, const Instruction& copy) -> std::optional<InstructionId> {
      const auto id = static_cast<InstructionId>(&it - from_.instructions.data());
      const auto sum = sums_.find(id);
      if (sum == sums_.end() || !pays(id, sum->second)) return std::nullopt;
      return make(it, copy, sum->second);
    });
  }

 private:
  static constexpr int kMostProducts = 16;
  using Key = std::pair<std::vector<InstructionId>, std::vector<int64_t>>;

  static Key key(const Instruction& it, const Factored& factored) {
    Key key{factored.terms, it.dimensions()};
    std::sort(key.second.begin(), key.second.end());
    return key;
  }

  bool is_sum(const Instruction& it) const {
    if (it.opcode != Opcode::Reduce || it.operands.size() != 2 || !it.shape.is_array()) return false;
    if (!it.shape.has_default_layout()) return false;
    if (it.shape.type != hlo::ElementType::F32 && it.shape.type != hlo::ElementType::F64) return false;
    const hlo::Computation& by = result_[it.called[0]];
    const Instruction& root = by.root_instruction();
    const bool adds = root.opcode == Opcode::Add && by.instructions.size() == 3 && root.operands[0] != root.operands[1];
    const Instruction& initial = from_[it.operands[1]];
    if (!adds || initial.opcode != Opcode::Constant || !indexing::is_long_reduction(from_, it)) return false;
    const hlo::Literal& value = initial.as<hlo::ConstantAttributes>().value;
    return std::all_of(value.bytes(), value.bytes() + value.byte_size(), [](std::byte b) { return b == std::byte{0}; });
  }

  /// Whether a value is the same for all terms of a sum.
  bool is_same_for_all(const Instruction& sum, const Instruction& it) const {
    if (it.opcode != Opcode::Broadcast) return false;
    const hlo::Shape& operand = from_.operand_shape(it, 0);
    for (size_t i = 0; i < it.dimensions().size(); ++i) {
      const auto& summed = sum.dimensions();
      const bool along = std::find(summed.begin(), summed.end(), it.dimensions()[i]) != summed.end();
      if (along && operand.dim(static_cast<int64_t>(i)) > 1) return false;
      if (!along && operand.dim(static_cast<int64_t>(i)) != it.shape.dim(it.dimensions()[i])) return false;
    }
    // Scalars of one dimension in place of none would need a reshape.
    return std::none_of(it.dimensions().begin(), it.dimensions().end(), [&](int64_t d) {
      return std::find(sum.dimensions().begin(), sum.dimensions().end(), d) != sum.dimensions().end();
    });
  }

  /// Takes a product apart; false where it has too many parts.
  bool take(const Instruction& sum, InstructionId id, int most, bool divides, Factored& into) const {
    const Instruction& it = from_[id];
    if (static_cast<int>(into.terms.size() + into.factors.size() + into.divisors.size()) > most) return false;
    if (is_same_for_all(sum, it)) {
      (divides ? into.divisors : into.factors).push_back(id);
      return true;
    }
    const bool has_factor = !divides && contains_factor(sum, id, most);
    if (has_factor && it.opcode == Opcode::Negate) {
      into.negative = !into.negative;
      return take(sum, it.operands[0], most, divides, into);
    }
    if (has_factor && it.opcode == Opcode::Multiply)
      return take(sum, it.operands[0], most, divides, into) && take(sum, it.operands[1], most, divides, into);
    if (has_factor && it.opcode == Opcode::Divide && is_same_for_all(sum, from_[it.operands[1]]))
      return take(sum, it.operands[0], most, divides, into) && take(sum, it.operands[1], most, true, into);
    into.terms.push_back(id);
    return true;
  }

  /// Whether a product has something to take out: others stay as they are written.
  bool contains_factor(const Instruction& sum, InstructionId id, int depth) const {
    const Instruction& it = from_[id];
    if (depth == 0) return false;
    if (is_same_for_all(sum, it) || it.opcode == Opcode::Negate) return true;
    if (it.opcode == Opcode::Divide) return is_same_for_all(sum, from_[it.operands[1]]);
    return it.opcode == Opcode::Multiply &&
           (contains_factor(sum, it.operands[0], depth - 1) || contains_factor(sum, it.operands[1], depth - 1));
  }

  /// The reductions of this many elements and more than a few terms that values are made of, directly or not.
  std::set<InstructionId> reductions_before(const std::vector<InstructionId>& values, double elements) const {
    std::set<InstructionId> reductions;
    std::vector<bool> seen(from_.instructions.size());
    std::vector<InstructionId> stack = values;
    while (!stack.empty()) {
      const InstructionId id = stack.back();
      stack.pop_back();
      if (seen[static_cast<size_t>(id)]) continue;
      seen[static_cast<size_t>(id)] = true;
      const Instruction& it = from_[id];
      const bool as_large = it.opcode == Opcode::Reduce && indexing::is_long_reduction(from_, it) &&
                            indexing::elements_of(from_.operand_shape(it, 0)) == elements;
      if (as_large) reductions.insert(id);
      stack.insert(stack.end(), it.operands.begin(), it.operands.end());
    }
    return reductions;
  }

  /// Whether what stands before a sum is made of a reduction of as many elements that its terms are not made of.
  bool waits(const Instruction& it, const Factored& sum) const {
    std::vector<InstructionId> before = sum.factors;
    before.insert(before.end(), sum.divisors.begin(), sum.divisors.end());
    const double elements = indexing::elements_of(from_.operand_shape(it, 0));
    const std::set<InstructionId> of_factors = reductions_before(before, elements);
    if (of_factors.empty()) return false;
    const std::set<InstructionId> of_terms = reductions_before(sum.terms, elements);
    return !std::includes(of_terms.begin(), of_terms.end(), of_factors.begin(), of_factors.end());
  }

  /// Whether a sum waits for its factors, or there are several of the same products, which differ by factors.
  bool pays(InstructionId id, const Factored& sum) const {
    const std::vector<InstructionId>& all = sharing_.at(key(from_[id], sum));
    return waiting_.contains(id) || (all.size() > 1 && std::any_of(all.begin(), all.end(), [&](InstructionId o) {
                                       return !sums_.at(o).is_plain();
                                     }));
  }

  InstructionId make(const Instruction& it, const Instruction& copy, const Factored& sum) {
    InstructionId value;
    if (const auto made = made_.find(key(it, sum)); made != made_.end()) {
      value = made->second;
    } else {
      InstructionId product = moved_[static_cast<size_t>(sum.terms[0])];
      for (size_t i = 1; i < sum.terms.size(); ++i) {
        const InstructionId term = moved_[static_cast<size_t>(sum.terms[i])];
        product = add(it.name + ".terms", Opcode::Multiply, shape(product), {product, term});
      }
      if (sum.is_plain()) product = copy.operands[0];
      value = add(it.name + ".plain", Opcode::Reduce, it.shape, {product, copy.operands[1]},
                  hlo::DimensionsAttributes{{it.dimensions()}}, it.called);
      made_.emplace(key(it, sum), value);
    }
    for (const InstructionId factor : sum.factors)
      value = add(it.name + ".times", Opcode::Multiply, it.shape, {value, kept(it, factor)});
    for (const InstructionId divisor : sum.divisors)
      value = add(it.name + ".over", Opcode::Divide, it.shape, {value, kept(it, divisor)});
    if (sum.negative) value = add(it.name + ".negative", Opcode::Negate, it.shape, {value});
    return value;
  }

  /// What all terms of a sum have, in the sum's shape.
  InstructionId kept(const Instruction& sum, InstructionId broadcast) {
    const Instruction& it = from_[broadcast];
    std::vector<int64_t> dimensions;
    for (const int64_t d : it.dimensions()) {
      const auto& summed = sum.dimensions();
      dimensions.push_back(d - std::count_if(summed.begin(), summed.end(), [&](int64_t one) { return one < d; }));
    }
    return add(it.name + ".kept", Opcode::Broadcast, sum.shape, {moved_[static_cast<size_t>(it.operands[0])]},
               hlo::DimensionsAttributes{{dimensions}});
  }

  const bool waiting_too_;
  std::map<InstructionId, Factored> sums_;
  std::set<InstructionId> waiting_;
  std::map<Key, std::vector<InstructionId>> sharing_;  ///< sums of the same products
  std::map<Key, InstructionId> made_;                  ///< what these are in the new entry
};

}  // namespace

std::optional<hlo::Module> factor_sums(const hlo::Module& module) {
  return Factoring(module, /*waiting_too=*/false).run();
}

std::optional<hlo::Module> factor_waiting_sums(const hlo::Module& module) {
  return Factoring(module, /*waiting_too=*/true).run();
}

}  // namespace strata::emitters
