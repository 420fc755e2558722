#include "emitters/dialect/atomic_fetch.h"

#define GET_OP_CLASSES
#include "emitters/dialect/atomic_fetch.cpp.inc"

namespace strata::emitters {

mlir::LogicalResult AtomicFetchOp::verify() {
  const mlir::RankedTensorType dest = getDest().getType();
  if (dest.getElementType() != getValue().getType()) return emitOpError("needs a value of the tensor's element type");
  if (static_cast<int64_t>(getIndices().size()) != dest.getRank()) return emitOpError("needs an index a dimension");
  switch (getCombiner()) {
    case Combiner::Custom:
    case Combiner::Mul:
    case Combiner::MinF:
    case Combiner::MaxF:
      return emitOpError("has no instruction for ") << stringifyCombiner(getCombiner());
    default:
      return mlir::success();
  }
}

}  // namespace strata::emitters
