#include "emitters/block_regions.h"

#include <llvm/ADT/TypeSwitch.h>
#include <mlir/Dialect/Arith/IR/Arith.h>
#include <mlir/Dialect/SCF/IR/SCF.h>
#include <mlir/Dialect/Tensor/IR/Tensor.h>

#include "emitters/dialect/atomic_fetch.h"
#include "emitters/dialect/dialect.h"
#include "emitters/elemental/index_code.h"
#include "emitters/kernel_accesses.h"
#include "indexing/simplify.h"

namespace strata::emitters {
namespace {

namespace scf = mlir::scf;
using indexing::Expr;
using indexing::IndexingMap;
using mlir::Value;

class Regions {
 public:
  Regions(mlir::func::FuncOp kernel, const Launch& launch, const std::vector<hlo::Shape>& arguments)
      : kernel_(kernel), launch_(launch), arguments_(arguments) {}

  std::vector<AccessRegion> run() {
    kernel_.walk([&](mlir::Operation* op) {
      llvm::TypeSwitch<mlir::Operation*>(op)
          .Case([&](mlir::tensor::ExtractOp read) { add(op, read.getTensor(), read.getIndices(), {}, false, true); })
          .Case([&](PredicatedExtractOp read) { add(op, read.getSource(), read.getIndices(), {}, false, false); })
          .Case([&](mlir::tensor::InsertOp write) { add(op, write.getDest(), write.getIndices(), {}, true, true); })
          .Case([&](PredicatedInsertOp write) { add(op, write.getDest(), write.getIndices(), {}, true, false); })
          .Case<AtomicRmwOp, AtomicFetchOp>([&](auto update) {
            for (const bool writes : {false, true}) {
              add(op, update.getDest(), update.getIndices(), update.getValue().getType(), writes, true);
            }
          })
          .Case<LoopOp, scf::ForOp, scf::WhileOp, scf::IfOp, scf::YieldOp, scf::ConditionOp, YieldOp, SyncThreadsOp,
                AllocateSharedOp, mlir::func::ReturnOp>([](auto) {})
          .Default([&](mlir::Operation*) {
            for (const Value operand : op->getOperands()) {
              if (llvm::isa<mlir::RankedTensorType>(operand.getType())) touch(origin_of(operand));
            }
          });
    });
    return std::move(regions_);
  }

 private:
  void add(mlir::Operation* op, Value tensor, mlir::ValueRange indices, mlir::Type value, bool writes, bool exact) {
    const Origin origin = origin_of(tensor);
    if (origin.kind == Origin::Kind::Local) return;
    if (origin.kind == Origin::Kind::Unknown || indices.size() != 1) return touch(origin);
    const auto vector = llvm::dyn_cast_if_present<mlir::VectorType>(value);
    IndexContext context(kernel_, launch_);
    Expr position = context.index_of(indices[0]);
    if (vector) position = position + context.add_range(indexing::below(vector.getNumElements()));
    const bool always = context.enclose(op);
    const hlo::Shape& shape = arguments_[origin.argument];
    AccessRegion region{static_cast<int>(origin.argument), writes, 1, context.domain(), always && exact};
    region.map.results = {position};
    region.map = indexing::simplify(indexing::compose(region.map, index_at_position(shape)));
    if (region.map.known_empty) return;
    keep(std::move(region));
  }

  /// An access of which nothing is known.
  void touch(const Origin& origin) {
    if (origin.kind == Origin::Kind::Local) return;
    for (size_t n = 0; n < arguments_.size(); ++n) {
      if (origin.kind == Origin::Kind::Argument && origin.argument != n) continue;
      IndexingMap map;
      map.dims = {indexing::below(launch_.blocks)};
      map.ranges = indexing::positions(arguments_[n].dims);
      for (size_t d = 0; d < map.ranges.size(); ++d) map.results.push_back(Expr::range(static_cast<int>(d)));
      for (const bool writes : {false, true}) keep({static_cast<int>(n), writes, 1, map, false});
    }
  }

  void keep(AccessRegion region) {
    for (AccessRegion& other : regions_) {
      if (other.argument != region.argument || other.writes != region.writes || other.map != region.map) continue;
      other.exact = other.exact || region.exact;
      return;
    }
    regions_.push_back(std::move(region));
  }

  mlir::func::FuncOp kernel_;
  const Launch& launch_;
  const std::vector<hlo::Shape>& arguments_;
  std::vector<AccessRegion> regions_;
};

}  // namespace

std::vector<AccessRegion> block_regions(mlir::func::FuncOp kernel, const Launch& launch,
                                        const std::vector<hlo::Shape>& arguments) {
  if (launch.blocks == 0) return {};
  return Regions(kernel, launch, arguments).run();
}

}  // namespace strata::emitters
