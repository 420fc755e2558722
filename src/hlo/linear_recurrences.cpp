#include "hlo/linear_recurrences.h"

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "hlo/compute.h"
#include "hlo/entry_rewriter.h"
#include "hlo/inline_calls.h"
#include "hlo/optional_combiner.h"
#include "ops/prime_field.h"
#include "support/random.h"

namespace strata::hlo {
namespace {

constexpr InstructionId kNone = -1;
constexpr int64_t kLeast = 16;     ///< elements that are scanned
constexpr size_t kMostLeaves = 3;  ///< a, b and g
constexpr uint64_t kSeed = 20261126;

using Numbers = std::vector<uint64_t>;  ///< of the field, along the dimension that is scanned

/// What an array is, of others of as many elements. `a` is kNone where it is 1, `b` where it is 0 and h[-1] is 1.
struct Formula {
  enum class Kind : uint8_t { States, Cotangents, Factors };  ///< h, λ, and λ[t] · h[t-1]
  Kind kind = Kind::States;
  int64_t dimension = 0;
  InstructionId a = kNone, b = kNone, g = kNone;
};

/// The dimension along which an instruction has its elements apart, or puts them beside other ones.
std::optional<int64_t> spread_dimension(const Instruction& it) {
  if (it.opcode != Opcode::Pad) return std::nullopt;
  const std::vector<int64_t>& interior = it.as<PadAttributes>().interior;
  const auto found = std::find(interior.begin(), interior.end(), 1);
  return found == interior.end() ? std::nullopt : std::optional(found - interior.begin());
}

bool is_zero(const Computation& computation, InstructionId id) {
  const Instruction& it = computation[id];
  if (it.opcode == Opcode::Broadcast) return is_zero(computation, it.operands[0]);
  return it.opcode == Opcode::Constant && it.shape.element_count() == 1 &&
         identical(it.as<ConstantAttributes>().value, Literal(it.shape));
}

/// What an array is made of by sums, products and movements along one dimension, down to arrays of as many elements.
class Region {
 public:
  /// Nothing where it is made of anything else.
  static std::optional<Region> of(const Computation& computation, InstructionId result, int64_t dimension) {
    Region region(computation, result, dimension);
    // Sums of what is put in place; what these read has fewer elements.
    std::vector<InstructionId> placed{result}, parts;
    while (!placed.empty()) {
      const InstructionId id = placed.back();
      placed.pop_back();
      if (!region.seen_.insert(id).second) continue;
      if (!region.is_placed(id)) return std::nullopt;
      region.inside_.push_back(id);
      auto& next = computation[id].opcode == Opcode::Add ? placed : parts;
      for (const InstructionId operand : region.arrays_of(id)) next.push_back(operand);
    }
    while (!parts.empty()) {
      const InstructionId id = parts.back();
      parts.pop_back();
      if (!region.seen_.insert(id).second) continue;
      if (region.length(id) == region.length(result)) {
        region.leaves_.push_back(id);
        if (region.leaves_.size() > kMostLeaves) return std::nullopt;
      } else if (region.is_part(id)) {
        region.inside_.push_back(id);
        for (const InstructionId operand : region.arrays_of(id)) parts.push_back(operand);
      } else {
        return std::nullopt;
      }
    }
    std::sort(region.inside_.begin(), region.inside_.end());
    return region;
  }

  const std::vector<InstructionId>& leaves() const { return leaves_; }
  const std::vector<InstructionId>& inside() const { return inside_; }

  /// The result's elements of those of the leaves, by number. All but the dimension are the same for all elements.
  Numbers compute(const PrimeField& field, const std::vector<Numbers>& leaves) const {
    std::map<InstructionId, Numbers> values;
    std::map<InstructionId, size_t> readers;
    for (size_t i = 0; i < leaves_.size(); ++i) values[leaves_[i]] = leaves[i];
    for (const InstructionId id : inside_) {
      for (const InstructionId operand : arrays_of(id)) ++readers[operand];
    }
    for (const InstructionId id : inside_) {
      values[id] = compute_one(field, id, values);
      for (const InstructionId operand : arrays_of(id)) {
        if (--readers[operand] == 0) values.erase(operand);
      }
    }
    return values.at(result_);
  }

