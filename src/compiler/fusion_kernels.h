// The emitters as those who write kernels for programs (superopt/codegen/emission.h).
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "superopt/codegen/emission.h"
#include "support/error.h"

namespace strata::compiler {

/// Cuts glue (glue.h) into fusions as modules of HLO are (emitters/fusion/pass.h), and puts their PTX into the
/// program's text. Safe from several threads; what was made once is kept.
class FusionKernels : public KernelEmitter {
 public:
  FusionKernels();
  std::vector<EmittedGroup> emit(const Graph& graph, const std::vector<bool>& free, const std::vector<bool>& views,
                                 const std::map<TensorId, int64_t>& starts, const Target& target,
                                 KernelText text) const override;
  /// Shares what is made with this one.
  std::shared_ptr<const KernelEmitter> until(const Deadline& deadline) const override;
  bool ran_out() const override { return ran_out_; }

  struct Made;  ///< groups, and kernels that groups have in common
 private:
  /// Error (Unsupported) where no emitter takes a part, its kernel needs more than its arguments, all kernels take
  /// longer than one of each operator, or there is no time left to find out.
  Result<EmittedGroup> make(const Graph& graph, const std::vector<size_t>& operations, const std::vector<bool>& views,
                            const std::map<TensorId, int64_t>& starts, const Target& target, KernelText text) const;

  std::shared_ptr<Made> made_;
  Deadline deadline_;
  mutable std::atomic<bool> ran_out_ = false;
};

}  // namespace strata::compiler
