// How much a task touches.
#pragma once

#include "megakernel/tgraph/operator_graph.h"

namespace strata::megakernel {

/// The elements of a tensor of that shape between the first and the last that one block touches along each dimension,
/// in all iterations: of blocks at the end of a grid, what fewer than that touch.
int64_t elements_of_block(const indexing::IndexingMap& map, const std::vector<int64_t>& shape);

/// The bytes of the tensor that a task's access touches.
int64_t access_bytes(const Access& access, const StepTensor& tensor);

}  // namespace strata::megakernel
