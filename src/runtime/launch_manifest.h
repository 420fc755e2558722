// A compiled program as plain values (best.launch.json, program.json): buffers and the steps that work on them. Those
// who generate code make it, gpu_program.h runs it. docs/runtime.md has the format on disk.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "indexing/indexing_map.h"
#include "ops/types.h"
#include "runtime/cuda_driver.h"
#include "runtime/library_work.h"

namespace strata {

enum class BufferRole : uint8_t {
  Input,         ///< the caller's
  Intermediate,  ///< nothing before a run and nothing after it
  Counters,      ///< 0 before the first run, and after each
  Output,        ///< the caller's after a run
  Constant,      ///< has its bytes from the beginning, and is never written
  Carried,       ///< of a loop: in each iteration it lies where the loop says
};

/// The elements of an array by the name of their type, as HLO and the IR write it ("f32", "pred"), and its sizes.
struct ArrayType {
  std::string element = "f16";
  int64_t element_bytes = 2;
  Shape shape;                            ///< sizes from 0
  std::vector<int64_t> minor_to_major{};  ///< the dimensions from the innermost in memory; empty: row-major

  ArrayType() = default;
  ArrayType(const TensorType& type);  // NOLINT(google-explicit-constructor): a tensor of the IR is one
  ArrayType(std::string name, int64_t bytes, Shape sizes, std::vector<int64_t> layout = {})
      : element(std::move(name)), element_bytes(bytes), shape(std::move(sizes)), minor_to_major(std::move(layout)) {}

  int64_t bytes() const { return element_count(shape) * element_bytes; }
  /// Error (Unsupported) where the IR has no such elements.
  Result<TensorType> tensor() const;
  friend bool operator==(const ArrayType&, const ArrayType&) = default;
};

/// "f16[16, 1024]".
std::string to_string(const ArrayType& type);

struct GpuBuffer {
  std::string name;
  BufferRole role = BufferRole::Input;
  ArrayType type;
  /// Bytes from the start of the memory that all constants share, or of the one that all others with an offset share.
  /// Without one, and where it lies_in no other, it has memory of its own.
  std::optional<int64_t> offset{};
  /// The buffer in whose memory it lies, from its first byte: what was written over, or is to be.
  std::string lies_in{};
};

/// A tensor as TMA takes boxes from it: dimensions innermost first.
struct GpuTensorMap {
  size_t argument = 0;           ///< of the launch: where the tensor lies
  int64_t element_bytes = 2;     ///< 2 or 4
  std::vector<int64_t> sizes;    ///< elements
  std::vector<int64_t> strides;  ///< bytes; the first is that of an element
  std::vector<int64_t> box;      ///< elements
  int64_t swizzle = 0;           ///< bytes: 0, 32, 64, 128
};

/// Whose an argument's elements are.
enum class ArgumentClass : uint8_t {
  Constant,    ///< weights, tables, inputs that nothing of the program writes: they may be read before the launch waits
  Activation,  ///< made in this run
  State,       ///< left by an earlier run, token or iteration, and written in this one: caches, counters, loops' arrays
};

/// What the blocks of a launch touch of an argument.
struct GpuAccess {
  size_t argument = 0;
  bool writes = false;
  bool exact = true;          ///< else less is touched: conditions that the map does not have decide
  indexing::IndexingMap map;  ///< (the block's number along x)[what it loops over] -> index of the buffer
  friend bool operator==(const GpuAccess&, const GpuAccess&) = default;
};

/// One launch: a kernel of a cubin, or what a library computes. Arguments are device pointers, in order, and tensor
/// maps after them.
struct GpuLaunch {
  std::string kernel;                  ///< extern "C" name in the source
  std::optional<LibraryWork> library;  ///< where set, no cubin has such a kernel, and there is no shape
  std::array<int64_t, 3> grid{1, 1, 1};
  int64_t threads = 1;
  int64_t shared_bytes = 0;  ///< dynamic shared memory
  int64_t cluster = 1;       ///< blocks, next to each other along x, that form a cluster; divides grid[0]
  /// Starts while the launch before it still runs (programmatic dependent launch), where that is a kernel of ours too;
  /// its kernel waits by itself.
  bool overlaps_previous = false;
  bool resident = false;               ///< blocks wait for each other: refused where not all run at the same time
  bool fewer_blocks = false;           ///< the grid is one for each multiprocessor at most: fewer do the same
  std::vector<std::string> arguments;  ///< names of buffers
  std::vector<GpuTensorMap> tensor_maps;
  std::string module{};  ///< the file beside the manifest that has the kernel; empty: the program's only cubin
  std::vector<ArgumentClass> classes{};  ///< of the arguments; empty: nothing is said of them, nor of accesses
  std::vector<GpuAccess> accesses{};     ///< where classes are said: all that the launch touches (launch_accesses.h)

