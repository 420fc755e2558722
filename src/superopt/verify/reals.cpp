#include "superopt/verify/reals.h"

#include <algorithm>
#include <cmath>

#include "interpret/interpret.h"
#include "interpret/work.h"
#include "superopt/verify/inputs.h"
#include "superopt/verify/memory.h"
#include "superopt/verify/sample.h"
#include "support/random.h"

namespace strata {
namespace {

using Inputs = std::vector<Tensor<double>>;

/// Differences below, relative to the largest entry of an output, are not looked into.
constexpr double kRounding = 1e-7;
/// A difference must be this many times what errors of rounding, enlarged by NoisyArithmetic, make.
constexpr double kAboveNoise = 20;
/// So many runs, fewer of large programs: after a kink, noise may be hidden in some.
constexpr double kMostNoisyRuns = 24;
constexpr double kLeastNoisyRuns = 4;
/// A region is told from a kink, where equal numbers meet, by points of a neighbourhood of this size, relative
/// beyond 1.
constexpr double kNearby = 1e-6;
constexpr int kPoints = 12;
/// Results of intermediates beyond these magnitudes may be float64's doing.
constexpr double kLargest = 1e150;
constexpr double kSmallest = 1e-150;
/// Inside blocks nobody sees those: smaller inputs are taken to be harmless.
constexpr double kHarmless = 8;
constexpr int kMostTests = 48;
/// Of entries that are alike, relative: roots and quotients of all of them are often defined together.
constexpr double kSpread = 0.1;
constexpr Float64Arithmetic kReals{.undefined_stays = true};

/// The constants of a program and of the graphs in it, where kinks may lie. Of iotas those at their ends.
void collect_constants(const Graph& graph, std::vector<double>& constants) {
  for (TensorId id : graph.inputs()) {
    const TensorType& type = graph.type(id);
    if (!type.iota || graph.level() != Level::Kernel) continue;
    const int64_t last = type.shape[static_cast<size_t>(type.iota->dim)] - 1;
    for (const int64_t index : {int64_t{0}, last}) constants.push_back(type.iota->at(index).to_double());
  }
  for (const Operation& op : graph.operations()) {
    if (op.body) collect_constants(*op.body, constants);
    for (const auto& [name, value] : op.attributes.entries()) {
      if (const auto* constant = std::get_if<Rational>(&value)) constants.push_back(constant->to_double());
    }
  }
}

bool exponentiates(const Graph& graph) {
  return std::any_of(graph.operations().begin(), graph.operations().end(), [](const Operation& op) {
    return op.body ? exponentiates(*op.body) : op_def(op.kind).traits.lax.exponentiations > 0;
  });
}

bool has_blocks(const Graph& graph) {
  return std::any_of(graph.operations().begin(), graph.operations().end(),
                     [](const Operation& op) { return op.body != nullptr; });
}

enum class Style { Unit, Positive, Negative, Small, Tens, Hundreds, Thousands, AllMagnitudes, NearConstants, Integers };
constexpr int kStyles = 10;

double draw(Style style, double scale, const std::vector<double>& constants, Random& random) {
  const double x = random.uniform(-1, 1);
  switch (style) {
    case Style::Unit:
      return 2 * x * scale;
    case Style::Positive:
      return 2 * std::fabs(x) * scale;
    case Style::Negative:
      return -8 * std::fabs(x);
    case Style::Small:
      return 0.01 * x;
    case Style::Tens:
      return 20 * x;
    case Style::Hundreds:
      return 300 * x;
    case Style::Thousands:
      return 4000 * x;
    case Style::AllMagnitudes:
      return std::copysign(std::pow(10.0, random.uniform(-4, 5)), x);
    case Style::NearConstants: {
      if (constants.empty()) return 8 * x;
      const double center = constants[random.below(constants.size())];
      return (random() & 1 ? center : -center) + x * (random() & 1 ? 1 : 0.05);
    }
    case Style::Integers:
      return static_cast<double>(static_cast<int64_t>(random.below(7)) - 3);
  }
  return x;
}

/// When stopped, some entries are left 0: what is executed with the same stop says so.
Inputs draw_inputs(const Graph& graph, int test, const std::vector<double>& constants, uint64_t seed,
                   const std::stop_token& stop) {
  Random random(mix(seed ^ mix(static_cast<uint64_t>(test))));
  Inputs inputs;
  const bool mixed = test >= kStyles && test % 2 == 1;  // a style of its own for each input
  const bool alike = mixed && test % 4 == 3;
  for (TensorId id : graph.arguments()) {
    const Shape& shape = graph.type(id).shape;
    Tensor<double>& input = inputs.emplace_back(shape);
    const double scale = shape.size() > 1 ? 1 / std::sqrt(static_cast<double>(shape.back())) : 1;
    const auto style = static_cast<Style>(mixed ? static_cast<int>(random.below(kStyles)) : test % kStyles);
    const double common = draw(style, scale, constants, random);
    for (size_t i = 0; i < input.data.size() && !stops_at(i, stop); ++i) {
      double& x = input.data[i];
      x = alike ? common * (1 + kSpread * random.uniform(-1, 1)) : draw(style, scale, constants, random);
    }
  }
  return inputs;
}

/// A random point nearby.
Inputs moved(Inputs inputs, Random& random) {
  for (auto& input : inputs) {
    for (double& x : input.data) x += kNearby * std::max(std::fabs(x), 1.0) * random.uniform(-1, 1);
  }
  return inputs;
}

struct Entry {
  size_t output;
  int64_t index;
};

class RealCheck {
 public:
  RealCheck(const Graph& reference, const Graph& candidate, const RealCheckOptions& options)
      : reference_(reference),
        candidate_(candidate),
        options_(options),
        order_(input_order(reference, candidate)),
        exponentiates_(exponentiates(reference) || exponentiates(candidate)),
        has_blocks_(has_blocks(reference) || has_blocks(candidate)) {
    collect_constants(reference, constants_);
    collect_constants(candidate, constants_);
    std::erase_if(constants_, [](double c) { return std::fabs(c) > 1e9; });
  }

