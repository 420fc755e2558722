#include "emitters/fusion/share_long_products.h"

#include <algorithm>
#include <optional>

#include "emitters/fusion/bandwidth.h"
#include "emitters/fusion/parts_rewriter.h"
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
constexpr int64_t kRound = 64;        ///< parts that do not divide begin at multiples of this

/// One pair of contracted dimensions, cut in parts.
struct Cut {
  int64_t lhs = 0, rhs = 0;  ///< the dimensions
  EvenCut even;
};

class Sharing : PartsRewriter {
 public:
  Sharing(const hlo::Module& module, const Target& target) : PartsRewriter(module), target_(target) {}

  hlo::Module run() {
    return rewrite([&](const Instruction& it, const Instruction& copy) -> std::optional<InstructionId> {
      if (it.opcode != Opcode::Dot) return std::nullopt;
      const std::optional<Cut> cut = cut_of(it);
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

  /// Nothing where there are enough blocks, or too few terms.
  std::optional<Cut> cut_of(const Instruction& it) const {
    const auto& dot = it.as<hlo::DotAttributes>();
    const Shape &lhs = from_.operand_shape(it, 0), &rhs = from_.operand_shape(it, 1);
    const hlo::TypeKind kind = hlo::kind(it.shape.type);
    if (dot.lhs_contracting.empty() || it.shape.element_count() == 0 || !lhs.has_default_layout() ||
        !rhs.has_default_layout() || !it.shape.has_default_layout() || kind == hlo::TypeKind::Pred ||
        (kind != hlo::TypeKind::Float && hlo::bit_width(it.shape.type) < 32))
      return std::nullopt;
    Cut cut;
    for (size_t i = 0; i < dot.lhs_contracting.size(); ++i) {
      const int64_t size = lhs.dim(dot.lhs_contracting[i]);
      if (i == 0 || size > cut.even.size) cut = {dot.lhs_contracting[i], dot.rhs_contracting[i], {size, 1, 1}};
    }
    const auto bytes = static_cast<double>(lhs.element_count() * hlo::byte_width(lhs.type) +
                                           rhs.element_count() * hlo::byte_width(rhs.type));
    const int64_t blocks = blocks_of(it, cut.lhs, cut.rhs);
    if (!are_few_blocks(bytes, blocks, target_)) return std::nullopt;
    const int64_t wanted = indexing::ceil_div(int64_t{target_.multiprocessors}, blocks);
    const int64_t part = std::max(indexing::ceil_div(cut.even.size, wanted), kLeastPart);
    if (part * 2 > cut.even.size) return std::nullopt;
    cut.even = cut_evenly(cut.even.size, part, kRound);
    return cut;
  }

  InstructionId zero(hlo::ElementType type) {
    const hlo::Literal value(hlo::array_shape(type, {}));
    return add("zero", Opcode::Constant, value.shape(), {}, hlo::ConstantAttributes{value, false});
  }

  InstructionId terms_in_parts(const std::string& name, InstructionId operand, int64_t d, const EvenCut& cut) {
    const InstructionId filling = cut.missing() > 0 ? zero(shape(operand).type) : operand;
    return in_parts(name, operand, d, cut, filling);
  }

  /// Dimensions of an operand after its dimension d has become two, of which the second is contracted.
  static Dimensions moved(Dimensions list, int64_t d) {
    for (int64_t& one : list) one += one >= d ? 1 : 0;
    return list;
  }

  hlo::ComputationId sum_of(hlo::ElementType type) {
    const Shape scalar = hlo::array_shape(type, {});
    hlo::Computation sum;
    sum.name = "sum.of.parts_" + std::to_string(result_.computations.size());
    for (int64_t number = 0; number < 2; ++number) {
      Instruction parameter;
      parameter.name = number == 0 ? "a" : "b";
      parameter.opcode = Opcode::Parameter;
      parameter.shape = scalar;
      parameter.attributes = hlo::ParameterAttributes{number};
      sum.instructions.push_back(parameter);
    }
    Instruction both;
    both.name = "sum";
    both.opcode = Opcode::Add;
    both.shape = scalar;
    both.operands = {0, 1};
    sum.instructions.push_back(both);
    sum.parameters = {0, 1};
    sum.root = 2;
    result_.computations.push_back(std::move(sum));
    return static_cast<hlo::ComputationId>(result_.computations.size()) - 1;
  }

  InstructionId in_two_steps(const Instruction& it, const Instruction& copy, const Cut& cut) {
    auto dot = it.as<hlo::DotAttributes>();
    const InstructionId lhs = terms_in_parts(it.name + ".lhs", copy.operands[0], cut.lhs, cut.even);
    const InstructionId rhs = terms_in_parts(it.name + ".rhs", copy.operands[1], cut.rhs, cut.even);
    dot = {moved(dot.lhs_batch, cut.lhs), moved(dot.rhs_batch, cut.rhs), moved(dot.lhs_contracting, cut.lhs),
           moved(dot.rhs_contracting, cut.rhs)};
    const auto along = static_cast<int64_t>(dot.lhs_batch.size());
    dot.lhs_batch.push_back(cut.lhs);
    dot.rhs_batch.push_back(cut.rhs);
    const bool narrow = hlo::kind(it.shape.type) == hlo::TypeKind::Float && hlo::bit_width(it.shape.type) < 32;
    const hlo::ElementType wide = narrow ? hlo::ElementType::F32 : it.shape.type;
    Dimensions sizes = it.shape.dims;
    sizes.insert(sizes.begin() + along, cut.even.parts);
    const InstructionId of_parts =
        add(it.name + ".of.parts", Opcode::Dot, hlo::array_shape(wide, sizes), {lhs, rhs}, dot);
    const InstructionId initial = zero(wide);
    const InstructionId sum = add(it.name + ".sum", Opcode::Reduce, hlo::array_shape(wide, it.shape.dims),
                                  {of_parts, initial}, hlo::DimensionsAttributes{{along}}, {sum_of(wide)});
    return narrow ? add(it.name, Opcode::Convert, it.shape, {sum}) : sum;
  }

  const Target& target_;
};

}  // namespace

hlo::Module share_long_products(const hlo::Module& module, const Target& target) {
  return Sharing(module, target).run();
}

}  // namespace strata::emitters
