// The passes of docs/emitters.md: from functions over tensors and indices to the LLVM dialect. Each is a function on a
// module, and one file; pipeline.h runs them in order.
#pragma once

#include <mlir/IR/BuiltinOps.h>
#include <mlir/Pass/Pass.h>

#include <span>

namespace strata::emitters {

enum class Processor { Gpu, Cpu };

struct LoweringOptions {
  Processor processor = Processor::Cpu;
  int max_vector_bytes = 16;       ///< of one load or store
  int max_inline_operations = 12;  ///< of a function that goes into more than one caller
  int max_inline_reader = 64;      ///< operations of such a function that reads arrays and is called at few places
  int max_unroll = 8;              ///< iterations of a loop that disappears whatever its size
  int registers = 64;              ///< 32-bit values that unrolling may keep alive
  /// Whether products and sums may become fused multiply-adds: then results differ from the interpreter's.
  bool allow_fma = false;
};

using PassFunction = mlir::LogicalResult (*)(mlir::ModuleOp, const LoweringOptions&);

/// Failures have been reported as diagnostics; only atomic updates that no hardware has, and IR that does not follow
/// the conventions, fail.
mlir::LogicalResult inline_functions(mlir::ModuleOp module, const LoweringOptions& options);
mlir::LogicalResult simplify_indexing(mlir::ModuleOp module, const LoweringOptions& options);
mlir::LogicalResult split_loops(mlir::ModuleOp module, const LoweringOptions& options);
mlir::LogicalResult lower_loops(mlir::ModuleOp module, const LoweringOptions& options);
mlir::LogicalResult hoist_loops(mlir::ModuleOp module, const LoweringOptions& options);
mlir::LogicalResult vectorize(mlir::ModuleOp module, const LoweringOptions& options);
mlir::LogicalResult unroll(mlir::ModuleOp module, const LoweringOptions& options);
mlir::LogicalResult lower_shuffles(mlir::ModuleOp module, const LoweringOptions& options);
mlir::LogicalResult flatten_branches(mlir::ModuleOp module, const LoweringOptions& options);
mlir::LogicalResult lower_tensors(mlir::ModuleOp module, const LoweringOptions& options);
mlir::LogicalResult lower_indexing(mlir::ModuleOp module, const LoweringOptions& options);
mlir::LogicalResult expand_floats(mlir::ModuleOp module, const LoweringOptions& options);
mlir::LogicalResult to_llvm(mlir::ModuleOp module, const LoweringOptions& options);

struct PassEntry {
  const char* name;
  const char* description;
  PassFunction run;
};

/// All of them, in the order in which they first run.
std::span<const PassEntry> lowering_passes();

std::unique_ptr<mlir::Pass> create_pass(const PassEntry& entry, const LoweringOptions& options);

/// Makes the passes known by their names to mlir-opt's command line, for the CPU as "NAME" and for the GPU as
/// "NAME-gpu".
void register_passes();

/// The dialects that emitters make and passes go through.
void register_dialects(mlir::DialectRegistry& registry);

}  // namespace strata::emitters