  Result<std::optional<RealDifference>> run() const {
    const double work = execution_work(reference_) + execution_work(candidate_);
    if (2 * work > options_.work || !check_real_memory(reference_, candidate_)) return std::nullopt;
    const int tests = static_cast<int>(std::clamp(options_.work / std::max(work, 1.0), 2.0, double{kMostTests}));
    for (int test = 0; test < tests; ++test) {
      const Inputs inputs = draw_inputs(reference_, test, constants_, options_.seed, options_.stop);
      STRATA_TRY(const auto values, both(kReals, inputs));
      const auto entry = suspect(values);
      if (!entry) continue;
      STRATA_TRY(auto difference, near(inputs));
      if (difference) return difference;
    }
    return std::nullopt;
  }

  /// Of points near the inputs, the first at which the programs do differ.
  Result<std::optional<RealDifference>> near(const Inputs& inputs) const {
    Random random(mix(options_.seed));
    for (int point = 0; point < kPoints; ++point) {
      Inputs here = moved(inputs, random);
      STRATA_TRY(const auto values, both(kReals, here));
      const auto entry = suspect(values);
      if (!entry) continue;
      STRATA_TRY(const bool beyond, beyond_float64(here));
      if (beyond) return std::nullopt;
      const double x = at(values.first, *entry);
      const double y = at(values.second, *entry);
      bool real = true;
      const double work = execution_work(reference_) + execution_work(candidate_);
      const auto runs = static_cast<int>(std::clamp(options_.work / work, kLeastNoisyRuns, kMostNoisyRuns));
      for (int run = 0; run < runs && real; ++run) {
        STRATA_TRY(const auto noisy, both<NoisyArithmetic>({random()}, here));
        const double nx = at(noisy.first, *entry);
        const double ny = at(noisy.second, *entry);
        const double noise = std::max(std::fabs(nx - x), std::fabs(ny - y));
        real = std::isnan(y) ? std::isfinite(nx) && std::isnan(ny) : std::fabs(x - y) > kAboveNoise * noise;
      }
      if (real) return RealDifference{entry->output, entry->index, x, y, std::move(here)};
    }
    return std::nullopt;
  }

 private:
  using Values = std::pair<Inputs, Inputs>;

  static double at(const Inputs& values, Entry entry) { return values[entry.output][entry.index]; }

  template <class A>
  Result<Values> both(A arithmetic, const Inputs& inputs) const {
    STRATA_TRY(Inputs first, execute(reference_, arithmetic, inputs, options_.stop));
    STRATA_TRY(Inputs second, execute(candidate_, arithmetic, reordered(inputs, order_), options_.stop));
    return Values{std::move(first), std::move(second)};
  }

  /// The entry that differs most, relative to the largest of its output. That the candidate is undefined counts only
  /// where all of the reference's output is defined: nothing is claimed elsewhere.
  std::optional<Entry> suspect(const Values& values) const {
    for (size_t o = 0; o < values.first.size(); ++o) {
      const std::vector<double>& expected = values.first[o].data;
      const bool defined = std::all_of(expected.begin(), expected.end(), [](double x) { return std::isfinite(x); });
      double largest = 0;
      for (double x : expected) {
        if (std::isfinite(x)) largest = std::max(largest, std::fabs(x));
      }
      std::optional<Entry> worst;
      double difference = kRounding * largest;
      for (int64_t i = 0; i < values.first[o].size(); ++i) {
        const double x = values.first[o][i];
        const double y = values.second[o][i];
        if (!std::isfinite(x)) continue;
        if (std::isnan(y) && defined) return Entry{o, i};
        if (std::isfinite(y) && std::fabs(x - y) > difference) {
          difference = std::fabs(x - y);
          worst = Entry{o, i};
        }
      }
      if (worst) return worst;
    }
    return std::nullopt;
  }

