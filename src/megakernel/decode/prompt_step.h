// A step that takes several tokens of each sequence's prompt (decode_image.h, PromptRows): weights come once for all of
// them. It shares weights, caches and tables with the steps that make tokens, and has code and activations of its own.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <vector>

#include "megakernel/decode/decode_image.h"
#include "megakernel/decode/decode_target.h"

namespace strata::megakernel {

struct PromptOptions {
  int64_t batch = 1;     ///< sequences
  int64_t capacity = 1;  ///< positions of a cache
  int64_t rows = 16;     ///< of all sequences together, at most
  Machine machine;
  WorkerShape shape;  ///< whose window and bytes ahead are taken
  StepForm form = StepForm::Megakernel;
  std::chrono::milliseconds limit{2000};
};

class PromptStep {
 public:
  /// `step` are the steps that make tokens, `memory` its buffers; these and the target must outlive this. As many
  /// positions of a sequence as `rows` allows, a divisor of 16, with which weights are packed as the step has them.
  /// Errors: (Unsupported) where there are none; those of decode_image, compile and the target.
  static Result<std::unique_ptr<PromptStep>> make(const DecodeTarget& target, const ModelConfig& config,
                                                  const DecodeImage& step,
                                                  std::span<const std::unique_ptr<DecodeMemory>> memory,
                                                  const PromptOptions& options);

  /// Positions of each sequence in a step.
  int64_t each() const { return each_; }
  /// Fills positions [position, position + each) of all caches; `position` is a multiple of each. tokens[s] are those
  /// of sequence s, from that position on: one at least; what is missing of `each` is filled with anything, and must be
  /// written again before it is read. Errors (Environment): the kernel's.
  Result<void> run(std::span<const std::span<const int>> tokens, int64_t position);
  /// After an error: a block function did not return.
  bool hangs() const { return kernel_->running(); }

 private:
  PromptStep() = default;

  int64_t each_ = 1;
  DecodeImage image_;
  std::unique_ptr<DecodeTarget> target_;
  std::vector<std::unique_ptr<DecodeMemory>> own_;  ///< activations and tokens
  DecodeMemory* tokens_ = nullptr;
  std::unique_ptr<StepKernel> kernel_;
};

}  // namespace strata::megakernel
