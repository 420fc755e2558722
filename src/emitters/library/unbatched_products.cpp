#include "emitters/library/unbatched_products.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <numeric>
#include <optional>

#include "emitters/kinds/product/product.h"
#include "emitters/library/call_plan.h"
#include "emitters/library/repeated_parts.h"
#include "hlo/entry_rewriter.h"
#include "hlo/indexing/evaluations.h"

namespace strata::emitters {
namespace {

using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;
using Dimensions = std::vector<int64_t>;
using Parts = RepeatedParts::Parts;

constexpr int64_t kAny = std::numeric_limits<int64_t>::max();

bool has(const Dimensions& dimensions, int64_t d) { return std::ranges::find(dimensions, d) != dimensions.end(); }

/// A batch of a product, or a part of it.
struct Batch {
  size_t number = 0;  ///< of the batch
  int64_t size = 1;
  int repeated_by = -1;  ///< the one operand that does
};

/// A product's batches in parts, from the outermost on, and what of its operands' dimensions is not needed.
struct Split {
  std::vector<Batch> batches;
  std::array<std::vector<Parts>, 2> left_out;  ///< by the operand's dimension
};

/// Sizes without those parts.
Dimensions reduced(Dimensions dims, const std::vector<Parts>& left_out) {
  for (size_t d = 0; d < dims.size(); ++d) {
    for (const DimensionPart& part : left_out[d]) dims[d] /= part.size();
  }
  return dims;
}

class Unbatcher : hlo::EntryRewriter {
 public:
  Unbatcher(const hlo::Module& module, int64_t fewest_terms)
      : EntryRewriter(module), fewest_terms_(fewest_terms), repeated_(from_) {}

  hlo::Module run() {
    return rewrite([&](const Instruction& it, const Instruction&) -> std::optional<InstructionId> {
      if (it.opcode != Opcode::Dot || !may_change(it)) return std::nullopt;
      const Split split = few_rows_of(it, split_of(it, {kAny, kAny}));
      return is_worth_it(it, split) ? std::optional(written(it, split)) : std::nullopt;
    });
  }

 private:
  bool may_change(const Instruction& it) const {
    const hlo::Shape& lhs = from_.operand_shape(it, 0);
    int64_t terms = 1;
    for (const int64_t d : it.as<hlo::DotAttributes>().lhs_contracting) terms *= lhs.dim(d);
    const auto is_number = [](hlo::ElementType type) {
      return type != hlo::ElementType::Pred && !hlo::is_complex(type) && hlo::bit_width(type) >= 8;
    };
    return it.shape.has_default_layout() && it.shape.element_count() > 0 && terms >= fewest_terms_ &&
           is_number(lhs.type) && is_number(from_.operand_shape(it, 1).type);
  }

  /// Where all batches are repeated by one operand or the other, the product may be had in any order. Where some stay,
  /// those that the right operand repeats are rows of the left one as they lie if they come last. Else operands and
  /// results change their order, where that moves less than repeating an operand: each array of either is written once
  /// more, and read again.
  bool is_worth_it(const Instruction& it, const Split& split) const {
    std::array<size_t, 2> repeated{};
    size_t all = 0;
    bool last = true;  // those that an operand repeats come last
    for (const Batch& batch : split.batches) {
      if (batch.size == 1) continue;
      ++all;
      if (batch.repeated_by >= 0) ++repeated[static_cast<size_t>(batch.repeated_by)];
      last = last && (batch.repeated_by >= 0 || repeated[0] + repeated[1] == 0);
    }
    if (all == 0) return is_repeated(split);
    if (repeated[0] + repeated[1] == all) return true;
    if (repeated[0] + repeated[1] == 0) return false;
    if (repeated[0] == 0 && last) return true;
    const auto bytes_of = [](const hlo::Shape& shape) { return shape.element_count() * hlo::byte_width(shape.type); };
    int64_t moved = bytes_of(it.shape), copied = 0;
    for (const size_t side : {0, 1}) {
      const int64_t bytes = bytes_of(from_.operand_shape(it, side));
      if (repeated[side] > 0) copied += bytes;
      if (repeated[1 - side] > 0) moved += bytes;
    }
    return moved < copied;
  }

