#include "emitters/library/ordered_products.h"

#include <array>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "emitters/kinds/memory_views.h"
#include "emitters/kinds/product/product.h"
#include "emitters/library/call_plan.h"
#include "hlo/entry_rewriter.h"
#include "superopt/codegen/libraries.h"

namespace strata::emitters {
namespace {

using hlo::Computation;
using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;
using hlo::Shape;
using Dimensions = std::vector<int64_t>;

/// The model is not exact: another order must be this much faster.
constexpr double kWorthAnotherOrder = 0.95;
/// Matrices of one launch of cuBLASLt, whose kernels count them in a dimension of the grid.
constexpr int64_t kMostMatrices = 65535;
constexpr double kImpossible = std::numeric_limits<double>::infinity();

/// The dimensions of a product's result, by number, in the order of another product that computes the same.
struct Order {
  bool swapped = false;  ///< rows are the right operand's
  Dimensions batch, rows, columns;

  Dimensions all() const {
    Dimensions result = batch;
    result.insert(result.end(), rows.begin(), rows.end());
    result.insert(result.end(), columns.begin(), columns.end());
    return result;
  }
  auto operator<=>(const Order&) const = default;
};

/// What the dimensions of operands are: dimensions of the result by number, and terms after these.
struct Labels {
  Dimensions lhs, rhs;
  int64_t batches = 0, left = 0, rank = 0, terms = 0;

