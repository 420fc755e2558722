#include "emitters/fusion/share_long_products.h"

#include <algorithm>
#include <optional>

#include "emitters/fusion/bandwidth.h"
#include "emitters/fusion/product_parts.h"
#include "emitters/kinds/memory_views.h"
#include "indexing/interval.h"

namespace strata::emitters {
namespace {

using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;
using hlo::Shape;
using Dimensions = std::vector<int64_t>;

constexpr int64_t kLineBytes = 128;
constexpr int64_t kTile = 16;         ///< results of a block along each dimension: no kernel for products has fewer
constexpr int64_t kLeastPart = 1024;  ///< terms
constexpr int64_t kLeastWhole = 128;  ///< of parts that need no filling: a step of each of some warps
constexpr int64_t kRound = 64;        ///< parts of what lies together that do not divide begin at multiples of this
constexpr int64_t kSumBytes = 4;      ///< of what a part comes to

class Sharing : ProductPartsRewriter {
 public:
  Sharing(const hlo::Module& module, const Target& target) : ProductPartsRewriter(module), target_(target) {}

  hlo::Module run() {
    return rewrite([&](const Instruction& it, const Instruction& copy) -> std::optional<InstructionId> {
      if (it.opcode != Opcode::Dot) return std::nullopt;
      const std::optional<ProductCut> cut = cut_of(it);
      return cut ? std::optional(in_two_steps(it, copy, *cut)) : std::nullopt;
    });
  }

 private:
  static bool contains(const Dimensions& list, int64_t d) {
    return std::find(list.begin(), list.end(), d) != list.end();
  }

  /// Elements along the dimensions that are neither batch nor contracted.
  static int64_t free_elements(const Shape& shape, const Dimensions& batch, const Dimensions& contracted) {
    int64_t elements = 1;
    for (int64_t d = 0; d < std::ssize(shape.dims); ++d) {
      if (!contains(batch, d) && !contains(contracted, d)) elements *= shape.dim(d);
    }
    return elements;
  }

  /// Blocks that a kernel for it has, by what it shares: tiles of results, results whose terms lie together, or lines.
  int64_t blocks_of(const Instruction& it, int64_t contracted_lhs, int64_t contracted_rhs) const {
    const auto& dot = it.as<hlo::DotAttributes>();
    const Shape &lhs = from_.operand_shape(it, 0), &rhs = from_.operand_shape(it, 1);
    const int64_t rows = free_elements(lhs, dot.lhs_batch, dot.lhs_contracting);
    const int64_t columns = free_elements(rhs, dot.rhs_batch, dot.rhs_contracting);
    const int64_t batch = it.shape.element_count() / (rows * columns);
    if (rows > 1 && columns > 1) return batch * indexing::ceil_div(rows, kTile) * indexing::ceil_div(columns, kTile);
    const bool along_lhs = rows > 1;  // which operand is the matrix
    const Shape& matrix = along_lhs ? lhs : rhs;
    const bool terms_lie_together = (along_lhs ? contracted_lhs : contracted_rhs) + 1 == std::ssize(matrix.dims);
    const int64_t results = std::max(rows, columns);
    if (terms_lie_together) return batch * results;
    return batch * indexing::ceil_div(results * hlo::byte_width(matrix.type), kLineBytes);
  }

  /// The pairs of contracted dimensions as the larger operand has them in memory, outermost first.
  std::vector<std::pair<int64_t, int64_t>> terms_in_memory(const Instruction& it) const {
    const auto& dot = it.as<hlo::DotAttributes>();
    const bool left = from_.operand_shape(it, 0).element_count() >= from_.operand_shape(it, 1).element_count();
    std::vector<std::pair<int64_t, int64_t>> pairs;
    for (const int64_t d : order_in_memory(from_, it.operands[left ? 0 : 1], Through::Elements)) {
      const Dimensions& of = left ? dot.lhs_contracting : dot.rhs_contracting;
      const auto i = static_cast<size_t>(std::ranges::find(of, d) - of.begin());
      if (i < of.size()) pairs.emplace_back(dot.lhs_contracting[i], dot.rhs_contracting[i]);
    }
    return pairs;
  }

  /// Nothing where there are enough blocks, or too few terms. Parts have what lies together in memory: outer dimensions
  /// are cut before inner ones.
  std::optional<ProductCut> cut_of(const Instruction& it) const {
    const Shape &lhs = from_.operand_shape(it, 0), &rhs = from_.operand_shape(it, 1);
    if (!may_cut(it)) return std::nullopt;
    const ProductCut longest = longest_terms(it);
    const auto bytes = static_cast<double>(lhs.element_count() * hlo::byte_width(lhs.type) +
                                           rhs.element_count() * hlo::byte_width(rhs.type));
    const int64_t blocks = blocks_of(it, longest.lhs, longest.rhs);
    if (!are_few_blocks(bytes, /*operations=*/0, blocks, target_)) return std::nullopt;
    const int64_t wanted = indexing::ceil_div(int64_t{target_.multiprocessors}, blocks);
    const auto results = static_cast<double>(it.shape.element_count());
    std::optional<ProductCut> best;
    double shortest = 0;
    // Parts of whole dimensions, and terms of one step along the dimension that is cut.
    int64_t outside = 1, inside = 1;
    const std::vector<std::pair<int64_t, int64_t>> terms = terms_in_memory(it);
    for (const auto& [d, other] : terms) inside *= lhs.dim(d);
    ProductCut cut;
    for (const auto& [d, other] : terms) {
      const int64_t size = lhs.dim(d);
      if (size == 1) continue;
      inside /= size;
      const int64_t part = std::max(indexing::ceil_div(size, indexing::ceil_div(wanted, outside)),
                                    indexing::ceil_div(kLeastPart, inside));
      cut.lhs = d;
      cut.rhs = other;
      cut.even = part * 2 > size ? EvenCut{size, 1, size} : cut_evenly(size, part, inside > 1 ? 1 : kRound);
      if (cut.even.parts == 1 && size * inside < kLeastWhole) break;
      const auto parts = static_cast<double>(outside * cut.even.parts);
      // Arrays that are filled up are written first.
      const double moved = cut.even.missing() > 0 ? 3 * bytes : bytes;
      const double one =
          memory_microseconds(moved + 2 * kSumBytes * results * parts, static_cast<double>(blocks) * parts, target_);
      if (parts > 1 && (!best || one < shortest)) {
        best = cut;
        shortest = one;
      }
      cut.whole.emplace_back(d, other);
      outside *= size;
    }
    return best;
  }

  const Target& target_;
};

}  // namespace

hlo::Module share_long_products(const hlo::Module& module, const Target& target) {
  return Sharing(module, target).run();
}

}  // namespace strata::emitters
