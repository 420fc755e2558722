// Whether a program may run at a larger size than its inputs have: results at the smaller size are then a part of those
// at the larger one (docs/sizes.md).
#pragma once

#include "ir/sized_program.h"

namespace strata {

/// What inputs are padded with.
enum class Fill {
  Last,   ///< their last slice again: what is computed of it is computed already
  Zeros,  ///< where elements are added up along the size
};
std::string_view name_of(Fill fill);

/// How inputs are padded where `dim` grows, all other sizes given. Nothing along the padded size is read by what does
/// not lie there, or only zeros are, in sums. Error (Unsupported), naming operator and place, with the reason why the
/// padding would change results. A program may be padded along several dims, one after the other.
Result<Fill> padding_of(const SizedProgram& program, const std::string& dim);

}  // namespace strata
