// Operators that read where a condition on the index holds: pad, concatenate, dynamic-update-slice.
#include <mlir/Dialect/Arith/IR/Arith.h>
#include <mlir/Dialect/SCF/IR/SCF.h>

#include "emitters/elemental/function_emitter.h"
#include "emitters/elemental/types.h"
#include "indexing/expr_range.h"
#include "indexing/simplify.h"

namespace strata::emitters {
namespace {

/// Which part of the points of a map's domain satisfies all of these, about.
double share_of(const indexing::IndexingMap& map, const std::vector<indexing::Constraint>& tests) {
  indexing::ExprRange ranges(map);
  double share = 1;
  for (const indexing::Constraint& test : tests) {
    const indexing::Interval possible = ranges(test.expr);
    const indexing::Interval kept = intersect(possible, test.bounds);
    share *= kept.empty() ? 0 : static_cast<double>(kept.size()) / static_cast<double>(possible.size());
  }
  return share;
}

}  // namespace

using hlo::InstructionId;
using indexing::IndexingMap;
using mlir::Value;

Result<Value> FunctionEmitter::guarded(InstructionId instruction, const IndexingMap& map, mlir::Type type,
                                       const Branch& then, const Branch& otherwise) {
  const IndexingMap& index = fusion_.partition().index_of[static_cast<size_t>(instruction)];
  const IndexingMap narrowed = composed(instruction, map);
  if (narrowed.known_empty) return otherwise();
  std::vector<indexing::Constraint> tests = indexing::guards(narrowed, index.dims, index.ranges);
  std::erase_if(tests, [&](const indexing::Constraint& test) {
    return std::find(index.constraints.begin(), index.constraints.end(), test) != index.constraints.end();
  });
  if (tests.empty()) return then();
  // The ranges that the tests establish are not known while they are computed.
  IndexingMap tested = narrowed;
  tested.dims = index.dims;
  tested.constraints.clear();
  STRATA_TRY(const MapValues values, variables(tested, {}));
  const Value condition = constraints_hold(builder_, tested, tests, values);
  auto branches = builder_.create<mlir::scf::IfOp>(mlir::TypeRange(type), condition, /*withElse=*/true);
  branches->setAttr("strata.share", builder_.getF64FloatAttr(share_of(tested, tests)));
  const auto emit = [&](mlir::Region& region, const Branch& branch) -> Result<void> {
    mlir::OpBuilder::InsertionGuard guard(builder_);
    builder_.setInsertionPointToStart(&region.front());
    scopes_.emplace_back();
    Result<Value> value = branch();
    scopes_.pop_back();
    if (!value) return tl::unexpected(std::move(value).error());
    builder_.create<mlir::scf::YieldOp>(*value);
    return {};
  };
  STRATA_CHECK(emit(branches.getThenRegion(), then));
  STRATA_CHECK(emit(branches.getElseRegion(), otherwise));
  return branches.getResult(0);
}

Result<Value> FunctionEmitter::pad(InstructionId id) {
  const mlir::Type type = element_type(builder_.getContext(), computation_[id].shape.type);
  STRATA_TRY(const std::vector<indexing::Read> reads, reads_of(id));
  if (reads.size() == 1 && reads[0].operand == 1) return read(id, 1);  // nothing but padding
  return guarded(
      id, reads[0].maps[0], type, [&] { return read(id, reads[0], reads[0].maps[0]); }, [&] { return read(id, 1); });
}

Result<Value> FunctionEmitter::concatenate(InstructionId id) {
  const mlir::Type type = element_type(builder_.getContext(), computation_[id].shape.type);
  STRATA_TRY(std::vector<indexing::Read> reads, reads_of(id));
  // An operand without elements is read nowhere.
  std::erase_if(reads, [](const indexing::Read& read) { return read.maps.empty() || read.maps[0].known_empty; });
  if (reads.empty()) return no_code(id);
  // A tree of branches, so that the last of n operands is log n tests away.
  const std::function<Result<Value>(size_t, size_t)> from = [&](size_t first, size_t last) -> Result<Value> {
    if (first == last) return read(id, reads[first], reads[first].maps[0]);
    const size_t middle = (first + last) / 2;
    // Whether the index lies in the operands up to the middle one: where that one's elements end.
    const auto d = static_cast<size_t>(computation_[id].dimensions()[0]);
    int64_t end = 0;
    for (int i = 0; i <= reads[middle].operand; ++i) {
      end += computation_.operand_shape(computation_[id], static_cast<size_t>(i)).dims[d];
    }
    IndexingMap map = indexing::identity_map(computation_[id].shape.dims);
    map.constraints.push_back({map.results[d], {0, end - 1}});
    return guarded(
        id, map, type, [&] { return from(first, middle); }, [&] { return from(middle + 1, last); });
  };
  return from(0, reads.size() - 1);
}

Result<Value> FunctionEmitter::dynamic_update_slice(InstructionId id) {
  const mlir::Type type = element_type(builder_.getContext(), computation_[id].shape.type);
  STRATA_TRY(const std::vector<indexing::Read> reads, reads_of(id));
  for (const indexing::Read& update : reads) {
    if (update.operand != 1) continue;
    if (update.maps.empty() || update.maps[0].known_empty) break;
    return guarded(
        id, update.maps[0], type, [&] { return read(id, update, update.maps[0]); }, [&] { return read(id, 0); });
  }
  return read(id, 0);
}

}  // namespace strata::emitters
