#include "megakernel/decode/decode_sizes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "megakernel/models/product_cut.h"

namespace strata::megakernel {
namespace {

constexpr int64_t kWordColumns = 4;     // of a tagged word, which no two tasks share
constexpr int64_t kTerms = 16;          // of a tensor core's instruction
constexpr int64_t kLeast = 2 * kTerms;  // a loop has two iterations at least
constexpr int64_t kFilledColumns = 64;  // what is filled up can be dealt to tasks of so many columns
constexpr int64_t kMostFilled = 1024;   // a power of two: no larger one is tried
constexpr int64_t kMostSequences = 32;  // a lane of the warp that ends a step has one
constexpr const char* kOther = "use --device host, the interpreter, which takes any size";

// A size is filled up where that makes a step's products with it faster by this much at least: it takes memory.
constexpr double kWorthFilling = 0.99;
constexpr int64_t kMostGrowth = 8;  // and by at most this part of it

int64_t round_up(int64_t size, int64_t unit) { return (size + unit - 1) / unit * unit; }

/// `size` where tasks take it, a multiple of `unit` from `least` on; or a larger one for which `seconds` are less. What
/// is tried is round for tasks of a power of two of columns or for all workers.
template <class Seconds>
int64_t filled_size(int64_t size, int64_t unit, int64_t least, int64_t workers, const Seconds& seconds) {
  const bool is_taken = size % unit == 0 && size >= least;
  int64_t best = is_taken ? size : round_up(size, kFilledColumns);
  double fewest = seconds(best);
  std::vector<int64_t> units{std::lcm(workers * kWordColumns, kTerms)};
  for (int64_t power = kTerms; power <= kMostFilled; power *= 2) units.push_back(power);
  std::sort(units.begin(), units.end());
  for (const int64_t other : units) {
    const int64_t filled = round_up(size, other);
    if (filled < best || filled - size > size / kMostGrowth) continue;
    const double found = seconds(filled);
    if (found >= kWorthFilling * fewest) continue;
    best = filled;
    fewest = found;
  }
  return best;
}

}  // namespace

ModelConfig task_sizes(const ModelConfig& config, int64_t workers, const Rates& rates) {
  const ProductLimits limits{.workers = workers, .rates = rates};
  const auto seconds = [&](const std::vector<int64_t>& columns, int64_t terms) {
    const ProductCut cut = cut_product(columns, terms, limits);
    return cut.tasks == 0 ? std::numeric_limits<double>::infinity() : cut.seconds;
  };
  ModelConfig made = config;
  made.vocab_size = filled_size(config.vocab_size, kWordColumns, kWordColumns, workers,
                                [&](int64_t size) { return seconds({size}, config.hidden_size); });
  made.intermediate_size = filled_size(config.intermediate_size, kTerms, kLeast, workers, [&](int64_t size) {
    return seconds({size, size}, config.hidden_size) + seconds({config.hidden_size}, size);
  });
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

Result<std::vector<uint16_t>> filled_up(const WeightView& matrix, const WeightSpec& weight) {
  const std::vector<int64_t>&from = matrix.shape, &to = weight.shape;
  if (from.size() != 2 || to.size() != 2 || from[0] > to[0] || from[1] > to[1])
    return invalid("weight '{}' is [{}]; it cannot be filled up to [{}]", weight.name, fmt::join(from, ", "),
                   fmt::join(to, ", "));
  std::vector<uint16_t> made(static_cast<size_t>(weight.elements()));
  for (int64_t row = 0; row < from[0]; ++row)
    std::copy_n(matrix.values.begin() + row * from[1], from[1], made.begin() + row * to[1]);
  return made;
}

}  // namespace strata::megakernel
