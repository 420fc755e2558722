// A computation cut into functions of indices, so that code for it is linear in its size.
#pragma once

#include "hlo/indexing/operand_maps.h"
#include "indexing/map_checks.h"

namespace strata::indexing {

/// One of the values that a function returns: of an instruction of its own, of one of its callees, or an array at hand.
struct FunctionResult {
  hlo::InstructionId instruction = 0;
  IndexingMap index;  ///< from the function's indices to the instruction's
};

/// A function (all parameters of the computation, one index for each of `indices`, a scalar for each of `injected`) ->
/// a scalar for each of `results`; for each element of a result that is a tuple.
struct Function {
  std::string name;
  std::vector<Interval> indices;  ///< of the first result's dimensions
  std::vector<FunctionResult> results;
  std::vector<hlo::InstructionId> instructions;  ///< that it computes itself, operands before users
  std::vector<hlo::InstructionId> injected;      ///< heroes that it or its callees use, whose values its caller has
  std::vector<int> callees;                      ///< the functions whose results it uses otherwise
};

struct FunctionPartition {
  std::vector<Function> functions;  ///< callers before their callees; the first ones return the root
  /// For each instruction its function; -1 for parameters and constants, which every function has at hand, for tuples,
  /// which are no code, and for what the root does not use.
  std::vector<int> function_of;
  /// From the indices of its function to those of the instruction (of its first element, if it is a tuple).
  std::vector<IndexingMap> index_of;
  /// For each array of the root, in order: its function and the number among that function's results.
  struct RootValue {
    int function = 0;
    int result = 0;
  };
  std::vector<RootValue> roots;
};

struct PartitionOptions {
  /// Instructions whose values an emitter computes by itself (a reduction, a transpose): each is the only instruction
  /// of its function, and is injected into its users' functions. What such users compute after it is its epilogue.
  std::vector<hlo::InstructionId> heroes;
  int max_instructions = 2000;  ///< of one function
  /// Of the map from a function's indices to an instruction's (IndexingMap::cost). Reshapes and transposes in turn,
  /// none of which undoes another, would double it with each: there it is cheaper to pass the index on as arguments.
  int64_t max_index_cost = 300;
  /// A number for each array of the root's tuple: only those with the same number may be results of one function.
  /// Empty: all may.
  std::vector<int> root_groups;
};

/// Every instruction that the root uses goes into exactly one function. It joins its users' function if all of them are
/// in the same one and read it at the same index, by equal simplified maps, under the same conditions (pad,
/// concatenate, dynamic-update-slice, scatter and windows read only where there is something to read), each once and no
/// more. Else it starts a function of its own. Arrays of the root with as many elements as the first one are results of
/// one function.
///
/// Time is linear in the number of operands: there is one map for each instruction. Error (Unsupported) for tuples of
/// arrays of different sizes other than at the root, and where operand_reads has one.
Result<FunctionPartition> partition_functions(const hlo::Module& module, hlo::ComputationId computation,
                                              const PartitionOptions& options = {});

/// Whether no instruction reads outside of its operands' shapes, in any function, for any indices in the ranges that
/// its caller may give: so with reads of the first functions' indices in bounds all are. Names the first read that is
/// not proved.
Result<Verdict> reads_in_bounds(const hlo::Module& module, hlo::ComputationId computation,
                                const FunctionPartition& partition);

/// `fused_add(p0: f32[8,16], p1: f32[16], d0 in [0, 7], d1 in [0, 15], reduce.1: f32) -> (f32): add.3, exp.2`.
std::string signature(const hlo::Computation& computation, const Function& function);

}  // namespace strata::indexing
