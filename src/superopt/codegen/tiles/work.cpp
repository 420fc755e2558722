#include <algorithm>

#include "superopt/codegen/tiles/block.h"

namespace strata {

int64_t TileBlock::registers(TensorId id, bool after) const {
  const TileDims dims = local(id, after);
  const int64_t columns = plan(id).transposed ? dims.rows : dims.columns;
  return dims.batches * ceil_div(dims.rows + dims.columns - columns, 8) * ceil_div(columns, 8) * (columns == 1 ? 1 : 2);
}

Result<void> TileBlock::check_sizes() const {
  for (const Operation& op : body_.operations()) {
    if (is_counted(body_, op)) {
      const auto dim = static_cast<size_t>(body_.type(op.operands[0]).iota->dim);
      const Shape& shape = body_.type(op.results[0]).shape;
      if (shape[dim] > 1 && dim + 2 < shape.size())
        return unsupported("{} counts along a batch dimension", body_.tensor(op.results[0]).name);
    } else if (op.kind == OpKind::InIter) {
      const size_t n = input_number(op.operands[0]);
      STRATA_CHECK(batch_stride(body_.type(op.results[0]).shape, strides_[n]));
    } else if (op.kind == OpKind::OutSaver) {
      STRATA_CHECK(batch_stride(body_.type(op.operands[0]).shape, row_major_strides(body_.type(op.results[0]).shape)));
    } else if (multiplies_matrices(op.kind)) {
      for (TensorId id : op.operands) {
        if (!plan(id).loaded && plan(id).dims.batches != plan(op.results[0]).dims.batches) {
          return unsupported("a computed operand of a product is broadcast");
        }
      }
    }
  }
  return {};
}

BlockWork TileBlock::work() const {
  BlockWork work;
  work.iterations = ceil_div(loop_, schedule_.groups());
  work.iteration_bytes = loop_ > 1 ? loads_->stage_bytes() : 0;
  work.ahead = schedule_.stages - 1;
  work.once_bytes = loads_->once_bytes();
  work.partial_bytes = partial_bytes_;
  work.overlaps = ahead_.has_value();
  std::set<TensorId> read;
  for (size_t i = 0; i < body_.operations().size(); ++i) {
    const Operation& op = body_.operations()[i];
    if (op.kind == OpKind::InIter || op.kind == OpKind::OutSaver || is_invariant(op)) continue;
    const bool after = stages_[i] == LoopStage::After;
    for (TensorId id : op.operands) {
      // From shared memory element by element, or rounded for a product.
      constexpr double kRead = 2;
      const bool product = multiplies_matrices(op.kind);
      if (!after && plan(id).loaded) work.read_bytes += read_bytes(op, id);
      if (product == plan(id).loaded || (!product && !read.insert(id).second)) continue;
      (after ? work.elements_after : work.elements) += kRead * static_cast<double>(registers(id, after && after_));
    }
    if (multiplies_matrices(op.kind)) {
      (after ? work.products_after : work.products) += static_cast<double>(instructions(op));
      continue;
    }
    const auto results = static_cast<double>(registers(op.body ? op.results[0] : op.operands[0], after && after_));
    (after ? work.elements_after : work.elements) += operations_of(op) * results;
  }
  return work;
}

double TileBlock::read_bytes(const Operation& op, TensorId id) const {
  constexpr double kWarpsTogether = 4;
  if (is_counted(body_, *producer(id))) return 0;
  const double bytes = static_cast<double>(local(id, false).elements() * size_of(body_.type(id).dtype));
  // Tensor cores read the columns of a wide product once for its four warps.
  return is_wide(op) && local(id, false) == plan(id).dims ? bytes / kWarpsTogether : bytes;
}

int64_t TileBlock::instructions(const Operation& op) const {
  const TileDims dims = local(op.results[0], false);
  const bool transposed = plan(op.results[0]).transposed;
  int64_t depth = 0;
  for (size_t p = 0; p < op.operands.size() / 2; ++p) depth += plan(op.operands[p]).dims.columns;
  return dims.batches * ceil_div(transposed ? dims.columns : dims.rows, 16) *
         ceil_div(transposed ? dims.rows : dims.columns, 8) * (depth / 16);
}

bool TileBlock::takes_place_of_operand(const Operation& op) const {
  if (op.results.size() != 1 || (!op.body && !op_def(op.kind).traits.elementwise)) return false;
  return std::any_of(op.operands.begin(), op.operands.end(), [&](TensorId id) {
    const int producer = body_.tensor(id).producer;
    if (plan(id).loaded || is_invariant(body_.operations()[static_cast<size_t>(producer)])) return false;
    if (registers(id, false) < registers(op.results[0], false)) return false;
    return std::none_of(body_.operations().begin() + (&op - body_.operations().data()) + 1, body_.operations().end(),
                        [&](const Operation& later) {
                          return std::find(later.operands.begin(), later.operands.end(), id) != later.operands.end();
                        });
  });
}

int64_t TileBlock::register_estimate() const {
  constexpr int64_t kAddresses = 40;
  int64_t stay = kept_registers_;
  for (const auto& [id, rows] : rows_) stay += registers(id, false) / 2;  // two elements each
  std::vector<int64_t> passing{0, 0};
  for (size_t i = 0; i < body_.operations().size(); ++i) {
    const Operation& op = body_.operations()[i];
    if (op.kind == OpKind::OutSaver || op.kind == OpKind::InIter || stages_[i] != LoopStage::Body) continue;
    if (takes_place_of_operand(op)) continue;
    for (TensorId id : op.results) {
      if (!op.body && op_def(op.kind).traits.accumulates) {
        stay += registers(id, false);
      } else if (only_accumulator(id) == nullptr || op.body) {
        passing.push_back(registers(id, false));
      }
    }
  }
  std::sort(passing.rbegin(), passing.rend());
  return kAddresses + stay + passing[0] + passing[1];
}

}  // namespace strata
