#include "emitters/overwrites.h"

#include <llvm/ADT/TypeSwitch.h>
#include <mlir/Dialect/SCF/IR/SCF.h>
#include <mlir/Dialect/Tensor/IR/Tensor.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "emitters/dialect/atomic_fetch.h"
#include "emitters/dialect/dialect.h"
#include "emitters/kernel_accesses.h"
#include "indexing/expr_range.h"
#include "indexing/map_checks.h"
#include "indexing/simplify.h"

namespace strata::emitters {
namespace {

namespace scf = mlir::scf;
using indexing::Expr;
using indexing::ExprRange;
using indexing::IndexingMap;
using mlir::Operation;
using mlir::Value;

/// An operation that reads or writes one element.
struct Access {
  Operation* op = nullptr;
  Value index;
};

/// What a kernel does with each of its arguments.
class Accesses {
 public:
  explicit Accesses(mlir::func::FuncOp kernel) {
    kernel.walk([&](Operation* op) {
      llvm::TypeSwitch<Operation*>(op)
          .Case([&](mlir::tensor::ExtractOp read) { add(reads, op, read.getTensor(), read.getIndices()); })
          .Case([&](PredicatedExtractOp read) { add(reads, op, read.getSource(), read.getIndices()); })
          .Case([&](mlir::tensor::InsertOp write) { add(writes, op, write.getDest(), write.getIndices()); })
          .Case<LoopOp, scf::ForOp, scf::WhileOp, scf::IfOp, scf::YieldOp, scf::ConditionOp, YieldOp, SyncThreadsOp,
                AllocateSharedOp, mlir::func::ReturnOp>([](auto) {})
          .Default([&](Operation*) {
            for (const Value operand : op->getOperands()) {
              if (llvm::isa<mlir::RankedTensorType>(operand.getType())) touch(origin_of(operand));
            }
          });
    });
  }

  /// Whether all that is done with it is known.
  bool knows(size_t argument) const { return !all_touched_ && !touched_.contains(argument); }

  std::map<size_t, std::vector<Access>> reads, writes;  ///< by argument

 private:
  void add(std::map<size_t, std::vector<Access>>& to, Operation* op, Value tensor, mlir::ValueRange indices) {
    const Origin origin = origin_of(tensor);
    if (origin.kind == Origin::Kind::Argument && indices.size() == 1)
      to[origin.argument].push_back({op, indices[0]});
    else
      touch(origin);
  }

  void touch(const Origin& origin) {
    if (origin.kind == Origin::Kind::Argument) touched_.insert(origin.argument);
    if (origin.kind == Origin::Kind::Unknown) all_touched_ = true;
  }

