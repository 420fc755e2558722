// What the cost model needs to know of a kernel, without a module of its own.
#pragma once

#include <span>
#include <vector>

#include "emitters/fusion/pass.h"
#include "hlo/hlo.h"
#include "hlo/indexing/evaluations.h"
#include "hlo/indexing/operand_maps.h"
#include "machine/target.h"

namespace strata::emitters {

/// Where the elements of an array lie; nothing of a tuple.
struct ArrayInMemory {
  std::vector<int64_t> dims{};
  std::vector<int64_t> minor_to_major{};
  std::vector<int64_t> strides{};  ///< by dimension, in elements
  int64_t element_bytes = 1;
};
ArrayInMemory array_in_memory(const hlo::Shape& shape);

/// Whether an instruction reads less than all of some operand, and whether it reads one across, where threads take
/// what lies together in its result: then a line of the operand has only few of the elements that a warp asks for.
struct TileTraits {
  bool takes_part = false;
  bool turns = false;
};

/// What an instruction adds to a kernel's work: the same wherever it stands with operands of these shapes.
struct PricedInstruction {
  indexing::CountedInstruction counted;
  double operations = 0;     ///< of an element
  double code = 0;           ///< the same, as they stand in a kernel's code
  double bytes = 0;          ///< of the whole value
  double element_bytes = 0;  ///< of an element of an array
  int widest = 0;            ///< bytes of an element of its widest array
  bool spreads = false;      ///< elements beside each other in memory are the same
  bool passes_on = false;    ///< if its elements beside each other are the same, so are those it reads
  size_t permutation = 0;    ///< of a transpose worth a tile: a number that others have that permute alike; else 0
  double update_microseconds = 0;  ///< of a scatter in place: what its atomic updates take
  ArrayInMemory array{};
  indexing::SharedReads maps{};  ///< of what it reads; none where values are tuples, or where they are not known
  TileTraits tiles{};
};
PricedInstruction priced_instruction(const hlo::Module& module, hlo::ComputationId computation,
                                     hlo::InstructionId instruction, const Target& target);

/// The instructions of a kernel, operands before users: ids are places here.
struct PricedKernel {
  std::vector<const PricedInstruction*> instructions;  ///< which outlive this
  indexing::CountedGraph graph{};                      ///< of the same instructions

  void add(const PricedInstruction& instruction, std::span<const hlo::InstructionId> operands) {
    instructions.push_back(&instruction);
    graph.add(instruction.counted, operands);
  }
  void clear() {
    instructions.clear();
    graph.clear();
  }
};

/// What threads of a kernel compute together: its reductions, scans and products.
struct ComputedOnce {
  std::vector<hlo::InstructionId> instructions{};
  std::vector<int> passes{};                 ///< as Decision::passes
  std::vector<hlo::InstructionId> staged{};  ///< as Decision::staged
  std::vector<hlo::InstructionId> apart{};   ///< as Decision::apart
  double threads = 0, blocks = 0;            ///< of the launch, where there are such instructions
  double threads_of_rows = 1;                ///< that compute each element of a product's rows
  double operations = 0;                     ///< of products
  double crowding = 1;                       ///< what the other operations take, times what they take in a loop
  double cache_bytes = 0;                    ///< beside the elements of products' rows
  bool is_serial = false;                    ///< KernelWork::serial
  int64_t fills = 0;                         ///< KernelWork::fills
};

/// Work of a kernel; without `together`, of one that has no reductions, scans or products.
KernelWork kernel_work(const PricedKernel& kernel, const ComputedOnce& together = {});
/// What a kernel takes that does so much.
KernelTime time_of_work(const KernelWork& work, const Target& target);

}  // namespace strata::emitters