  static bool is_repeated(const Split& split) {
    const auto repeated = [](const Batch& batch) { return batch.repeated_by >= 0; };
    return !split.batches.empty() && std::ranges::all_of(split.batches, repeated);
  }

  /// Whether a value is of 16-bit floats, or was converted from these.
  bool is_half(InstructionId id) const {
    for (;;) {
      const Instruction& it = from_[id];
      if (hlo::is_float(it.shape.type) && hlo::bit_width(it.shape.type) == 16) return true;
      const bool moves = it.opcode == Opcode::Reshape || it.opcode == Opcode::Transpose ||
                         it.opcode == Opcode::Broadcast || it.opcode == Opcode::Copy;
      if (!moves && it.opcode != Opcode::Convert) return false;
      id = it.operands[0];
    }
  }

  /// What becomes rows of few, beside batches that stay, is no more than leaves few rows: those a kernel takes, which
  /// reads the other operand once for all of them, at the bandwidth of memory. Libraries have few blocks for each
  /// batch.
  Split few_rows_of(const Instruction& it, Split split) {
    const auto& a = it.as<hlo::DotAttributes>();
    const hlo::Shape& lhs = from_.operand_shape(it, 0);
    int64_t stay = 1, terms = 1;
    std::array<int64_t, 2> more{1, 1}, rows{1, 1}, most{kAny, kAny};  // by the operand that repeats: of the other one
    for (const Batch& batch : split.batches)
      (batch.repeated_by < 0 ? stay : more[static_cast<size_t>(batch.repeated_by)]) *= batch.size;
    for (const int64_t d : a.lhs_contracting) terms *= lhs.dim(d);
    for (const size_t side : {0, 1}) {
      const hlo::Shape& other = from_.operand_shape(it, 1 - side);
      rows[side] = other.element_count() / terms;
      for (const int64_t d : side == 0 ? a.rhs_batch : a.lhs_batch) rows[side] /= other.dim(d);
    }
    const bool halves = is_half(it.operands[0]) && is_half(it.operands[1]);
    bool limited = false;
    for (const size_t side : {0, 1}) {
      const bool large = rows[1 - side] * terms >= kFewestWeightsOfBatch;
      const int64_t few = halves && large ? kMostRowsOfBatches : kMostRows;
      if (stay == 1 || terms <= indexing::kFewTerms || rows[side] > few || rows[side] * more[side] <= few) continue;
      most[side] = few / rows[side];
      limited = true;
    }
    return limited ? split_of(it, most) : split;
  }

  /// No more than `most` batches that an operand repeats become rows: all, or a part of them.
  Split split_of(const Instruction& it, std::array<int64_t, 2> most) {
    const auto& a = it.as<hlo::DotAttributes>();
    Split split;
    for (const size_t side : {0, 1}) split.left_out[side].resize(from_.operand_shape(it, side).dims.size());
    for (size_t i = 0; i < a.lhs_batch.size(); ++i) {
      const std::array<int64_t, 2> place{a.lhs_batch[i], a.rhs_batch[i]};
      const std::array<Parts, 2> parts{repeated_.of(it.operands[0], place[0]), repeated_.of(it.operands[1], place[1])};
      const int64_t size = from_.operand_shape(it, 0).dim(place[0]);
      std::vector<Batch> inside_first;
      const auto take = [&](const DimensionPart& part, int by) {
        if (by >= 0)
          split.left_out[static_cast<size_t>(by)][static_cast<size_t>(place[static_cast<size_t>(by)])].push_back(part);
        if (!inside_first.empty() && inside_first.back().repeated_by == by) {
          inside_first.back().size *= part.size();
        } else {
          inside_first.push_back({i, part.size(), by});
        }
      };
      for (const DimensionPart& part : cut(size, parts)) {
        const auto repeats = [&](const Parts& by) {
          return std::ranges::any_of(by, [&](const auto& one) { return one.low <= part.low && part.high <= one.high; });
        };
        const bool left = repeats(parts[0]) || (size == 1 && adds(it.operands[0], place[0]));
        const bool right = repeats(parts[1]) || (size == 1 && adds(it.operands[1], place[1]));
        const int by = left == right ? -1 : left ? 0 : 1;
        int64_t taken = part.size();  // the inner ones
        if (by >= 0) {
          int64_t& allowed = most[static_cast<size_t>(by)];
          while (taken > allowed || part.size() % taken != 0) --taken;
          allowed /= taken;
        }
        if (taken == part.size()) {
          take(part, by);
          continue;
        }
        if (taken > 1) take({part.low, part.low * taken}, by);
        take({part.low * taken, part.high}, -1);
      }
      split.batches.insert(split.batches.end(), inside_first.rbegin(), inside_first.rend());
    }
    return split;
  }

