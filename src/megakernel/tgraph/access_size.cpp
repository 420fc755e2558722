#include "megakernel/tgraph/access_size.h"

#include "indexing/simplify.h"

namespace strata::megakernel {

using indexing::Expr;
using indexing::ExprKind;
using indexing::IndexingMap;

int64_t elements_of_block(const IndexingMap& map, const std::vector<int64_t>& shape) {
  // The first block: no coordinates, and constraints that cut off the ends of grids say nothing of it.
  const std::vector<Expr> results = substitute(map.results, [&](ExprKind kind, int number) {
    if (kind == ExprKind::Dimension) return Expr::constant(map.dims[static_cast<size_t>(number)].lo);
    return Expr::variable(kind, number);
  });
  indexing::ExprRange range(map);
  int64_t elements = 1;
  for (size_t d = 0; d < results.size(); ++d) {
    const indexing::Interval touched = intersect(range(results[d]), indexing::below(shape[d]));
    elements = indexing::saturating_mul(elements, std::max<int64_t>(touched.size(), 0));
  }
  return elements;
}

int64_t access_bytes(const Access& access, const StepTensor& tensor) {
  return indexing::saturating_mul(elements_of_block(of_all_iterations(access.region), tensor.shape),
                                  tensor.element_bytes);
}

}  // namespace strata::megakernel
