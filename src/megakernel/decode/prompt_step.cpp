#include "megakernel/decode/prompt_step.h"

#include <algorithm>
#include <bit>

#include "megakernel/decode/step_parts.h"
#include "megakernel/tgraph/compile.h"

namespace strata::megakernel {
namespace {

bool is_shared(DecodeBuffer::Kind kind) {
  using Kind = DecodeBuffer::Kind;
  return kind == Kind::Weight || kind == Kind::Packed || kind == Kind::Cache || kind == Kind::Cosines ||
         kind == Kind::Sines;
}

}  // namespace

Result<PromptPlan> plan_prompt_step(const Target& target, const ModelConfig& config, const DecodeImage& step,
                                    const PromptOptions& options) {
  PromptPlan made{.machine = options.machine};
  // All positions of a step lie in one tile of a cache.
  const int64_t most = std::min(options.rows / options.batch, kLeastKeys);
  // More rows may need smaller stages, which are not those that weights are packed in.
  for (int64_t each = most < 2 ? 1 : static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(most))); each > 1;
       each /= 2) {
    auto image = decode_image(config, {options.batch * each, options.capacity, DType::BF16}, made.machine, target,
                              {each, step.splits, step.keys});
    if (!image || !have_one_packing(step, *image)) continue;
    made.each = each;
    made.rows = options.batch * each;
    made.image = std::move(*image);
    break;
  }
  if (made.each == 1)
    return with_remedy(unsupported("no step takes several positions of {} sequences with the weights as they are "
                                   "packed",
                                   options.batch),
                       "take prompts token by token");
  divide_shared_memory(made.image.operators, target, made.machine);
  STRATA_TRY(Compiled compiled, compile(made.image.operators, made.machine));
  made.plan = std::move(compiled.plan);
  return made;
}

Result<std::unique_ptr<PromptStep>> PromptStep::make(const DecodeTarget& target, PromptPlan plan,
                                                     const DecodeImage& step,
                                                     std::span<const std::unique_ptr<DecodeMemory>> memory,
                                                     const PromptRun& run) {
  std::unique_ptr<PromptStep> made(new PromptStep(std::move(plan)));
  const DecodeImage& image = made->plan_.image;
  made->target_ = target.beside();
  STRATA_CHECK(compile_step_code(*made->target_, image, made->plan_.plan, run.form, false));

  std::map<std::pair<DecodeBuffer::Kind, std::string>, uint64_t> shared;
  for (size_t n = 0; n < step.buffers.size(); ++n)
    shared[{step.buffers[n].kind, step.buffers[n].name}] = memory[n]->address();
  std::vector<uint64_t> addresses;
  for (const DecodeBuffer& buffer : image.buffers) {
    if (is_shared(buffer.kind)) {
      addresses.push_back(shared.at({buffer.kind, buffer.name}));
      continue;
    }
    STRATA_TRY(std::unique_ptr<DecodeMemory> own, made->target_->allocate(buffer.bytes));
    STRATA_CHECK(own->clear());
    addresses.push_back(own->address());
    if (buffer.kind == DecodeBuffer::Kind::Tokens) made->tokens_ = own.get();
    made->own_.push_back(std::move(own));
  }
  KernelOptions kernel;
  kernel.shape = run.shape;
  kernel.shape.ring_bytes = made->plan_.machine.ring_bytes;
  kernel.shape.scratch_bytes = made->plan_.machine.scratch_bytes;
  kernel.limit = run.limit;
  kernel.lengths.assign(static_cast<size_t>(made->plan_.rows), 0);
  STRATA_TRY(kernel.operators, operator_records(image, made->plan_.plan, addresses));
  STRATA_TRY(made->kernel_, made->target_->step_kernel(made->plan_.plan, kernel, run.form));
  return made;
}

Result<void> PromptStep::run(std::span<const std::span<const int>> tokens, int64_t position) {
  std::vector<int> fed, lengths;
  for (const std::span<const int> sequence : tokens) {
    for (int64_t n = 0; n < each(); ++n) {
      fed.push_back(sequence[std::min(static_cast<size_t>(n), sequence.size() - 1)]);
      lengths.push_back(static_cast<int>(position + n));
    }
  }
  STRATA_CHECK(tokens_->upload({reinterpret_cast<const char*>(fed.data()), fed.size() * sizeof(int)}));
  kernel_->set_lengths(std::move(lengths));
  STRATA_CHECK(kernel_->launch(1));
  return kernel_->wait().map([](uint32_t) {});
}

}  // namespace strata::megakernel