  /// Whether a value is a broadcast that has the dimension of its own.
  bool adds(InstructionId id, int64_t dimension) const {
    return from_[id].opcode == Opcode::Broadcast && !has(from_[id].dimensions(), dimension);
  }

  /// A dimension in parts such that those of both lists are made of them; whole where there are no such parts.
  static Parts cut(int64_t size, const std::array<Parts, 2>& parts) {
    Dimensions ends{1, size};
    for (const Parts& of : parts) {
      for (const DimensionPart& part : of) ends.insert(ends.end(), {part.low, part.high});
    }
    std::ranges::sort(ends);
    ends.erase(std::ranges::unique(ends).begin(), ends.end());
    if (size == 1) return {{1, 1}};
    Parts result;
    for (size_t i = 0; i + 1 < ends.size(); ++i) {
      if (ends[i + 1] % ends[i] != 0) return {{1, size}};
      result.push_back({ends[i], ends[i + 1]});
    }
    return result;
  }

  /// An operand of the new product.
  struct Side {
    Dimensions sizes, numbers;  ///< of its dimensions: what they are in the result, -1 of terms
    Dimensions terms;           ///< places of these, in the product's order
  };

  InstructionId written(const Instruction& it, const Split& split) {
    Dimensions whole, stay;  // the old result's sizes with its batches in parts; batches that stay
    for (const Batch& batch : split.batches) {
      if (batch.repeated_by < 0) stay.push_back(std::ssize(whole));
      whole.push_back(batch.size);
    }
    std::array<Side, 2> sides;
    for (const size_t side : {0, 1}) sides[side] = side_of(it, split, side, whole);
    // Either operand may come first: so that the result lies as it should, if one of the orders does that.
    const auto order_of = [&](const std::array<size_t, 2>& operands) {
      Dimensions order = stay;
      for (const size_t side : operands) {
        for (const int64_t number : sides[side].numbers) {
          if (number >= 0 && !has(stay, number)) order.push_back(number);
        }
      }
      return order;
    };
    const auto lies = [&](Dimensions order) {
      std::erase_if(order, [&](int64_t i) { return whole[static_cast<size_t>(i)] == 1; });
      return std::ranges::is_sorted(order);
    };
    std::array<size_t, 2> places{0, 1};
    if (!lies(order_of(places)) && lies(order_of({1, 0}))) places = {1, 0};
    const Dimensions order = order_of(places);
    hlo::DotAttributes made{.precision = it.as<hlo::DotAttributes>().precision};
    std::vector<InstructionId> operands;
    for (const size_t side : places) {
      const bool first = operands.empty();
      const Dimensions& numbers = sides[side].numbers;
      for (const int64_t i : stay)
        (first ? made.lhs_batch : made.rhs_batch).push_back(std::ranges::find(numbers, i) - numbers.begin());
      (first ? made.lhs_contracting : made.rhs_contracting) = sides[side].terms;
      operands.push_back(operand_of(it.operands[side], split.left_out[side], sides[side].sizes));
    }
    Dimensions dims;
    for (const int64_t i : order) dims.push_back(whole[static_cast<size_t>(i)]);
    const auto array = [&](const Dimensions& sizes) { return hlo::array_shape(it.shape.type, sizes); };
    InstructionId result = add(it.name + ".unbatched", Opcode::Dot, array(dims), operands, made);
    if (!lies(order)) {
      Dimensions back(order.size());
      for (size_t i = 0; i < order.size(); ++i) back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
      result = add(it.name + ".in_order", Opcode::Transpose, array(whole), {result}, hlo::DimensionsAttributes{back});
    }
    return reshaped(result, it.shape.dims, it.name);
  }

