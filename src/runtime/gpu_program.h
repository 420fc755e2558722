// A compiled program on the machine's first GPU: the one launcher of all that Strata generates. It loads what a
// manifest lists, gives it memory, and puts its steps on the stream.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "runtime/gpu_device.h"
#include "runtime/gpu_steps.h"
#include "runtime/launch_manifest.h"

namespace strata {

/// A manifest and what lies beside it.
struct ProgramImage {
  LaunchManifest manifest;
  std::map<std::string, std::string> modules{};  ///< cubins, or PTX, by GpuLaunch::module
  std::string constants{};                       ///< at the offsets of the constants' buffers
  /// Libraries' work that is prepared already, by identity_of.
  std::map<std::string, std::shared_ptr<PreparedWork>> prepared{};
};

class GpuProgram;

/// The memory of a program's buffers: one set, of which a program may have several.
class GpuBuffers {
 public:
  /// A buffer of the manifest, by name.
  GpuArray at(const std::string& buffer) const;
  /// By number in the manifest.
  const std::vector<CudaPointer>& pointers() const { return pointers_; }

 private:
  friend class GpuProgram;
  const GpuProgram* program_ = nullptr;
  std::vector<GpuMemory> memory_;
  std::vector<CudaPointer> pointers_;
};

class GpuProgram {
 public:
  /// The device must outlive it. Errors: InvalidInput where the manifest does not fit together; others where the driver
  /// does not take a cubin, a kernel or its shared memory, or a library is missing or does not take its work.
  static Result<std::unique_ptr<GpuProgram>> load(const GpuDevice& device, ProgramImage image);
  /// A program of one cubin.
  static Result<std::unique_ptr<GpuProgram>> load(const GpuDevice& device, const std::string& cubin,
                                                  LaunchManifest manifest);
  ~GpuProgram();
  GpuProgram(const GpuProgram&) = delete;
  GpuProgram& operator=(const GpuProgram&) = delete;

  const LaunchManifest& manifest() const { return manifest_; }
  /// All buffers: counters cleared, constants with their bytes, the others poisoned. Those that lie in one of `without`
  /// (by number in the manifest, none with an offset) get no memory: pointers() has 0.
  Result<GpuBuffers> allocate(const std::set<size_t>& without = {}) const;
  /// Puts all steps on the device's stream and does not wait, where no step is the host's.
  Result<void> launch(const GpuBuffers& buffers) const;
  /// The same on another stream of the device's context, with buffers where `pointers` says, by number in the manifest.
  /// What lies in another buffer has that one's pointer. Nothing of a program runs beside another run of it: they share
  /// a workspace, and what `pointers` has in common.
  Result<void> launch(std::vector<CudaPointer> pointers, CudaStream stream) const;
  /// By number: the buffer in whose memory each lies (memory_roots).
  const std::vector<size_t>& roots() const { return roots_; }
  const GpuDevice& device() const { return device_; }
  /// How many sets of buffers a cold measurement goes through: so many that their inputs exceed the L2 cache four
  /// times, 2 to 64, less where memory is short.
  Result<int64_t> cold_sets() const;
  /// Microseconds of one run of all steps, with each set in turn, as a CUDA graph that is replayed (replay.h). Error
  /// (Unsupported) where the host takes part.
  Result<double> microseconds(std::span<const GpuBuffers> sets) const;
  /// Why no CUDA graph can hold the program: a step is the host's, or a loop's condition is read there, because the
  /// driver is too old or did not take the loop.
  std::optional<std::string> step_on_host() const;

  struct PartTime {
    std::string name, what;
    double microseconds = 0;
  };
  /// Times of all parts (GpuStep::part) and, last, of "all": medians over `repetitions` runs. Those of steps on the
  /// host contain copies to it and back.
  Result<std::vector<PartTime>> profile(const GpuBuffers& buffers, int repetitions) const;

  /// Takes for each library's work, in loops too, what `choose` returns for the step and its arguments' sizes in bytes;
  /// without anything it stays.
  using Chosen = std::pair<LibraryWork, std::shared_ptr<PreparedWork>>;
  Result<void> choose_work(const std::function<Result<std::optional<Chosen>>(
                               const GpuStep& step, const std::vector<int64_t>& argument_bytes)>& choose);
  /// Whether a launch may overlap the one before it; and whether those that may do.
  bool may_overlap() const;
  void let_overlap(bool overlap) { overlap_ = overlap; }

 private:
  friend class GpuBuffers;
  GpuProgram(const GpuDevice& device, LaunchManifest manifest)
      : device_(device), manifest_(std::move(manifest)), modules_(device.driver()) {}
  Result<void> load(ProgramImage image);
  Result<void> allocate_workspace();
  StepRunner runner(std::vector<CudaPointer> pointers, CudaStream stream) const;

  const GpuDevice& device_;
  LaunchManifest manifest_;
  std::string constants_;
  std::vector<size_t> roots_;  ///< memory_roots()
  bool overlap_ = true;
  LoadedModules modules_;
  std::vector<LoadedStep> steps_;       ///< of manifest_
  std::optional<GpuMemory> workspace_;  ///< of all libraries' work: it is done one after the other
  std::unique_ptr<LoopGraphs> loops_;   ///< null where no loop asks, or the driver has no loops in graphs
};

}  // namespace strata
