#include "emitters/library/padded_products.h"

#include <array>
#include <limits>
#include <numeric>
#include <optional>

#include "emitters/kinds/product/product.h"
#include "emitters/library/call_plan.h"
#include "emitters/library/padded_arrays.h"
#include "emitters/library/scratch.h"
#include "hlo/entry_rewriter.h"
#include "indexing/interval.h"
#include "superopt/codegen/libraries.h"

namespace strata::emitters {
namespace {

using hlo::Computation;
using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;
using hlo::Shape;
using Dimensions = std::vector<int64_t>;

/// The model is not exact: a filling must be worth this much.
constexpr double kWorthFilling = 0.95;
/// Of two that take as long, but for rounding, the first one is taken.
constexpr double kLess = 1 - 1e-6;
/// What a copy takes that another dimension is innermost of, in copies of whole lines.
constexpr double kTurned = 4;
/// What dimensions are filled up to a multiple of: 16 bytes, and as many elements of wider types, whose arrays are
/// computed together with those.
constexpr int64_t kAlignedElements = 8;
constexpr int64_t kMostParts = 9;  // of 8, of what is filled up

/// Numbers of what is filled up.
enum Role : unsigned { Rows = 1, Columns = 2, Terms = 4 };

/// One operand: its dimensions by what they are.
struct OperandRoles {
  Dimensions batch, free, terms;
};

OperandRoles roles_of(const Shape& shape, const Dimensions& batch, const Dimensions& terms) {
  OperandRoles roles{batch, {}, terms};
  for (int64_t d = 0; d < shape.rank(); ++d) {
    const auto is = [&](const Dimensions& of) { return std::find(of.begin(), of.end(), d) != of.end(); };
    if (!is(batch) && !is(terms)) roles.free.push_back(d);
  }
  return roles;
}

/// The dimensions of more than one element as one, filled up to whole 16 bytes; nothing where they do not follow each
/// other, are such already, or would become much longer.
std::optional<LongDimension> filled_up(const Shape& shape, const Dimensions& dimensions) {
  LongDimension made{-1, 0, 1};
  for (const int64_t d : dimensions) {
    if (shape.dim(d) == 1) continue;
    if (made.count > 0 && d != made.first + made.count) return std::nullopt;
    if (made.count++ == 0) made.first = d;
    made.size *= shape.dim(d);
  }
  const int64_t own = made.size;
  made.size = indexing::ceil_div(own, kAlignedElements) * kAlignedElements;
  if (made.count == 0 || made.size == own || made.size * (kMostParts - 1) > own * kMostParts) return std::nullopt;
  return made;
}

/// An array, and which dimension of the value that repeats it each of its own is.
struct Repeated {
  InstructionId id = 0;
  Dimensions dimensions;
};

/// How an operand lies: as it does, or with its terms innermost or outside.
enum class Lies { AsItDoes, TermsInside, TermsOutside };

/// How a product is made.
struct Filling {
  unsigned roles = 0;
  std::array<Lies, 2> lies{};
  bool swapped = false;  ///< of the right operand by the left one
};

class Filler : hlo::EntryRewriter {
 public:
  Filler(const hlo::Module& module, const Target& target) : EntryRewriter(module), target_(target), scratch_(from_) {}

  hlo::Module run() {
    for (size_t i = 0; i < from_.instructions.size(); ++i) decide(static_cast<InstructionId>(i));
    if (chosen_.empty()) return std::move(result_);
    const auto add_one = [&](const std::string& name, Opcode opcode, Shape shape, std::vector<InstructionId> operands,
                             hlo::Attributes attributes, std::vector<hlo::ComputationId> called) {
      return add(name, opcode, std::move(shape), std::move(operands), std::move(attributes), std::move(called));
    };
    const auto moved = [&](InstructionId id) { return moved_[static_cast<size_t>(id)]; };
    PaddedArrayWriter writer(result_, from_, arrays_, add_one, moved);
    return rewrite([&](const Instruction& it, const Instruction&) -> std::optional<InstructionId> {
      const auto id = static_cast<InstructionId>(&it - from_.instructions.data());
      const auto chosen = chosen_.find(id);
      return chosen == chosen_.end() ? writer.replaced(id) : written(id, chosen->second, writer);
    });
  }