  /// Adds what is no batch to the sizes of the result.
  Side side_of(const Instruction& it, const Split& split, size_t side, Dimensions& whole) const {
    const auto& a = it.as<hlo::DotAttributes>();
    const Dimensions& batch = side == 0 ? a.lhs_batch : a.rhs_batch;
    const Dimensions& terms = side == 0 ? a.lhs_contracting : a.rhs_contracting;
    const hlo::Shape& shape = from_.operand_shape(it, side);
    Side made;
    made.terms.resize(terms.size());
    for (int64_t d = 0; d < shape.rank(); ++d) {
      const auto number = static_cast<size_t>(std::ranges::find(batch, d) - batch.begin());
      for (size_t i = 0; i < split.batches.size(); ++i) {
        const Batch& part = split.batches[i];
        if (part.number != number || part.repeated_by == static_cast<int>(side)) continue;
        made.sizes.push_back(part.size);
        made.numbers.push_back(static_cast<int64_t>(i));
      }
      if (number < batch.size()) continue;
      const auto term = static_cast<size_t>(std::ranges::find(terms, d) - terms.begin());
      if (term < terms.size()) {
        made.terms[term] = std::ssize(made.sizes);
        made.numbers.push_back(-1);
      } else {
        made.numbers.push_back(std::ssize(whole));
        whole.push_back(shape.dim(d));
      }
      made.sizes.push_back(shape.dim(d));
    }
    return made;
  }

  InstructionId reshaped(InstructionId id, const Dimensions& dims, const std::string& name) {
    if (shape(id).dims == dims) return id;
    while (entry_[id].opcode == Opcode::Reshape && shape(id).has_default_layout()) {
      id = entry_[id].operands[0];
      if (shape(id).dims == dims && shape(id).has_default_layout()) return id;
    }
    return add(name, Opcode::Reshape, hlo::array_shape(shape(id).type, dims), {id});
  }

  /// An operand without parts that it repeats, as an array of these sizes.
  InstructionId operand_of(InstructionId id, const std::vector<Parts>& left_out, const Dimensions& sizes) {
    const Instruction& it = from_[id];
    Dimensions kept, dims;
    for (int64_t d = 0; d < it.shape.rank(); ++d) {
      const bool whole = !left_out[static_cast<size_t>(d)].empty();
      if (whole) continue;
      kept.push_back(d);
      dims.push_back(it.shape.dim(d));
    }
    // A broadcast has other dimensions then, and no reshape.
    if (it.opcode == Opcode::Broadcast && dims == sizes &&
        std::ranges::all_of(it.dimensions(), [&](int64_t d) { return has(kept, d); }))
      return broadcast(it, kept, dims);
    return reshaped(without(id, left_out), sizes, it.name + ".apart");
  }

  /// A broadcast to some of its dimensions.
  InstructionId broadcast(const Instruction& it, const Dimensions& kept, const Dimensions& dims) {
    const InstructionId source = moved_[static_cast<size_t>(it.operands[0])];
    Dimensions places, all(kept.size());
    for (const int64_t d : it.dimensions()) places.push_back(std::ranges::find(kept, d) - kept.begin());
    std::iota(all.begin(), all.end(), 0);
    if (places == all) return source;
    return add(it.name + ".unbatched", Opcode::Broadcast, hlo::array_shape(it.shape.type, dims), {source},
               hlo::DimensionsAttributes{places});
  }

