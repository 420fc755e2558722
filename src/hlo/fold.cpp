#include "hlo/fold.h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <unordered_map>

#include "hlo/compute.h"

namespace strata::hlo {
namespace {

template <class T>
T maximum(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return std::isnan(a) ? a : std::isnan(b) ? b : std::max(a, b);
  return std::max(a, b);
}
template <class T>
T minimum(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return std::isnan(a) ? a : std::isnan(b) ? b : std::min(a, b);
  return std::min(a, b);
}

template <class T>
void combine_by(Opcode opcode, bool is_pred, std::vector<T>& accumulators, const std::vector<T>& values,
                const std::vector<int64_t>& to, const std::vector<int64_t>& from) {
  const auto each = [&](auto function) {
    for (size_t i = 0; i < to.size(); ++i) {
      T& accumulator = accumulators[static_cast<size_t>(to[i])];
      accumulator = function(accumulator, values[static_cast<size_t>(from[i])]);
    }
  };
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    switch (opcode) {
      case Opcode::Add:
        if (is_pred) return each([](T a, T b) { return a | b; });
        return each([](T a, T b) { return static_cast<T>(static_cast<U>(a) + static_cast<U>(b)); });
      case Opcode::Multiply:
        return each([](T a, T b) { return static_cast<T>(static_cast<U>(a) * static_cast<U>(b)); });
      case Opcode::And:
        return each([](T a, T b) { return a & b; });
      case Opcode::Or:
        return each([](T a, T b) { return a | b; });
      case Opcode::Xor:
        return each([](T a, T b) { return a ^ b; });
      default:
        break;
    }
  } else {
    if (opcode == Opcode::Add) return each([](T a, T b) { return a + b; });
    if (opcode == Opcode::Multiply) return each([](T a, T b) { return a * b; });
  }
  if constexpr (std::is_arithmetic_v<T>) {
    if (opcode == Opcode::Maximum) return each([](T a, T b) { return maximum(a, b); });
    if (opcode == Opcode::Minimum) return each([](T a, T b) { return minimum(a, b); });
  }
  assert(false && "no combiner");
}

}  // namespace

Folder::Folder(const ScalarFunction& function, std::vector<Literal> accumulators, const std::vector<Literal>& values)
    : function_(function), accumulators_(std::move(accumulators)), values_(values) {
  if (accumulators_.size() != 1 || !function.combiner()) return;
  visit_accumulator_type(accumulators_[0].type(), [&](auto zero) {
    using T = decltype(zero);
    const auto wide = std::make_shared<std::vector<T>>(load_all<T>(accumulators_[0]));
    const auto inputs = std::make_shared<const std::vector<T>>(load_all<T>(values_[0]));
    const bool is_pred = accumulators_[0].type() == ElementType::Pred;
    fast_ = [wide, inputs, is_pred, opcode = *function.combiner()](const auto& to, const auto& from) {
      combine_by(opcode, is_pred, *wide, *inputs, to, from);
    };
    finish_fast_ = [wide, shape = accumulators_[0].shape()] { return literal_of(shape, *wide); };
  });
}

Result<void> Folder::combine(const std::vector<int64_t>& to, const std::vector<int64_t>& from) {
  if (fast_) {
    fast_(to, from);
    return {};
  }
  if (function_.returns_second()) {
    put(accumulators_[0], to, pick(values_[0], from));
    return {};
  }
  // Rounds in each of which no accumulator occurs twice: the n-th value of each is in round n.
  std::vector<std::vector<int64_t>> round_to, round_from;
  std::unordered_map<int64_t, size_t> seen;
  for (size_t i = 0; i < to.size(); ++i) {
    const size_t round = seen[to[i]]++;
    if (round == round_to.size()) {
      round_to.emplace_back();
      round_from.emplace_back();
    }
    round_to[round].push_back(to[i]);
    round_from[round].push_back(from[i]);
  }
  for (size_t round = 0; round < round_to.size(); ++round) {
    STRATA_CHECK(combine_distinct(round_to[round], round_from[round]));
  }
  return {};
}

Result<void> Folder::combine_distinct(const std::vector<int64_t>& to, const std::vector<int64_t>& from) {
  std::vector<Literal> arguments;
  for (const Literal& accumulator : accumulators_) arguments.push_back(pick(accumulator, to));
  for (const Literal& value : values_) arguments.push_back(pick(value, from));
  STRATA_TRY(const std::vector<Literal> results, function_(arguments, static_cast<int64_t>(to.size())));
  for (size_t i = 0; i < results.size(); ++i) put(accumulators_[i], to, results[i]);
  return {};
}

std::vector<Literal> Folder::finish() {
  if (finish_fast_) return {finish_fast_()};
  return std::move(accumulators_);
}

}  // namespace strata::hlo
