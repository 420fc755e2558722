#include "emitters/library/split_products.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <numeric>
#include <optional>

#include "emitters/kinds/memory_views.h"
#include "emitters/kinds/product/product.h"
#include "emitters/library/call_plan.h"
#include "hlo/entry_rewriter.h"

namespace strata::emitters {
namespace {

using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;
using Dimensions = std::vector<int64_t>;

int64_t product_of(const Dimensions& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

/// A value as another one whose dimensions were transposed and merged.
struct Merged {
  InstructionId source = 0;
  std::vector<Dimensions> parts;  ///< by dimension: those of the source, outermost first, without those of one element
};

/// The dimensions of a reshape's operand that each of its own consists of; nothing where one is a part of another one.
std::optional<std::vector<Dimensions>> merged_by(const Dimensions& from, const Dimensions& to) {
  std::vector<Dimensions> parts(to.size());
  size_t next = 0;
  for (size_t d = 0; d < to.size(); ++d) {
    int64_t elements = 1;
    while (elements < to[d] && next < from.size()) {
      if (from[next] != 1) parts[d].push_back(static_cast<int64_t>(next));
      elements *= from[next++];
    }
    if (elements != to[d]) return std::nullopt;
  }
  return parts;
}

/// The sizes of the parts of one dimension that both lists of parts can be made of; nothing where there are none.
std::optional<Dimensions> common_parts(const Dimensions& a, const Dimensions& b) {
  Dimensions inside{1};  // elements of one step along a part, and of all
  for (const Dimensions* parts : {&a, &b}) {
    int64_t elements = 1;
    for (size_t i = parts->size(); i-- > 0;) inside.push_back(elements *= (*parts)[i]);
  }
  std::ranges::sort(inside, std::greater<>());
  inside.erase(std::ranges::unique(inside).begin(), inside.end());
  Dimensions sizes;
  for (size_t i = 0; i + 1 < inside.size(); ++i) {
    if (inside[i] % inside[i + 1] != 0) return std::nullopt;
    sizes.push_back(inside[i] / inside[i + 1]);
  }
  return sizes;
}

class Splitter : hlo::EntryRewriter {
 public:
  explicit Splitter(const hlo::Module& module) : EntryRewriter(module) {}

  hlo::Module run() {
    return rewrite([&](const Instruction& it, const Instruction&) -> std::optional<InstructionId> {
      const auto id = static_cast<InstructionId>(&it - from_.instructions.data());
      if (it.opcode != Opcode::Dot || !is_for_library(from_, id) || product_shape(from_, id)) return std::nullopt;
      const std::optional<Split> split = split_of(it);
      return split && lies_in_another_order(*split) ? std::optional(written(it, *split)) : std::nullopt;
    });
  }

 private:
  /// An operand whose dimensions are apart.
  struct Side {
    InstructionId source = 0;
    std::vector<Dimensions> parts;  ///< by the operand's dimension: those of `dims`
    Dimensions dims, strides;       ///< of the source's elements; strides in memory
    Dimensions batch, terms;        ///< numbers of `dims`, in the product's order
  };
  struct Split {
    std::array<Side, 2> sides;
  };

  Merged merged(InstructionId id) const {
    Merged made{id, {}};
    const hlo::Shape& shape = from_[id].shape;
    for (int64_t d = 0; d < shape.rank(); ++d) made.parts.push_back(shape.dim(d) == 1 ? Dimensions{} : Dimensions{d});
    for (;;) {
      const Instruction& it = from_[made.source];
      std::vector<Dimensions> below;
      if (it.opcode == Opcode::Transpose) {
        for (const int64_t d : it.dimensions()) below.push_back({d});
      } else if (it.opcode == Opcode::Reshape) {
        auto parts = merged_by(from_.operand_shape(it, 0).dims, it.shape.dims);
        if (!parts) return made;
        below = *std::move(parts);
      } else {
        return made;
      }
      made.source = it.operands[0];
      for (Dimensions& parts : made.parts) {
        Dimensions all;
        for (const int64_t d : parts) {
          const Dimensions& of = below[static_cast<size_t>(d)];
          all.insert(all.end(), of.begin(), of.end());
        }
        parts = all;
      }
    }
  }

  Dimensions sizes_of(const Merged& value, int64_t d) const {
    Dimensions sizes;
    for (const int64_t part : value.parts[static_cast<size_t>(d)]) sizes.push_back(from_[value.source].shape.dim(part));
    return sizes;
  }

  /// The product's operands with dimensions apart; nothing where those that they share have no parts in common.
  std::optional<Split> split_of(const Instruction& it) const {
    const auto& a = it.as<hlo::DotAttributes>();
    const std::array<Merged, 2> operands{merged(it.operands[0]), merged(it.operands[1])};
    std::array<std::map<int64_t, Dimensions>, 2> shared;  // sizes of parts by the operand's dimension
    for (const auto& [left, right] :
         {std::pair(&a.lhs_batch, &a.rhs_batch), {&a.lhs_contracting, &a.rhs_contracting}}) {
      for (size_t i = 0; i < left->size(); ++i) {
        const auto sizes = common_parts(sizes_of(operands[0], (*left)[i]), sizes_of(operands[1], (*right)[i]));
        if (!sizes) return std::nullopt;
        shared[0][(*left)[i]] = shared[1][(*right)[i]] = *sizes;
      }
    }
    return Split{{side(operands[0], shared[0], a.lhs_batch, a.lhs_contracting),
                  side(operands[1], shared[1], a.rhs_batch, a.rhs_contracting)}};
  }

  Side side(const Merged& value, const std::map<int64_t, Dimensions>& shared, const Dimensions& batch,
            const Dimensions& terms) const {
    const hlo::Shape& shape = from_[value.source].shape;
    std::vector<Dimensions> apart(shape.dims.size());  // sizes by the source's dimension
    for (size_t d = 0; d < value.parts.size(); ++d) {
      const auto found = shared.find(static_cast<int64_t>(d));
      size_t next = 0;
      for (const int64_t part : value.parts[d]) {
        Dimensions& sizes = apart[static_cast<size_t>(part)];
        if (found == shared.end()) sizes.push_back(shape.dim(part));
        while (found != shared.end() && product_of(sizes) < shape.dim(part)) sizes.push_back(found->second[next++]);
      }
    }
    Side made{value.source, {}, {}, {}, {}, {}};
    const Dimensions strides = memory_views(from_, value.source).front().strides;
    std::vector<Dimensions> numbers(apart.size());
    for (size_t d = 0; d < apart.size(); ++d) {
      int64_t inside = product_of(apart[d]);
      for (const int64_t size : apart[d]) {
        numbers[d].push_back(std::ssize(made.dims));
        made.dims.push_back(size);
        made.strides.push_back(strides[d] * (inside /= size));
      }
    }
    for (const Dimensions& parts : value.parts) {
      Dimensions& all = made.parts.emplace_back();
      for (const int64_t part : parts) {
        const Dimensions& of = numbers[static_cast<size_t>(part)];
        all.insert(all.end(), of.begin(), of.end());
      }
    }
    for (const auto& [from, to] : {std::pair(&batch, &made.batch), {&terms, &made.terms}}) {
      for (const int64_t d : *from) {
        const Dimensions& of = made.parts[static_cast<size_t>(d)];
        to->insert(to->end(), of.begin(), of.end());
      }
    }
    return made;
  }

  /// Whether the batches of an operand are one dimension in memory, but in another order.
  static bool lies_in_another_order(const Split& split) {
    return std::ranges::any_of(split.sides, [](const Side& side) {
      if (merged_stride(side.batch, side.dims, side.strides)) return false;
      Dimensions order = side.batch;
      std::ranges::stable_sort(order, std::greater<>(),
                               [&](int64_t d) { return side.strides[static_cast<size_t>(d)]; });
      return merged_stride(order, side.dims, side.strides).has_value();
    });
  }

  InstructionId written(const Instruction& it, const Split& split) {
    std::vector<InstructionId> operands;
    Dimensions made, wanted;  // dimensions of the products: of operands by their numbers there, those of the right last
    const int64_t rank = std::ssize(split.sides[0].dims);
    for (const Side& side : split.sides) {
      const InstructionId source = moved_[static_cast<size_t>(side.source)];
      const hlo::Shape apart = hlo::array_shape(shape(source).type, side.dims);
      operands.push_back(side.dims == shape(source).dims ? source
                                                         : add(it.name + ".apart", Opcode::Reshape, apart, {source}));
      const bool left = operands.size() == 1;
      if (left) wanted = side.batch;
      Dimensions free;
      for (const Dimensions& parts : side.parts) {
        for (const int64_t d : parts) {
          const auto is = [&](const Dimensions& of) { return std::ranges::find(of, d) != of.end(); };
          if (!is(side.batch) && !is(side.terms)) free.push_back(left ? d : rank + d);
        }
      }
      if (left) made = side.batch;
      wanted.insert(wanted.end(), free.begin(), free.end());
      std::ranges::sort(free);
      made.insert(made.end(), free.begin(), free.end());
    }
    const auto dims_of = [&](const Dimensions& numbers) {
      Dimensions dims;
      for (const int64_t d : numbers) {
        const Side& side = split.sides[d < rank ? 0 : 1];
        dims.push_back(side.dims[static_cast<size_t>(d < rank ? d : d - rank)]);
      }
      return dims;
    };
    const hlo::DotAttributes a{split.sides[0].batch, split.sides[1].batch, split.sides[0].terms, split.sides[1].terms,
                               it.as<hlo::DotAttributes>().precision};
    const auto array = [&](const Dimensions& numbers) { return hlo::array_shape(it.shape.type, dims_of(numbers)); };
    InstructionId result = add(it.name + ".split", Opcode::Dot, array(made), operands, a);
    if (made != wanted) {
      Dimensions order;
      for (const int64_t d : wanted) order.push_back(std::ranges::find(made, d) - made.begin());
      result = add(it.name + ".in_order", Opcode::Transpose, array(wanted), {result}, hlo::DimensionsAttributes{order});
    }
    return dims_of(wanted) == it.shape.dims ? result : add(it.name, Opcode::Reshape, it.shape, {result});
  }
};

}  // namespace

hlo::Module with_split_products(const hlo::Module& module, LibraryUse use) {
  if (use == LibraryUse::Never) return module;
  return Splitter(module).run();
}

}  // namespace strata::emitters
