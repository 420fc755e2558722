#include "hlo/linear_recurrences.h"

#include <algorithm>
#include <cstdint>
#include <limits>
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
#include "hlo/recurrence_region.h"
#include "ops/prime_field.h"
#include "support/random.h"

namespace strata::hlo {
namespace {

constexpr InstructionId kNone = -1;
constexpr int64_t kLeast = 16;  ///< elements that are scanned
constexpr uint64_t kSeed = 20261126;

using Numbers = std::vector<uint64_t>;  ///< of the field, along the dimension that is scanned

/// What an array is, of others of as many elements. `a` is kNone where it is 1, `b` where it is 0 and h[-1] is 1.
struct Formula {
  /// h, λ, and λ[t] · h[t-1]; y[t] = log(e^b[0] + … + e^b[t]), and the gradient of b, with g that of y.
  enum class Kind : uint8_t { States, Cotangents, Factors, LogSums, LogFactors };
  Kind kind = Kind::States;
  int64_t dimension = 0;
  InstructionId a = kNone, b = kNone, g = kNone;
  bool reverse = false;  ///< the first element is the last one
};

/// The dimension along which an instruction has its elements apart, or puts them beside other ones.
std::optional<int64_t> spread_dimension(const Instruction& it) {
  if (it.opcode != Opcode::Pad) return std::nullopt;
  const std::vector<int64_t>& interior = it.as<PadAttributes>().interior;
  const auto found = std::find(interior.begin(), interior.end(), 1);
  return found == interior.end() ? std::nullopt : std::optional(found - interior.begin());
}

/// The formulas' values of random arrays, in a field.
class Formulas {
 public:
  Formulas(const PrimeField& field, const RecurrenceRegion& region) : field_(field), region_(region) {
    Random random(kSeed);
    // Comparisons are to come out in many ways.
    const std::vector<double> scales = region.has_functions() ? std::vector{0.5, 4.0, 40.0} : std::vector{1.0};
    for (const double scale : scales) {
      Draw& draw = draws_.emplace_back();
      for (size_t i = 0; i < region.leaves().size(); ++i) draw.leaves.push_back(region.draw(field, random, scale));
      draw.result = region.compute(field, draw.leaves);
    }
  }