 private:
  Region(const Computation& computation, InstructionId result, int64_t dimension)
      : computation_(computation), result_(result), dimension_(dimension) {}

  int64_t length(InstructionId id) const { return computation_[id].shape.dim(dimension_); }

  /// The operands that are arrays along the dimension: not what pads fill in.
  std::vector<InstructionId> arrays_of(InstructionId id) const {
    const Instruction& it = computation_[id];
    if (it.opcode == Opcode::Broadcast) return {};
    return it.opcode == Opcode::Pad ? std::vector{it.operands[0]} : it.operands;
  }

  bool is_placed(InstructionId id) const {
    const Instruction& it = computation_[id];
    return it.opcode == Opcode::Add || (is_padded(it) && length(it.operands[0]) < length(result_));
  }

  bool is_part(InstructionId id) const {
    const Instruction& it = computation_[id];
    if (length(id) > length(result_)) return false;
    switch (it.opcode) {
      case Opcode::Add:
      case Opcode::Multiply:
        return true;
      case Opcode::Broadcast:
        return is_zero(computation_, id);
      case Opcode::Slice:
        return only_along(it);
      case Opcode::Pad:
        return is_padded(it);
      case Opcode::Concatenate:
        return it.dimensions()[0] == dimension_;
      default:
        return false;
    }
  }

  bool is_padded(const Instruction& it) const {
    return it.opcode == Opcode::Pad && is_zero(computation_, it.operands[1]) && only_along(it);
  }

  /// Whether a slice or a pad changes nothing along other dimensions.
  bool only_along(const Instruction& it) const {
    const Shape& from = computation_.operand_shape(it, 0);
    for (size_t d = 0; d < from.dims.size(); ++d) {
      if (static_cast<int64_t>(d) == dimension_) continue;
      if (it.shape.dims[d] != from.dims[d]) return false;
      if (it.opcode == Opcode::Pad && it.as<PadAttributes>().low[d] != 0) return false;
    }
    return true;
  }

  Numbers compute_one(const PrimeField& field, InstructionId id, const std::map<InstructionId, Numbers>& values) const {
    const Instruction& it = computation_[id];
    const auto count = static_cast<size_t>(length(id));
    const auto d = static_cast<size_t>(dimension_);
    Numbers result(count, 0);
    if (it.opcode == Opcode::Broadcast) return result;
    const Numbers& first = values.at(it.operands[0]);
    switch (it.opcode) {
      case Opcode::Add:
      case Opcode::Multiply: {
        const Numbers& second = values.at(it.operands[1]);
        const bool adds = it.opcode == Opcode::Add;
        for (size_t i = 0; i < count; ++i)
          result[i] = adds ? field.add(first[i], second[i]) : field.mul(first[i], second[i]);
        break;
      }
      case Opcode::Slice: {
        const auto& slice = it.as<SliceAttributes>();
        for (size_t i = 0; i < count; ++i)
          result[i] = first[static_cast<size_t>(slice.starts[d]) + i * static_cast<size_t>(slice.strides[d])];
        break;
      }
      case Opcode::Pad: {
        const auto& pad = it.as<PadAttributes>();
        for (size_t i = 0; i < first.size(); ++i) {
          const int64_t place = pad.low[d] + static_cast<int64_t>(i) * (pad.interior[d] + 1);
          if (place >= 0 && place < length(id)) result[static_cast<size_t>(place)] = first[i];
        }
        break;
      }
      default: {
        assert(it.opcode == Opcode::Concatenate);
        auto next = result.begin();
        for (const InstructionId operand : it.operands) {
          const Numbers& part = values.at(operand);
          next = std::copy(part.begin(), part.end(), next);
        }
        break;
      }
    }
    return result;
  }

  const Computation& computation_;
  InstructionId result_;
  int64_t dimension_;
  std::set<InstructionId> seen_;
  std::vector<InstructionId> inside_, leaves_;
};

/// The formulas' values of random arrays, in a field.
class Formulas {
 public:
  Formulas(const PrimeField& field, const Region& region, size_t count) : field_(field), region_(region) {
    Random random(kSeed);
    for (size_t i = 0; i < region.leaves().size(); ++i) {
      Numbers& leaf = leaves_.emplace_back(count);
      for (uint64_t& one : leaf) one = random.below(field.modulus());
    }
    result_ = region.compute(field, leaves_);
  }