 private:
  // --- which products ---

  /// What is filled up of a product, and where.
  struct Roles {
    std::array<OperandRoles, 2> operands;
    std::array<std::optional<LongDimension>, 2> free, terms;  ///< of the operands
  };

  Roles roles_of_product(const Instruction& it) const {
    const auto& a = it.as<hlo::DotAttributes>();
    Roles roles;
    for (const size_t side : {0, 1}) {
      const Shape& shape = from_.operand_shape(it, side);
      roles.operands[side] =
          roles_of(shape, side == 0 ? a.lhs_batch : a.rhs_batch, side == 0 ? a.lhs_contracting : a.rhs_contracting);
      roles.free[side] = can_fill(it, side, roles.operands[side].free);
      roles.terms[side] = can_fill(it, side, roles.operands[side].terms);
    }
    if (!roles.terms[0] || !roles.terms[1]) roles.terms = {};
    return roles;
  }

  /// Of a value that is repeated, what is repeated is filled up.
  std::optional<LongDimension> can_fill(const Instruction& it, size_t side, const Dimensions& dimensions) const {
    const std::optional<LongDimension> made = filled_up(from_.operand_shape(it, side), dimensions);
    const Repeated from = repeated(it.operands[side]);
    if (!made || (made->count > 1 && from.id != it.operands[side])) return std::nullopt;
    const bool own = std::find(from.dimensions.begin(), from.dimensions.end(), made->first) != from.dimensions.end();
    return own ? made : std::nullopt;
  }

  static unsigned open(const Roles& roles) {
    return (roles.free[0] ? Rows : 0U) | (roles.free[1] ? Columns : 0U) | (roles.terms[0] ? Terms : 0U);
  }

  void decide(InstructionId id) {
    const Instruction& it = from_[id];
    if (it.opcode != Opcode::Dot || !it.shape.has_default_layout() || it.shape.element_count() == 0) return;
    const hlo::ElementType type = from_.operand_shape(it, 0).type;
    const bool tf32 =
        type == hlo::ElementType::F32 && it.as<hlo::DotAttributes>().precision == hlo::OperandPrecision::Tf32;
    const bool on_tensor_cores = type == hlo::ElementType::BF16 || type == hlo::ElementType::F16 || tf32;
    if (!on_tensor_cores || from_.operand_shape(it, 1).type != type || from_.operand_shape(it, 0).element_count() == 0)
      return;
    for (const InstructionId operand : it.operands) {
      if (!from_[operand].shape.has_default_layout() || !from_[repeated(operand).id].shape.has_default_layout()) return;
    }
    const Roles roles = roles_of_product(it);
    if (open(roles) == 0 || product_shape(from_, id)) return;
    const Result<CallPlan> given = scratch_.plan(id);
    if (!given) return;
    const bool turns = is_read_turned(id, roles);
    const double as_is = microseconds(*given) + (turns ? copy_microseconds(static_cast<double>(bytes_of(id))) : 0);
    std::optional<Filling> best;
    double least = kWorthFilling * as_is;
    for (const Filling& filling : fillings(open(roles))) {
      const double one = price(id, roles, filling, given->result != id);
      if (one >= kLess * least) continue;
      least = one;
      best = filling;
    }
    double terms = 1;
    for (const int64_t d : it.as<hlo::DotAttributes>().lhs_contracting)
      terms *= static_cast<double>(from_.operand_shape(it, 0).dim(d));
    const double loop =
        loop_microseconds(static_cast<double>(it.shape.element_count()), terms, 2 * hlo::byte_width(type), target_);
    if (!best || least >= loop) return;
    for (const size_t side : {0, 1}) {
      const auto computed = computed_so(it, side, roles, *best);
      if (!computed) continue;
      arrays_.add(*computed);
      if ((best->roles & Terms) != 0) arrays_.fill_with_zeros(it.operands[side]);
    }
    chosen_.emplace(id, *best);
    if (!best->swapped) products_[id] = result_dimensions(it, roles, *best);
  }

