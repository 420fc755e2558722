// What every step of a model needs on a target, whether it makes tokens (decode_session.h) or takes those of prompts
// (prompt_step.h): its share of shared memory, its code, and its operators' arguments.
#pragma once

#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "megakernel/decode/decode_image.h"
#include "megakernel/decode/decode_target.h"

namespace strata::megakernel {

/// Gives the machine's workers scratch memory for the largest function, and the rest of a block's on `target` for the
/// ring. No more of it is in flight than half, so that loads go on while stages are read.
void divide_shared_memory(const OperatorGraph& operators, const Target& target, Machine& machine);

/// Compiles the image's functions in the plan's order, and its packing kernels. Errors: those of DecodeTarget::compile.
Result<void> compile_step_code(DecodeTarget& target, const DecodeImage& image, const Plan& plan, StepForm form,
                               bool profile);

/// Whether packed constants and caches of the one image are those of the other, which may have another batch.
bool have_one_packing(const DecodeImage& a, const DecodeImage& b);

/// How weights come ahead of what needs them: WorkerShape's two numbers of bytes.
struct Loads {
  int64_t window = 0;
  int64_t ahead = 0;
  bool operator==(const Loads&) const = default;
};

/// The pair of a window and of bytes ahead whose steps take the fewest seconds, the first of equal ones, and these. Not
/// called for no pair. Error: the first of measure.
Result<std::pair<Loads, double>> fastest_loads(std::span<const int64_t> windows, std::span<const int64_t> aheads,
                                               const std::function<Result<double>(const Loads&)>& measure);

/// The arguments of the plan's operators; `addresses` are those of image.buffers. Error (Unsupported) for an operator
/// with more arguments than a record has.
Result<std::vector<OperatorRecord>> operator_records(const DecodeImage& image, const Plan& plan,
                                                     std::span<const uint64_t> addresses);

}  // namespace strata::megakernel