  /// What the region computes, if any formula does.
  std::optional<Formula> find() const {
    std::vector<size_t> order(leaves_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    do {
      const std::vector<Numbered> tried =
          order.size() == 1   ? std::vector<Numbered>{{Formula::Kind::States, kNoLeaf, 0, kNoLeaf},
                                                      {Formula::Kind::States, 0, kNoLeaf, kNoLeaf},
                                                      {Formula::Kind::Cotangents, kNoLeaf, kNoLeaf, 0}}
          : order.size() == 2 ? std::vector<Numbered>{{Formula::Kind::States, order[0], order[1], kNoLeaf},
                                                      {Formula::Kind::Cotangents, order[0], kNoLeaf, order[1]},
                                                      {Formula::Kind::Factors, order[0], kNoLeaf, order[1]}}
                              : std::vector<Numbered>{{Formula::Kind::Factors, order[0], order[1], order[2]}};
      for (const Numbered& one : tried) {
        if (values(one) == result_) return Formula{one.kind, 0, leaf(one.a), leaf(one.b), leaf(one.g)};
      }
    } while (std::next_permutation(order.begin(), order.end()));
    return std::nullopt;
  }

 private:
  static constexpr size_t kNoLeaf = SIZE_MAX;
  /// A formula of leaves by number.
  struct Numbered {
    Formula::Kind kind;
    size_t a, b, g;
  };

  InstructionId leaf(size_t number) const { return number == kNoLeaf ? kNone : region_.leaves()[number]; }
  uint64_t at(size_t leaf, size_t i, uint64_t none) const { return leaf == kNoLeaf ? none : leaves_[leaf][i]; }

  Numbers values(const Numbered& of) const {
    switch (of.kind) {
      case Formula::Kind::States:
        return states(of.a, of.b);
      case Formula::Kind::Cotangents:
        return cotangents(of.a, of.g);
      case Formula::Kind::Factors:
        break;
    }
    const Numbers h = states(of.a, of.b);
    Numbers product = cotangents(of.a, of.g);
    for (size_t i = product.size() - 1; i > 0; --i) product[i] = field_.mul(product[i], h[i - 1]);
    if (of.b != kNoLeaf) product[0] = 0;
    return product;
  }

  Numbers states(size_t a, size_t b) const {
    Numbers h(result_.size());
    uint64_t before = b == kNoLeaf ? field_.one() : 0;
    for (size_t i = 0; i < h.size(); ++i)
      before = h[i] = field_.add(field_.mul(at(a, i, field_.one()), before), at(b, i, 0));
    return h;
  }

  Numbers cotangents(size_t a, size_t g) const {
    Numbers lambda = leaves_[g];
    for (size_t i = lambda.size() - 1; i-- > 0;)
      lambda[i] = field_.add(lambda[i], field_.mul(at(a, i + 1, field_.one()), lambda[i + 1]));
    return lambda;
  }

  const PrimeField& field_;
  const Region& region_;
  std::vector<Numbers> leaves_;
  Numbers result_;
};

/// Which instructions of the entry are results of recurrences.
std::map<InstructionId, Formula> find_formulas(const Computation& entry) {
  const PrimeField field(kVerifierPrimes.p);
  std::map<InstructionId, Formula> found;
  std::set<InstructionId> done;  // within what was found
  for (auto id = static_cast<InstructionId>(entry.instructions.size()) - 1; id >= 0; --id) {
    const Instruction& it = entry[id];
    if (it.opcode != Opcode::Add || done.contains(id) || kind(it.shape.type) != TypeKind::Float) continue;
    std::optional<int64_t> dimension;
    for (const InstructionId operand : it.operands) {
      if (const auto one = spread_dimension(entry[operand])) dimension = one;
    }
    if (!dimension || it.shape.dim(*dimension) < kLeast) continue;
    const std::optional<Region> region = Region::of(entry, id, *dimension);
    if (!region || region->leaves().empty()) continue;
    const auto count = static_cast<size_t>(it.shape.dim(*dimension));
    if (std::optional<Formula> formula = Formulas(field, *region, count).find()) {
      formula->dimension = *dimension;
      found[id] = *formula;
      done.insert(region->inside().begin(), region->inside().end());
    }
  }
  // States alone are no gradient: fold_associative_scans finds them, with other results of the same scan.
  std::erase_if(found, [&](const auto& one) {
    const Formula& own = one.second;
    return own.kind == Formula::Kind::States && std::none_of(found.begin(), found.end(), [&](const auto& other) {
             const Formula& it = other.second;
             return it.kind == Formula::Kind::Factors && it.a == own.a && it.b == own.b &&
                    it.dimension == own.dimension;
           });
  });
  return found;
}

class Rewriting : EntryRewriter {
 public:
  Rewriting(const Module& flat, const std::map<InstructionId, Formula>& formulas)
      : EntryRewriter(flat), formulas_(formulas) {}

