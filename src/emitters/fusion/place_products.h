// Products of few rows written in the order of the transposes after them.
#pragma once

#include "hlo/hlo.h"

namespace strata::emitters {

/// The module with products of few rows of its entry (kinds/product) in the layout of the transpose that alone reads
/// them, through operators of one operand: the transpose leaves elements where they are in memory then, so that the
/// product's kernel writes them there. Only where columns that lie together in the weights stay together in the result.
hlo::Module place_products(const hlo::Module& module);

}  // namespace strata::emitters
