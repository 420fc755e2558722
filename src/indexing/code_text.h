// Indexing maps in generated C and C++ text.
#pragma once

#include <functional>
#include <string>

#include "indexing/indexing_map.h"

namespace strata::indexing {

/// An expression of C and C++ over integers that has the value of `expr` wherever the variables have their ranges in
/// `map`: what `name` gives for a variable must bind as tightly as a name does. Factors are of 64 bits where what they
/// multiply does not fit 32. An error (Unsupported) where something that is divided may be negative, a divisor is no
/// positive constant, or values do not fit 64 bits.
Result<std::string> code_text(const Expr& expr, const IndexingMap& map,
                              const std::function<std::string(ExprKind kind, int number)>& name);

}  // namespace strata::indexing