  Module run() {
    return rewrite([&](const Instruction& it, const Instruction&) -> std::optional<InstructionId> {
      const auto found = formulas_.find(static_cast<InstructionId>(&it - from_.instructions.data()));
      if (found == formulas_.end()) return std::nullopt;
      const Formula& formula = found->second;
      switch (formula.kind) {
        case Formula::Kind::States:
          return states(formula);
        case Formula::Kind::Cotangents:
          return cotangents(formula);
        case Formula::Kind::Factors:
          break;
      }
      const InstructionId before = shifted(states(formula), formula.dimension, 1, formula.b == kNone ? 1 : 0);
      return add("factors", Opcode::Multiply, it.shape, {cotangents(formula), before});
    });
  }

 private:
  InstructionId moved(InstructionId id) const { return id == kNone ? kNone : moved_[static_cast<size_t>(id)]; }

  InstructionId states(const Formula& formula) {
    const InstructionId a = moved(formula.a), b = moved(formula.b);
    return scanned({a, b, formula.dimension, false}, [&] { return std::pair(a, b); });
  }

  InstructionId cotangents(const Formula& formula) {
    const InstructionId a = moved(formula.a), g = moved(formula.g);
    return scanned({a, g, formula.dimension, true},
                   [&] { return std::pair(a == kNone ? kNone : shifted(a, formula.dimension, -1, 0), g); });
  }

  struct Key {
    InstructionId a, b;
    int64_t dimension;
    bool reverse;
    auto operator<=>(const Key&) const = default;
  };

  template <class Arrays>
  InstructionId scanned(const Key& key, const Arrays& arrays) {
    if (const auto known = scans_.find(key); known != scans_.end()) return known->second;
    const auto [a, b] = arrays();
    const InstructionId made = a == kNone   ? single(b, Opcode::Add, 0, key.dimension, key.reverse)
                               : b == kNone ? single(a, Opcode::Multiply, 1, key.dimension, key.reverse)
                                            : pair(a, b, key.dimension, key.reverse);
    return scans_[key] = made;
  }

  /// result[i] = of[i - by], and `value` where there is none.
  InstructionId shifted(InstructionId of, int64_t dimension, int64_t by, double value) {
    const Shape like = shape(of);
    PadAttributes pad;
    pad.low.assign(like.dims.size(), 0);
    pad.high = pad.interior = pad.low;
    pad.low[static_cast<size_t>(dimension)] = by;
    pad.high[static_cast<size_t>(dimension)] = -by;
    return add("shifted", Opcode::Pad, like, {of, scalar(like.type, value)}, pad);
  }

  InstructionId scalar(ElementType type, double value) {
    const Shape bare = array_shape(type, {});
    const Literal literal = visit_accumulator_type(type, [&](auto zero) {
      using T = decltype(zero);
      return literal_of<T>(bare, {T(value)});
    });
    return add("constant", Opcode::Constant, bare, {}, ConstantAttributes{literal, false});
  }

  WindowAttributes window_along(const Shape& like, int64_t dimension, bool reverse) const {
    WindowAttributes attributes;
    attributes.window.resize(like.dims.size());
    WindowDimension& along = attributes.window[static_cast<size_t>(dimension)];
    along.size = like.dim(dimension);
    (reverse ? along.pad_high : along.pad_low) = along.size - 1;
    return attributes;
  }