  /// A value of the old entry with fewer elements along its dimensions, of which it repeats those parts.
  InstructionId without(InstructionId id, const std::vector<Parts>& left_out) {
    if (std::ranges::all_of(left_out, [](const Parts& parts) { return parts.empty(); }))
      return moved_[static_cast<size_t>(id)];
    const auto known = without_.find({id, left_out});
    if (known != without_.end()) return known->second;
    return without_[{id, left_out}] = made_without(from_[id], left_out);
  }

  InstructionId made_without(const Instruction& it, const std::vector<Parts>& left_out) {
    const hlo::Shape to = hlo::array_shape(it.shape.type, reduced(it.shape.dims, left_out));
    std::vector<InstructionId> operands;
    hlo::Attributes attributes = it.attributes;
    for (const InstructionId operand : it.operands) {
      const hlo::Shape& from = from_[operand].shape;
      operands.push_back(from.rank() == 0 ? moved_[static_cast<size_t>(operand)]
                                          : without(operand, before(it, from, left_out)));
    }
    switch (it.opcode) {
      case Opcode::Broadcast:
        if (shape(operands[0]).element_count() == to.element_count() && std::ranges::is_sorted(it.dimensions()))
          return reshaped(operands[0], to.dims, it.name + ".once");
        break;
      case Opcode::Reshape:
        return reshaped(operands[0], to.dims, it.name + ".once");
      case Opcode::Slice: {
        auto& a = std::get<hlo::SliceAttributes>(attributes);
        for (size_t d = 0; d < to.dims.size(); ++d) {
          if (!left_out[d].empty()) a.limits[d] = to.dims[d];
        }
        break;
      }
      case Opcode::DynamicSlice:
        attributes = hlo::DynamicSliceAttributes{to.dims};
        break;
      case Opcode::Concatenate: {
        const auto d = static_cast<size_t>(it.dimensions()[0]);
        if (left_out[d].empty()) break;
        operands.resize(static_cast<size_t>(to.dims[d] / shape(operands[0]).dims[d]));
        if (operands.size() == 1) return operands[0];
        break;
      }
      default:
        break;
    }
    return add(it.name + ".once", it.opcode, to, std::move(operands), std::move(attributes), it.called);
  }

  /// What is left out of an operand of this shape.
  std::vector<Parts> before(const Instruction& it, const hlo::Shape& from, const std::vector<Parts>& left_out) const {
    std::vector<Parts> result(from.dims.size());
    switch (it.opcode) {
      case Opcode::Broadcast:
        for (size_t i = 0; i < result.size(); ++i) result[i] = left_out[static_cast<size_t>(it.dimensions()[i])];
        return result;
      case Opcode::Transpose:
        for (size_t i = 0; i < left_out.size(); ++i) result[static_cast<size_t>(it.dimensions()[i])] = left_out[i];
        return result;
      case Opcode::Reshape:
        for (size_t i = 0; i < left_out.size(); ++i) {
          for (const DimensionPart& part : left_out[i]) {
            const auto parts = parts_before_reshape(from.dims, it.shape.dims, static_cast<int64_t>(i), part);
            for (const auto& [d, one] : parts) result[static_cast<size_t>(d)].push_back(one);
          }
        }
        return result;
      case Opcode::Concatenate: {
        result = left_out;
        const auto d = static_cast<size_t>(it.dimensions()[0]);
        std::erase_if(result[d], [&](const DimensionPart& part) { return part.low >= from.dims[d]; });
        return result;
      }
      default:
        return left_out;
    }
  }

  const int64_t fewest_terms_;
  RepeatedParts repeated_;
  std::map<std::pair<InstructionId, std::vector<Parts>>, InstructionId> without_;
};

}  // namespace

hlo::Module with_unbatched_products(const hlo::Module& module, LibraryUse use, int64_t fewest_terms) {
  if (use == LibraryUse::Never) return module;
  return Unbatcher(module, fewest_terms).run();
}

}  // namespace strata::emitters