  std::set<size_t> touched_;
  bool all_touched_ = false;
};

/// Whether the writes, over all threads, write each of so many elements once.
bool write_once(mlir::func::FuncOp kernel, const Launch& launch, const std::vector<Access>& writes, int64_t elements) {
  std::vector<std::pair<int64_t, IndexingMap>> maps;  // by the first position that is written
  for (const Access& write : writes) {
    IndexContext context(kernel, launch);
    context.thread();  // which counts where the index does not have it, too
    const Expr position = context.index_of(write.index);
    if (!context.enclose(write.op)) return false;
    IndexingMap map = context.domain();
    map.results = {position};
    map = indexing::simplify(map, indexing::UnusedVariables::Keep);
    if (map.known_empty) continue;
    const int64_t first = ExprRange(map, ExprRange::Facts::VariablesAndConstraints)(map.results[0]).lo;
    maps.emplace_back(first, std::move(map));
  }
  std::ranges::sort(maps, {}, [](const auto& one) { return one.first; });
  if (maps.empty() || maps[0].first != 0) return elements == 0;
  for (size_t i = 0; i < maps.size(); ++i) {
    auto& [first, map] = maps[i];
    const int64_t end = i + 1 < maps.size() ? maps[i + 1].first : elements;
    map.results[0] = map.results[0] - first;
    if (end <= first || !indexing::writes_bijectively(map, {end - first}).proved()) return false;
  }
  return true;
}

/// The loops around an operation; nothing where there is another kind of loop.
std::optional<std::vector<Operation*>> loops_around(Operation* op) {
  std::vector<Operation*> loops;
  for (Operation* around = op->getParentOp(); !llvm::isa<mlir::func::FuncOp>(around); around = around->getParentOp()) {
    if (llvm::isa<LoopOp>(around))
      loops.push_back(around);
    else if (!llvm::isa<scf::IfOp>(around))
      return std::nullopt;
  }
  return loops;
}

/// Whether each thread that reads an element writes the same position next, in the same pass of the same loops.
bool read_just_before(mlir::func::FuncOp kernel, const Launch& launch, const Access& read, const Access& write) {
  const auto loops = loops_around(read.op);
  if (!loops || loops != loops_around(write.op)) return false;
  Operation* reader = write.op->getBlock()->findAncestorOpInBlock(*read.op);
  if (reader == nullptr || !reader->isBeforeInBlock(write.op)) return false;
  IndexContext context(kernel, launch);
  const std::vector<Expr> positions{context.index_of(read.index), context.index_of(write.index)};
  context.enclose(write.op);
  IndexingMap map = context.domain();
  map.results = positions;
  map = indexing::simplify(map, indexing::UnusedVariables::Keep);
  return map.known_empty || map.results[0] == map.results[1];
}

class Overwrites {
 public:
  Overwrites(const std::vector<mlir::func::FuncOp>& kernels, const std::vector<Launch>& launches)
      : kernels_(kernels), launches_(launches) {
    for (const mlir::func::FuncOp kernel : kernels) accesses_.emplace_back(kernel);
  }

  bool possible(size_t input, size_t output) const {
    bool written = false;
    for (size_t k = 0; k < kernels_.size(); ++k) {
      if (launches_[k].blocks == 0) continue;
      const Accesses& of = accesses_[k];
      if (!of.knows(input) || !of.knows(output) || of.writes.contains(input) || of.reads.contains(output)) return false;
      const bool reads = of.reads.contains(input), writes = of.writes.contains(output);
      if (reads && written) return false;
      if (reads && writes && !in_one_pass(k, input, output)) return false;
      written |= writes;
    }
    return written;
  }

 private:
  bool in_one_pass(size_t k, size_t input, size_t output) const {
    mlir::func::FuncOp kernel = kernels_[k];
    const std::vector<Access>& writes = accesses_[k].writes.at(output);
    const auto type = llvm::cast<mlir::RankedTensorType>(kernel.getArgument(static_cast<unsigned>(output)).getType());
    const auto is_over_its_own = [&](const Access& read) {
      return std::ranges::any_of(
          writes, [&](const Access& write) { return read_just_before(kernel, launches_[k], read, write); });
    };
    return std::ranges::all_of(accesses_[k].reads.at(input), is_over_its_own) &&
           write_once(kernel, launches_[k], writes, type.getNumElements());
  }

  const std::vector<mlir::func::FuncOp>& kernels_;
  const std::vector<Launch>& launches_;
  std::vector<Accesses> accesses_;
};

}  // namespace

std::vector<Overwrite> possible_overwrites(const std::vector<mlir::func::FuncOp>& kernels,
                                           const std::vector<Launch>& launches, size_t inputs, size_t outputs) {
  std::vector<Overwrite> possible;
  if (kernels.empty()) return possible;
  const Overwrites overwrites(kernels, launches);
  const auto type_of = [&](size_t argument) {
    return mlir::func::FuncOp(kernels[0]).getArgument(static_cast<unsigned>(argument)).getType();
  };
  for (size_t output = 0; output < outputs; ++output) {
    for (size_t input = 0; input < inputs; ++input) {
      if (type_of(input) != type_of(inputs + output)) continue;
      if (overwrites.possible(input, inputs + output))
        possible.push_back({static_cast<int>(output), static_cast<int>(input)});
    }
  }
  return possible;
}

}  // namespace strata::emitters