  static std::vector<Filling> fillings(unsigned open) {
    constexpr std::array kAll{Lies::AsItDoes, Lies::TermsInside, Lies::TermsOutside};
    std::vector<Filling> all;
    for (unsigned filled = 0; filled <= open; ++filled) {
      if ((filled & ~open) != 0) continue;
      for (const Lies a : kAll) {
        for (const Lies b : kAll) {
          // What is filled up is in an order; something has to change.
          if ((fills(0, filled) && a == Lies::AsItDoes) || (fills(1, filled) && b == Lies::AsItDoes)) continue;
          if (a == Lies::AsItDoes && b == Lies::AsItDoes) continue;
          all.push_back({filled, {a, b}, false});
          all.push_back({filled, {a, b}, true});
        }
      }
    }
    return all;
  }

  // --- what a filling takes ---

  double microseconds(const CallPlan& plan) const {
    double all = 1e6 * library_seconds(plan.work, target_);
    for (const CallPlan::Operand& operand : plan.operands)
      all += copy_microseconds(static_cast<double>(operand.copied_bytes));
    return all;
  }

  double copy_microseconds(double bytes) const {
    if (bytes == 0) return 0;
    return 1e6 * (target_.kernel_seconds() + 2 * bytes / target_.rates.copy_bandwidth);
  }

  /// `continues`: the library would do what comes after the product, too.
  double price(InstructionId id, const Roles& roles, const Filling& filling, bool continues) {
    const Instruction& it = from_[id];
    const Scratch::Trial trial(scratch_);
    const auto make = [&](Opcode opcode, Shape shape, std::vector<InstructionId> operands, hlo::Attributes attributes) {
      return scratch_.add(opcode, std::move(shape), std::move(operands), std::move(attributes));
    };
    std::array<InstructionId, 2> operands{};
    double all = 0;
    for (const size_t side : {0, 1}) {
      operands[side] = it.operands[side];
      if (filling.lies[side] == Lies::AsItDoes) continue;
      operands[side] = copied_operand(
          it, side, roles, filling, [](InstructionId operand) { return operand; }, make);
      if (!comes_so(it, side, roles, filling)) {
        const double bytes = static_cast<double>(bytes_of(repeated(it.operands[side]).id));
        all += copy_microseconds(stays_innermost(it, side, roles, filling) ? bytes : kTurned * bytes);
      }
    }
    const InstructionId dot = product(it, roles, filling, operands, make);
    const Result<CallPlan> plan = scratch_.plan(dot);
    const auto result_copy = copy_microseconds(static_cast<double>(bytes_of(id)));
    const bool is_cut = (filling.roles & (Rows | Columns)) != 0;
    if ((is_cut && is_result(id)) || (filling.swapped && !is_read_in_any_order(id))) all += result_copy;
    if (!filling.swapped && is_read_turned(id, roles)) all += result_copy;
    if (continues && (is_cut || filling.swapped)) all += result_copy;
    all = plan ? all + microseconds(*plan) : std::numeric_limits<double>::infinity();
    return all;
  }

  int64_t bytes_of(InstructionId id) const {
    return from_[id].shape.element_count() * hlo::byte_width(from_[id].shape.type);
  }

  bool is_result(InstructionId id) const {
    return std::ranges::any_of(scratch_.users()[static_cast<size_t>(id)],
                               [&](InstructionId user) { return user < 0 || from_[user].opcode == Opcode::Tuple; });
  }

  bool is_read_in_any_order(InstructionId id) const {
    return std::ranges::all_of(scratch_.users()[static_cast<size_t>(id)], [&](InstructionId user) {
      return user >= 0 && (from_[user].opcode == Opcode::Transpose || from_[user].opcode == Opcode::Dot);
    });
  }

