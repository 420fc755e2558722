// Which of a library's algorithms is fastest on this GPU, by measurement.
#pragma once

#include "runtime/gpu_program.h"
#include "runtime/library_work.h"
#include "runtime/prepared_work.h"
#include "runtime/result_cache.h"

namespace strata::emitters {

struct PreparedLibraryWork {
  LibraryWork work;  ///< with the algorithm chosen
  std::unique_ptr<PreparedWork> prepared;
};

/// The fastest of the algorithms that the library proposes, or of those that a second suffices for and at least 8, each
/// timed on arrays of `bytes` (the arguments' sizes) that hold zeros; the library's first guess unless another is
/// faster by more than noise. What was measured once is looked up in `cache`, if there is one. Errors: those of
/// preparing the first algorithm.
Result<PreparedLibraryWork> fastest_algorithm(const GpuDevice& device, LibraryWork work,
                                              const std::vector<int64_t>& bytes, ResultCache* cache);

}  // namespace strata::emitters
