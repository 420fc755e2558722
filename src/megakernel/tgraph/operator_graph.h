// What a mega-kernel computes in one step, before it is cut into tasks and events: tensors, and operators in program
// order, each of them a grid of tasks with the regions that a task reads and writes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "block/regions.h"
#include "support/error.h"

namespace strata::megakernel {

enum class TensorClass : uint8_t {
  Constant,    ///< written by no task
  History,     ///< what is read of it was written by earlier steps; tasks may write other rows, or update it after
  Activation,  ///< written by tasks of this step
  /// Filled anew for each step before it begins, by no task: embeddings of the tokens, cosines and sines of the
  /// positions, the mask. Brought like activations, in the step: loads that run ahead would find the step before's.
  StepInput,
};

/// A tensor as tasks of one step read and write it. (strata::Tensor holds values.)
struct StepTensor {
  std::string name;
  std::vector<int64_t> shape;
  int64_t element_bytes = 2;
  TensorClass kind = TensorClass::Activation;
  bool untagged = false;  ///< an activation that lies in memory as it is: counters hand it over, never tagged words
  /// Tensors of one buffer share memory, from its beginning: a later one may only be written when the earlier one has
  /// been read. −1: memory of its own.
  int buffer = -1;
};

/// What the tasks of an operator touch of a tensor. Dimensions of the map are the grid's coordinates, and the iteration
/// where there is one; its results are indices in the tensor's shape. The region's `argument` says nothing here.
struct Access {
  int tensor = 0;
  AccessRegion region;
};

/// Of one task.
struct TaskCost {
  int64_t constant_bytes = 0;  ///< that it streams from device memory: constants and history
  double seconds = 0;          ///< of computing, from active events to the signal, if all constants are there already
  int64_t stages = 0;          ///< of the ring that its constants fill, one after the other
  int64_t stage_bytes = 0;     ///< of each, a multiple of 16
  int64_t scratch_bytes = 0;   ///< of the worker's scratch memory
};

struct Operator {
  std::string name;
  std::string function;       ///< name of the block function
  std::vector<int64_t> grid;  ///< one to three sizes, each at least 1
  std::vector<Access> reads;
  std::vector<Access> writes;
  bool data_dependent = false;  ///< how long its tasks take depends on values, such as which expert a token goes to
  TaskCost cost;
};

struct OperatorGraph {
  std::string name;
  std::vector<StepTensor> tensors;
  std::vector<Operator> operators;  ///< in program order: what is read was written by the operators before
};

/// Checks what the compiler relies on. Errors (InvalidInput) name operator and tensor:
/// - names are there and differ, shapes and grids are positive, maps fit grids and shapes and stay inside;
/// - tasks of an operator write disjoint elements, and none reads what another of the same operator writes;
/// - activations that are read have been written by operators before, every element of them;
/// - constants and inputs of the step are never written, and history is not read after what is read was written,
/// - of tensors that share memory only the one is read that was written last, and not by an operator that writes
/// another. Program order is an order of execution, so there is no cycle.
Result<void> validate(const OperatorGraph& graph);

}  // namespace strata::megakernel
