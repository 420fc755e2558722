// A compiled program as a function of arrays in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "strata/export.h"

STRATA_NAMESPACE_BEGIN

/// Where a function runs.
enum class Place {
  Auto,  ///< the machine's first GPU where there is a driver and kernels are made for it, else the processor
  Cpu,
  Gpu,  ///< an error where there is none
};

/// An array that a function takes or gives.
struct ArraySpec {
  std::string name;              ///< of an input; empty for results
  std::string type;              ///< of the elements, as in HLO: "f32", "bf16", "s32", "pred"
  std::vector<int64_t> shape;    ///< sizes
  std::vector<int64_t> strides;  ///< of each dimension in memory, in elements
  size_t bytes = 0;              ///< from the first element to the end of the last
};

/// Moved, not copied. Its device memory is freed with it.
class STRATA_EXPORT Function {
 public:
  struct State;
  explicit Function(std::unique_ptr<State> state);
  ~Function();
  Function(Function&&) noexcept;
  Function& operator=(Function&&) noexcept;

  const std::vector<ArraySpec>& inputs() const;
  const std::vector<ArraySpec>& results() const;
  bool on_gpu() const;
  /// Arrays begin at multiples of so many bytes: 16 on the processor, 256 on a GPU.
  size_t alignment() const;
  /// Bytes of device memory that it holds between calls; 0 on the processor.
  int64_t device_bytes() const;
  /// What was done otherwise than planned, one line each.
  const std::vector<std::string>& notes() const;
  /// What it does, step by step; empty for kernels of the superoptimizer.
  const std::string& explanation() const;

  /// Runs it. Addresses are of device memory on a GPU, where the work is put on `stream` (a CUstream; null: the default
  /// stream) and the host does not wait. On the processor it is done when the call returns. May be called from several
  /// threads at once. Throws Error (InvalidInput) for too few addresses, null, or ones that are not aligned.
  void operator()(std::span<const void* const> inputs, std::span<void* const> results, void* stream = nullptr) const;

 private:
  std::unique_ptr<State> state_;
};

struct CompileOptions {
  Place place = Place::Auto;
  /// Seconds to superoptimize each different product with what is around it; 0: not at all.
  double search_seconds = 0;
  /// Of results; empty: none. default_cache_folder() is the one of the command line.
  std::string cache_folder = {};
  std::string file = "<hlo>";  ///< what errors call the text
};

/// Compiles HLO text, as XLA prints it. Throws Error with the place in the text.
STRATA_EXPORT Function compile_hlo(std::string_view text, const CompileOptions& options = {});

/// ~/.cache/strata, or what XDG_CACHE_HOME says; empty where no home is known.
STRATA_EXPORT std::string default_cache_folder();

/// "strata 0.1.0 …": tells builds of Strata apart.
STRATA_EXPORT std::string build_identity();

STRATA_NAMESPACE_END
