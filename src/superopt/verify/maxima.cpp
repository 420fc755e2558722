#include "superopt/verify/maxima.h"

#include <algorithm>
#include <set>

#include "superopt/verify/inputs.h"
#include "superopt/verify/sample.h"

namespace strata {
namespace {

constexpr int kDraws = 4;
/// More elements are not told from this many: their orders are too many in any case.
constexpr size_t kManyElements = 10000;

using Maximum = FieldArithmetic::Maximum;

/// Outputs modulo p; empty where the sample divides by zero.
Result<std::vector<uint64_t>> outputs(const Graph& graph, FieldArithmetic arithmetic, Maximum maximum,
                                      const std::vector<FieldTensor>& inputs, const std::stop_token& stop) {
  arithmetic.maximum = maximum;
  STRATA_TRY(const std::vector<FieldTensor> tensors, execute(graph, arithmetic, inputs, stop));
  std::vector<uint64_t> values;
  if (arithmetic.divided_by_zero) return values;
  for (const FieldTensor& tensor : tensors) {
    for (const auto& value : tensor.data) values.push_back(value.p);
  }
  return values;
}

}  // namespace

Result<bool> maxima_cancel(const Graph& reference, const Graph& candidate, const FieldPrimes& primes, uint64_t seed,
                           const std::stop_token& stop) {
  const Sampler sampler(reference, primes);
  const std::vector<size_t> order = input_order(reference, candidate);
  for (int draw = 0; draw < kDraws; ++draw) {
    FieldSample sample = sampler.draw(mix(seed ^ mix(static_cast<uint64_t>(draw))), stop);
    for (const Graph* graph : {&reference, &candidate}) {
      if (graph == &candidate) sample.inputs = reordered(std::move(sample.inputs), order);
      STRATA_TRY(const auto ordered, outputs(*graph, sample.arithmetic, Maximum::ByOrder, sample.inputs, stop));
      STRATA_TRY(const auto zero, outputs(*graph, sample.arithmetic, Maximum::Zero, sample.inputs, stop));
      STRATA_TRY(const auto random, outputs(*graph, sample.arithmetic, Maximum::Random, sample.inputs, stop));
      if (ordered != random || zero != random) return false;
    }
  }
  return true;
}

Result<size_t> compared_elements(const Graph& reference, const Graph& candidate, const FieldPrimes& primes,
                                 uint64_t seed, const std::stop_token& stop) {
  FieldSample sample = Sampler(reference, primes).draw(seed, stop);
  std::vector<FieldArithmetic::Value> compared;
  for (const Graph* graph : {&reference, &candidate}) {
    if (graph == &candidate) sample.inputs = reordered(std::move(sample.inputs), input_order(reference, candidate));
    FieldArithmetic arithmetic = sample.arithmetic;
    arithmetic.compared = &compared;
    STRATA_CHECK(execute(*graph, arithmetic, sample.inputs, stop));
  }
  std::set<std::pair<uint64_t, uint64_t>> different;
  for (size_t i = 0; i < compared.size() && different.size() < kManyElements; ++i) {
    different.emplace(compared[i].p, compared[i].q);
  }
  return different.size();
}

}  // namespace strata
