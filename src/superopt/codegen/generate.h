// CUDA C++ from µGraphs, first version: correct for every legal graph, not yet fast.
//
// Every operator of the kernel graph becomes a block function
//     block_N(arguments, x, y, z, shared memory)
// and a kernel that calls it. Later the same function runs as a task of a mega-kernel. A block tensor has a place of
// its own in shared memory (ir/validate.h counts them): tiles as they lie in device memory, computed tensors in float
// (double for f64). Operators run in order of their depth, with one barrier where the depth changes.
// Predefined operators of the kernel graph become one thread an element, on device memory.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/views.h"
#include "machine/target.h"
#include "runtime/launch_manifest.h"
#include "superopt/codegen/block_code.h"
#include "superopt/codegen/passes.h"
#include "superopt/optimize/cost.h"

namespace strata {

class KnownSchedules;  // known_schedules.h

/// A block function that others than its own kernel can call.
struct BlockTask {
  std::string name;
  std::string math;  ///< its numeric policy
  int64_t team = 0;  ///< threads
  std::optional<RingPlan> ring;
  int64_t scratch_bytes = 0;
};

/// A launch of a generated program: what the runtime does, and how the kernel calls its function.
struct KernelLaunch : GpuLaunch {
  int64_t split = 1;              ///< blocks of a cluster that do the work of one block of the graph
  size_t along_x = 0;             ///< dimension of the graph's grid that lies along x; x lies along it
  int64_t resident_blocks = 0;    ///< BlockCode::resident_blocks
  std::string function;           ///< what a block calls: with arguments, tensor maps, coordinates and shared memory
  std::string preparation;        ///< what it calls first, with the shared memory; empty: nothing
  bool predefined = false;        ///< the function takes the arguments alone: no coordinates, no shared memory
  LayoutSearch layouts;           ///< of the block function
  std::optional<BlockTask> task;  ///< the function that its blocks run, where it is one
  /// `function` for the first `threads` threads of a larger block, which meet at barriers after the block's own; empty
  /// where there is no such function.
  std::string part_function;
  std::vector<std::string> types;       ///< of its arguments: pointers, to const where it only reads
  std::vector<std::string> parameters;  ///< names of these in the kernel
  int64_t own_shared_bytes = 0;         ///< of shared_bytes, those that it uses
  int64_t registers = 0;                ///< BlockCode::registers
  double seconds = 0;                   ///< estimated
  int parts = 1;                        ///< independent kernels that share it
  double device_bytes = 0;              ///< that memory moves for it
  /// What its blocks touch, by their numbers along x, y and z (block_accesses.h); empty where it is not known.
  std::vector<GpuAccess> block_accesses;

  /// The coordinates of the graph's block, from expressions for those of the launch's.
  std::string coordinates(std::array<std::string, 3> at) const;
};

struct DeviceBuffer {
  std::string name;
  TensorType type;
};

struct GeneratedProgram {
  std::string source;  ///< one self-contained translation unit: the device library, then the kernels
  std::vector<DeviceBuffer> inputs;
  std::vector<DeviceBuffer> outputs;
  std::vector<DeviceBuffer> intermediates;
  std::vector<DeviceBuffer> counters;  ///< 0 before the first run, and after each; their type only says how many bytes
  std::vector<KernelLaunch> launches;  ///< in order, each after the one before it
  std::vector<EmittedGroup> emitted;   ///< whose kernels are among them
  CostEstimate saved;                  ///< by launches that independent kernels share (grouping.h)
};

/// An estimate of a graph (scheduled_cost), as its program was generated: with emitted kernels and shared launches.
CostEstimate generated_cost(CostEstimate cost, const Graph& graph, const Target& target,
                            const GeneratedProgram& program);

/// What a program needs at run time beside the driver: "cuBLASLt: f16 2048×2048×2048, algorithm 0", each library once
/// with all its work; empty where nothing.
std::string needed_libraries(const GeneratedProgram& program);

/// How the operands of an operator lie in device memory: strides in elements.
OperandPlaces operand_strides(const Graph& graph, const Operation& op);
/// Where all tensors lie (memory_views), for many operators of one graph.
OperandPlaces operand_strides(const std::vector<MemoryView>& lies, const Operation& op);

/// Schedules of a block graph that are worth trying, the best guess first. Empty where only the emitter that takes
/// every legal graph takes it: that has none.
std::vector<BlockSchedule> block_schedules(const Operation& op, const OperandPlaces& strides, const Target& target);

/// One for each operator of a kernel graph; nothing where the emitter's own choice is wanted, which is generated code.
using Schedules = std::vector<std::optional<BlockSchedule>>;

/// The block function of the emitter that works in registers and takes the block: tiles, else rows. Error (Unsupported)
/// with the reason of the second where neither does.
Result<BlockCode> emit_in_registers(const Operation& op, const std::string& name, const OperandPlaces& strides,
                                    const BlockSchedule& schedule, const Target& target);

/// A block function with a schedule, or with the emitters' own choice, and its estimated time.
struct ScheduledBlock {
  BlockCode code;
  BlockSchedule schedule;
  double seconds = 0;
};
/// Error (Unsupported) where the emitters that work in registers do not take the block.
Result<ScheduledBlock> describe_schedule(const Graph& graph, const Operation& op, std::optional<BlockSchedule> schedule,
                                         const Target& target);

/// What a kernel graph costs: its block graphs with schedules (schedule_cost.h), the emitters' own where none is given,
/// work of libraries as in libraries.h, everything else as in optimize/cost.h.
CostEstimate scheduled_cost(const Graph& graph, const Target& target, const Schedules& schedules = {});
/// The same with the emitters' own choices.
CostEstimate scheduled_cost(const Graph& graph, KnownSchedules& known);

/// The same with the kernels that emitters would write, which are planned and not written.
CostEstimate emitted_cost(const Graph& graph, const Target& target, const Schedules& schedules, const Passes& passes);

/// Error (Unsupported) where a block does not fit the target's shared memory, or no library takes an operator that the
/// schedules give to one.
Result<GeneratedProgram> generate_cuda(const Graph& graph, const Target& target, const Schedules& schedules = {},
                                       const Passes& passes = {});

/// Whether a manifest says what launches touch. What measures them needs it not, nor do the keys of its results.
enum class ManifestAccesses : uint8_t { Said, Left };

/// What a runner needs beside the cubin (runtime/launch_manifest.h). Buffers are listed once: an output that is an
/// input is listed as an input.
std::string launch_manifest(const GeneratedProgram& program, ManifestAccesses accesses = ManifestAccesses::Said);

/// A host program of the same source: reads the inputs as raw files in the order of `inputs` from its arguments, runs
/// all launches, none of which may be a library's, and writes the outputs to the files named after them. For
/// tests, under a sanitizer.
std::string host_program(const GeneratedProgram& program);

}  // namespace strata
