#include "megakernel/decode/decode_sizes.h"

#include <fmt/format.h>

#include <algorithm>

namespace strata::megakernel {
namespace {

constexpr int64_t kWordColumns = 4;     // of a tagged word, which no two tasks share
constexpr int64_t kTerms = 16;          // of a tensor core's instruction
constexpr int64_t kLeast = 2 * kTerms;  // a loop has two iterations at least
constexpr int64_t kFilledColumns = 64;  // what is filled up can be dealt to tasks of so many columns
constexpr int64_t kMostSequences = 32;  // a lane of the warp that ends a step has one
constexpr const char* kOther = "use --device host, the interpreter, which takes any size";

int64_t filled_size(int64_t size) { return (size + kFilledColumns - 1) / kFilledColumns * kFilledColumns; }

}  // namespace

ModelConfig task_sizes(const ModelConfig& config) {
  ModelConfig made = config;
  if (made.vocab_size % kWordColumns != 0) made.vocab_size = filled_size(made.vocab_size);
  if (made.intermediate_size % kTerms != 0 || made.intermediate_size < kLeast)
    made.intermediate_size = filled_size(made.intermediate_size);
  return made;
}

Result<void> check_task_sizes(const ModelConfig& config, int64_t batch) {
  if (config.head_dim != 32 && config.head_dim != 64 && config.head_dim != 128)
    return with_remedy(unsupported("head_dim is {}; tasks take 32, 64 or 128", config.head_dim), kOther);
  if (config.hidden_size % kTerms != 0 || config.hidden_size < kLeast) {
    return with_remedy(
        unsupported("hidden_size is {}; tasks take multiples of {} from {} on", config.hidden_size, kTerms, kLeast),
        kOther);
  }
  if (batch > kMostSequences)
    return with_remedy(unsupported("{} sequences; a step takes {}", batch, kMostSequences),
                       "give fewer prompts, or use --device host");
  return {};
}

std::vector<uint16_t> filled_up(const WeightView& matrix, int64_t rows, int64_t columns) {
  std::vector<uint16_t> made(static_cast<size_t>(rows * columns));
  const int64_t own = matrix.shape[1];
  for (int64_t row = 0; row < matrix.shape[0]; ++row)
    std::copy_n(matrix.values.begin() + row * own, own, made.begin() + row * columns);
  return made;
}

}  // namespace strata::megakernel
