// The emitters as those who write kernels for programs (superopt/codegen/emission.h).
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "superopt/codegen/emission.h"
#include "support/error.h"

namespace strata::compiler {

/// Cuts glue (glue.h) into fusions as modules of HLO are (emitters/fusion/pass.h), and puts their PTX into the
/// program's text. Safe from several threads; what was made once is kept.
class FusionKernels : public KernelEmitter {
 public:
  std::vector<EmittedGroup> emit(const Graph& graph, const std::vector<bool>& free, const std::vector<bool>& views,
                                 const std::map<TensorId, int64_t>& starts, const Target& target,
                                 KernelText text) const override;

 private:
  /// Error (Unsupported) where no emitter takes a part, its kernel needs more than its arguments, or all kernels take
  /// longer than one of each operator.
  Result<EmittedGroup> make(const Graph& graph, const std::vector<size_t>& operations, const std::vector<bool>& views,
                            const std::map<TensorId, int64_t>& starts, const Target& target, KernelText text) const;

  mutable std::mutex lock_;
  mutable std::map<std::string, Result<EmittedGroup>> made_;  ///< by module, names, target and whether with text
};

}  // namespace strata::compiler
