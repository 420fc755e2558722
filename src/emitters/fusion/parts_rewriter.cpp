#include "emitters/fusion/parts_rewriter.h"

#include "indexing/interval.h"
#include "support/divisors.h"

namespace strata::emitters {

using hlo::InstructionId;
using hlo::Opcode;
using Dimensions = std::vector<int64_t>;

EvenCut cut_evenly(int64_t size, int64_t part, int64_t round) {
  if (const std::optional<int64_t> divisor = divisor_near(size, part, 2)) return {size, size / *divisor, *divisor};
  // As many parts as of that size, which are as equal as can be: little is filled up.
  const int64_t parts = indexing::ceil_div(size, indexing::ceil_div(part, round) * round);
  const int64_t chosen = indexing::ceil_div(indexing::ceil_div(size, parts), round) * round;
  return {size, indexing::ceil_div(size, chosen), chosen};
}

InstructionId PartsRewriter::in_parts(const std::string& name, InstructionId operand, int64_t d, const EvenCut& cut,
                                      InstructionId filling) {
  const auto at = static_cast<size_t>(d);
  const hlo::ElementType type = shape(operand).type;
  Dimensions sizes = shape(operand).dims;
  if (const int64_t missing = cut.missing(); missing > 0) {
    const Dimensions none(sizes.size(), 0);
    hlo::PadAttributes pad{none, none, none};
    pad.high[at] = missing;
    sizes[at] += missing;
    operand = add(name + ".filled", Opcode::Pad, hlo::array_shape(type, sizes), {operand, filling}, pad);
  }
  sizes[at] = cut.part;
  sizes.insert(sizes.begin() + d, cut.parts);
  return add(name + ".parts", Opcode::Reshape, hlo::array_shape(type, sizes), {operand});
}

}  // namespace strata::emitters
