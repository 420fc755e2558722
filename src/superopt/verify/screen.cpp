#include <unordered_map>

#include "superopt/verify/compare.h"
#include "superopt/verify/floats.h"
#include "superopt/verify/inputs.h"
#include "superopt/verify/lax.h"
#include "superopt/verify/sample.h"
#include "superopt/verify/shrink.h"
#include "superopt/verify/verify.h"

namespace strata {
namespace {

/// Elements of the largest full-size program that is worth running where its shapes do not shrink.
constexpr int64_t kAffordable = 1 << 16;
/// Divisions by zero before a candidate passes unseen.
constexpr int kDraws = 4;

int64_t elements(const Graph& graph) {
  int64_t sum = 0;
  for (const TensorInfo& tensor : graph.tensors()) sum += tensor.type.elements();
  return sum;
}

/// The reference at one shape, and one sample with its results.
struct Shrunk {
  GraphPtr reference;
  FieldSample sample;
  std::vector<FieldTensor> expected;
  bool usable = false;
};

}  // namespace

struct Screen::State {
  GraphPtr reference;
  uint64_t seed = 0;
  bool lax = false;
  bool unordered = false;  ///< takes roots or maxima, of which the field knows too little to refute
  std::mutex mutex;
  std::unordered_map<uint64_t, std::shared_ptr<const Shrunk>> shapes;  ///< by the shrunk reference's structure
  std::unordered_map<uint64_t, bool> answers;                          ///< by both structures

  std::shared_ptr<const Shrunk> at_shape(GraphPtr small) {
    const uint64_t key = small->structural_hash();
    {
      const std::scoped_lock lock(mutex);
      if (const auto it = shapes.find(key); it != shapes.end()) return it->second;
    }
    auto made = std::make_shared<Shrunk>(
        Shrunk{std::move(small), {FieldArithmetic{PrimeField(7), PrimeField(3), 0, 0}, {}}, {}, false});
    const Sampler sampler(*made->reference, kVerifierPrimes);
    for (uint64_t draw = 0; draw < kDraws && !made->usable; ++draw) {
      made->sample = sampler.draw(mix(seed ^ mix(draw)));
      FieldArithmetic arithmetic = made->sample.arithmetic;
      auto outputs = execute(*made->reference, arithmetic, made->sample.inputs);
      made->usable = outputs && !arithmetic.divided_by_zero;
      if (made->usable) made->expected = std::move(*outputs);
    }
    const std::scoped_lock lock(mutex);
    return shapes.emplace(key, std::move(made)).first->second;
  }

  bool compare(const Shrunk& shape, const Graph& candidate) const {
    FieldArithmetic arithmetic = shape.sample.arithmetic;
    const std::vector<size_t> order = input_order(*shape.reference, candidate);
    auto found = execute(candidate, arithmetic, reordered(shape.sample.inputs, order));
    if (!found || arithmetic.divided_by_zero) return true;
    if (!first_difference(*shape.reference, shape.expected, *found, arithmetic.fp)) return true;
    if (!unordered && !takes_roots(candidate) && !takes_maxima(candidate)) return false;
    const auto differ = differ_over_reals(*shape.reference, candidate, seed);
    return !differ || !*differ;
  }
};

Screen::Screen(GraphPtr reference, uint64_t seed) : state_(std::make_unique<State>()) {
  state_->lax = !lax_violation(*reference);
  state_->unordered = takes_roots(*reference) || takes_maxima(*reference);
  state_->reference = std::move(reference);
  state_->seed = seed;
}

Screen::~Screen() = default;

bool Screen::passes(const Graph& candidate) {
  State& state = *state_;
  if (!check_interface(*state.reference, candidate)) return false;
  // Outside the Lax fragment the field may tell equivalent programs apart.
  if (!state.lax || lax_violation(candidate)) return true;
  auto small = shrink(*state.reference, candidate);
  const bool whole = !small;
  if (whole && elements(*state.reference) > kAffordable) return true;
  const GraphPtr reference = whole ? state.reference : small->first;
  const Graph& shrunk = whole ? candidate : *small->second;
  Hasher hasher;
  hasher.add(reference->structural_hash()).add(shrunk.structural_hash());
  for (size_t from : input_order(*reference, shrunk)) hasher.add(from);
  const uint64_t key = hasher.value();
  {
    const std::scoped_lock lock(state.mutex);
    if (const auto it = state.answers.find(key); it != state.answers.end()) return it->second;
  }
  const auto shape = state.at_shape(reference);
  const bool passes = !shape->usable || state.compare(*shape, shrunk);
  const std::scoped_lock lock(state.mutex);
  return state.answers.emplace(key, passes).first->second;
}

}  // namespace strata
