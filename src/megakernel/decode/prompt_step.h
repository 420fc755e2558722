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
};

/// How it runs, which may be chosen after it is planned.
struct PromptRun {
  WorkerShape shape;  ///< whose window and bytes ahead are taken
  StepForm form = StepForm::Megakernel;
  std::chrono::milliseconds limit{2000};
};

/// Such a step without a device.
struct PromptPlan {
  int64_t each = 1;  ///< positions of each sequence
  int64_t rows = 0;  ///< of all sequences
  DecodeImage image;
  Plan plan;
  Machine machine;  ///< the options', with ring and scratch as the functions leave them
};

/// For the steps that make tokens, `step`: as many positions of a sequence as `rows` allows, a divisor of 16, with
/// which weights are packed as the step has them. It takes about a second for a model of 8 billion parameters, and
/// needs no device, so it may be done beside what does. Errors: (Unsupported) where there are none; those of
/// decode_image and compile.
Result<PromptPlan> plan_prompt_step(const Target& target, const ModelConfig& config, const DecodeImage& step,
                                    const PromptOptions& options);

class PromptStep {
 public:
  /// `step` are the steps that make tokens, `memory` its buffers; these and the target must outlive this.
  /// Errors: those of the target.
  static Result<std::unique_ptr<PromptStep>> make(const DecodeTarget& target, PromptPlan plan, const DecodeImage& step,
                                                  std::span<const std::unique_ptr<DecodeMemory>> memory,
                                                  const PromptRun& run);

  /// Positions of each sequence in a step.
  int64_t each() const { return plan_.each; }
  /// Fills positions [position, position + each) of all caches; `position` is a multiple of each. tokens[s] are those
  /// of sequence s, from that position on: one at least; what is missing of `each` is filled with anything, and must be
  /// written again before it is read. Errors (Environment): the kernel's.
  Result<void> run(std::span<const std::span<const int>> tokens, int64_t position);
  /// After an error: a block function did not return.
  bool hangs() const { return kernel_->running(); }

 private:
  explicit PromptStep(PromptPlan plan) : plan_(std::move(plan)) {}

  PromptPlan plan_;
  std::unique_ptr<DecodeTarget> target_;
  std::vector<std::unique_ptr<DecodeMemory>> own_;  ///< activations and tokens
  DecodeMemory* tokens_ = nullptr;
  std::unique_ptr<StepKernel> kernel_;
};

}  // namespace strata::megakernel
