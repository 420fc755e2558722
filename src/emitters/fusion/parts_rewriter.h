// What passes have in common that cut a dimension of arrays in parts, so that several blocks share a result.
#pragma once

#include <string>

#include "hlo/entry_rewriter.h"

namespace strata::emitters {

/// How a dimension of `size` elements is cut: `parts` times `part` are no less.
struct EvenCut {
  int64_t size = 1, parts = 1, part = 1;
  int64_t missing() const { return parts * part - size; }
};

/// Parts of about `part` elements: of a divisor near that; else of a multiple of `round`, and the last is filled up.
EvenCut cut_evenly(int64_t size, int64_t part, int64_t round);

class PartsRewriter : protected hlo::EntryRewriter {
 protected:
  using EntryRewriter::EntryRewriter;

  /// The operand with dimension d as two: the parts, and the elements of each. What the last part is missing is
  /// `filling`, a scalar, which is not read where nothing is.
  hlo::InstructionId in_parts(const std::string& name, hlo::InstructionId operand, int64_t d, const EvenCut& cut,
                              hlo::InstructionId filling);
};

}  // namespace strata::emitters