  /// Null where it is none.
  const MatrixProduct* product() const { return library ? std::get_if<MatrixProduct>(&*library) : nullptr; }
  const Fft* fft() const { return library ? std::get_if<Fft>(&*library) : nullptr; }
  const Convolution* convolution() const { return library ? std::get_if<Convolution>(&*library) : nullptr; }
};

/// All of `to` from the start of `from`; nothing where both lie at the same place.
struct GpuCopy {
  std::string from, to;
};

/// All of `to` with a pattern of 1, 2 or a multiple of 4 bytes.
struct GpuFill {
  std::string to;
  std::string pattern;
};

/// What only a program in memory can have: a function of the host's. Arguments are device pointers.
struct HostStep {
  std::string why;  ///< it has no kernel
  std::function<Result<void>(const std::vector<CudaPointer>&)> run;
  std::vector<std::string> arguments;
};

struct GpuStep;

/// A while loop. Its state are arrays that an iteration reads and replaces. Where the number of iterations is known,
/// the host only puts their work on the stream; else it reads the condition's answer before each.
struct GpuLoop {
  /// An array of the state.
  struct Value {
    std::string initial;  ///< where its first value lies: `result` itself, where nothing reads that value
    std::string result;   ///< where the last one is to lie; empty where nothing reads it and `count` is known
    /// Carried buffers by which body and condition read it.
    std::vector<std::string> current;
    /// Its next value: a carried buffer that the body writes, a constant, or one of `current` of any value.
    std::string next;
    /// The value over whose current array the body may write `next`, which is one that it writes; -1: none.
    int64_t over = -1;
    /// `initial` lies where `result` does, and may be written over. Of a value that is written over itself.
    bool in_place = false;
    std::string counted{};  ///< a constant: its values before all iterations and after the last, one after the other
    std::string spare{};    ///< where `count` is not known and the value changes: room for its next one
  };
  std::optional<int64_t> count;
  std::vector<Value> values;
  std::vector<GpuStep> body;
  std::vector<GpuStep> condition;    ///< where `count` is not known
  std::string answer{};              ///< the condition's, one byte: 0 ends the loop
  bool once = false;                 ///< the body runs once at most: the condition is asked for only before it
  std::vector<std::string> scratch;  ///< where `count` is known: room for values that lie in no result (loop_buffers.h)
};

/// One of the things that a program does. Those of equal `part`, next to each other, are timed as one.
struct GpuStep {
  std::variant<GpuLaunch, GpuCopy, GpuFill, GpuLoop, HostStep> work;
  std::string part{};  ///< what it belongs to: a fusion, a loop; empty: it is a part by itself
  std::string what{};  ///< who made the part: an emitter, a library

  GpuStep() = default;
  GpuStep(GpuLaunch launch) : work(std::move(launch)) {}  // NOLINT(google-explicit-constructor): each is a step
  template <class Work>
  GpuStep(Work of, std::string its_part, std::string made_by)
      : work(std::move(of)), part(std::move(its_part)), what(std::move(made_by)) {}

  const GpuLaunch* launch() const { return std::get_if<GpuLaunch>(&work); }
  GpuLaunch* launch() { return std::get_if<GpuLaunch>(&work); }
  const GpuLoop* loop() const { return std::get_if<GpuLoop>(&work); }
  GpuLoop* loop() { return std::get_if<GpuLoop>(&work); }
  const HostStep* host() const { return std::get_if<HostStep>(&work); }
};

/// The step's name to people.
std::string name_of(const GpuStep& step);

struct LaunchManifest {
  std::string name{};    ///< of the program
  std::string target{};  ///< the architecture that modules are for, "sm_90a"; empty: the cubin's file says it
  std::vector<GpuBuffer> buffers;
  std::vector<GpuStep> steps;  ///< in order, each after the one before it
  /// The program's results: what they are called, and buffers. Empty: all outputs, under their own names.
  std::vector<std::pair<std::string, std::string>> results{};
  /// Whether the first launch may overlap the last one of the run before.
  bool runs_overlap = true;

  /// Whether anything of a cubin is launched.
  bool uses_kernels() const;
  /// All buffers of a role.
  int64_t bytes(BufferRole role) const;
  const GpuBuffer* find(const std::string& buffer) const;
};

/// Calls `visit` for each step, those of loops too, a loop before what is in it.
void for_each_step(const std::vector<GpuStep>& steps, const std::function<void(const GpuStep&)>& visit);
void for_each_step(std::vector<GpuStep>& steps, const std::function<void(GpuStep&)>& visit);

/// All that a library's work is, where describe() leaves strides out.
std::string identity_of(const LibraryWork& work);

/// {"buffers": […], "steps": […]}, which parse_launch_manifest reads. Error (Unsupported) where a step is the host's.
Result<std::string> print(const LaunchManifest& manifest);
/// Error (InvalidInput) where the text is no manifest, or a step names a buffer that is not listed. What was printed
/// before there were steps ("kernels") is read too.
Result<LaunchManifest> parse_launch_manifest(const std::string& text);

}  // namespace strata
