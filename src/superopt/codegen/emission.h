// Kernels for what no µGraph computes: predefined operators that move elements, compute each by itself, or reduce them,
// many in one kernel, and products by libraries with what these need before and after. Who writes them stands above
// code generation (compiler/fusion_kernels.h), and is handed down.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "block/regions.h"
#include "ir/graph.h"
#include "machine/target.h"
#include "runtime/launch_manifest.h"
#include "support/deadline.h"

namespace strata {

/// A block function (block_code.h) as text of a translation unit, for a GPU and for the host, and the launch that runs
/// it.
struct EmittedKernel {
  std::string name;                     ///< of the function
  std::string text;                     ///< its definition
  std::vector<std::string> parameters;  ///< types and names
  std::vector<std::string> arguments;   ///< buffers, in the same order
  int64_t blocks = 1;
  int64_t threads = 1;
  int64_t shared_bytes = 0;
  double seconds = 0;                   ///< estimated
  double device_bytes = 0;              ///< that memory moves for it
  std::vector<AccessRegion> regions{};  ///< by block, where the text is wanted; empty where they are not known
  std::vector<ArrayType> types{};       ///< of the arguments, as regions have their indices
  std::optional<LibraryWork> library;   ///< what a library computes in place of a function; the result's buffer is last
};

/// Kernels, in order, that together do the work of some operators of a kernel graph. No path leaves those and comes
/// back.
struct EmittedGroup {
  struct Buffer {
    std::string name;
    TensorType type;
  };
  std::vector<size_t> operations;  ///< ascending
  std::vector<EmittedKernel> kernels;
  std::vector<Buffer> buffers;    ///< what lies between them and is no tensor of the graph
  std::vector<TensorId> results;  ///< tensors of the operators that are written to memory
};

/// Whether kernels are wanted with their text, or only for what they cost.
enum class KernelText { Wanted, Left };

class KernelEmitter {
 public:
  virtual ~KernelEmitter() = default;

  /// Groups of those operations that are `free`. Others keep their own kernels, as those do for which there is no
  /// kernel, or none that the model rates faster than their own. `views` are read where they lie (ir/views.h): they are
  /// no work. `starts` are, by result, the indices from which on concatenations are stored, row-major: along their
  /// dimension, at most the size of their first operand.
  virtual std::vector<EmittedGroup> emit(const Graph& graph, const std::vector<bool>& free,
                                         const std::vector<bool>& views, const std::map<TensorId, int64_t>& starts,
                                         const Target& target, KernelText text) const = 0;

  /// The same, but once the deadline has passed it groups only what it has made before.
  virtual std::shared_ptr<const KernelEmitter> until(const Deadline& deadline) const = 0;
  /// Whether it left operations alone because its deadline had passed.
  virtual bool ran_out() const = 0;
};

}  // namespace strata
