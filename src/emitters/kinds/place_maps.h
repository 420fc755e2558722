// Maps of a kernel's loops: from where threads stand to indices of arrays that lie at the same places in memory.
#pragma once

#include <mlir/IR/ValueRange.h>

#include "hlo/shape.h"
#include "indexing/indexing_map.h"

namespace strata::emitters {

/// The index of an array where its elements in memory have the index that `map` gives, in the dimensions `dims`,
/// outermost first, which have as many elements. Expressions over the variables of `map`, true on its domain.
std::vector<indexing::Expr> indices_at(const indexing::IndexingMap& map, const std::vector<int64_t>& dims,
                                       const hlo::Shape& shape);

/// The place in memory of that index: one expression.
indexing::Expr position_of(const indexing::IndexingMap& map, const std::vector<int64_t>& dims);

/// The index of an array of shape `to` where its elements lie as those of one of shape `from` do at the map's results.
std::vector<indexing::Expr> indices_at_place(const indexing::IndexingMap& map, const hlo::Shape& from,
                                             const hlo::Shape& to);

/// The results of one loop that stand for several indices.
class MapResults {
 public:
  /// The domain of `domain`.
  explicit MapResults(const indexing::IndexingMap& domain) : map_(domain) { map_.results.clear(); }

  void add(const std::vector<indexing::Expr>& index);
  const indexing::IndexingMap& map() const { return map_; }
  /// The results of the n-th index that was added.
  mlir::ValueRange of(mlir::ValueRange results, size_t n) const;

 private:
  indexing::IndexingMap map_;
  std::vector<size_t> starts_;
};

}  // namespace strata::emitters