  /// Whether all that reads a result is transposes to what the product of the right operand by the left one is.
  bool is_read_turned(InstructionId id, const Roles& roles) const {
    const Shape& shape = from_[id].shape;
    const auto without_ones = [&](Dimensions dimensions) {
      std::erase_if(dimensions, [&](int64_t d) { return shape.dim(d) == 1; });
      return dimensions;
    };
    const Dimensions turned = without_ones(result_order(from_[id], roles, {0, {}, true}));
    const auto& users = scratch_.users()[static_cast<size_t>(id)];
    return !users.empty() && std::ranges::all_of(users, [&](InstructionId user) {
      return user >= 0 && from_[user].opcode == Opcode::Transpose && from_[user].shape.has_default_layout() &&
             without_ones(from_[user].dimensions()) == turned;
    });
  }

  static bool fills(size_t side, unsigned roles) { return (roles & ((side == 0 ? Rows : Columns) | Terms)) != 0; }

  /// The dimensions of an operand that are filled up.
  static std::vector<LongDimension> filled_dimensions(size_t side, const Roles& roles, unsigned filled) {
    std::vector<LongDimension> all;
    if ((filled & (side == 0 ? Rows : Columns)) != 0) all.push_back(*roles.free[side]);
    if ((filled & Terms) != 0) all.push_back(*roles.terms[side]);
    return all;
  }

  /// The dimension of an operand that is filled up, if it is one and no other order is wanted.
  std::optional<LongDimension> only_dimension(size_t side, const Roles& roles, const Filling& filling) const {
    const auto all = filled_dimensions(side, roles, filling.roles);
    const Dimensions order = order_of(roles.operands[side], filling.lies[side]);
    if (all.size() != 1 || !std::is_sorted(order.begin(), order.end())) return std::nullopt;
    return all[0];
  }

  /// What kernels compute longer for an operand that they compute by elements; nothing where it has to be copied.
  std::optional<PaddedArrays::Members> computed_so(const Instruction& it, size_t side, const Roles& roles,
                                                   const Filling& filling) const {
    const auto to = only_dimension(side, roles, filling);
    return to ? arrays_.members_for(it.operands[side], *to) : std::nullopt;
  }

  /// Whether an operand lies filled up in memory without a copy: another product's result too, where any filling does.
  bool comes_so(const Instruction& it, size_t side, const Roles& roles, const Filling& filling) const {
    if (computed_so(it, side, roles, filling)) return true;
    const auto to = only_dimension(side, roles, filling);
    const auto product = products_.find(it.operands[side]);
    return to && (filling.roles & Terms) == 0 && product != products_.end() &&
           product->second == std::vector<LongDimension>{*to};
  }

  /// Whether a copy has the same dimension innermost as the array that is read for it, which may be converted.
  bool stays_innermost(const Instruction& it, size_t side, const Roles& roles, const Filling& filling) const {
    const Shape& shape = from_.operand_shape(it, side);
    const Dimensions order = order_of(roles.operands[side], filling.lies[side]);
    const Dimensions own = order_in_memory(from_, it.operands[side], Through::Views);  // of more than one element
    const auto last = std::find_if(order.rbegin(), order.rend(), [&](int64_t d) { return shape.dim(d) != 1; });
    return last == order.rend() || own.back() == *last;
  }

  // --- how it is made ---

  static Dimensions order_of(const OperandRoles& roles, Lies lies) {
    const bool inside = lies == Lies::TermsInside;
    Dimensions order = roles.batch;
    for (const Dimensions* part : {inside ? &roles.free : &roles.terms, inside ? &roles.terms : &roles.free})
      order.insert(order.end(), part->begin(), part->end());
    return order;
  }

  Repeated repeated(InstructionId id) const {
    const Instruction& it = from_[id];
    if (it.opcode == Opcode::Broadcast) return {it.operands[0], it.dimensions()};
    Dimensions all(it.shape.dims.size());
    std::iota(all.begin(), all.end(), 0);
    return {id, all};
  }