  ComputationId called(Computation combiner) {
    combiner.name += "_" + std::to_string(result_.computations.size());
    result_.computations.push_back(std::move(combiner));
    return static_cast<ComputationId>(result_.computations.size()) - 1;
  }

  /// A computation of `parameters` scalars.
  static Computation scalars(const std::string& name, ElementType type, int64_t parameters) {
    Computation made;
    made.name = name;
    for (int64_t i = 0; i < parameters; ++i) {
      made.parameters.push_back(append_to(made, Opcode::Parameter, type, {}, ParameterAttributes{i}));
    }
    return made;
  }
  static InstructionId append_to(Computation& made, Opcode opcode, ElementType type,
                                 std::vector<InstructionId> operands, Attributes attributes = NoAttributes{}) {
    const auto id = static_cast<InstructionId>(made.instructions.size());
    made.instructions.push_back(
        {"v" + std::to_string(id), opcode, array_shape(type, {}), std::move(operands), {}, std::move(attributes), {}});
    return made.root = id;
  }

  InstructionId single(InstructionId of, Opcode opcode, double neutral, int64_t dimension, bool reverse) {
    const Shape like = shape(of);
    Computation combiner = scalars("combine", like.type, 2);
    append_to(combiner, opcode, like.type, combiner.parameters);
    return add("scan", Opcode::ReduceWindow, like, {of, scalar(like.type, neutral)},
               window_along(like, dimension, reverse), {called(std::move(combiner))});
  }

  /// The results of b, with a number that says what is there before a and b. A combiner takes elements in the order of
  /// their indices: from the end, the second one is the state.
  InstructionId pair(InstructionId a, InstructionId b, int64_t dimension, bool reverse) {
    const Shape like = shape(b);
    const ElementType type = like.type;
    Computation combiner = scalars("combine", type, 4);
    const std::vector<InstructionId>& in = combiner.parameters;
    const size_t next = reverse ? 0 : 2;
    const InstructionId both = append_to(combiner, Opcode::Multiply, type, {in[0], in[2]});
    const InstructionId by = append_to(combiner, Opcode::Multiply, type, {in[next], in[3 - next]});
    const InstructionId sum = append_to(combiner, Opcode::Add, type, {by, in[next + 1]});
    combiner.instructions.push_back({"all",
                                     Opcode::Tuple,
                                     tuple_shape({array_shape(type, {}), array_shape(type, {})}),
                                     {both, sum},
                                     {},
                                     NoAttributes{},
                                     {}});
    combiner.root = sum + 1;
    Shape flags = like;
    flags.type = ElementType::Pred;
    const InstructionId there =
        add("there", Opcode::Broadcast, flags, {scalar(ElementType::Pred, 1)}, DimensionsAttributes{});
    const InstructionId nothing = scalar(ElementType::Pred, 0), zero = scalar(type, 0);
    const InstructionId scan =
        add("scan", Opcode::ReduceWindow, tuple_shape({flags, like, like}), {there, a, b, nothing, zero, zero},
            window_along(like, dimension, reverse), {called(optional_combiner(combiner))});
    return add("scanned", Opcode::GetTupleElement, like, {scan}, TupleIndexAttributes{2});
  }

  const std::map<InstructionId, Formula>& formulas_;
  std::map<Key, InstructionId> scans_;
};

}  // namespace

bool may_have_linear_recurrences(const Module& module) {
  const auto spreads = [](const Computation& one) {
    return std::count_if(one.instructions.begin(), one.instructions.end(),
                         [](const Instruction& it) { return spread_dimension(it).has_value(); });
  };
  return std::any_of(module.computations.begin(), module.computations.end(),
                     [&](const Computation& one) { return spreads(one) > 2; }) &&
         static_cast<bool>(check_calls(module));
}

Module fold_linear_recurrences(const Module& module) {
  const Module flat = inline_calls(module);
  const std::map<InstructionId, Formula> formulas = find_formulas(flat.entry_computation());
  return formulas.empty() ? module : Rewriting(flat, formulas).run();
}

}  // namespace strata::hlo
