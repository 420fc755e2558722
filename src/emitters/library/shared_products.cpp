#include "emitters/library/shared_products.h"

#include <array>
#include <map>

#include "emitters/fusion/product_parts.h"
#include "emitters/kinds/product/product.h"
#include "emitters/library/call_plan.h"
#include "emitters/library/scratch.h"
#include "indexing/interval.h"
#include "superopt/codegen/libraries.h"

namespace strata::emitters {
namespace {

using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;
using hlo::Shape;
using Dimensions = std::vector<int64_t>;

/// The model is not exact: parts must be this much faster.
constexpr double kWorthParts = 0.8;
constexpr int64_t kLeastPart = 128;  ///< terms: a block begins and ends in the time of some tens
constexpr int64_t kMostParts = 64;
constexpr int64_t kRound = 8;  ///< parts that do not divide begin at whole 16 bytes

class Sharer : ProductPartsRewriter {
 public:
  Sharer(const hlo::Module& module, const Target& target, LibraryUse use)
      : ProductPartsRewriter(module), target_(target), use_(use), scratch_(from_) {}

  hlo::Module run() {
    return rewrite([&](const Instruction& it, const Instruction& copy) -> std::optional<InstructionId> {
      if (it.opcode != Opcode::Dot || it.as<hlo::DotAttributes>().lhs_batch.empty() || !may_cut(it))
        return std::nullopt;
      const auto cut = cut_of(static_cast<InstructionId>(&it - from_.instructions.data()));
      return cut ? std::optional(in_two_steps(it, copy, *cut)) : std::nullopt;
    });
  }

 private:
  std::optional<ProductCut> cut_of(InstructionId id) {
    const Instruction& it = from_[id];
    if (product_shape(from_, id)) return std::nullopt;
    const Result<CallPlan> given = scratch_.plan(id);
    if (!given || std::get<MatrixProduct>(given->work).batch == 1) return std::nullopt;
    const ProductCut whole = longest_terms(it);
    double as_is = 1e6 * library_seconds(given->work, target_);
    for (const CallPlan::Operand& operand : given->operands)
      as_is += copy_microseconds(static_cast<double>(operand.copied_bytes));
    const double loop = loop_microseconds(static_cast<double>(it.shape.element_count()),
                                          static_cast<double>(std::get<MatrixProduct>(given->work).k),
                                          2 * hlo::byte_width(from_.operand_shape(it, 0).type), target_);
    const double least = kWorthParts * (use_ == LibraryUse::WhereFaster ? std::min(as_is, loop) : as_is);
    // The number of parts by the work alone: copies are the same for all.
    std::optional<ProductCut> best;
    double shortest = least;
    for (int64_t parts = 2; parts <= kMostParts && whole.even.size >= parts * kLeastPart; ++parts) {
      ProductCut cut = whole;
      cut.even = cut_evenly(whole.even.size, indexing::ceil_div(whole.even.size, parts), kRound);
      MatrixProduct work = std::get<MatrixProduct>(given->work);
      work.batch *= cut.even.parts;
      work.k = work.k / whole.even.size * cut.even.part;
      const double one = 1e6 * library_seconds(work, target_) + sum_microseconds(it, cut);
      if (one >= shortest) continue;
      shortest = one;
      best = cut;
    }
    return best && price(id, *best) < least ? best : std::nullopt;
  }

  double copy_microseconds(double bytes) const {
    return bytes == 0 ? 0 : 1e6 * (target_.kernel_seconds() + 2 * bytes / target_.rates.copy_bandwidth);
  }

  /// Of the kernel that adds parts up.
  double sum_microseconds(const Instruction& it, const ProductCut& cut) const {
    constexpr int64_t kSumBytes = 4;
    const auto results = static_cast<double>(it.shape.element_count());
    const double bytes = results * static_cast<double>(cut.even.parts * kSumBytes + hlo::byte_width(it.shape.type));
    return 1e6 * (target_.kernel_seconds() + bytes / target_.rates.memory_bandwidth);
  }

  /// With copies: of operands that are filled up, or that the library cannot read in parts.
  double price(InstructionId id, const ProductCut& cut) {
    const Scratch::Trial trial(scratch_);
    const auto make = [&](Opcode opcode, Shape shape, std::vector<InstructionId> operands, hlo::Attributes attributes) {
      return scratch_.add(opcode, std::move(shape), std::move(operands), std::move(attributes));
    };
    const Instruction& it = from_[id];
    auto dot = it.as<hlo::DotAttributes>();
    std::array<InstructionId, 2> operands{};
    std::array<double, 2> filled{};
    for (const size_t side : {0, 1}) {
      const int64_t d = side == 0 ? cut.lhs : cut.rhs;
      operands[side] = it.operands[side];
      Shape shape = from_.operand_shape(it, side);
      if (cut.even.missing() > 0) {
        const Dimensions given = shape.dims;
        shape.dims[static_cast<size_t>(d)] += cut.even.missing();
        const Shape scalar = hlo::array_shape(shape.type, {});
        const InstructionId zero =
            make(Opcode::Constant, scalar, {}, hlo::ConstantAttributes{hlo::Literal(scalar), false});
        operands[side] = make(Opcode::Pad, shape, {operands[side], zero}, hlo::padding_to(given, shape.dims));
        filled[side] = static_cast<double>(shape.element_count()) * hlo::byte_width(shape.type);
      }
      Dimensions dims = shape.dims;
      dims[static_cast<size_t>(d)] = cut.even.part;
      dims.insert(dims.begin() + d, cut.even.parts);
      operands[side] = make(Opcode::Reshape, hlo::array_shape(shape.type, dims), {operands[side]}, {});
      for (Dimensions* list :
           {side == 0 ? &dot.lhs_batch : &dot.rhs_batch, side == 0 ? &dot.lhs_contracting : &dot.rhs_contracting})
        *list = beside_parts(*list, d);
      (side == 0 ? dot.lhs_batch : dot.rhs_batch).push_back(d);
    }
    Dimensions sizes = it.shape.dims;
    sizes.insert(sizes.begin() + std::ssize(dot.lhs_batch) - 1, cut.even.parts);
    const bool narrow = hlo::kind(it.shape.type) == hlo::TypeKind::Float && hlo::bit_width(it.shape.type) < 32;
    const Shape shape = hlo::array_shape(narrow ? hlo::ElementType::F32 : it.shape.type, sizes);
    const InstructionId parts = make(Opcode::Dot, shape, {operands[0], operands[1]}, dot);
    const Result<CallPlan> plan = scratch_.plan(parts);
    double all = sum_microseconds(it, cut);
    all += plan ? 1e6 * library_seconds(plan->work, target_) : std::numeric_limits<double>::infinity();
    // What is filled up lies as it should after that one copy.
    for (size_t side = 0; plan && side < 2; ++side) {
      const auto copied = static_cast<double>(plan->operands[side].copied_bytes);
      all += copy_microseconds(std::max(copied, filled[side]));
    }
    return all;
  }

  const Target& target_;
  const LibraryUse use_;
  Scratch scratch_;
};

}  // namespace

hlo::Module with_shared_products(const hlo::Module& module, const Target& target, LibraryUse use) {
  if (use == LibraryUse::Never) return module;
  return Sharer(module, target, use).run();
}

}  // namespace strata::emitters