  /// What a comparison or a selection looks at.
  static double decisive(const Inputs& tensors, const Operation& op, const std::array<int64_t, 2>& at) {
    const auto value = [&](size_t n) {
      return tensors[static_cast<size_t>(op.operands[n])].data[static_cast<size_t>(at[n])];
    };
    return op.kind == OpKind::Greater ? value(0) - value(1) : value(0);
  }

  /// Whether rounding may decide a comparison or a selection: noise changes what it looks at by a good part.
  static bool decided_by_rounding(const Inputs& tensors, const Inputs& noisy, const Operation& op) {
    if (op.kind != OpKind::Greater && op.kind != OpKind::Select) return false;
    const auto& a = tensors[static_cast<size_t>(op.operands[0])];
    const auto& b = tensors[static_cast<size_t>(op.operands[1])];
    const Shape& shape = tensors[static_cast<size_t>(op.results[0])].shape;
    bool decided = false;
    for_each_index<2>(shape, {broadcast_strides(a.shape, shape.size()), broadcast_strides(b.shape, shape.size())},
                      [&](int64_t, const std::array<int64_t, 2>& at) {
                        const double exact = decisive(tensors, op, at);
                        decided |= std::fabs(decisive(noisy, op, at) - exact) > std::fabs(exact) / kAboveNoise;
                      });
    return decided;
  }

  /// Whether a result of 0 may be an underflow: e^−1000, or silu(−1000). A function of one number that exponentiates
  /// is exact at 0, where its exponent is 0 or one of the operator's constants: silu(0) and gelu(0) are 0 over the
  /// reals.
  static bool may_underflow(const Inputs& tensors, const Operation& op, size_t entry) {
    if (op.body || op_def(op.kind).traits.lax.exponentiations == 0) return false;
    if (!op_def(op.kind).traits.elementwise || op.operands.size() != 1) return true;
    return tensors[static_cast<size_t>(op.operands[0])].data[entry] != 0;
  }

  /// Whether something may have left the range of float64, or be decided by rounding.
  Result<bool> beyond_float64(const Inputs& inputs) const {
    for (const auto& input : inputs) {
      for (double x : input.data) {
        if (has_blocks_ && exponentiates_ && std::fabs(x) > kHarmless) return true;
      }
    }
    for (const Graph* graph : {&reference_, &candidate_}) {
      Float64Arithmetic arithmetic = kReals;
      const Inputs own = graph == &reference_ ? inputs : reordered(inputs, order_);
      STRATA_TRY(const Inputs tensors, execute_all(*graph, arithmetic, own, options_.stop));
      NoisyArithmetic noise{options_.seed};
      STRATA_TRY(const Inputs noisy, execute_all(*graph, noise, own, options_.stop));
      for (const Operation& op : graph->operations()) {
        if (!op.body && decided_by_rounding(tensors, noisy, op)) return true;
        for (TensorId id : op.results) {
          const std::vector<double>& values = tensors[static_cast<size_t>(id)].data;
          for (size_t i = 0; i < values.size(); ++i) {
            const double size = std::fabs(values[i]);
            if (std::isinf(values[i]) || size > kLargest) return true;
            if (size < kSmallest && (size != 0 || may_underflow(tensors, op, i))) return true;
          }
        }
      }
    }
    return false;
  }

  const Graph& reference_;
  const Graph& candidate_;
  const RealCheckOptions& options_;
  std::vector<size_t> order_;
  bool exponentiates_;
  bool has_blocks_;
  std::vector<double> constants_;
};

}  // namespace

Result<std::optional<RealDifference>> difference_near(const Graph& reference, const Graph& candidate,
                                                      const std::vector<Tensor<double>>& inputs,
                                                      const RealCheckOptions& options) {
  return RealCheck(reference, candidate, options).near(inputs);
}

Result<std::optional<RealDifference>> difference_over_reals(const Graph& reference, const Graph& candidate,
                                                            const RealCheckOptions& options) {
  return RealCheck(reference, candidate, options).run();
}

std::string described(const Graph& reference, const RealDifference& difference) {
  const TensorInfo& output = reference.tensor(reference.outputs()[difference.output]);
  std::vector<int64_t> index;
  int64_t rest = difference.entry;
  for (int64_t stride : row_major_strides(output.type.shape)) {
    index.push_back(rest / stride);
    rest %= stride;
  }
  return fmt::format("'{}' differs at {}: {} in the first program, {} in the second, in float64", output.name,
                     to_string(index), difference.expected, difference.found);
}

}  // namespace strata