  /// A copy of an operand with its dimensions in an order, and filled up with zeros: of one that is repeated, what is.
  /// It is a pad also where nothing is filled up: products look through transposes to what is transposed.
  template <typename Moved, typename Make>
  InstructionId copied_operand(const Instruction& it, size_t side, const Roles& roles, const Filling& filling,
                               const Moved& moved, const Make& make) const {
    const InstructionId id = it.operands[side];
    const Shape& shape = from_[id].shape;
    const Repeated from = repeated(id);
    const std::vector<LongDimension> filled = filled_dimensions(side, roles, filling.roles);
    Dimensions permutation, places, dims, before, whole, after;
    for (const int64_t d : order_of(roles.operands[side], filling.lies[side])) {
      const auto own = std::find(from.dimensions.begin(), from.dimensions.end(), d);
      const auto to = std::ranges::find_if(
          filled, [&](const LongDimension& one) { return d >= one.first && d < one.first + one.count; });
      const bool continues = to != filled.end() && d != to->first;
      if (!continues) dims.push_back(to == filled.end() ? shape.dim(d) : to->size);
      if (own == from.dimensions.end()) continue;
      permutation.push_back(own - from.dimensions.begin());
      before.push_back(shape.dim(d));
      if (continues) {
        whole.back() *= shape.dim(d);
        continue;
      }
      places.push_back(std::ssize(dims) - 1);
      whole.push_back(shape.dim(d));
      after.push_back(dims.back());
    }
    InstructionId value = moved(from.id);
    if (!std::is_sorted(permutation.begin(), permutation.end()))
      value = make(Opcode::Transpose, hlo::array_shape(shape.type, before), {value},
                   hlo::DimensionsAttributes{permutation});
    if (whole != before) value = make(Opcode::Reshape, hlo::array_shape(shape.type, whole), {value}, {});
    const Shape scalar = hlo::array_shape(shape.type, {});
    const InstructionId zero = make(Opcode::Constant, scalar, {}, hlo::ConstantAttributes{hlo::Literal(scalar), false});
    value = make(Opcode::Pad, hlo::array_shape(shape.type, after), {value, zero}, hlo::padding_to(whole, after));
    if (places.size() == dims.size()) return value;
    return make(Opcode::Broadcast, hlo::array_shape(shape.type, dims), {value}, hlo::DimensionsAttributes{places});
  }

  /// The dimensions of HLO's result in the order of the product that is made.
  static Dimensions result_order(const Instruction& it, const Roles& roles, const Filling& filling) {
    Dimensions order(it.shape.dims.size());
    std::iota(order.begin(), order.end(), 0);
    const auto batches = std::ssize(roles.operands[0].batch), rows = std::ssize(roles.operands[0].free);
    if (filling.swapped) std::rotate(order.begin() + batches, order.begin() + batches + rows, order.end());
    return order;
  }

  static Shape result_shape(const Instruction& it, const Roles& roles, const Filling& filling) {
    Dimensions dims;
    for (const int64_t d : result_order(it, roles, filling)) dims.push_back(it.shape.dim(d));
    return hlo::array_shape(it.shape.type, dims);
  }

  /// The dimensions of the product that is made that are filled up.
  static std::vector<LongDimension> result_dimensions(const Instruction& it, const Roles& roles,
                                                      const Filling& filling) {
    const Dimensions order = result_order(it, roles, filling);
    std::vector<LongDimension> all;
    int64_t first = std::ssize(roles.operands[0].batch);  // of an operand's, in HLO's result
    for (const size_t side : {0, 1}) {
      const Dimensions& free = roles.operands[side].free;
      if ((filling.roles & (side == 0 ? Rows : Columns)) != 0) {
        LongDimension one = *roles.free[side];
        const int64_t d = first + (std::ranges::find(free, one.first) - free.begin());
        one.first = std::ranges::find(order, d) - order.begin();
        all.push_back(one);
      }
      first += std::ssize(free);
    }
    return all;
  }

