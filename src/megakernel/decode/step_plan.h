// The plan of a model's step for some sequences: what a session executes, and `strata decode --plan` writes. It takes
// neither weights nor a device.
#pragma once

#include "megakernel/decode/decode_session.h"
#include "megakernel/tgraph/compile.h"

namespace strata::megakernel {

struct StepPlan {
  DecodeImage image;
  Compiled compiled;
  Machine machine;       ///< the options', with the step's workers, ring and scratch memory
  int64_t capacity = 0;  ///< positions of a cache (cache_positions)
};

/// Of the options batch, capacity, machine and what the step does without count. Errors: those of decode_image and
/// compile; InvalidInput for a function that the step does not have.
Result<StepPlan> plan_step(const ModelConfig& config, const DecodeOptions& options, const Target& target);

}  // namespace strata::megakernel