  bool is_batch(int64_t label) const { return label < batches; }
  bool is_left(int64_t label) const { return label >= batches && label < batches + left; }
};

Labels labels_of(const Computation& computation, const Instruction& dot) {
  const auto& a = dot.as<hlo::DotAttributes>();
  Labels labels;
  labels.rank = dot.shape.rank();
  labels.batches = std::ssize(a.lhs_batch);
  labels.terms = std::ssize(a.lhs_contracting);
  labels.lhs.assign(computation.operand_shape(dot, 0).dims.size(), -1);
  labels.rhs.assign(computation.operand_shape(dot, 1).dims.size(), -1);
  for (size_t i = 0; i < a.lhs_batch.size(); ++i) {
    labels.lhs[static_cast<size_t>(a.lhs_batch[i])] = static_cast<int64_t>(i);
    labels.rhs[static_cast<size_t>(a.rhs_batch[i])] = static_cast<int64_t>(i);
  }
  for (size_t i = 0; i < a.lhs_contracting.size(); ++i) {
    labels.lhs[static_cast<size_t>(a.lhs_contracting[i])] = labels.rank + static_cast<int64_t>(i);
    labels.rhs[static_cast<size_t>(a.rhs_contracting[i])] = labels.rank + static_cast<int64_t>(i);
  }
  int64_t next = labels.batches;
  for (Dimensions* side : {&labels.lhs, &labels.rhs}) {
    for (int64_t& label : *side) {
      if (label < 0) label = next++;
    }
    if (side == &labels.lhs) labels.left = next - labels.batches;
  }
  return labels;
}

int64_t place_of(const Dimensions& in, int64_t label) { return std::find(in.begin(), in.end(), label) - in.begin(); }

bool is_identity(const Dimensions& permutation) { return std::is_sorted(permutation.begin(), permutation.end()); }

Dimensions numbers(const Shape& shape) {
  Dimensions all(shape.dims.size());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

/// Without dimensions of one element, which lie anywhere.
Dimensions without_ones(const Dimensions& dimensions, const Shape& shape) {
  Dimensions kept;
  for (const int64_t d : dimensions) {
    if (shape.dim(d) != 1) kept.push_back(d);
  }
  return kept;
}

Shape permuted(const Shape& shape, const Dimensions& permutation) {
  Dimensions dims;
  for (const int64_t d : permutation) dims.push_back(shape.dim(d));
  return hlo::array_shape(shape.type, dims);
}

/// Whether each element of a value is computed of the element of `operand` at the same index, and of numbers.
bool carries(const Computation& computation, const Instruction& it, InstructionId operand) {
  if (!hlo::is_elementwise(it.opcode) || !it.shape.is_array() || !it.shape.has_default_layout()) return false;
  return std::ranges::all_of(it.operands, [&](InstructionId id) {
    const Instruction& other = computation[id];
    if (id == operand) return hlo::same_dims(other.shape, it.shape);
    return other.opcode == Opcode::Broadcast && computation.operand_shape(other, 0).element_count() == 1;
  });
}

class Orderer : hlo::EntryRewriter {
 public:
  Orderer(const hlo::Module& module, const Target& target)
      : EntryRewriter(module), target_(target), scratch_(from_), users_(users_of(from_)) {}

  hlo::Module run() {
    for (size_t i = from_.instructions.size(); i-- > 0;) {
      if (from_.instructions[i].opcode == Opcode::Dot) decide(static_cast<InstructionId>(i));
    }
    if (chosen_.empty()) return std::move(result_);
    return rewrite([&](const Instruction& it, const Instruction& copy) { return replaced(it, copy); });
  }

 private:
  // --- which order ---

  /// A candidate: what it takes, and the orders in which operands of it that are products should lie.
  struct Candidate {
    Order order;
    double microseconds = 0;
    std::map<InstructionId, Dimensions> wanted;  ///< of the values that are operands
  };

  void decide(InstructionId id) {
    const Instruction& it = from_[id];
    const Shape& lhs = from_.operand_shape(it, 0);
    if (!is_for_library(from_, id) || product_shape(from_, id)) return;
    const Labels labels = labels_of(from_, it);
    const Dimensions wanted = wanted_order(id);
    std::optional<Candidate> given, best;
    for (const Order& order : orders(id, labels, wanted)) {
      std::optional<Candidate> one = price(id, labels, order, wanted);
      if (!one) continue;
      if (!given) {  // the first one is that of HLO
        if (!is_given(order, labels)) return;
        given = one;
      }
      if (!best || one->microseconds < best->microseconds) best = std::move(one);
    }
    if (!best || best->microseconds >= kWorthAnotherOrder * given->microseconds) best = given;
    if (!best) return;
    for (const auto& [value, order] : best->wanted) wanted_[value] = order;
    if (is_given(best->order, labels)) return;
    double terms = 1;
    for (const int64_t d : it.as<hlo::DotAttributes>().lhs_contracting) terms *= static_cast<double>(lhs.dim(d));
    const auto results = static_cast<double>(it.shape.element_count());
    if (loop_microseconds(results, terms, 2 * hlo::byte_width(lhs.type), target_) <= best->microseconds) return;
    chosen_.emplace(id, best->order);
  }

  static bool is_given(const Order& order, const Labels& labels) {
    return !order.swapped && is_identity(order.all()) && std::ssize(order.batch) == labels.batches;
  }

  /// The dimensions of a value in the order in which all that reads it does: by transposes, or as a product whose order
  /// is known.
  Dimensions wanted_order(InstructionId id) const {
    std::set<Dimensions> found;
    follow(id, found);
    if (found.size() == 1) return *found.begin();
    return numbers(from_[id].shape);
  }

  void follow(InstructionId id, std::set<Dimensions>& found) const {
    const Shape& shape = from_[id].shape;
    if (const auto known = wanted_.find(id); known != wanted_.end()) {
      found.insert(without_ones(known->second, shape));
      return;
    }
    for (const InstructionId user : users_[static_cast<size_t>(id)]) {
      const bool transposes = user >= 0 && from_[user].opcode == Opcode::Transpose && shape.has_default_layout() &&
                              from_[user].shape.has_default_layout();
      if (transposes) {
        found.insert(without_ones(from_[user].dimensions(), shape));
      } else if (user >= 0 && carries(from_, from_[user], id)) {
        follow(user, found);
      } else {
        found.insert(without_ones(numbers(shape), shape));
      }
    }
  }

  /// Orders to compare, the given one first.
  std::vector<Order> orders(InstructionId id, const Labels& labels, const Dimensions& wanted) const {
    const Instruction& it = from_[id];
    const Dimensions all = numbers(it.shape);
    const auto part = [&](const Dimensions& of, auto is) {
      Dimensions result;
      for (const int64_t label : of) {
        if (is(label)) result.push_back(label);
      }
      for (const int64_t label : all) {  // of one element
        if (is(label) && std::find(result.begin(), result.end(), label) == result.end()) result.push_back(label);
      }
      return result;
    };
    const auto batch = [&](int64_t label) { return labels.is_batch(label); };
    const auto left = [&](int64_t label) { return labels.is_left(label); };
    const auto right = [&](int64_t label) { return !labels.is_batch(label) && !labels.is_left(label); };
    std::vector<Order> result;
    const auto add = [&](const Order& order) {
      if (std::find(result.begin(), result.end(), order) == result.end()) result.push_back(order);
    };
    add({false, part(all, batch), part(all, left), part(all, right)});
    for (const Order& order : orders_of_result(it.shape, labels, wanted)) add(order);
    const Dimensions lies_left = labels_in_memory(it.operands[0], labels.lhs, labels.rank);
    const Dimensions lies_right = labels_in_memory(it.operands[1], labels.rhs, labels.rank);
    for (const Dimensions* batches : {&all, &lies_left, &lies_right, &wanted}) {
      for (const Dimensions* rows : {&all, &lies_left, &wanted}) {
        for (const Dimensions* columns : {&all, &lies_right, &wanted}) {
          for (const bool swapped : {false, true}) {
            Dimensions l = part(*rows, left), r = part(*columns, right);
            if (swapped) std::swap(l, r);
            add({swapped, part(*batches, batch), l, r});
          }
        }
      }
    }
    if (without_ones(part(all, batch), it.shape).empty()) {
      for (const bool of_left : {true, false}) {
        const Dimensions own = of_left ? part(lies_left, left) : part(lies_right, right);
        const Dimensions other = of_left ? part(lies_right, right) : part(lies_left, left);
        for (size_t outer = 1; outer < own.size(); ++outer) {
          Dimensions outside = part(all, batch);
          outside.insert(outside.end(), own.begin(), own.begin() + static_cast<std::ptrdiff_t>(outer));
          const Dimensions inside(own.begin() + static_cast<std::ptrdiff_t>(outer), own.end());
          add({!of_left, outside, inside, other});
          add({of_left, outside, other, inside});
        }
      }
    }
    return result;
  }

  /// Those whose result lies as is wanted: batches, then rows of one operand, then columns of the other.
  static std::vector<Order> orders_of_result(const Shape& shape, const Labels& labels, const Dimensions& wanted) {
    const Dimensions order = without_ones(wanted, shape);
    Dimensions ones;
    for (int64_t d = 0; d < shape.rank(); ++d) {
      if (shape.dim(d) == 1) ones.push_back(d);
    }
    const auto is_batch = [&](int64_t label) { return labels.is_batch(label); };
    const auto batches = std::count_if(order.begin(), order.end(), is_batch);
    std::vector<Order> result;
    for (auto outer = batches; outer <= std::ssize(order); ++outer) {
      const auto inside = order.begin() + outer;
      if (std::any_of(inside, order.end(), is_batch)) continue;
      if (outer > batches) {  // dimensions of one operand, for which the other has no batches
        const bool left = labels.is_left(order[0]);
        if (batches > 0 || !std::all_of(order.begin(), inside, [&](int64_t l) { return labels.is_left(l) == left; }))
          break;
      }
      const bool swapped = inside != order.end() && !labels.is_left(*inside);
      const auto columns = std::find_if(inside, order.end(), [&](int64_t l) { return labels.is_left(l) == swapped; });
      if (std::any_of(columns, order.end(), [&](int64_t l) { return labels.is_left(l) != swapped; })) continue;
      if (inside == columns || columns == order.end()) continue;  // no matrices
      Order made{swapped, {order.begin(), inside}, {inside, columns}, {columns, order.end()}};
      for (const int64_t one : ones) {
        Dimensions& part = labels.is_batch(one)             ? made.batch
                           : labels.is_left(one) != swapped ? made.rows
                                                            : made.columns;
        part.insert(part.begin(), one);
      }
      result.push_back(std::move(made));
    }
    return result;
  }

  /// Labels of an operand's dimensions that are the result's, in the order in which they lie.
  Dimensions labels_in_memory(InstructionId operand, const Dimensions& labels, int64_t rank) const {
    const MemoryView view = memory_views(from_, operand).front();
    Dimensions order(labels.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return view.strides[static_cast<size_t>(a)] > view.strides[static_cast<size_t>(b)];
    });
    Dimensions result;
    for (const int64_t d : order) {
      const int64_t label = labels[static_cast<size_t>(d)];
      if (label < rank) result.push_back(label);
    }
    return result;
  }

  // --- what an order takes ---

  InstructionId add_scratch(Opcode opcode, Shape shape, std::vector<InstructionId> operands,
                            hlo::Attributes attributes) {
    scratch_.instructions.push_back(
        {"scratch", opcode, std::move(shape), std::move(operands), {}, std::move(attributes), {}});
    users_.emplace_back();
    return static_cast<InstructionId>(scratch_.instructions.size()) - 1;
  }

  /// The cheapest way to have the operands of an order, of which those that are products' results may lie as is wanted.
  std::optional<Candidate> price(InstructionId id, const Labels& labels, const Order& order, const Dimensions& wanted) {
    const Instruction& it = from_[id];
    std::array<std::vector<OperandOrder>, 2> choices;
    for (const int side : {0, 1}) {
      const InstructionId operand = it.operands[static_cast<size_t>(side)];
      choices[static_cast<size_t>(side)].push_back({});
      const auto source = product_behind(operand);
      if (!source || it.operands[0] == it.operands[1]) continue;
      const double as_is = source_microseconds(*source, operand, numbers(from_[operand].shape));
      if (as_is == kImpossible) continue;
      for (const Dimensions& lies : orders_of_source(*source, operand, labels, order, side == 0)) {
        const double microseconds = source_microseconds(*source, operand, lies) - as_is;
        choices[static_cast<size_t>(side)].push_back({lies, microseconds});
      }
    }
    std::optional<Candidate> best;
    for (const OperandOrder& a : choices[0]) {
      for (const OperandOrder& b : choices[1]) {
        std::optional<Candidate> one = price(id, labels, order, wanted, {&a, &b});
        if (one && (!best || one->microseconds < best->microseconds)) best = std::move(one);
      }
    }
    return best;
  }

  /// How an operand lies, if not as it does; and what it takes more to have it so.
  struct OperandOrder {
    Dimensions order;
    double microseconds = 0;
  };

  /// What a product takes whose result, or what is computed of it, lies in an order.
  double source_microseconds(InstructionId source, InstructionId value, const Dimensions& order) {
    const auto [known, is_new] = of_sources_.try_emplace({value, order}, kImpossible);
    if (!is_new) return known->second;
    const Labels labels = labels_of(from_, from_[source]);
    double least = kImpossible;
    for (const Order& each : orders_of_result(from_[source].shape, labels, order)) {
      const OperandOrder as_is;
      const auto one = price(source, labels, each, order, {&as_is, &as_is});
      if (one) least = std::min(least, one->microseconds);
    }
    return of_sources_[{value, order}] = least;
  }

  std::optional<Candidate> price(InstructionId id, const Labels& labels, const Order& order, const Dimensions& wanted,
                                 const std::array<const OperandOrder*, 2>& lies) {
    const Instruction& it = from_[id];
    int64_t matrices = 1;
    for (const int64_t label : order.batch) matrices *= it.shape.dim(label);
    if (matrices > kMostMatrices) return std::nullopt;
    Candidate made{order, 0, {}};
    const size_t before = scratch_.instructions.size();
    std::vector<InstructionId> operands;
    for (const bool left : {!order.swapped, order.swapped}) {
      InstructionId operand = it.operands[left ? 0 : 1];
      const OperandOrder& as = *lies[left ? 0 : 1];
      made.microseconds += as.microseconds;
      if (!as.order.empty()) {
        Dimensions back(as.order.size());
        for (size_t i = 0; i < back.size(); ++i) back[static_cast<size_t>(as.order[i])] = static_cast<int64_t>(i);
        const Shape& shape = from_[operand].shape;
        const InstructionId there = add_scratch(Opcode::Parameter, permuted(shape, as.order), {},
                                                hlo::ParameterAttributes{std::ssize(from_.parameters)});
        made.wanted[operand] = as.order;
        operand = add_scratch(Opcode::Transpose, shape, {there}, hlo::DimensionsAttributes{back});
      }
      operands.push_back(operand_for(it, labels, order, left, operand,
                                     [&](Opcode opcode, Shape shape, InstructionId of, const Dimensions& dimensions) {
                                       return add_scratch(opcode, std::move(shape), {of},
                                                          hlo::DimensionsAttributes{dimensions});
                                     }));
    }
    const InstructionId dot =
        add_scratch(Opcode::Dot, permuted(it.shape, order.all()), operands, attributes_for(it, labels, order));
    const Result<CallPlan> plan = plan_product(scratch_, users_, dot);
    if (plan) {
      made.microseconds += 1e6 * library_seconds(plan->work, target_);
      for (const CallPlan::Operand& operand : plan->operands)
        made.microseconds += copy_microseconds(operand.copied_bytes);
      if (without_ones(order.all(), it.shape) != without_ones(wanted, it.shape))
        made.microseconds += copy_microseconds(it.shape.element_count() * hlo::byte_width(it.shape.type));
    }
    scratch_.instructions.resize(before);
    users_.resize(before);
    return plan ? std::optional(std::move(made)) : std::nullopt;
  }

  double copy_microseconds(int64_t bytes) const {
    if (bytes == 0) return 0;
    return 1e6 * (target_.kernel_seconds() + 2 * static_cast<double>(bytes) / target_.rates.copy_bandwidth);
  }

  /// The product whose result an operand is, through operators that carry it, if nothing else reads it on the way.
  std::optional<InstructionId> product_behind(InstructionId id) const {
    while (users_[static_cast<size_t>(id)].size() == 1) {
      const Instruction& it = from_[id];
      if (it.opcode == Opcode::Dot) {
        const bool taken = it.shape.has_default_layout() && library_type(from_.operand_shape(it, 0).type) &&
                           library_type(from_.operand_shape(it, 1).type) && !product_shape(from_, id);
        return taken ? std::optional(id) : std::nullopt;
      }
      const auto next = std::ranges::find_if(it.operands, [&](InstructionId one) {
        return from_[one].opcode != Opcode::Broadcast && carries(from_, it, one);
      });
      if (next == it.operands.end()) return std::nullopt;
      id = *next;
    }
    return std::nullopt;
  }

  /// Orders of an operand's dimensions that a product can compute it in and that lie as a matrix for the order; none
  /// where it lies so anyway.
  std::vector<Dimensions> orders_of_source(InstructionId source, InstructionId operand, const Labels& labels,
                                           const Order& order, bool left) const {
    const Labels of_source = labels_of(from_, from_[source]);
    const Shape& shape = from_[operand].shape;
    const Dimensions& own = left ? labels.lhs : labels.rhs;
    const Dimensions& free = left != order.swapped ? order.rows : order.columns;
    Dimensions batch, inner, terms;
    for (const int64_t label : order.batch) {
      if (const int64_t d = place_of(own, label); d < std::ssize(own)) batch.push_back(d);
    }
    for (const int64_t label : free) inner.push_back(place_of(own, label));
    for (int64_t label = labels.rank; label < labels.rank + labels.terms; ++label)
      terms.push_back(place_of(own, label));
    std::vector<Dimensions> found;
    for (const bool terms_last : {true, false}) {
      Dimensions all = batch;
      const Dimensions& first = terms_last ? inner : terms;
      const Dimensions& last = terms_last ? terms : inner;
      all.insert(all.end(), first.begin(), first.end());
      all.insert(all.end(), last.begin(), last.end());
      if (is_identity(without_ones(all, shape))) return {};
      if (!orders_of_result(shape, of_source, all).empty()) found.push_back(std::move(all));
    }
    return found;
  }

  /// The operand with its dimensions in the order (batches, rows or columns, terms), made by `add`.
  template <typename Add>
  InstructionId operand_for(const Instruction& it, const Labels& labels, const Order& order, bool left,
                            InstructionId operand, const Add& add) const {
    const Dimensions& own = left ? labels.lhs : labels.rhs;
    const Shape given = from_.operand_shape(it, left ? 0 : 1);
    const Dimensions& free = left != order.swapped ? order.rows : order.columns;
    Dimensions permutation, places, dims;
    const auto take = [&](int64_t label) {
      const int64_t d = place_of(own, label);
      dims.push_back(label < labels.rank ? it.shape.dim(label) : given.dim(d));
      if (d == std::ssize(own)) return;  // one for all of these batches
      permutation.push_back(d);
      places.push_back(std::ssize(dims) - 1);
    };
    for (const int64_t label : order.batch) take(label);
    for (const int64_t label : free) take(label);
    for (int64_t label = labels.rank; label < labels.rank + labels.terms; ++label) take(label);
    if (!is_identity(permutation)) operand = add(Opcode::Transpose, permuted(given, permutation), operand, permutation);
    if (places.size() == dims.size()) return operand;
    return add(Opcode::Broadcast, hlo::array_shape(given.type, dims), operand, places);
  }

  static hlo::DotAttributes attributes_for(const Instruction& it, const Labels& labels, const Order& order) {
    hlo::DotAttributes made{.precision = it.as<hlo::DotAttributes>().precision};
    made.lhs_batch.resize(order.batch.size());
    std::iota(made.lhs_batch.begin(), made.lhs_batch.end(), 0);
    made.rhs_batch = made.lhs_batch;
    for (const bool first : {true, false}) {
      Dimensions& terms = first ? made.lhs_contracting : made.rhs_contracting;
      terms.resize(static_cast<size_t>(labels.terms));
      std::iota(terms.begin(), terms.end(), std::ssize(order.batch) + std::ssize(first ? order.rows : order.columns));
    }
    return made;
  }

  // --- the module in these orders ---

  /// A value of the old entry whose dimensions are in another order in the new one.
  struct Arranged {
    InstructionId id = 0;
    Dimensions order;  ///< numbers of the old dimensions
  };

  std::optional<InstructionId> replaced(const Instruction& it, const Instruction& copy) {
    const auto id = static_cast<InstructionId>(&it - from_.instructions.data());
    if (const auto chosen = chosen_.find(id); chosen != chosen_.end()) {
      const Labels labels = labels_of(from_, it);
      std::vector<InstructionId> operands;
      for (const bool left : {!chosen->second.swapped, chosen->second.swapped}) {
        const InstructionId operand = it.operands[left ? 0 : 1];
        bool is_new = false;
        const auto make = [&](Opcode opcode, Shape shape, InstructionId of, const Dimensions& dimensions) {
          const bool first = !std::exchange(is_new, true);
          if (opcode == Opcode::Transpose) return permuted_value(of, dimensions, it.name);
          return add(it.name + ".operand", opcode, std::move(shape), {first ? moved_[static_cast<size_t>(of)] : of},
                     hlo::DimensionsAttributes{dimensions});
        };
        const InstructionId made = operand_for(it, labels, chosen->second, left, operand, make);
        operands.push_back(is_new ? made : moved_[static_cast<size_t>(operand)]);
      }
      const Dimensions order = chosen->second.all();
      const InstructionId made = add(it.name + ".ordered", Opcode::Dot, permuted(it.shape, order), operands,
                                     attributes_for(it, labels, chosen->second));
      return arranged(id, {made, order});
    }
    for (const InstructionId operand : it.operands) {
      const auto found = arranged_.find(operand);
      if (found == arranged_.end()) continue;
      if (it.opcode == Opcode::Transpose && it.shape.has_default_layout())
        return permuted_value(operand, it.dimensions(), it.name);
      if (carries(from_, it, operand)) return carried(id, it, copy, operand, found->second);
    }
    return std::nullopt;
  }

  /// Records the value, and gives it in the old order.
  InstructionId arranged(InstructionId id, const Arranged& value) {
    arranged_[id] = value;
    return permuted_value(id, numbers(from_[id].shape), from_[id].name);
  }

  InstructionId carried(InstructionId id, const Instruction& it, const Instruction& copy, InstructionId operand,
                        const Arranged& from) {
    Shape to = permuted(it.shape, from.order);
    std::vector<InstructionId> operands;
    for (size_t i = 0; i < it.operands.size(); ++i) {
      if (it.operands[i] == operand) {
        operands.push_back(from.id);
        continue;
      }
      const Instruction numbers = entry_[copy.operands[i]];
      InstructionId number = numbers.operands[0];
      if (shape(number).rank() > 0)
        number = add(numbers.name + ".number", Opcode::Reshape, hlo::array_shape(numbers.shape.type, {}), {number});
      operands.push_back(add(numbers.name + ".ordered", Opcode::Broadcast, permuted(numbers.shape, from.order),
                             {number}, hlo::DimensionsAttributes{}));
    }
    const InstructionId made = add(it.name + ".ordered", it.opcode, std::move(to), operands, it.attributes, it.called);
    return arranged(id, {made, from.order});
  }

  /// A value of the old entry with its dimensions in another order: of these numbers.
  InstructionId permuted_value(InstructionId id, const Dimensions& dimensions, const std::string& name) {
    const Shape to = permuted(from_[id].shape, dimensions);
    const auto found = arranged_.find(id);
    const InstructionId value = found == arranged_.end() ? moved_[static_cast<size_t>(id)] : found->second.id;
    Dimensions permutation;
    for (const int64_t d : dimensions)
      permutation.push_back(found == arranged_.end() ? d : place_of(found->second.order, d));
    if (is_identity(permutation)) return value;
    if (is_identity(without_ones(permutation, shape(value)))) return add(name + ".as", Opcode::Reshape, to, {value});
    return add(name + ".in_order", Opcode::Transpose, to, {value}, hlo::DimensionsAttributes{permutation});
  }

  const Target& target_;
  Computation scratch_;
  Users users_;  ///< of `from_`, and of what is in `scratch_` besides
  std::map<InstructionId, Order> chosen_;
  std::map<InstructionId, Dimensions> wanted_;  ///< orders that products whose order is decided want operands in
  std::map<std::pair<InstructionId, Dimensions>, double> of_sources_;
  std::map<InstructionId, Arranged> arranged_;
};

}  // namespace

hlo::Module with_ordered_products(const hlo::Module& module, const Target& target, LibraryUse use) {
  if (use == LibraryUse::Never) return module;
  return Orderer(module, target).run();
}

}  // namespace strata::emitters