  /// The product of operands that are filled up, and lie in that order.
  template <typename Make>
  InstructionId product(const Instruction& it, const Roles& roles, const Filling& filling,
                        std::array<InstructionId, 2> operands, const Make& make) const {
    hlo::DotAttributes a = it.as<hlo::DotAttributes>();
    for (const size_t side : {0, 1}) {
      if (filling.lies[side] == Lies::AsItDoes) continue;
      const Dimensions order = order_of(roles.operands[side], filling.lies[side]);
      const std::vector<LongDimension> filled = filled_dimensions(side, roles, filling.roles);
      for (Dimensions* dimensions :
           {side == 0 ? &a.lhs_batch : &a.rhs_batch, side == 0 ? &a.lhs_contracting : &a.rhs_contracting}) {
        Dimensions made;
        for (const int64_t d : *dimensions) {
          const auto place = std::ranges::find(order, d) - order.begin();
          int64_t merged = 0;  // dimensions before it that are parts of others
          bool continues = false;
          for (const LongDimension& one : filled) {
            continues |= d > one.first && d < one.first + one.count;
            if (place > std::ranges::find(order, one.first) - order.begin()) merged += one.count - 1;
          }
          if (!continues) made.push_back(place - merged);
        }
        *dimensions = made;
      }
    }
    Shape shape = result_shape(it, roles, filling);
    std::vector<LongDimension> dimensions = result_dimensions(it, roles, filling);
    std::ranges::sort(dimensions, std::greater<>());
    for (const LongDimension& one : dimensions) shape = longer(shape, one);
    if (filling.swapped) {
      std::swap(a.lhs_batch, a.rhs_batch);
      std::swap(a.lhs_contracting, a.rhs_contracting);
      std::swap(operands[0], operands[1]);
    }
    return make(Opcode::Dot, shape, {operands[0], operands[1]}, a);
  }

  /// A product that is chosen, in the new entry.
  InstructionId written(InstructionId id, const Filling& filling, PaddedArrayWriter& writer) {
    const Instruction& it = from_[id];
    const Roles roles = roles_of_product(it);
    const auto make = [&](Opcode opcode, Shape shape, std::vector<InstructionId> operands, hlo::Attributes attributes) {
      return add(it.name + (opcode == Opcode::Constant ? ".zero" : ".filled"), opcode, std::move(shape),
                 std::move(operands), std::move(attributes));
    };
    const auto moved = [&](InstructionId operand) { return moved_[static_cast<size_t>(operand)]; };
    std::array<InstructionId, 2> operands{};
    for (const size_t side : {0, 1}) {
      const InstructionId operand = it.operands[side];
      const auto to = only_dimension(side, roles, filling);
      const auto product = products_.find(operand);
      const bool longer_product =
          to && product != products_.end() && std::ranges::find(product->second, *to) != product->second.end();
      if (filling.lies[side] == Lies::AsItDoes) {
        operands[side] = moved(operand);
      } else if (to && (arrays_.is_longer(operand, *to) || longer_product)) {
        operands[side] = (filling.roles & Terms) != 0 ? writer.with_zeros(operand, *to) : writer.value(operand, *to);
      } else {
        operands[side] = copied_operand(it, side, roles, filling, moved, make);
      }
    }
    const InstructionId made = product(it, roles, filling, operands, make);
    const std::vector<LongDimension> dimensions = result_dimensions(it, roles, filling);
    if (!filling.swapped) return dimensions.empty() ? made : writer.add_product(id, made, dimensions);
    const Dimensions order = result_order(it, roles, filling);
    Dimensions back(order.size());
    for (size_t i = 0; i < back.size(); ++i) back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
    const InstructionId part =
        dimensions.empty() ? made : writer.own_part(it.name, result_shape(it, roles, filling), made, dimensions);
    return add(it.name + ".back", Opcode::Transpose, it.shape, {part}, hlo::DimensionsAttributes{back});
  }

  const Target& target_;
  Scratch scratch_;
  PaddedArrays arrays_{result_, from_, scratch_.users()};
  std::map<InstructionId, Filling> chosen_;
  std::map<InstructionId, std::vector<LongDimension>> products_;  ///< the results' dimensions of those that are chosen
};

}  // namespace

hlo::Module with_padded_products(const hlo::Module& module, const Target& target, LibraryUse use) {
  if (use == LibraryUse::Never) return module;
  return Filler(module, target).run();
}

}  // namespace strata::emitters