  /// What the region computes, if any formula does.
  std::optional<Formula> find() const {
    using Kind = Formula::Kind;
    std::vector<size_t> order(region_.leaves().size());
    std::iota(order.begin(), order.end(), size_t{0});
    do {
      std::vector<Numbered> tried;
      if (region_.has_functions() && order.size() == 1) {
        tried = {{Kind::LogSums, kNoLeaf, 0, kNoLeaf}};
      } else if (region_.has_functions() && order.size() == 2) {
        tried = {{Kind::LogFactors, kNoLeaf, order[0], order[1]}};
      } else if (order.size() == 1) {
        tried = {{Kind::States, kNoLeaf, 0, kNoLeaf},
                 {Kind::States, 0, kNoLeaf, kNoLeaf},
                 {Kind::Cotangents, kNoLeaf, kNoLeaf, 0}};
      } else if (order.size() == 2) {
        tried = {{Kind::States, order[0], order[1], kNoLeaf},
                 {Kind::Cotangents, order[0], kNoLeaf, order[1]},
                 {Kind::Factors, order[0], kNoLeaf, order[1]}};
      } else {
        tried = {{Kind::Factors, order[0], order[1], order[2]}};
      }
      for (const Numbered& one : tried) {
        const bool holds =
            std::all_of(draws_.begin(), draws_.end(), [&](const Draw& draw) { return is_result(one, draw); });
        if (holds) return Formula{one.kind, 0, leaf(one.a), leaf(one.b), leaf(one.g)};
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
  struct Draw {
    std::vector<FieldNumbers> leaves;
    FieldNumbers result;
  };

  InstructionId leaf(size_t number) const { return number == kNoLeaf ? kNone : region_.leaves()[number]; }

  bool is_result(const Numbered& of, const Draw& draw) const {
    switch (of.kind) {
      case Formula::Kind::States:
        return states(of, draw) == draw.result.plain;
      case Formula::Kind::Cotangents:
        return cotangents(of, draw) == draw.result.plain;
      case Formula::Kind::Factors: {
        const Numbers h = states(of, draw);
        Numbers product = cotangents(of, draw);
        for (size_t i = product.size() - 1; i > 0; --i) product[i] = field_.mul(product[i], h[i - 1]);
        if (of.b != kNoLeaf) product[0] = 0;
        return product == draw.result.plain;
      }
      case Formula::Kind::LogSums:
        return sums(draw.leaves[of.b].powers) == draw.result.powers;
      case Formula::Kind::LogFactors: {
        // g[t] is spread over what y[t] is the logarithm of.
        const FieldNumbers& b = draw.leaves[of.b];
        Numbers factors = sums(b.powers);
        uint64_t after = 0;
        for (size_t i = factors.size(); i-- > 0;) {
          after = field_.add(after, field_.mul(draw.leaves[of.g].plain[i], field_.inverse(factors[i])));
          factors[i] = field_.mul(b.powers[i], after);
        }
        return factors == draw.result.plain;
      }
    }
    return false;
  }

  Numbers sums(Numbers of) const {
    for (size_t i = 1; i < of.size(); ++i) of[i] = field_.add(of[i - 1], of[i]);
    return of;
  }

  uint64_t at(const Draw& draw, size_t leaf, size_t i, uint64_t none) const {
    return leaf == kNoLeaf ? none : draw.leaves[leaf].plain[i];
  }

  Numbers states(const Numbered& of, const Draw& draw) const {
    Numbers h(draw.leaves[0].plain.size());
    uint64_t before = of.b == kNoLeaf ? field_.one() : 0;
    for (size_t i = 0; i < h.size(); ++i)
      before = h[i] = field_.add(field_.mul(at(draw, of.a, i, field_.one()), before), at(draw, of.b, i, 0));
    return h;
  }

  Numbers cotangents(const Numbered& of, const Draw& draw) const {
    Numbers lambda = draw.leaves[of.g].plain;
    for (size_t i = lambda.size() - 1; i-- > 0;)
      lambda[i] = field_.add(lambda[i], field_.mul(at(draw, of.a, i + 1, field_.one()), lambda[i + 1]));
    return lambda;
  }

  const PrimeField& field_;
  const RecurrenceRegion& region_;
  std::vector<Draw> draws_;
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
    const std::optional<RecurrenceRegion> region = RecurrenceRegion::of(entry, id, *dimension);
    if (!region || region->leaves().empty()) continue;
    if (std::optional<Formula> formula = Formulas(field, *region).find()) {
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
    return rewrite([&](const Instruction& it, const Instruction& copy) -> std::optional<InstructionId> {
      // Of results that are made from the end and turned round again.
      if (it.opcode == Opcode::Reverse && made_reversed_.contains(copy.operands[0]) &&
          it.dimensions() == entry_[copy.operands[0]].dimensions())
        return entry_[copy.operands[0]].operands[0];
      const auto found = formulas_.find(static_cast<InstructionId>(&it - from_.instructions.data()));
      if (found == formulas_.end()) return std::nullopt;
      const Formula formula = as_they_lie(found->second);
      const InstructionId result = made(formula);
      if (!formula.reverse) return result;
      const InstructionId reversed =
          add("reversed", Opcode::Reverse, it.shape, {result}, DimensionsAttributes{{formula.dimension}});
      made_reversed_.insert(reversed);
      return reversed;
    });
  }

 private:
  /// A formula whose arrays are of the new entry; where all are reversed, of what they reverse, from the end.
  Formula as_they_lie(Formula formula) const {
    const std::vector<InstructionId*> arrays{&formula.a, &formula.b, &formula.g};
    formula.reverse = std::all_of(arrays.begin(), arrays.end(), [&](const InstructionId* one) {
      if (*one == kNone) return true;
      const Instruction& it = from_[*one];
      return it.opcode == Opcode::Reverse && it.dimensions() == std::vector{formula.dimension};
    });
    for (InstructionId* one : arrays) {
      if (*one != kNone) *one = moved_[static_cast<size_t>(formula.reverse ? from_[*one].operands[0] : *one)];
    }
    return formula;
  }

  InstructionId made(const Formula& formula) {
    switch (formula.kind) {
      case Formula::Kind::States:
        return states(formula);
      case Formula::Kind::Cotangents:
        return cotangents(formula);
      case Formula::Kind::Factors: {
        const InstructionId before = shifted(states(formula), formula, 1, formula.b == kNone ? 1 : 0);
        return add("factors", Opcode::Multiply, shape(before), {cotangents(formula), before});
      }
      case Formula::Kind::LogSums:
        return log_sums(formula);
      case Formula::Kind::LogFactors:
        break;
    }
    // λ[t] = g[t] + λ[t+1] · e^(y[t] − y[t+1]): no exponent is above 0.
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const InstructionId y = log_sums(formula);
    const InstructionId lambda =
        pair(ratio(y, shifted(y, formula, -1, kInfinity)), formula.g, formula.dimension, !formula.reverse);
    return add("factors", Opcode::Multiply, shape(y), {lambda, ratio(formula.b, y)});
  }

  /// e^(first − second), and 1 where they are the same infinity: as an element that stands before all others.
  InstructionId ratio(InstructionId first, InstructionId second) {
    const Shape like = shape(first);
    Shape truths = like;
    truths.type = ElementType::Pred;
    const InstructionId same = add("same", Opcode::Compare, truths, {first, second}, CompareAttributes{});
    const InstructionId difference = add("difference", Opcode::Subtract, like, {first, second});
    const InstructionId none = add("none", Opcode::Broadcast, like, {scalar(like.type, 0)}, DimensionsAttributes{});
    return add("ratio", Opcode::Exp, like, {add("exponent", Opcode::Select, like, {same, none, difference})});
  }

  struct Key {
    Formula::Kind kind;
    InstructionId a, b;
    int64_t dimension;
    bool reverse;
    auto operator<=>(const Key&) const = default;
  };

  template <class Make>
  InstructionId once(const Key& key, const Make& make) {
    if (const auto known = scans_.find(key); known != scans_.end()) return known->second;
    return scans_[key] = make();
  }

  InstructionId states(const Formula& formula) {
    return once({Formula::Kind::States, formula.a, formula.b, formula.dimension, formula.reverse},
                [&] { return scanned(formula.a, formula.b, formula.dimension, formula.reverse); });
  }

  InstructionId cotangents(const Formula& formula) {
    return once({Formula::Kind::Cotangents, formula.a, formula.g, formula.dimension, formula.reverse}, [&] {
      const InstructionId a = formula.a == kNone ? kNone : shifted(formula.a, formula, -1, 0);
      return scanned(a, formula.g, formula.dimension, !formula.reverse);
    });
  }

  InstructionId scanned(InstructionId a, InstructionId b, int64_t dimension, bool reverse) {
    if (a == kNone) return single(b, adding(shape(b).type), 0, dimension, reverse);
    return b == kNone ? single(a, multiplying(shape(a).type), 1, dimension, reverse) : pair(a, b, dimension, reverse);
  }

  InstructionId log_sums(const Formula& formula) {
    return once({Formula::Kind::LogSums, kNone, formula.b, formula.dimension, formula.reverse}, [&] {
      constexpr double kNothing = -std::numeric_limits<double>::infinity();
      return single(formula.b, adding_powers(shape(formula.b).type), kNothing, formula.dimension, formula.reverse);
    });
  }

  /// result[i] = of[i - by] in the order of the scan, and `value` where there is none.
  InstructionId shifted(InstructionId of, const Formula& along, int64_t by, double value) {
    const Shape like = shape(of);
    PadAttributes pad;
    pad.low.assign(like.dims.size(), 0);
    pad.high = pad.interior = pad.low;
    pad.low[static_cast<size_t>(along.dimension)] = along.reverse ? -by : by;
    pad.high[static_cast<size_t>(along.dimension)] = along.reverse ? by : -by;
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

  static Computation adding(ElementType type) {
    Computation combiner = scalars("combine", type, 2);
    append_to(combiner, Opcode::Add, type, combiner.parameters);
    return combiner;
  }
  static Computation multiplying(ElementType type) {
    Computation combiner = scalars("combine", type, 2);
    append_to(combiner, Opcode::Multiply, type, combiner.parameters);
    return combiner;
  }
  /// log(e^a + e^b), as JAX writes it: infinities too.
  static Computation adding_powers(ElementType type) {
    Computation combiner = scalars("combine", type, 2);
    const InstructionId a = combiner.parameters[0], b = combiner.parameters[1];
    const InstructionId difference = append_to(combiner, Opcode::Subtract, type, {a, b});
    const InstructionId undefined =
        append_to(combiner, Opcode::Compare, ElementType::Pred, {difference, difference},
                  CompareAttributes{CompareAttributes::Direction::NE, CompareAttributes::Order::Partial});
    const InstructionId sum = append_to(combiner, Opcode::Add, type, {a, b});
    const InstructionId most = append_to(combiner, Opcode::Maximum, type, {a, b});
    const InstructionId apart = append_to(combiner, Opcode::Abs, type, {difference});
    const InstructionId exponent = append_to(combiner, Opcode::Negate, type, {apart});
    const InstructionId power = append_to(combiner, Opcode::Exp, type, {exponent});
    const InstructionId above = append_to(combiner, Opcode::Log1p, type, {power});
    const InstructionId result = append_to(combiner, Opcode::Add, type, {most, above});
    append_to(combiner, Opcode::Select, type, {undefined, sum, result});
    return combiner;
  }

  InstructionId single(InstructionId of, Computation combiner, double neutral, int64_t dimension, bool reverse) {
    const Shape like = shape(of);
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
  std::set<InstructionId> made_reversed_;  ///< of the new entry
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
